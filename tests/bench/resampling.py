"""Section ``bootstrap``: 10,000 resamples of a mean, beside a loop of ``choice``."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.bench.bench import Bench, Section, Target
from tests.bench.measure import Run, Table, Variant, WrongOutput, in_turns

OURS = "ours: bootstrap_ratio, item means of five scores"
OURS_DISTINCT = "ours: bootstrap_ratio, no two values equal"
LOOP = "loop of choice, item means of five scores"
LOOP_DISTINCT = "loop of choice, no two values equal"


class Intervals:
    """Both ways have to find the same interval, up to what other random numbers make of it."""

    def __init__(self, tolerance: float) -> None:
        self._first: list[float] = []
        self._tolerance = tolerance

    def check(self, _folder: Path, run: Run) -> None:
        """Raise WrongOutput where an interval lies elsewhere."""
        self._first = self._first or run.value
        if any(abs(one - other) > self._tolerance for one, other in zip(self._first, run.value, strict=True)):
            raise WrongOutput(f"intervals {self._first} and {run.value}")


def _pair(names: tuple[str, str], values: list[float], stored: Path, resamples: int, tolerance: float) -> list[Variant]:
    stored.write_text(json.dumps(values), encoding="utf-8")
    given, same = {"values": str(stored), "resamples": resamples}, Intervals(tolerance)
    targets = ("tests.bench.ours:bootstrap", "tests.bench.baselines:choice_loop")
    return [Variant(name, target, lambda _: given, same.check) for name, target in zip(names, targets, strict=True)]


def section(bench: Bench) -> Section:
    """One table with both kinds of values."""
    sizes, draw = bench.sizes, random.Random(bench.sizes.seed)
    means = [sum(draw.randint(1, 10) for _ in range(5)) / 5 for _ in range(sizes.clusters)]
    other = [draw.uniform(1, 10) for _ in range(sizes.clusters)]
    # Two percentiles of n resamples differ by about 4 standard errors of the mean / sqrt(n): a wide bound for it.
    tolerance = 40 / (sizes.clusters**0.5 * sizes.resamples**0.5)
    title = f"bootstrap: {sizes.resamples:,} resamples of {sizes.clusters:,} items"
    bench.say(title)
    table, place = Table("bootstrap", title, "resamples", sizes.resamples, LOOP, bench.cpu), bench.place("bootstrap")
    variants = [
        *_pair((OURS, LOOP), means, place / "means.json", sizes.resamples, tolerance),
        *_pair((OURS_DISTINCT, LOOP_DISTINCT), other, place / "distinct.json", sizes.resamples, tolerance),
    ]
    in_turns(table, variants, sizes.repeat, place)
    bench.done([place])
    targets = [
        Target("bootstrap: times a loop of choice, item means", 6.0, table.speedup(OURS, LOOP)),
        Target("bootstrap: peak memory", 60.0, table.peak(OURS), "MiB", at_most=True),
    ]
    return Section("bootstrap", [table], targets)
