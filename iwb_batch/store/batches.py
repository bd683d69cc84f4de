"""The life of batches: guarded moves, the provider's words, the token ledger, events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iwb_batch.errors import RunError
from iwb_batch.model import BatchState
from iwb_batch.store.database import Database


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch with its request file."""

    batch_id: int
    request_file_id: int
    file_name: str
    file_sha256: str
    n_requests: int
    n_bytes: int
    n_tokens: int
    lane: str
    state: BatchState
    remote_status: str | None
    remote_batch_id: str | None
    input_file_id: str | None
    input_expires_at: str | None
    output_file_id: str | None
    error_file_id: str | None
    began: bool
    count_total: int | None
    count_completed: int | None
    count_failed: int | None
    called_at: str | None
    submitted_at: str | None
    ended_at: str | None
    not_before: str | None
    refusals: int
    fresh_uploads: int
    empty_listings: int
    not_found_polls: int
    wanting: str | None
    wanting_since: str | None
    wanting_looks: int
    error: str | None


_SELECT = (
    "SELECT b.batch_id, b.request_file_id, f.name AS file_name, f.sha256 AS file_sha256, f.n_requests, f.n_bytes,"
    " f.n_tokens, f.lane, b.state, b.remote_status, b.remote_batch_id, b.input_file_id, b.input_expires_at,"
    " b.output_file_id, b.error_file_id, b.began, b.count_total, b.count_completed, b.count_failed, b.called_at,"
    " b.submitted_at, b.ended_at, b.not_before, b.refusals, b.fresh_uploads, b.empty_listings, b.not_found_polls,"
    " b.wanting, b.wanting_since, b.wanting_looks, b.error"
    " FROM batch b JOIN request_file f USING (request_file_id)"
)


def in_state(database: Database, *states: BatchState, online: bool = False) -> list[BatchRow]:
    """Batches in one of the states, oldest first; only those sent as batches, or only those made online."""
    marks = ", ".join("?" for _ in states)
    rows = database.rows(
        f"{_SELECT} WHERE b.state IN ({marks}) AND f.online = {online:d} ORDER BY b.batch_id", [s.value for s in states]
    )
    return [_row(r) for r in rows]


def get(database: Database, batch_id: int) -> BatchRow | None:
    """One batch by our number, None if there is none."""
    row = database.row(f"{_SELECT} WHERE b.batch_id = ?", (batch_id,))
    return None if row is None else _row(row)


def _row(row: Any) -> BatchRow:
    values = dict(row)
    values["state"] = BatchState(values["state"])
    values["began"] = bool(values["began"])
    return BatchRow(**values)


def move(database: Database, batch: BatchRow, after: BatchState, **columns: Any) -> BatchRow:
    """Move a batch to another state and write the step's columns with it, in one statement.

    Raises RunError when the batch is no longer in the state it was read in, or the move is illegal.
    """
    assignments = "".join(f", {name} = :{name}" for name in columns)
    cursor = database.execute(
        f"UPDATE batch SET state = :after{assignments} WHERE batch_id = :batch_id AND state = :before",  # noqa: S608
        {**columns, "after": after.value, "before": batch.state.value, "batch_id": batch.batch_id},
    )
    if cursor.rowcount != 1:
        raise RunError(
            f"batch {batch.batch_id} ({batch.file_name}) is no longer {batch.state.value}",
            hint="Another process changed the run; run the same command again.",
        )
    return _again(database, batch)


def note(database: Database, batch: BatchRow, **columns: Any) -> BatchRow:
    """Write columns of a batch without moving it."""
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    database.execute(
        f"UPDATE batch SET {assignments} WHERE batch_id = :batch_id",  # noqa: S608
        {**columns, "batch_id": batch.batch_id},
    )
    return _again(database, batch)


def _again(database: Database, batch: BatchRow) -> BatchRow:
    found = get(database, batch.batch_id)
    assert found is not None, "a batch is never deleted"
    return found


def replace(database: Database, batch: BatchRow, state: BatchState, at: str, **columns: Any) -> int:
    """Drop a batch and plan another for the same request file; returns the new batch's id."""
    with database.transaction():
        move(database, batch, BatchState.DROPPED)
        names = "".join(f", {name}" for name in columns)
        values = "".join(f", :{name}" for name in columns)
        cursor = database.execute(
            f"INSERT INTO batch (request_file_id, state, created_at{names}) VALUES (:file, :state, :at{values})",  # noqa: S608
            {**columns, "file": batch.request_file_id, "state": state.value, "at": at},
        )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def learned_limit(database: Database, lane: str) -> int | None:
    """Enqueued-token limit a lane's refusals have taught, None before the first."""
    found: int | None = database.value("SELECT enqueued_limit FROM lane WHERE lane = ?", (lane,))
    return found


