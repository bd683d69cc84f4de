"""Storing what came back, line by line: verbatim first, then read. Called inside a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iwb_batch.core.lines import UnreadableLine, parse_noting, split_lines
from iwb_batch.store import answers
from iwb_batch.workflow.session import Session

CHUNK = 1 << 20


@dataclass(slots=True)
class Download:
    """A file as downloaded: where it lies, its hash, and how many lines it holds."""

    kind: str
    path: Path
    remote_file_id: str | None
    sha256: str
    n_bytes: int
    n_lines: int


def lines_of(path: Path) -> Iterator[bytes]:
    """Lines of a file, cut at \\n bytes only."""
    with path.open("rb") as source:
        yield from split_lines(iter(lambda: source.read(CHUNK), b""))


def store_lines(session: Session, download: Download, batch_id: int | None, request_file_id: int | None) -> int:
    """Store every line of a file verbatim and read those that are answers; returns how many were read.

    ``request_file_id``: only lines of this request file are answers (None: of any file of the run).
    """
    raw_file_id = answers.add_raw_file(
        session.database,
        batch_id,
        download.kind,
        download.path.name,
        remote_file_id=download.remote_file_id,
        sha256=download.sha256,
        n_bytes=download.n_bytes,
        n_lines=download.n_lines,
        at=session.clock.stamp(),
    )
    read = 0
    for number, line in enumerate(lines_of(download.path), start=1):
        if line.strip():
            read += _store_line(session, request_file_id, raw_file_id, number, line)
    return read


def _store_line(session: Session, request_file_id: int | None, raw_file_id: int, number: int, line: bytes) -> int:
    """Store one line; returns 1 when it became the answer of an attempt that had none."""
    database, text = session.database, line.decode("utf-8", "replace")
    parsed = parse_noting(line)
    if isinstance(parsed, UnreadableLine):
        answers.add_raw_line(database, raw_file_id, number, None, "unreadable", text)
        return 0
    record, replaced = parsed
    given = record.get("custom_id")
    custom_id = given if isinstance(given, str) else None
    attempt = answers.find_attempt(database, custom_id) if custom_id is not None else None
    if attempt is None or request_file_id not in (None, attempt.request_file_id):
        answers.add_raw_line(database, raw_file_id, number, custom_id, "unknown", text)
        return 0
    reading = session.judging.reading(record, attempt.request, database, surrogates=replaced)
    better = attempt.raw_line_id is not None and attempt.http_status != 200 and reading.http_status == 200
    had_line = attempt.raw_line_id is not None
    if had_line and not better:
        answers.add_raw_line(database, raw_file_id, number, custom_id, "duplicate", text)
        return 0
    if better and attempt.raw_line_id is not None:
        answers.set_aside(database, attempt.raw_line_id)
    raw_line_id = answers.add_raw_line(database, raw_file_id, number, custom_id, "answer", text)
    answers.add_reading(database, attempt.attempt_id, raw_line_id, reading, session.clock.stamp())
    return 0 if had_line else 1
