"""Which places of a leaderboard a run could hold, given what the paired tests can tell apart.

A run stands below every run that the corrected tests found higher, and above every run they found
lower; any place between is possible. With nothing separable each run could hold each place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from iwb_batch.core.compare_numbers import Comparison


class RankInterval(NamedTuple):
    """``rank`` is the place by mean (equal means share it), ``best`` .. ``worst`` are what the tests leave open."""

    rank: int
    best: int
    worst: int


def rank_intervals(comparison: Comparison) -> Mapping[str, RankInterval]:
    """Place of each run by name; the tests are those of all run pairs, corrected by Holm."""
    n = len(comparison.leaderboard)
    above = dict.fromkeys(comparison.runs, 0)
    below = dict.fromkeys(comparison.runs, 0)
    for pair in comparison.pairs:
        if pair.verdict in ("a is higher", "b is higher"):
            higher, lower = (pair.a, pair.b) if pair.verdict == "a is higher" else (pair.b, pair.a)
            above[lower] += 1
            below[higher] += 1
    places = _places([row.common.score for row in comparison.leaderboard])
    return {
        row.run: RankInterval(place, 1 + above[row.run], n - below[row.run])
        for row, place in zip(comparison.leaderboard, places, strict=True)
    }


def _places(scores: Sequence[float | None]) -> list[int]:
    """Competition ranks of means in descending order; rows without a mean come last."""
    places: list[int] = []
    for position, score in enumerate(scores, start=1):
        equal = bool(places) and score == scores[position - 2]
        places.append(places[-1] if equal else position)
    return places
