"""kill -9 at every named boundary, in a child process over loopback; the parent goes on with what it left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.dying import Nursery
from tests.faults.harness import Scores
from tests.faults.sweeping import boundaries, kill

BOUNDARIES = (
    "staged",
    "run_created",
    "request_file_written",
    "request_file_planned",
    "before_upload_intent",
    "upload_intent",
    "upload_answered",
    "uploaded",
    "before_create_intent",
    "create_intent",
    "create_answered",
    "submitted",
    "ended",
    "before_archive",
    "archived",
    "downloaded",
    "stored_file",
    "before_collect_commit",
    "collected",
)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def test_the_list_of_boundaries_is_complete(tmp_path: Path) -> None:
    assert {name for name, _ in boundaries(tmp_path)} == set(BOUNDARIES)


@pytest.mark.parametrize("name", BOUNDARIES)
def test_killed_at_a_boundary(tmp_path: Path, nursery: Nursery, expected: Scores, name: str) -> None:
    assert kill(nursery, tmp_path, expected, kind="boundary", name=name, nth=1)


@pytest.mark.parametrize(
    "name", ["request_file_written", "upload_intent", "create_intent", "create_answered", "stored_file"]
)
def test_killed_at_a_later_passing(tmp_path: Path, nursery: Nursery, expected: Scores, name: str) -> None:
    """The third passing belongs to a resubmission."""
    assert kill(nursery, tmp_path, expected, kind="boundary", name=name, nth=3)


@pytest.mark.parametrize(
    ("kind", "nth"), [("sql", 90), ("sql", 250), ("sql", 400), ("file", 15), ("file", 21), ("file", 60)]
)
def test_killed_inside_a_step(tmp_path: Path, nursery: Nursery, expected: Scores, kind: str, nth: int) -> None:
    """Between two statements of a transaction; between writing, syncing and renaming a file."""
    assert kill(nursery, tmp_path, expected, kind=kind, nth=nth)
