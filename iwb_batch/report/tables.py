"""The one form all reports take before they become text: a document of titled tables."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from iwb_batch.core.rounding import half_up, percent
from iwb_batch.core.run_facts import Estimate
from iwb_batch.core.words import counted

Style = Literal["score", "percent", "count", "usd", "p"]
NONE_LABEL = "(none)"
REHEARSAL = "REHEARSAL (scores made up, not a judgement): "


@dataclass(frozen=True, slots=True)
class Number:
    """A number and how to show it; ``percent`` holds a share (0..1). ``None`` is shown as unknown or missing."""

    value: float | Decimal | None
    style: Style = "score"

    def text(self) -> str:
        """The number as people read it, rounded half up."""
        if self.value is None:
            return "unknown" if self.style == "usd" else "-"
        if self.style == "count":
            return str(int(self.value))
        if self.style == "percent":
            return str(percent(float(self.value)))
        if self.style == "p":
            return "<0.0001" if self.value < 0.0001 else str(half_up(self.value, 4))
        return str(half_up(self.value, 4 if self.style == "usd" else 2))


Cell = str | Number


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; every row has as many cells as there are columns. ``caption`` says how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A report: title, facts about the run, tables, notes."""

    title: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()


def label_text(label: str | None) -> str:
    """A label as a table shows it."""
    return NONE_LABEL if label is None else label


def count(value: int | None) -> Number:
    """A whole number."""
    return Number(value, "count")


def n_of(n: int, total: int, one: str | None = None) -> str:
    """Coverage in words, with what is counted where that is named."""
    return f"{n} of {total if one is None else counted(total, one)}"


def estimate_cells(estimate: Estimate, style: Style = "score") -> tuple[Cell, ...]:
    """Mean, ends of the interval, and what to know about it."""
    return (
        Number(estimate.score, style),
        Number(estimate.low, style),
        Number(estimate.high, style),
        estimate.mark,
    )
