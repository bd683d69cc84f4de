"""What came back: raw files, raw lines, readings, judgements. Called inside one transaction for each batch."""

from __future__ import annotations

import json
from dataclasses import dataclass

from iwb_batch.model import Outcome, Reading, Request
from iwb_batch.store import plan
from iwb_batch.store.database import Database


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """The attempt a custom_id belongs to."""

    attempt_id: int
    request_id: int
    request_file_id: int
    line: int
    request: Request
    outcome: str | None
    """Outcome of its newest reading; None while it is open."""
    raw_line_id: int | None
    """Raw line of its newest reading; None when it was closed without one."""
    http_status: int | None


def find_attempt(database: Database, custom_id: str) -> AttemptRow | None:
    """The attempt with this custom_id, None when it is not of this run."""
    row = database.row(
        "SELECT a.attempt_id, a.request_id, a.request_file_id, a.line, a.outcome, a.raw_line_id, a.http_status,"
        " q.item_index, q.criterion_index, q.criterion, q.pair_order, q.side, q.repeat"
        " FROM attempt_reading a JOIN request q USING (request_id) WHERE a.custom_id = ?",
        (custom_id,),
    )
    if row is None:
        return None
    return AttemptRow(
        attempt_id=row["attempt_id"],
        request_id=row["request_id"],
        request_file_id=row["request_file_id"],
        line=row["line"],
        request=plan.request_of(row),
        outcome=row["outcome"],
        raw_line_id=row["raw_line_id"],
        http_status=row["http_status"],
    )


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


def add_raw_line(database: Database, raw_file_id: int, line: int, custom_id: str | None, kind: str, text: str) -> int:
    """Enter a line verbatim; returns its id."""
    cursor = database.execute(
        "INSERT INTO raw_line (raw_file_id, line, custom_id, kind, text) VALUES (?, ?, ?, ?, ?)",
        (raw_file_id, line, custom_id, kind, text),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def set_aside(database: Database, raw_line_id: int) -> None:
    """A better line of the same custom_id came: this one becomes a duplicate; its reading stays and is outnumbered."""
    database.execute("UPDATE raw_line SET kind = 'duplicate' WHERE raw_line_id = ?", (raw_line_id,))


def add_reading(database: Database, attempt_id: int, raw_line_id: int | None, reading: Reading, at: str) -> None:
    """Append what an attempt came to, with its judgement when it is valid."""
    usage = reading.usage
    cursor = database.execute(
        "INSERT INTO reading (attempt_id, raw_line_id, at, outcome, detail, http_status, finish_reason, error_code,"
        " message, content, prompt_tokens, cached_tokens, completion_tokens, reasoning_tokens, model,"
        " system_fingerprint) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(attempt_id, raw_line_id, at, reading.outcome.value, reading.detail, reading.http_status),
            *(reading.finish_reason, reading.error_code, reading.message, reading.content, usage.prompt_tokens),
            *(usage.cached_tokens, usage.completion_tokens, usage.reasoning_tokens, reading.model),
            reading.system_fingerprint,
        ),
    )
    judgement = reading.judgement
    if judgement is not None:
        database.execute(
            "INSERT INTO judgement (reading_id, score, preferred, reason, notes) VALUES (?, ?, ?, ?, ?)",
            (cursor.lastrowid, judgement.score, judgement.preferred, judgement.reason, json.dumps(judgement.notes)),
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
