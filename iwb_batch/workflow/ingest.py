"""Storing what came back, line by line: verbatim first, then read. Called inside a transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iwb_batch.core.lines import UnreadableLine, parse_noting, split_lines
from iwb_batch.model import Reading
from iwb_batch.store import answers
from iwb_batch.store.answers import RawLine
from iwb_batch.workflow.session import Session

CHUNK = 1 << 20
LINES_AT_ONCE = 500
BYTES_AT_ONCE = 4 << 20


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
    return sum(_Page(session, raw_file_id, request_file_id, page).store() for page in _pages(download.path))


def _pages(path: Path) -> Iterator[list[tuple[int, bytes]]]:
    """The lines that are not blank, each with its number, some at a time: few enough to hold in memory."""
    page: list[tuple[int, bytes]] = []
    held = 0
    for number, line in enumerate(lines_of(path), start=1):
        if not line.strip():
            continue
        page.append((number, line))
        held += len(line)
        if len(page) >= LINES_AT_ONCE or held >= BYTES_AT_ONCE:
            yield page
            page, held = [], 0
    if page:
        yield page


class _Page:
    """Some lines of one file: their attempts are looked up together, their rows are written together."""

    def __init__(
        self, session: Session, raw_file_id: int, request_file_id: int | None, page: Sequence[tuple[int, bytes]]
    ) -> None:
        self._session = session
        self._raw_file_id = raw_file_id
        self._request_file_id = request_file_id
        self._lines = [(number, line, parse_noting(line)) for number, line in page]
        ids = [custom_id for _, _, parsed in self._lines if (custom_id := _custom_id(parsed)) is not None]
        self._attempts = answers.find_attempts(session.database, dict.fromkeys(ids))
        self._raw: list[RawLine] = []
        self._readings: list[tuple[int, int | None, Reading]] = []

    def store(self) -> int:
        """Store all lines; returns how many became the answer of an attempt that had none."""
        database = self._session.database
        first, read = answers.next_raw_line(database), 0
        for raw_line_id, (number, line, parsed) in enumerate(self._lines, start=first):
            raw = RawLine(raw_line_id, number, _custom_id(parsed), "unreadable", line)
            self._raw.append(raw)
            if isinstance(parsed, UnreadableLine):
                raw.text = line.decode("utf-8", "replace").encode()
            else:  # what was read as JSON is UTF-8
                read += self._read(raw, *parsed)
        answers.add_raw_lines(database, self._raw_file_id, self._raw)
        answers.add_readings(database, self._readings, self._session.clock.stamp())
        return read

    def _read(self, raw: RawLine, record: dict[str, Any], replaced: bool) -> int:
        """Read one line as what it is; returns 1 when it became the answer of an attempt that had none."""
        attempt = self._attempts.get(raw.custom_id) if raw.custom_id is not None else None
        if attempt is None or self._request_file_id not in (None, attempt.request_file_id):
            raw.kind = "unknown"
            return 0
        reading = self._session.judging.reading(record, attempt.request, self._session.database, surrogates=replaced)
        had_line = attempt.raw_line_id is not None
        if had_line and not (attempt.http_status != 200 and reading.http_status == 200):
            raw.kind = "duplicate"
            return 0
        if attempt.raw_line_id is not None:
            self._set_aside(attempt.raw_line_id)
        raw.kind = "answer"
        self._readings.append((attempt.attempt_id, raw.raw_line_id, reading))
        # A further line of the same attempt is compared with this one.
        attempt.raw_line_id, attempt.http_status = raw.raw_line_id, reading.http_status
        return 0 if had_line else 1

    def _set_aside(self, raw_line_id: int) -> None:
        place = raw_line_id - self._raw[0].raw_line_id
        if place >= 0:
            self._raw[place].kind = "duplicate"
        else:
            answers.set_aside(self._session.database, raw_line_id)


def _custom_id(parsed: tuple[dict[str, Any], bool] | UnreadableLine) -> str | None:
    if isinstance(parsed, UnreadableLine):
        return None
    given = parsed[0].get("custom_id")
    return given if isinstance(given, str) else None
