"""Everything: each N of each kind, each kill, thousands of random schedules. ``make sweep`` prints the figures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.faults.dying import Nursery
from tests.faults.harness import Scores
from tests.faults.machine import schedules
from tests.faults.sweeping import (
    FILE_FAULTS,
    HTTP_FAULTS,
    SQL_FAULTS,
    Figures,
    boundaries,
    fail_file,
    fail_http,
    fail_sql,
    kill,
    lose_log,
)
from tests.faults.ways import WAYS

SEEDS = range(10)
SCHEDULES = 210
"""For each seed; all seeds together are more than 2,000."""

WAY_SEEDS = range(5)
WAY_SCHEDULES = 80
"""For each seed and way; all together are 2,400."""

Tell = Callable[[Figures], None]


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Hands figures to the summary at the end."""
    return lambda figures: record_property("figures", figures.as_json())


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.mark.parametrize("kind", HTTP_FAULTS)
def test_every_http_call(tmp_path: Path, expected: Scores, tell: Tell, kind: str) -> None:
    figures = Figures()
    for nth in count(1):
        hit = fail_http(tmp_path / "world", HTTP_FAULTS[kind], nth, expected)
        shutil.rmtree(tmp_path / "world")
        if not hit:
            break
        figures.hit(kind)
    assert figures.runs > 40
    tell(figures)


@pytest.mark.parametrize("kind", FILE_FAULTS)
def test_every_file_operation(tmp_path: Path, expected: Scores, tell: Tell, kind: str) -> None:
    figures = Figures()
    for nth in count(1):
        hit = fail_file(tmp_path / "world", FILE_FAULTS[kind], nth, expected)
        shutil.rmtree(tmp_path / "world")
        if hit is None:
            break
        figures.hit(f"{kind}: {hit}")
    assert figures.runs > 150
    tell(figures)


@pytest.mark.parametrize("kind", SQL_FAULTS)
def test_every_statement(tmp_path: Path, expected: Scores, tell: Tell, kind: str) -> None:
    figures = Figures()
    for nth in count(1):
        hit = fail_sql(tmp_path / "world", SQL_FAULTS[kind], nth, expected)
        shutil.rmtree(tmp_path / "world")
        if hit is None:
            break
        figures.hit(f"{kind}: {hit.split()[0]}")
    assert figures.runs > 400
    tell(figures)


def test_killed_at_every_passing_of_every_boundary(
    tmp_path: Path, nursery: Nursery, expected: Scores, tell: Tell
) -> None:
    figures = Figures()
    passed = boundaries(tmp_path / "count")
    for name, nth in passed:
        assert kill(nursery, tmp_path / "world", expected, kind="boundary", name=name, nth=nth), (name, nth)
        shutil.rmtree(tmp_path / "world")
        figures.hit(f"kill -9 at {name}")
    assert figures.runs == len(passed) > 70
    tell(figures)


def test_the_write_ahead_log_is_lost_at_every_passing_of_every_boundary(
    tmp_path: Path, expected: Scores, tell: Tell
) -> None:
    figures = Figures()
    for name, nth in boundaries(tmp_path / "count"):
        lose_log(tmp_path / "world", expected, name, nth)
        shutil.rmtree(tmp_path / "world")
        figures.hit(f"write-ahead log lost at {name}")
    assert figures.runs > 70
    tell(figures)


@pytest.mark.parametrize(("kind", "stride"), [("sql", 5), ("file", 2)])
def test_killed_all_over(
    tmp_path: Path, nursery: Nursery, expected: Scores, tell: Tell, kind: str, stride: int
) -> None:
    figures = Figures()
    for nth in count(1, stride):
        killed = kill(nursery, tmp_path / "world", expected, kind=kind, nth=nth)
        shutil.rmtree(tmp_path / "world")
        if not killed:
            break
        figures.hit(f"kill -9 before a {kind} operation")
    assert figures.runs > 70
    tell(figures)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_schedules(expected: Scores, tell: Tell, seed: int) -> None:
    figures = schedules(expected, examples=SCHEDULES, steps=14, seed=seed)
    assert figures.runs >= SCHEDULES
    assert (figures.repeated, figures.lost) == (0, 0)
    tell(figures)


@pytest.mark.parametrize("seed", WAY_SEEDS)
@pytest.mark.parametrize("way", WAYS)
def test_random_schedules_of_the_other_ways(tell: Tell, way: str, seed: int) -> None:
    figures = schedules(WAYS[way].undisturbed(), examples=WAY_SCHEDULES, steps=14, seed=seed, kind=WAYS[way])
    assert figures.runs >= WAY_SCHEDULES
    assert (figures.repeated, figures.lost) == (0, 0)
    tell(figures)
