"""Agreement of the judge with people, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from iwb_batch.core.human_numbers import HumanAgreement
from iwb_batch.core.run_facts import Estimate
from iwb_batch.report.run_tables import estimate_shape, flat_row
from iwb_batch.report.tables import Cell, Style, Table, estimate_cells, n_of

TITLE = "Agreement with people"
_THINGS = {"criterion": "criterion scores", "item": "item scores", "verdict": "verdicts"}


def table(found: HumanAgreement) -> Table:
    """The agreement as a table; what could not be compared is named below it."""
    return Table(TITLE, ("measure", "over", "value", "low", "high", "interval"), tuple(_rows(found)), _caption(found))


def _rows(found: HumanAgreement) -> Iterator[tuple[Cell, ...]]:
    over = f"{found.n_matched} {_THINGS[found.level]}"
    rows: list[tuple[str, Estimate | None, Style]] = [
        ("exact agreement, %", found.exact, "percent"),
        ("Cohen's kappa", found.cohen, "score"),
        ("quadratic kappa", found.quadratic, "score"),
        ("Spearman", found.spearman, "score"),
        ("judge - people", found.difference, "score"),
    ]
    for name, estimate, style in rows:
        if estimate is not None:
            yield (name, over, *estimate_cells(estimate, style))


def _caption(found: HumanAgreement) -> str:
    matched = found.n_labels - found.n_unscored - found.n_outside
    parts = [
        f"{n_of(matched, found.n_labels, 'label')} compared, {found.n_unscored} without a valid verdict of the judge,",
        f"{found.n_outside} not in this run.",
        *(f"{note[:1].upper()}{note[1:]}." for note in found.notes),
    ]
    if found.level == "verdict":
        parts.append("Each order of a pair is one verdict.")
    return " ".join(parts)


def flat_rows(found: HumanAgreement) -> Iterator[tuple[Cell, ...]]:
    """The agreement as rows of the CSV form of a report."""
    for name, estimate in _measures(found).items():
        if estimate is not None:
            yield flat_row("human", name, found.n_labels, found.n_matched, estimate)


def shape(found: HumanAgreement) -> dict[str, Any]:
    """The agreement for a report's JSON, key ``human``."""
    return {
        "level": found.level,
        "n_labels": found.n_labels,
        "n_matched": found.n_matched,
        "n_unscored": found.n_unscored,
        "n_outside": found.n_outside,
        **{name: None if value is None else _value(value) for name, value in _measures(found).items()},
        "notes": list(found.notes),
    }


def _measures(found: HumanAgreement) -> dict[str, Estimate | None]:
    return {
        "exact": found.exact,
        "cohen_kappa": found.cohen,
        "quadratic_kappa": found.quadratic,
        "spearman": found.spearman,
        "difference": found.difference,
    }


def _value(estimate: Estimate) -> dict[str, Any]:
    values = estimate_shape(estimate)
    return {"value": values.pop("score"), **values}
