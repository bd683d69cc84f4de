"""What a page shows beyond the numbers: who answered, and each item down to every attempt."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from iwb_batch.store.database import Database


class Answering(NamedTuple):
    """One model and system fingerprint: how many answers, and in which batches first and last."""

    model: str
    fingerprint: str | None
    answers: int
    first_batch: int
    last_batch: int


def answering(database: Database) -> list[Answering]:
    """Who answered, in the order of appearance."""
    rows = database.rows(
        "SELECT model, system_fingerprint, count(*), min(batch_id), max(batch_id) FROM attempt_log"
        " WHERE model IS NOT NULL GROUP BY model, system_fingerprint"
        " ORDER BY min(batch_id), model, system_fingerprint"
    )
    return [Answering._make(row) for row in rows]


class ItemDetail(NamedTuple):
    """One item with its response and its requests; a request holds its attempts under ``attempts_made``."""

    item: Mapping[str, Any]
    requests: Sequence[Mapping[str, Any]]


def items(database: Database) -> Iterator[ItemDetail]:
    """Every item by index, streamed: one pass over items, requests and attempts side by side."""
    requests = _Following(database.rows("SELECT * FROM request_status ORDER BY item_index, request_id"), "item_index")
    attempts = _Following(
        database.rows(
            "SELECT q.item_index, l.*, j.score, j.preferred, j.reason, j.notes FROM attempt_log l"
            " JOIN request q USING (request_id) JOIN attempt_reading r ON r.custom_id = l.custom_id"
            " LEFT JOIN judgement j ON j.reading_id = r.reading_id ORDER BY q.item_index, l.request_id, l.attempt"
        ),
        "item_index",
    )
    rows = database.rows(
        "SELECT i.*, r.reasoning, r.answer, r.flags, s.score, s.n_scored, s.n_planned"
        " FROM item i LEFT JOIN response r USING (item_index) JOIN item_score s USING (item_index)"
        " ORDER BY i.item_index"
    )
    for row in rows:
        yield _detail(row, requests.of(row["item_index"]), attempts.of(row["item_index"]))


def _detail(row: sqlite3.Row, requests: Sequence[sqlite3.Row], attempts: Sequence[sqlite3.Row]) -> ItemDetail:
    item = dict(row)
    for name in ("criteria", "extra", "notes"):
        item[name] = json.loads(item[name])
    item["flags"] = json.loads(item["flags"] or "[]")
    by_request = {key: [dict(a) for a in found] for key, found in groupby(attempts, key=lambda a: a["request_id"])}
    return ItemDetail(item, [{**dict(r), "attempts_made": by_request.get(r["request_id"], [])} for r in requests])


class _Following:
    """Rows sorted by a whole number, handed out group by group to a reader that goes the same way."""

    def __init__(self, rows: Iterator[sqlite3.Row], column: str) -> None:
        self._groups = groupby(rows, key=lambda row: int(row[column]))
        self._next = next(self._groups, None)

    def of(self, key: int) -> list[sqlite3.Row]:
        """Rows of ``key``; keys must be asked for in ascending order."""
        if self._next is None or self._next[0] != key:
            return []
        found = list(self._next[1])
        self._next = next(self._groups, None)
        return found
