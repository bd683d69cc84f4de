"""Kappas in closed form, to hold the product's table arithmetic against."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence


def cohen_kappa(a: Sequence[Hashable], b: Sequence[Hashable]) -> float | None:
    """Agreement of two raters beyond chance; ``None`` without points or when chance alone agrees always."""
    _same_length(a, b)
    n = len(a)
    if n == 0:
        return None
    agreed = sum(1 for x, y in zip(a, b, strict=True) if x == y) / n
    times_b = Counter(b)
    chance = math.fsum(times * times_b[label] for label, times in Counter(a).items()) / (n * n)
    if chance >= 1.0:
        return None
    return (agreed - chance) / (1.0 - chance)


def quadratic_kappa(a: Sequence[int], b: Sequence[int]) -> float | None:
    """Kappa with squared distances as weights; ``None`` without points or when both raters are one constant."""
    _same_length(a, b)
    n = len(a)
    if n == 0:
        return None
    seen = math.fsum(float(x - y) ** 2 for x, y in zip(a, b, strict=True)) / n
    mean_a, mean_b = math.fsum(a) / n, math.fsum(b) / n
    chance = math.fsum(x * x for x in a) / n + math.fsum(y * y for y in b) / n - 2 * mean_a * mean_b
    if chance <= 0.0:
        return None
    return 1.0 - seen / chance


def _same_length(a: Sequence[object], b: Sequence[object]) -> None:
    if len(a) != len(b):
        raise ValueError(f"the two raters must have judged the same things, got {len(a)} and {len(b)}")
