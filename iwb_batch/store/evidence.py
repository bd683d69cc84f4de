"""What an audit reads: files with their hashes, stored lines, answers with their newest reading, a copy of run.db."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iwb_batch.model import Judgement, Outcome, Reading, Request, Usage
from iwb_batch.store import plan
from iwb_batch.store.database import Database

PAGE = 500
"""Answers held in memory at once."""

_TABLES = ("item", "response", "request", "request_file", "batch", "attempt", "raw_file", "raw_line", "reading",
           "answer_text", "judgement", "event")  # fmt: skip


_JUDGEMENTS = {
    "rubric": "SELECT * FROM score ORDER BY item_index, criterion_index, repeat",
    "pairwise": "SELECT * FROM preference ORDER BY item_index, pair_order, repeat",
    "pointwise": "SELECT * FROM side_score ORDER BY item_index, side, repeat",
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A request file or a raw file as run.db knows it. ``n_lines`` without blank lines."""

    file_id: int
    name: str
    sha256: str
    n_bytes: int
    n_lines: int


def request_files(database: Database) -> list[StoredFile]:
    """Every request file, oldest first."""
    return _files(database, "SELECT request_file_id, name, sha256, n_bytes, n_requests FROM request_file ORDER BY 1")


def raw_files(database: Database) -> list[StoredFile]:
    """Every raw file, oldest first."""
    return _files(database, "SELECT raw_file_id, name, sha256, n_bytes, n_lines FROM raw_file ORDER BY 1")


def _files(database: Database, sql: str) -> list[StoredFile]:
    return [StoredFile(*row) for row in database.rows(sql)]


def custom_ids(database: Database, request_file_id: int) -> Iterator[tuple[int, str]]:
    """(line, custom_id) of a request file's attempts, by line."""
    for row in database.rows(
        "SELECT line, custom_id FROM attempt WHERE request_file_id = ? ORDER BY line", (request_file_id,)
    ):
        yield row[0], row[1]


def raw_lines(database: Database, raw_file_id: int) -> Iterator[tuple[int, str]]:
    """(line, text) stored of a raw file, by line."""
    for row in database.rows("SELECT line, text FROM raw_line WHERE raw_file_id = ? ORDER BY line", (raw_file_id,)):
        yield row[0], row[1]


def responses(database: Database) -> Iterator[tuple[int, str, str | None, str]]:
    """(item_index, reasoning, answer, sha256) of every response, by index."""
    for row in database.rows("SELECT item_index, reasoning, answer, sha256 FROM response ORDER BY item_index"):
        yield row[0], row[1], row[2], row[3]


def item_hashes(database: Database) -> Iterator[tuple[sqlite3.Row, str]]:
    """(item row, sha256 stored) of every item, by index."""
    for row in database.rows("SELECT * FROM item ORDER BY item_index"):
        yield row, row["sha256"]


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An answer line with the attempt it is for and what it was last read as."""

    raw_line_id: int
    attempt_id: int
    custom_id: str
    request: Request
    text: str
    reading: Reading


def answers(database: Database) -> Iterator[StoredAnswer]:
    """Every answer line with its attempt's newest reading, where that was read from this line.

    Read in pages, so readings may be added while this runs.
    """
    after = 0
    while True:
        page = database.execute(
            "SELECT l.raw_line_id AS line_id, l.text, q.*, a.*, j.score, j.preferred, j.reason, j.notes"
            " FROM raw_line l JOIN attempt_reading a ON a.custom_id = l.custom_id AND a.raw_line_id = l.raw_line_id"
            " JOIN request q ON q.request_id = a.request_id LEFT JOIN judgement j ON j.reading_id = a.reading_id"
            " WHERE l.kind = 'answer' AND l.raw_line_id > ? ORDER BY l.raw_line_id LIMIT ?",
            (after, PAGE),
        ).fetchall()
        if not page:
            return
        for row in page:
            after = row["line_id"]
            yield StoredAnswer(
                raw_line_id=after,
                attempt_id=row["attempt_id"],
                custom_id=row["custom_id"],
                request=plan.request_of(row),
                text=row["text"],
                reading=_reading(row),
            )


def _reading(row: sqlite3.Row) -> Reading:
    judgement = None
    if row["reason"] is not None:
        judgement = Judgement(row["reason"], row["score"], row["preferred"], tuple(json.loads(row["notes"])))
    return Reading(
        outcome=Outcome(row["outcome"]),
        detail=row["detail"],
        http_status=row["http_status"],
        finish_reason=row["finish_reason"],
        error_code=row["error_code"],
        message=row["message"],
        content=row["content"],
        usage=Usage(row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"], row["reasoning_tokens"]),
        model=row["model"],
        system_fingerprint=row["system_fingerprint"],
        judgement=judgement,
    )


def newest_detail(database: Database, kind: str) -> str | None:
    """Detail of the newest event of a kind, None where there is none."""
    found: str | None = database.value(
        "SELECT detail FROM event WHERE kind = ? ORDER BY event_id DESC LIMIT 1", (kind,)
    )
    return found


def counts(database: Database) -> dict[str, int]:
    """Rows of each table."""
    return {name: int(database.value(f"SELECT count(*) FROM {name}")) for name in _TABLES}  # noqa: S608


def judgements(database: Database) -> tuple[list[str], Iterator[sqlite3.Row]]:
    """(column names, rows) of every judgement that counts, with the labels of its item, by item.

    KeyError: a run of generated texts has none.
    """
    sql = _JUDGEMENTS[database.value("SELECT protocol FROM run")]
    cursor = database.execute(sql)
    return [column[0] for column in cursor.description], iter(cursor)


def copy_to(database: Database, target: Path) -> None:
    """Write a copy of the whole run file, as it is at this moment, the write-ahead log folded in.

    Rows that were deleted are not in the copy, and equal content gives equal bytes.
    """
    database.execute("VACUUM INTO ?", (str(target),))
