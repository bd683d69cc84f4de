"""What the judge said about the things people labelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from iwb_batch.store.database import Database


class LabelledItem(NamedTuple):
    """An item as the agreement needs it."""

    cluster: str
    variant: str | None
    score: float | None


def items(database: Database) -> dict[int, LabelledItem]:
    """Every item of the run by index; ``score`` is None unless complete."""
    rows = database.rows(
        "SELECT s.item_index, i.cluster, i.variant, s.score FROM item_score s JOIN item i USING (item_index)"
    )
    return {row[0]: LabelledItem(row[1], row[2], row[3]) for row in rows}


class CriterionMean(NamedTuple):
    """A planned criterion of an item; ``score`` is the mean over its repeats, None unless all are scored."""

    item_index: int
    criterion_index: int
    criterion: str
    score: float | None


def criterion_means(database: Database) -> Iterator[CriterionMean]:
    """Every planned criterion, streamed."""
    rows = database.rows(
        "SELECT q.item_index, q.criterion_index, q.criterion,"
        " CASE WHEN count(s.score) = count(*) THEN avg(s.score) END"
        " FROM request q LEFT JOIN score s ON s.item_index = q.item_index"
        " AND s.criterion_index = q.criterion_index AND s.repeat = q.repeat"
        " WHERE q.criterion_index IS NOT NULL GROUP BY q.item_index, q.criterion_index"
        " ORDER BY q.item_index, q.criterion_index"
    )
    return map(CriterionMean._make, rows)


def verdicts(database: Database) -> Iterator[tuple[int, str | None]]:
    """(row, text preferred or None) of every planned order and repeat of every pair."""
    rows = database.rows(
        "SELECT q.item_index, j.preferred FROM request q LEFT JOIN verdict v USING (request_id)"
        " LEFT JOIN judgement j USING (reading_id) WHERE q.pair_order IS NOT NULL ORDER BY q.request_id"
    )
    for row in rows:
        yield row[0], row[1]
