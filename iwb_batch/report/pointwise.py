"""The report of a run that scored the two texts of each pair one at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iwb_batch.core.pointwise_numbers import PointwiseReport
from iwb_batch.model import PAIR_SIDES
from iwb_batch.report.pairs import (
    INTERVALS,
    group_tables,
    incomplete_note,
    reward_numbers,
    reward_tables,
    seed_tables,
)
from iwb_batch.report.published import CAVEATS
from iwb_batch.report.run_tables import facts_shape, head, outcome_tables, run_shape, title, usage_table
from iwb_batch.report.tables import Document, Number, Table, count, n_of

_RULE = "Accuracy: pairs whose chosen text has the higher score, over all pairs; ties and incomplete pairs are wrong."


def document(report: PointwiseReport) -> Document:
    """The report as titled tables; shares in per cent."""
    incomplete = incomplete_note(report.rewards.incomplete, "a text without a valid score")
    return Document(
        f"{title(report.facts)} (each text scored on its own)",
        head(report.facts, f"{n_of(report.n_judged, report.rewards.n_pairs, 'pair')} with both texts scored"),
        tuple(_tables(report)),
        (*report.notes, *incomplete, INTERVALS, *CAVEATS),
    )


def _tables(report: PointwiseReport) -> Iterable[Table]:
    yield from reward_tables(report.rewards)
    yield from group_tables(report.rewards.by, _RULE)
    yield from seed_tables(report.facts.model, report.rewards.seed_row)
    yield Table(
        "Mean score (1-10)",
        ("text", "scores", "mean"),
        tuple(
            (side, count(sum(row[1 + place] for row in report.histogram)), Number(report.means[side]))
            for place, side in enumerate(PAIR_SIDES)
        ),
    )
    yield Table(
        "Scores given",
        ("score", *(f"to {side} texts" for side in PAIR_SIDES)),
        tuple((count(value), count(chosen), count(rejected)) for value, chosen, rejected in report.histogram),
    )
    yield from outcome_tables(report.facts)
    if report.facts.usage:
        yield usage_table(report.facts)


def shape(report: PointwiseReport) -> dict[str, Any]:
    """The report in its JSON shape, see ``schemas/report-pointwise.schema.json``; shares are 0..1."""
    return (
        facts_shape(report.facts)
        | {"protocol": "pointwise", "n_judged": report.n_judged}
        | reward_numbers(report.rewards)
        | {
            "mean_score": dict(report.means),
            "histogram": {
                side: {str(row[0]): row[1 + place] for row in report.histogram} for place, side in enumerate(PAIR_SIDES)
            },
        }
        | run_shape(report.facts)
        | {"notes": list(report.notes)}
    )
