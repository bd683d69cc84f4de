"""Tables of a run for other programs: rows with the type of each column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from iwb_batch.store import evidence
from iwb_batch.store.database import Database

ColumnType = Literal["integer", "number", "text"]

_INTEGERS = frozenset(
    {
        *("item_index", "criterion_index", "repeat", "correct", "request_id", "attempt", "http_status"),
        *("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "batch_id", "token_limit"),
        *("n_scored", "n_planned", "score_sum"),
    }
)
_NUMBERS = frozenset({"score_partial", "cost_usd"})


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table by name; ``columns`` are (name, type); ``rows`` streams and is read once."""

    name: str
    columns: tuple[tuple[str, ColumnType], ...]
    rows: Iterator[tuple[Any, ...]]


def judgements(database: Database) -> ExportTable:
    """Every judgement that counts, with the labels of its item."""
    names, rows = evidence.judgements(database)
    return ExportTable("judgements", _typed(names, score="integer"), map(tuple, rows))


def tables(database: Database) -> Iterator[ExportTable]:
    """Judgements, item scores and attempts, one after the other: read each before asking for the next."""
    yield judgements(database)
    yield _table(database, "item_scores", "SELECT * FROM item_score ORDER BY item_index")
    yield _table(database, "attempts", "SELECT * FROM attempt_log ORDER BY request_id, attempt")


def _table(database: Database, name: str, sql: str) -> ExportTable:
    cursor = database.execute(sql)
    return ExportTable(name, _typed([column[0] for column in cursor.description], score="number"), map(tuple, cursor))


def _typed(names: list[str], *, score: ColumnType) -> tuple[tuple[str, ColumnType], ...]:
    """A judgement's score is a whole number, an item's a mean."""
    return tuple((name, score if name == "score" else _type(name)) for name in names)


def _type(name: str) -> ColumnType:
    if name in _INTEGERS:
        return "integer"
    return "number" if name in _NUMBERS else "text"