def learn_limit(database: Database, lane: str, limit: int) -> None:
    """Keep what a refusal has taught about a lane."""
    database.execute("UPDATE lane SET enqueued_limit = ? WHERE lane = ?", (limit, lane))


def tokens_in_flight(database: Database, lane: str) -> int:
    """Estimated input tokens of batches that hold the provider's queue."""
    return int(
        database.value(
            "SELECT coalesce(sum(f.n_tokens), 0) FROM batch b JOIN request_file f USING (request_file_id)"
            " WHERE b.state IN ('creating', 'submitted') AND f.lane = ? AND f.online = 0",
            (lane,),
        )
    )


def tokens_counted(database: Database) -> tuple[int, int]:
    """(input tokens the provider counted, those we had planned) over the newest answers that name them."""
    row = database.row(
        "SELECT coalesce(sum(r.prompt_tokens), 0), coalesce(sum(a.n_tokens), 0) FROM"
        " (SELECT attempt_id, prompt_tokens FROM reading WHERE prompt_tokens IS NOT NULL"
        "  ORDER BY reading_id DESC LIMIT 500) r JOIN attempt a USING (attempt_id)"
    )
    assert row is not None, "an aggregate has one row"
    return int(row[0]), int(row[1])


def remote_ids(database: Database) -> frozenset[str]:
    """Every remote batch id the run knows."""
    return frozenset(r[0] for r in database.rows("SELECT remote_batch_id FROM batch WHERE remote_batch_id IS NOT NULL"))


def add_event(database: Database, at: str, kind: str, detail: str | None = None, batch_id: int | None = None) -> None:
    """Append an event."""
    database.execute("INSERT INTO event (at, kind, batch_id, detail) VALUES (?, ?, ?, ?)", (at, kind, batch_id, detail))


def has_event(database: Database, *kinds: str, batch_id: int | None = None) -> bool:
    """True when one of these events is there (of this batch, if one is given)."""
    return bool(
        database.value(
            "SELECT EXISTS (SELECT 1 FROM event WHERE kind IN (SELECT value FROM json_each(?))"
            " AND (? IS NULL OR batch_id = ?))",
            (json.dumps(kinds), batch_id, batch_id),
        )
    )


def has_event_since(database: Database, kind: str, *since: str) -> bool:
    """True when this event came after the last one of the kinds ``since`` (at any time, where there is none)."""
    return bool(
        database.value(
            "SELECT EXISTS (SELECT 1 FROM event WHERE kind = ? AND event_id > coalesce("
            " (SELECT max(event_id) FROM event WHERE kind IN (SELECT value FROM json_each(?))), 0))",
            (kind, json.dumps(since)),
        )
    )


INPUT_DELETED, INPUT_GONE, INPUT_KEPT = "input_deleted", "input_gone", "input_not_deleted"
"""Events about an input file; their detail begins with its id. Kept: the provider refused to delete it."""


_WITH_INPUT_LEFT = (
    " WHERE b.state IN ('collected', 'dropped') AND f.online = 0"
    " AND b.input_file_id IS NOT NULL AND b.input_expires_at IS NULL"
    " AND b.input_file_id NOT IN (SELECT input_file_id FROM batch"
    "   WHERE input_file_id IS NOT NULL AND state NOT IN ('collected', 'dropped'))"
    " AND b.input_file_id NOT IN (SELECT CASE instr(detail, ': ') WHEN 0 THEN detail"
    "   ELSE substr(detail, 1, instr(detail, ': ') - 1) END"
    "   FROM event WHERE detail IS NOT NULL AND kind IN (SELECT value FROM json_each(?)))"
    " GROUP BY b.input_file_id ORDER BY b.batch_id"
)


def with_input_left(database: Database) -> list[BatchRow]:
    """Batches done with, one for each input file without expiry of which no event says what became of it."""
    rows = database.rows(_SELECT + _WITH_INPUT_LEFT, (json.dumps([INPUT_DELETED, INPUT_GONE, INPUT_KEPT]),))
    return [_row(r) for r in rows]


def durations(database: Database) -> list[float]:
    """Seconds from submission to end of this run's ended batches, for the ETA."""
    return [
        r[0]
        for r in database.rows(
            "SELECT (julianday(ended_at) - julianday(submitted_at)) * 86400.0 FROM batch"
            " WHERE ended_at IS NOT NULL AND submitted_at IS NOT NULL ORDER BY batch_id"
        )
    ]


def states(database: Database) -> Iterator[tuple[str, int]]:
    """(state, number of batches), dropped ones left out."""
    for row in database.rows(
        "SELECT state, count(*) FROM batch WHERE state <> 'dropped' GROUP BY state ORDER BY state"
    ):
        yield row[0], row[1]
