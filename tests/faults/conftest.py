"""What every test of this folder starts from: the undisturbed run's scores, and worlds that are closed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import IN_MEMORY, Scores, World
from tests.faults.invariants import undisturbed

Build = Callable[..., World]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: every commit of these many runs is synced to disk."""
    with tempfile.TemporaryDirectory(prefix="iwb-faults-", dir=IN_MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def expected() -> Scores:
    """Scores of the small run when nothing goes wrong but its request faults."""
    with tempfile.TemporaryDirectory(prefix="iwb-faults-", dir=IN_MEMORY) as folder:
        scores, _ = undisturbed(Path(folder))
    assert len(scores) == 15
    return scores


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Makes worlds below ``tmp_path`` and closes them at the end."""
    with ExitStack() as stack:
        made = 0

        def make(**settings: Any) -> World:
            nonlocal made
            made += 1
            return stack.enter_context(World(tmp_path / f"world{made}", **settings))

        yield make
