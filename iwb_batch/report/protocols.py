"""One report or another: the same questions asked of the report of any protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from iwb_batch.core.human_numbers import HumanAgreement
from iwb_batch.core.pair_numbers import PairReport
from iwb_batch.core.pointwise_numbers import PointwiseReport
from iwb_batch.core.rubric_numbers import RubricReport
from iwb_batch.core.run_facts import Estimate, GroupRow
from iwb_batch.report import human, pairs, pointwise, rubric
from iwb_batch.report.formats import Format
from iwb_batch.report.formats import render as render_format
from iwb_batch.report.tables import Document, Style, Table, n_of

AnyReport = RubricReport | PairReport | PointwiseReport


def render(report: AnyReport, form: Format, *, agreement: HumanAgreement | None = None) -> str:
    """The report as text in one of the four formats, with the agreement with people when there is one."""
    return render_format(
        form,
        document=lambda: document(report, agreement),
        flat=lambda: flat(report, agreement),
        shape=lambda: shape(report, agreement),
    )


def document(report: AnyReport, agreement: HumanAgreement | None = None) -> Document:
    """The report as titled tables; the agreement stands right after the first one."""
    if isinstance(report, RubricReport):
        found = rubric.document(report)
    else:
        found = pairs.document(report) if isinstance(report, PairReport) else pointwise.document(report)
    if agreement is None:
        return found
    return replace(found, tables=(found.tables[0], human.table(agreement), *found.tables[1:]))


def flat(report: AnyReport, agreement: HumanAgreement | None = None) -> Table:
    """The numbers as one table for CSV."""
    if isinstance(report, RubricReport):
        found = rubric.flat(report)
    else:
        found = pairs.flat(report) if isinstance(report, PairReport) else pairs.reward_flat(report.rewards)
    return found if agreement is None else replace(found, rows=(*found.rows, *human.flat_rows(agreement)))


def shape(report: AnyReport, agreement: HumanAgreement | None = None) -> Mapping[str, Any]:
    """The report as JSON; the agreement under ``human``."""
    if isinstance(report, RubricReport):
        found = rubric.shape(report)
    else:
        found = pairs.shape(report) if isinstance(report, PairReport) else pointwise.shape(report)
    return found if agreement is None else {**found, "human": human.shape(agreement)}


def groups(report: AnyReport) -> Mapping[str, Sequence[GroupRow]]:
    """The breakdowns by name."""
    return report.rewards.by if isinstance(report, PointwiseReport) else report.by


def style(report: AnyReport) -> Style:
    """``score`` (1..10) for a rubric, ``percent`` of a share (0..1) for pairs."""
    return "score" if isinstance(report, RubricReport) else "percent"


def main_number(report: AnyReport) -> tuple[str, Estimate]:
    """The number that stands for the run, and what it is in words."""
    if isinstance(report, RubricReport):
        return "Overall: mean of item scores, 1 to 10", report.overall
    if isinstance(report, PairReport):
        return "Accuracy: share of verdicts for the text that people chose; invalid is wrong", report.accuracy
    return "Accuracy: share of pairs whose chosen text has the higher score", report.rewards.accuracy


def coverage(report: AnyReport) -> tuple[str, bool]:
    """How much of the run the number rests on, in words, and whether that is all of it."""
    if isinstance(report, RubricReport):
        return f"{n_of(report.n_complete, report.n_items, 'item')} complete", report.n_complete == report.n_items
    n = report.n_pairs if isinstance(report, PairReport) else report.rewards.n_pairs
    return f"{n_of(report.n_judged, n, 'pair')} judged completely", report.n_judged == n
