"""Rounding the way published tables do it: half up, on the decimal digits of the number."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal


def half_up(value: float | Decimal, digits: int) -> Decimal:
    """Round to ``digits`` decimals, halves away from zero; the decimals are those Python prints for the number.

    Binary rounding would turn 77.55 into 77.5, since the nearest binary number lies below it.
    """
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    return abs(rounded) if rounded == 0 else rounded


def percent(share: float, digits: int = 1) -> Decimal:
    """A share (0..1) as per cent, half up."""
    return half_up(Decimal(repr(float(share))) * 100, digits)


def plain_mean(a: Decimal, b: Decimal, digits: int = 1) -> Decimal:
    """Mean of two printed numbers, half up: what the ``Avg`` column of the published tables is."""
    return half_up((a + b) / 2, digits)
