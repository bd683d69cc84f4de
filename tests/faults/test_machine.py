"""A small fixed set of random schedules; tests/sweep runs thousands."""

from __future__ import annotations

from tests.faults.harness import Scores
from tests.faults.machine import schedules


def test_random_commands_faults_and_crashes(expected: Scores) -> None:
    figures = schedules(expected, examples=15, steps=8)
    assert figures.runs >= 15
    assert sum(figures.injected.values()) >= 30
    assert (figures.repeated, figures.lost) == (0, 0)
