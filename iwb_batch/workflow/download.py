"""Downloading the result files of an ended batch: whole on disk and hashed before anything reads them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from iwb_batch.core.lines import UnreadableLine, parse_object
from iwb_batch.inputs.rows import file_sha256
from iwb_batch.providers.base import Rejected, Unavailable
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow.folder import WholeFile
from iwb_batch.workflow.ingest import Download, lines_of
from iwb_batch.workflow.session import Session, words


@dataclass(slots=True)
class Arrived:
    """The result files of a batch as far as they came."""

    files: list[Download] = field(default_factory=list)
    unanswered: str | None = None
    """Nobody answered for a file: nothing is known about it, so nothing may be decided."""
    wanting: str | None = None
    """The provider answered, but a file is not there or not as long as it says."""
    complaint: str | None = None
    """The same without the provider's words, which may differ from one look to the next."""
    cut: str | None = None
    """A file came that is shorter than announced and ends inside a line: a connection does that, no provider."""

    @property
    def n_lines(self) -> int:
        """Lines in the files, blank ones left out."""
        return sum(file.n_lines for file in self.files)


def download_both(session: Session, batch: BatchRow) -> Arrived:
    """Download output and error file of an ended batch, in whatever final state it is."""
    arrived = Arrived()
    for kind, file_id in (("output", batch.output_file_id), ("error", batch.error_file_id)):
        if file_id is not None:
            _download(session, batch, kind, file_id, arrived)
    session.boundary("downloaded")
    return arrived


def _download(session: Session, batch: BatchRow, kind: str, file_id: str, arrived: Arrived) -> None:
    target = session.folder.raw / f"{Path(batch.file_name).stem}-b{batch.batch_id}-{kind}.jsonl"
    expected: int | None = None
    try:
        expected = _announced_bytes(session, file_id)
        with WholeFile(target) as whole:
            with session.call():
                n_bytes = session.provider.download(file_id, whole)
            session.boundary("before_archive")
            if not _brought_more_before(target, n_bytes, expected):
                whole.commit()
    except Unavailable as error:
        arrived.unanswered = f"{kind} file {file_id}: {error.message}"
        return
    except Rejected as error:
        if target.is_file():
            arrived.files.append(_kept(kind, target, file_id))
        if not (target.is_file() and arrived.files[-1].n_bytes == expected):
            arrived.wanting = f"{kind} file {file_id}: {words(error.errors, error.message)}"
            arrived.complaint = f"{kind} file {file_id}: HTTP {error.status}"
        return
    session.boundary("archived")
    arrived.files.append(_kept(kind, target, file_id))
    held = arrived.files[-1].n_bytes
    if expected is None and _ends_inside_a_line(target):
        arrived.wanting = arrived.complaint = f"{kind} file {file_id}: {n_bytes} bytes came, the last line is cut off"
    if expected is not None and held != expected:
        arrived.wanting = arrived.complaint = f"{kind} file {file_id}: {n_bytes} of {expected} bytes came"
        if held < expected and _ends_inside_a_line(target):
            arrived.cut = arrived.wanting


def _ends_inside_a_line(path: Path) -> bool:
    """True when the last line has no line end and cannot be read."""
    with path.open("rb") as source:
        source.seek(max(path.stat().st_size - 1, 0))
        if source.read() in (b"", b"\n"):
            return False
    return isinstance(parse_object(deque(lines_of(path), maxlen=1)[0]), UnreadableLine)


def _brought_more_before(target: Path, n_bytes: int, expected: int | None) -> bool:
    """True when an earlier look brought this file whole, or more of it: a broken download never replaces that."""
    kept = target.stat().st_size if target.is_file() else -1
    return n_bytes != expected and (kept == expected or kept > n_bytes)


def _kept(kind: str, target: Path, file_id: str) -> Download:
    n_lines = sum(1 for line in lines_of(target) if line.strip())
    return Download(kind, target, file_id, file_sha256(target), target.stat().st_size, n_lines)


def _announced_bytes(session: Session, file_id: str) -> int | None:
    """The size the provider gives for a file; None where it knows only the content."""
    try:
        with session.call():
            return session.provider.file(file_id).n_bytes
    except Rejected:
        return None
