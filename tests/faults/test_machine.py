"""A small fixed set of random schedules for each way of a run; tests/sweep runs thousands."""

from __future__ import annotations

import pytest

from tests.faults.harness import Scores
from tests.faults.machine import schedules
from tests.faults.ways import WAYS


def test_random_commands_faults_and_crashes(expected: Scores) -> None:
    figures = schedules(expected, examples=15, steps=8)
    assert figures.runs >= 15
    assert sum(figures.injected.values()) >= 30
    assert (figures.repeated, figures.lost) == (0, 0)


@pytest.mark.parametrize("way", WAYS)
def test_random_schedules_of_the_other_ways(way: str) -> None:
    figures = schedules(WAYS[way].undisturbed(), examples=10, steps=8, kind=WAYS[way])
    assert figures.runs >= 10
    assert sum(figures.injected.values()) >= 20
    assert (figures.repeated, figures.lost) == (0, 0)
