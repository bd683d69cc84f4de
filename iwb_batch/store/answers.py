"""What came back: raw files, raw lines, readings, judgements. Called inside one transaction for each batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from iwb_batch.model import Outcome, Reading, Request
from iwb_batch.store import plan
from iwb_batch.store.database import Database


@dataclass(slots=True)
class AttemptRow:
    """The attempt a custom_id belongs to."""

    attempt_id: int
    request_file_id: int
    request: Request
    raw_line_id: int | None
    """Raw line of its newest reading; None while it is open, and when it was closed without one."""
    http_status: int | None


def find_attempts(database: Database, custom_ids: Iterable[str]) -> dict[str, AttemptRow]:
    """Attempts by custom_id; those that are not of this run are left out."""
    rows = database.rows(
        "SELECT a.custom_id, a.attempt_id, a.request_file_id, a.raw_line_id, a.http_status,"
        " q.item_index, q.criterion_index, q.criterion, q.pair_order, q.side, q.repeat"
        " FROM attempt_reading a JOIN request q USING (request_id)"
        " WHERE a.custom_id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(custom_ids)),),
    )
    return {
        row["custom_id"]: AttemptRow(
            attempt_id=row["attempt_id"],
            request_file_id=row["request_file_id"],
            request=plan.request_of(row),
            raw_line_id=row["raw_line_id"],
            http_status=row["http_status"],
        )
        for row in rows
    }


def add_raw_file(
    database: Database,
    batch_id: int | None,
    kind: str,
    name: str,
    *,
    remote_file_id: str | None,
    sha256: str,
    n_bytes: int,
    n_lines: int,
    at: str,
) -> int:
    """Enter a downloaded file; returns its id."""
    cursor = database.execute(
        "INSERT INTO raw_file (batch_id, kind, name, remote_file_id, sha256, n_bytes, n_lines, received_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (batch_id, kind, name, remote_file_id, sha256, n_bytes, n_lines, at),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def count_raw_files(database: Database) -> int:
    """Raw files so far."""
    return int(database.value("SELECT count(*) FROM raw_file"))


def has_raw_file(database: Database, sha256: str) -> bool:
    """True when a file with these bytes was stored before."""
    return bool(database.value("SELECT EXISTS (SELECT 1 FROM raw_file WHERE sha256 = ?)", (sha256,)))


@dataclass(slots=True)
class RawLine:
    """A line that came back, verbatim. ``raw_line_id`` is given out by whoever adds it (see ``next_raw_line``)."""

    raw_line_id: int
    line: int
    custom_id: str | None
    kind: str
    """``answer``, ``duplicate``, ``unknown`` or ``unreadable``."""
    text: bytes
    """UTF-8."""


def next_raw_line(database: Database) -> int:
    """The first free id of a raw line. It stays free only inside the transaction that asked."""
    return int(database.value("SELECT coalesce(max(raw_line_id), 0) + 1 FROM raw_line"))


def add_raw_lines(database: Database, raw_file_id: int, lines: Iterable[RawLine]) -> None:
    """Enter lines of one file."""
    database.execute_many(
        "INSERT INTO raw_line (raw_line_id, raw_file_id, line, custom_id, kind, text)"
        " VALUES (?, ?, ?, ?, ?, CAST(? AS TEXT))",
        ((raw.raw_line_id, raw_file_id, raw.line, raw.custom_id, raw.kind, raw.text) for raw in lines),
    )


def set_aside(database: Database, raw_line_id: int) -> None:
    """A better line of the same custom_id came: this one becomes a duplicate; its reading stays and is outnumbered."""
    database.execute("UPDATE raw_line SET kind = 'duplicate' WHERE raw_line_id = ?", (raw_line_id,))


def add_readings(database: Database, readings: Sequence[tuple[int, int | None, Reading]], at: str) -> None:
    """Append what attempts came to, as (attempt_id, raw_line_id, reading), with the judgements of those that are valid.

    The later of two readings of one attempt is the newer one. Called inside a transaction.
    """
    first = int(database.value("SELECT coalesce(max(reading_id), 0) + 1 FROM reading"))
    numbered = [(number, *entry) for number, entry in enumerate(readings, start=first)]
    database.execute_many(
        "INSERT INTO reading (reading_id, attempt_id, raw_line_id, at, outcome, detail, http_status, finish_reason,"
        " error_code, message, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, model,"
        " system_fingerprint) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *(reading_id, attempt_id, raw_line_id, at, reading.outcome.value, reading.detail, reading.http_status),
                *(reading.finish_reason, reading.error_code, reading.message),
                *(reading.usage.prompt_tokens, reading.usage.cached_tokens, reading.usage.completion_tokens),
                *(reading.usage.reasoning_tokens, reading.model, reading.system_fingerprint),
            )
            for reading_id, attempt_id, raw_line_id, reading in numbered
        ),
    )
    database.execute_many(
        "INSERT INTO answer_text (reading_id, content) VALUES (?, ?)",
        ((reading_id, reading.content) for reading_id, _, _, reading in numbered if reading.content is not None),
    )
    database.execute_many(
        "INSERT INTO judgement (reading_id, score, preferred, reason, notes) VALUES (?, ?, ?, ?, ?)",
        (
            (reading_id, found.score, found.preferred, found.reason, json.dumps(found.notes) if found.notes else "[]")
            for reading_id, _, _, reading in numbered
            if (found := reading.judgement) is not None
        ),
    )


def close_without_line(database: Database, request_file_id: int, outcome: Outcome, detail: str | None, at: str) -> int:
    """Give every open attempt of a request file the outcome of its batch's end; returns how many."""
    cursor = database.execute(
        "INSERT INTO reading (attempt_id, at, outcome, detail)"
        " SELECT a.attempt_id, ?, ?, ? FROM attempt a WHERE a.request_file_id = ?"
        " AND NOT EXISTS (SELECT 1 FROM reading r WHERE r.attempt_id = a.attempt_id)",
        (at, outcome.value, detail, request_file_id),
    )
    return cursor.rowcount


def failure_codes(database: Database, request_file_id: int) -> dict[tuple[str, str], int]:
    """Lines of a request file by (outcome, error code) where the outcome is rejected or filtered."""
    return {
        (row[0], row[1]): row[2]
        for row in database.rows(
            "SELECT outcome, coalesce(error_code, ''), count(*) FROM attempt_reading"
            " WHERE request_file_id = ? AND outcome IN ('rejected', 'filtered') GROUP BY 1, 2",
            (request_file_id,),
        )
    }


def first_message(database: Database, request_file_id: int, outcome: str, error_code: str | None = None) -> str | None:
    """The provider's words of the first attempt of a file that ended so (with this error code, if one is given)."""
    found: str | None = database.value(
        "SELECT message FROM attempt_reading WHERE request_file_id = ? AND outcome = ?"
        " AND (? IS NULL OR coalesce(error_code, '') = ?) ORDER BY line LIMIT 1",
        (request_file_id, outcome, error_code, error_code),
    )
    return found


def count_outcome(database: Database, request_file_id: int, outcome: Outcome) -> int:
    """Attempts of a request file with this outcome."""
    return int(
        database.value(
            "SELECT count(*) FROM attempt_reading WHERE request_file_id = ? AND outcome = ?",
            (request_file_id, outcome.value),
        )
    )
