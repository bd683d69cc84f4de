"""The numbers of a run that scores the two texts of a pair one at a time.

The judge is a reward model with ten levels: a pair counts as right when the text people chose has the
higher score. A tie is wrong and counted, and so is a pair of which a planned score is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from iwb_batch.core.pair_numbers import DIMENSIONS, RewardReport, RewardRow, reward_report
from iwb_batch.core.run_facts import RunFacts
from iwb_batch.core.words import counted
from iwb_batch.model import PAIR_SIDES, PairSide


@dataclass(frozen=True, slots=True)
class PointwiseData:
    """What the store knows about a pointwise run.

    A row's rewards are the means of its side's scores over repeats, ``None`` unless all of them are
    there. ``histogram`` counts the valid scores of each side by value.
    """

    facts: RunFacts
    pairs: Iterable[RewardRow]
    histogram: Mapping[PairSide, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class PointwiseReport:
    """All numbers of a pointwise run. ``means`` are over all valid scores of a side."""

    facts: RunFacts
    rewards: RewardReport
    histogram: tuple[tuple[int, int, int], ...]
    """(score, times given to a chosen text, times given to a rejected text), 1 to 10."""
    means: Mapping[PairSide, float | None]
    notes: tuple[str, ...]

    @property
    def n_judged(self) -> int:
        """Pairs both of whose texts have all their scores."""
        return self.rewards.n_pairs - self.rewards.invalid


def pointwise_report(data: PointwiseData, *, rng_seed: int = 0) -> PointwiseReport:
    """Compute the report. The order of ``data.pairs`` does not matter; equal data and seed give equal numbers."""
    rows = list(data.pairs)
    rewards = reward_report(rows, rng_seed=rng_seed)
    chosen, rejected = (data.histogram.get(side, {}) for side in PAIR_SIDES)
    return PointwiseReport(
        facts=data.facts,
        rewards=rewards,
        histogram=tuple((value, chosen.get(value, 0), rejected.get(value, 0)) for value in range(1, 11)),
        means={side: _mean(data.histogram.get(side, {})) for side in PAIR_SIDES},
        notes=tuple(_notes(data.facts, rows, rewards)),
    )


def _mean(histogram: Mapping[int, int]) -> float | None:
    n = sum(histogram.values())
    return math.fsum(value * times for value, times in histogram.items()) / n if n else None


def _notes(facts: RunFacts, rows: Sequence[RewardRow], rewards: RewardReport) -> Iterable[str]:
    yield from facts.notes
    for name in DIMENSIONS:
        if rows and not rewards.by[name]:
            yield f"no pair has a {name}, so there is no breakdown by {name}"
    if rewards.n_equal_texts:
        n_equal = counted(rewards.n_equal_texts, "pair has", "pairs have")
        yield f"{n_equal} two equal texts, judged and counted like all others"
    if facts.repeats > 1:
        yield f"each text was scored {facts.repeats} times; repeats are averaged first and add no pairs"
