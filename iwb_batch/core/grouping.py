"""Compact columns of items, their clusters, and means over any part of them.

A run can have hundreds of thousands of items, so rows are taken in one pass and kept as arrays of
numbers: 8 bytes for each number, 4 for each label.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from iwb_batch.core.run_facts import Estimate, GroupRow
from iwb_batch.core.statistics import ratio_interval, stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]


THREADS = 2
"""That draw the intervals of a breakdown; each takes some megabytes."""


class Labels:
    """A column of labels, each kept as a small number."""

    def __init__(self) -> None:
        """Start empty."""
        self._numbers: dict[str | None, int] = {}
        self._codes = array("i")

    def add(self, label: str | None) -> None:
        """Append one label."""
        self._codes.append(self._numbers.setdefault(label, len(self._numbers)))

    @property
    def missing_everywhere(self) -> bool:
        """True when no row has a label."""
        return set(self._numbers) <= {None}

    def sorted_labels(self) -> list[tuple[str | None, int]]:
        """Labels with their numbers in ascending order, the missing one last."""
        return sorted(self._numbers.items(), key=lambda pair: (pair[0] is None, pair[0] or ""))

    def codes(self) -> NDArray[np.int32]:
        """The column as an array, one number for each row."""
        import numpy as np

        return np.frombuffer(self._codes, dtype=np.int32) if self._codes else np.zeros(0, dtype=np.int32)


def key_number(key: str) -> int:
    """A cluster key as 64 bits; a clash among a million keys has a chance below one in ten million."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def cluster_codes(keys: Sequence[int] | NDArray[np.uint64], variants: NDArray[np.int32]) -> tuple[IntArray, int]:
    """Number the clusters of renderings; also tell how many items were set apart.

    Items with one key are renderings of one prompt while no variant occurs twice among them.
    Where one does, the key says nothing, and each of its items is a cluster of its own.
    """
    import numpy as np

    numbers = np.asarray(keys, dtype=np.uint64)
    n = len(numbers)
    if n == 0:
        return np.zeros(0, dtype=np.int64), 0
    _, codes = np.unique(numbers, return_inverse=True)
    codes = codes.astype(np.int64)
    with_variant = codes * (int(variants.max()) + 1) + variants
    _, place, times = np.unique(with_variant, return_inverse=True, return_counts=True)
    repeated = np.zeros(int(codes.max()) + 1, dtype=bool)
    repeated[codes[times[place] > 1]] = True
    apart = repeated[codes]
    n_apart = int(np.count_nonzero(apart))
    codes[apart] = int(codes.max()) + 1 + np.arange(n_apart)
    return codes, n_apart


def cluster_sums(numerators: FloatArray, denominators: FloatArray, clusters: IntArray) -> tuple[FloatArray, FloatArray]:
    """Sum both columns over clusters; clusters without a denominator are left out."""
    import numpy as np

    _, inverse = np.unique(clusters, return_inverse=True)
    sums: FloatArray = np.bincount(inverse, weights=numerators).astype(np.float64)
    counts: FloatArray = np.bincount(inverse, weights=denominators).astype(np.float64)
    kept = counts > 0
    return sums[kept], counts[kept]


class Estimator:
    """Means with intervals; each has its own random stream, named by what it is about."""

    def __init__(self, seed: int, *, limits: tuple[float, float], rate: bool = False) -> None:
        """``limits`` is the range a mean can have; ``rate`` marks shares, see ``ratio_interval``."""
        self._seed = seed
        self._limits = limits
        self._rate = rate

    def ratio(self, name: str, numerators: FloatArray, denominators: FloatArray, clusters: IntArray) -> Estimate:
        """Mean ``sum(numerators) / sum(denominators)``; the columns have one entry for each item."""
        total = math.fsum(denominators)
        if total == 0:
            return Estimate()
        score = math.fsum(numerators) / total
        sums, counts = cluster_sums(numerators, denominators, clusters)
        interval = ratio_interval(sums, counts, stream(self._seed, name), limits=self._limits, rate=self._rate)
        if interval is None:
            return Estimate(score, n_clusters=len(sums))
        return Estimate(score, interval.low, interval.high, interval.method, interval.n_clusters)

    def mean(self, name: str, values: FloatArray, clusters: IntArray) -> Estimate:
        """Mean of ``values``, one for each item."""
        import numpy as np

        return self.ratio(name, values, np.ones(len(values)), clusters)


def group_rows(
    name: str,
    labels: Labels,
    order: IntArray | slice,
    complete: BoolArray,
    estimate: Callable[[str, BoolArray], Estimate],
) -> tuple[GroupRow, ...]:
    """One row for each label; empty when no item has one.

    ``order`` sorts the label column the way the other columns are sorted; ``estimate`` gets a name
    for the row and the items (as a mask) that belong to it.
    """
    if labels.missing_everywhere:
        return ()
    import numpy as np

    codes = labels.codes()[order]

    def row(entry: tuple[str | None, int]) -> GroupRow:
        label, number = entry
        mask = codes == number
        n_items, n_complete = int(np.count_nonzero(mask)), int(np.count_nonzero(mask & complete))
        return GroupRow(label, n_items, n_complete, estimate(f"{name}\0{label!r}", mask))

    # Drawing takes nearly all of the time and needs no lock; each row has a random stream of its own.
    with ThreadPoolExecutor(THREADS) as pool:
        return tuple(pool.map(row, labels.sorted_labels()))
