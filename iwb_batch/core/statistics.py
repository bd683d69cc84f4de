"""Intervals and tests for means over clustered items.

The unit that varies independently is the cluster (renderings of one prompt, pairs with one
prompt text). A mean over items is then a ratio of cluster sums: ``sum(s) / sum(n)`` with ``s``
the sum of the values of a cluster and ``n`` how many there are. From 30 clusters up the interval
is a percentile bootstrap over clusters; below, a t interval on the linearised cluster sums.

Values do not depend on the order of the clusters: they are sorted before a random number is used.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    Generator = np.random.Generator

RESAMPLES = 10_000
FLIPS = 10_000
FEW_CLUSTERS = 30
EXACT_CLUSTERS = 16
ALIKE = 1e-9
"""Sums of clusters that differ by less do so only in how their shares were rounded."""
Z_975 = 1.959963984540054
_CHUNK_CELLS = 50_000

Method = Literal["bootstrap", "t", "wilson"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval. ``method`` says how it came about; ``n_clusters`` how many clusters carry it."""

    low: float
    high: float
    method: Method
    n_clusters: int


def stream(seed: int, name: str) -> Generator:
    """Return the generator that belongs to ``name``, so that one more row moves no other row's interval."""
    import numpy as np

    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return np.random.Generator(np.random.PCG64([seed, *digest]))


def ratio_interval(
    sums: Sequence[float] | FloatArray,
    counts: Sequence[float] | FloatArray,
    rng: Generator,
    *,
    limits: tuple[float, float] | None = None,
    rate: bool = False,
) -> Interval | None:
    """95 % interval of ``sum(sums) / sum(counts)`` over clusters; ``None`` for fewer than two.

    ``sums`` and ``counts`` have one entry for each cluster (counts > 0). ``limits`` is the range
    the quantity can have; the interval is cut to it. With ``rate`` clusters that are all alike (a value of
    exactly 0 or 1 among them), where no method that looks at their differences would give any width, get
    the Wilson interval on clusters.
    """
    import numpy as np

    s, n = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    k = len(s)
    if k < 2:
        return None
    value = math.fsum(s) / math.fsum(n)
    if rate and float(np.abs(s - value * n).max()) < ALIKE:
        low, high = wilson(value, k)
        return Interval(max(low, 0.0), min(high, 1.0), "wilson", k)
    method: Method = "bootstrap" if k >= FEW_CLUSTERS else "t"
    low, high = bootstrap_ratio(s, n, rng) if method == "bootstrap" else _t_limits(s, n)
    if limits is not None:
        low, high = max(low, limits[0]), min(high, limits[1])
    return Interval(low, high, method, k)


def bootstrap_ratio(
    sums: Sequence[float] | FloatArray,
    counts: Sequence[float] | FloatArray,
    rng: Generator,
    *,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """2.5 and 97.5 percentile of the ratio over ``resamples`` draws of whole clusters with replacement.

    Equal clusters are drawn together (one multinomial over the distinct ones) whenever that is
    cheaper than drawing each cluster; both ways have the same distribution.
    """
    import numpy as np

    s, n, times = _distinct(np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64))
    k = int(times.sum())
    draw = _draw_distinct if len(s) * 12 < k or len(s) == 1 else _draw_each
    ratios = draw(s, n, times, rng, resamples)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(low), float(high)


