"""How far the judge agrees with people: Cohen's and quadratic kappa, Spearman, exact agreement, each with an interval.

Everything is computed from tables that count (human value, judge value), one table for each cluster.
A resample of clusters is then a weighted sum of tables. From 30 clusters up the interval is a
percentile bootstrap; below, a t interval on the delete-one-cluster jackknife.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from iwb_batch.core.grouping import Estimator
from iwb_batch.core.rounding import half_up
from iwb_batch.core.run_facts import Estimate
from iwb_batch.core.statistics import FEW_CLUSTERS, RESAMPLES, stream, t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    Statistic = Callable[[FloatArray], FloatArray]

Level = Literal["criterion", "item", "verdict"]
_CHUNK_CELLS = 2_000_000
_UNDEFINED_SHARE = 0.05


class HumanPoint(NamedTuple):
    """One thing judged by both. Scores are 1..10 (a judge's mean over repeats may lie between), preferences 0 or 1."""

    human: float
    judge: float
    cluster: int


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """Agreement of judge and people over ``n_matched`` labels.

    ``n_unscored`` labels belong to something the judge gave no valid verdict on, ``n_outside`` to
    no item of the run: both are in no number. ``difference`` is judge - human. For preferences
    (level ``verdict``) each order counts, and only ``exact`` and ``cohen`` are given.
    """

    level: Level
    n_labels: int
    n_matched: int
    n_unscored: int
    n_outside: int
    exact: Estimate
    cohen: Estimate
    quadratic: Estimate | None
    spearman: Estimate | None
    difference: Estimate | None
    notes: tuple[str, ...] = ()


def human_agreement(
    points: Sequence[HumanPoint],
    *,
    level: Level,
    n_labels: int,
    n_unscored: int = 0,
    n_outside: int = 0,
    rng_seed: int = 0,
) -> HumanAgreement:
    """Compute the agreement; kappas compare whole scores, so values between are rounded half up for them."""
    import numpy as np

    clusters = np.array([point.cluster for point in points], dtype=np.int64)
    whole = [HumanPoint(float(half_up(p.human, 0)), float(half_up(p.judge, 0)), p.cluster) for p in points]
    counted = _Tables(whole, rng_seed)
    equal = np.array([p.human == p.judge for p in whole], dtype=np.float64)
    scores = level != "verdict"
    rounded = any(a != b for a, b in zip(points, whole, strict=True))
    return HumanAgreement(
        level=level,
        n_labels=n_labels,
        n_matched=len(points),
        n_unscored=n_unscored,
        n_outside=n_outside,
        exact=Estimator(rng_seed, limits=(0.0, 1.0), rate=True).mean("human\0exact", equal, clusters),
        cohen=counted.estimate("cohen", cohen_of),
        quadratic=counted.estimate("quadratic", counted.quadratic_of) if scores else None,
        spearman=_spearman(points, rng_seed) if scores else None,
        difference=_difference(points, clusters, rng_seed) if scores else None,
        notes=("kappas and exact agreement compare whole scores; values between are rounded half up",)
        if rounded
        else (),
    )


def _spearman(points: Sequence[HumanPoint], seed: int) -> Estimate:
    counted = _Tables(points, seed)
    return counted.estimate("spearman", spearman_of) if len(points) >= 3 else Estimate()


def _difference(points: Sequence[HumanPoint], clusters: NDArray[np.int64], seed: int) -> Estimate:
    import numpy as np

    values = np.array([point.judge - point.human for point in points], dtype=np.float64)
    return Estimator(seed, limits=(-9.0, 9.0)).mean("human\0difference", values, clusters)


class _Tables:
    """Counts of (human value, judge value) for each cluster: an array (clusters, human values, judge values)."""

    def __init__(self, points: Sequence[HumanPoint], seed: int) -> None:
        """Count the points; the values that occur are the levels, in ascending order."""
        import numpy as np

        self._seed = seed
        humans = np.array([point.human for point in points], dtype=np.float64)
        judges = np.array([point.judge for point in points], dtype=np.float64)
        self.levels_human, a = np.unique(humans, return_inverse=True)
        self.levels_judge, b = np.unique(judges, return_inverse=True)
        _, cluster = np.unique([point.cluster for point in points], return_inverse=True)
        k = int(cluster.max()) + 1 if len(points) else 0
        self.counts: FloatArray = np.zeros((k, len(self.levels_human), len(self.levels_judge)))
        np.add.at(self.counts, (cluster, a, b), 1.0)
        self._square(humans, judges)

    def _square(self, humans: FloatArray, judges: FloatArray) -> None:
        """The same counts with one list of levels on both sides, as kappa needs them."""
        import numpy as np

        self.levels = np.union1d(humans, judges)
        rows = np.searchsorted(self.levels, self.levels_human)
        columns = np.searchsorted(self.levels, self.levels_judge)
        self.square: FloatArray = np.zeros((len(self.counts), len(self.levels), len(self.levels)))
        self.square[:, rows[:, None], columns[None, :]] = self.counts

    def quadratic_of(self, tables: FloatArray) -> FloatArray:
        """Quadratic kappa of each table, from the distances of the levels."""
        return _kappa(tables, (self.levels[:, None] - self.levels[None, :]) ** 2)

    def estimate(self, name: str, statistic: Statistic) -> Estimate:
        """Value and interval of a statistic of tables."""
        import numpy as np

        tables = self.counts if statistic is spearman_of else self.square
        k = len(tables)
        if k == 0:
            return Estimate()
        value = float(statistic(tables.sum(axis=0)[None])[0])
        if math.isnan(value):
            return Estimate(n_clusters=k)
        if k < 2:
            return Estimate(value, n_clusters=k)
        if k < FEW_CLUSTERS:
            return _jackknife(value, statistic(tables.sum(axis=0)[None] - tables))
        drawn = self._resampled(name, statistic, tables)
        known = drawn[~np.isnan(drawn)]
        if len(known) < (1 - _UNDEFINED_SHARE) * len(drawn):
            return Estimate(value, n_clusters=k)
        low, high = np.quantile(known, (0.025, 0.975))
        return Estimate(value, float(low), float(high), "bootstrap", k)

    def _resampled(self, name: str, statistic: Statistic, tables: FloatArray) -> FloatArray:
        import numpy as np

        # Equal clusters are interchangeable; sorting makes the draw independent of their order.
        flat = tables.reshape(len(tables), -1)
        flat = flat[np.lexsort(flat.T[::-1])]
        k, rng = len(flat), stream(self._seed, f"human\0{name}")
        rows = max(1, _CHUNK_CELLS // max(k, flat.shape[1]))
        parts = []
        for start in range(0, RESAMPLES, rows):
            n = min(rows, RESAMPLES - start)
            weights = rng.multinomial(k, np.full(k, 1.0 / k), size=n).astype(np.float64)
            parts.append(statistic((weights @ flat).reshape(n, *tables.shape[1:])))
        return np.concatenate(parts)


def _jackknife(value: float, without_one: FloatArray) -> Estimate:
    import numpy as np

    k = len(without_one)
    if np.isnan(without_one).any():
        return Estimate(value, n_clusters=k)
    error = math.sqrt((k - 1) / k * float(((without_one - without_one.mean()) ** 2).sum()))
    half = t_quantile(0.975, k - 1) * error
    return Estimate(value, max(-1.0, value - half), min(1.0, value + half), "t", k)


def cohen_of(tables: FloatArray) -> FloatArray:
    """Cohen's kappa of each table (tables, levels, levels); NaN where chance alone agrees always."""
    import numpy as np

    return _kappa(tables, 1.0 - np.eye(tables.shape[1]))


def _kappa(tables: FloatArray, distance: FloatArray) -> FloatArray:
    import numpy as np

    total = tables.sum(axis=(1, 2))
    seen = (tables * distance).sum(axis=(1, 2)) / total
    human, judge = tables.sum(axis=2) / total[:, None], tables.sum(axis=1) / total[:, None]
    chance = np.einsum("ti,ij,tj->t", human, distance, judge)
    with np.errstate(divide="ignore", invalid="ignore"):
        value: FloatArray = np.where(chance > 1e-12, 1.0 - seen / chance, np.nan)
    return value


def spearman_of(tables: FloatArray) -> FloatArray:
    """Rank correlation of each table, ties at their mean rank; NaN where a side is constant."""
    import numpy as np

    human, judge = _ranks(tables.sum(axis=2)), _ranks(tables.sum(axis=1))
    shared = np.einsum("ti,tij,tj->t", human, tables, judge)
    spread = np.sqrt((tables.sum(axis=2) * human**2).sum(axis=1) * (tables.sum(axis=1) * judge**2).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        value: FloatArray = np.where(spread > 1e-9, np.clip(shared / spread, -1.0, 1.0), np.nan)
    return value


def _ranks(times: FloatArray) -> FloatArray:
    """Mean rank of each level, less the mean of all ranks; ``times`` is (tables, levels)."""
    import numpy as np

    last = np.cumsum(times, axis=1)
    ranks: FloatArray = last - times / 2.0 - last[:, -1:] / 2.0
    return ranks