def _distinct(sums: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Distinct (sum, count) clusters in ascending order, and how often each occurs."""
    import numpy as np

    rounded = np.round(sums, 9)
    order = np.lexsort((counts, rounded))
    s, n = rounded[order], counts[order]
    first = np.ones(len(s), dtype=bool)
    first[1:] = (s[1:] != s[:-1]) | (n[1:] != n[:-1])
    starts = np.flatnonzero(first)
    times = np.diff(np.append(starts, len(s)))
    return s[starts], n[starts], times.astype(np.int64)


def _draw_distinct(
    s: FloatArray, n: FloatArray, times: NDArray[np.int64], rng: Generator, resamples: int
) -> FloatArray:
    import numpy as np

    k = int(times.sum())
    rows = max(1, _CHUNK_CELLS // len(s))
    parts = []
    for start in range(0, resamples, rows):
        drawn = rng.multinomial(k, times / k, size=min(rows, resamples - start)).astype(np.float64)
        parts.append((drawn @ s) / (drawn @ n))
    return np.concatenate(parts)


def _draw_each(s: FloatArray, n: FloatArray, times: NDArray[np.int64], rng: Generator, resamples: int) -> FloatArray:
    import numpy as np

    all_s, all_n = np.repeat(s, times), np.repeat(n, times)
    k = len(all_s)
    rows = max(1, _CHUNK_CELLS // k)
    parts = []
    for start in range(0, resamples, rows):
        drawn = rng.integers(0, k, size=(min(rows, resamples - start), k), dtype=np.uint32)
        parts.append(all_s[drawn].sum(axis=1) / all_n[drawn].sum(axis=1))
    return np.concatenate(parts)


def standard_error(sums: Sequence[float] | FloatArray, counts: Sequence[float] | FloatArray) -> float | None:
    """Linearised standard error of ``sum(sums) / sum(counts)``; ``None`` for fewer than two clusters."""
    import numpy as np

    s, n = np.asarray(sums, dtype=np.float64), np.asarray(counts, dtype=np.float64)
    k = len(s)
    if k < 2:
        return None
    total = math.fsum(n)
    residuals = s - (math.fsum(s) / total) * n
    return math.sqrt(k / (k - 1) * math.fsum(residuals**2)) / total


def _t_limits(s: FloatArray, n: FloatArray) -> tuple[float, float]:
    value = math.fsum(s) / math.fsum(n)
    half = t_quantile(0.975, len(s) - 1) * (standard_error(s, n) or 0.0)
    return value - half, value + half


def wilson(rate: float, k: int) -> tuple[float, float]:
    """Wilson 95 % interval of a rate seen on ``k`` clusters."""
    z2 = Z_975 * Z_975
    middle = (rate + z2 / (2 * k)) / (1 + z2 / k)
    half = Z_975 * math.sqrt(rate * (1 - rate) / k + z2 / (4 * k * k)) / (1 + z2 / k)
    return (0.0 if rate == 0.0 else middle - half), (1.0 if rate == 1.0 else middle + half)


def sign_flip_p(cluster_sums: Sequence[float] | FloatArray, rng: Generator, *, flips: int = FLIPS) -> float | None:
    """Two-sided p of "the paired differences are symmetric about zero"; whole clusters flip sign.

    ``cluster_sums`` are sums of paired differences. Up to 16 clusters every pattern of signs is
    looked at; beyond, ``flips`` random ones, and the observed pattern counts as one of them.
    """
    import numpy as np

    d = np.abs(np.round(np.asarray(cluster_sums, dtype=np.float64), 9))
    k = len(d)
    if k == 0:
        return None
    observed = abs(math.fsum(cluster_sums)) - 1e-7
    if k <= EXACT_CLUSTERS:
        totals = np.zeros(1)
        for value in np.sort(d):
            totals = np.concatenate((totals + value, totals - value))
        return float(np.mean(np.abs(totals) >= observed))
    values, times = np.unique(d, return_counts=True)
    rows = max(1, _CHUNK_CELLS // len(values))
    extreme = 0
    for start in range(0, flips, rows):
        plus = rng.binomial(times, 0.5, size=(min(rows, flips - start), len(values)))
        totals = (2.0 * plus - times) @ values
        extreme += int(np.count_nonzero(np.abs(totals) >= observed))
    return (1 + extreme) / (1 + flips)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction over all given p values; ``None`` stays ``None`` and is not counted."""
    ranked = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    running = 0.0
    for position, (p, i) in enumerate(ranked):
        running = max(running, min(1.0, (len(ranked) - position) * p))
        adjusted[i] = running
    return adjusted


def detectable_difference(error: float | None, k: int) -> float | None:
    """Smallest true difference that a two-sided 5 % test on ``k`` clusters finds four times in five."""
    if error is None or k < 2:
        return None
    return (t_quantile(0.975, k - 1) + t_quantile(0.80, k - 1)) * error


def t_quantile(p: float, df: int) -> float:
    """Quantile of Student's t distribution, 0 < p < 1, ``df`` >= 1; absolute error below 1e-9 up to p = 0.9995."""
    if not (0.0 < p < 1.0 and df >= 1):
        raise ValueError(f"t_quantile needs 0 < p < 1 and df >= 1, got p={p}, df={df}")
    if p < 0.5:
        return -t_quantile(1 - p, df)
    low, high = 0.0, 1.0
    while _t_cdf(high, df) < p:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def _t_cdf(t: float, df: int) -> float:
    """Distribution function for t >= 0."""
    if t == 0:
        return 0.5
    x = t * t / (df + t * t)
    return 0.5 + 0.5 * _beta_share(0.5, df / 2, x)


def _beta_share(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b)."""
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_share(b, a, 1.0 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(front) * _beta_fraction(a, b, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function, evaluated by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 1000):
        before = value
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + numerator * d or tiny)
            c = 1.0 + numerator / c or tiny
            value *= c * d
        if abs(value - before) <= 1e-16 * abs(value):
            break
    return value


def spearman(x: Sequence[float] | FloatArray, y: Sequence[float] | FloatArray) -> float | None:
    """Rank correlation with average ranks for ties; ``None`` for fewer than 3 points or a constant side."""
    import numpy as np

    if len(x) != len(y):
        raise ValueError(f"spearman needs two equally long sequences, got {len(x)} and {len(y)}")
    if len(x) < 3:
        return None
    a, b = _centred_ranks(np.asarray(x, dtype=np.float64)), _centred_ranks(np.asarray(y, dtype=np.float64))
    spread = math.sqrt(math.fsum(a * a) * math.fsum(b * b))
    if spread == 0.0:
        return None
    return float(max(-1.0, min(1.0, math.fsum(a * b) / spread)))


def _centred_ranks(values: FloatArray) -> FloatArray:
    import numpy as np

    _, inverse, times = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    ranks: FloatArray = ((2 * last - times + 1) / 2.0 - (len(values) + 1) / 2.0)[inverse]
    return ranks
