"""Receiving: poll, download both files, store every line, read every answer. Raw bytes come first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iwb_batch.core import lifecycle
from iwb_batch.core.lifecycle import BatchEnd, Refusal
from iwb_batch.core.lines import UnreadableLine, parse_noting, split_lines
from iwb_batch.core.outcome import read_record
from iwb_batch.model import BatchState, Outcome
from iwb_batch.providers.base import Rejected, RemoteBatch, Unavailable
from iwb_batch.store import answers, batches
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow.clock import seconds_of
from iwb_batch.workflow.folder import WholeFile
from iwb_batch.workflow.send import delete_input, queue_full
from iwb_batch.workflow.session import Session, words

CHUNK = 1 << 20


def poll(session: Session, *, only_status: str | None = None) -> None:
    """Ask for the status of every submitted batch once (or only of those last seen in ``only_status``)."""
    for batch in batches.in_state(session.database, BatchState.SUBMITTED):
        if only_status is not None and (batch.remote_status or "").lower() != only_status:
            continue
        assert batch.remote_batch_id is not None, "a submitted batch has its remote id"
        try:
            with session.call():
                remote = session.provider.batch(batch.remote_batch_id)
        except Unavailable as error:
            session.progress.warn(f"{batch.remote_batch_id}: {error.message}; asked again later")
            continue
        except Rejected as error:
            _not_found(session, batch, error)
            continue
        _enter_status(session, batch, remote)


def _not_found(session: Session, batch: BatchRow, error: Rejected) -> None:
    if error.status != 404:
        batches.note(session.database, batch, error=words(error.errors, error.message))
        session.progress.warn(f"{batch.remote_batch_id}: {words(error.errors, error.message)}")
        return
    polls = batch.not_found_polls + 1
    if polls < lifecycle.GONE_AFTER_POLLS:
        batches.note(session.database, batch, not_found_polls=polls)
        return
    batches.move(
        session.database,
        batch,
        BatchState.ENDED,
        not_found_polls=polls,
        remote_status=lifecycle.GONE,
        ended_at=session.clock.stamp(),
    )
    session.progress.warn(
        f"{batch.remote_batch_id}: the provider no longer knows this batch;"
        " `collect --retry missing` sends its requests again"
    )


def _enter_status(session: Session, batch: BatchRow, remote: RemoteBatch) -> None:
    seen = {
        "remote_status": remote.status,
        "began": int(batch.began or remote.began),
        "count_total": remote.total,
        "count_completed": remote.completed,
        "count_failed": remote.failed,
        "not_found_polls": 0,
        "error": words(remote.errors, "") or None,
    }
    if not lifecycle.has_ended(remote.status):
        if remote.status != batch.remote_status:
            session.progress.say(f"{batch.file_name}: {remote.status}")
        batches.note(session.database, batch, **seen)
        return
    batches.move(
        session.database,
        batch,
        BatchState.ENDED,
        **seen,
        output_file_id=remote.output_file_id,
        error_file_id=remote.error_file_id,
        ended_at=session.clock.stamp(),
    )
    session.boundary("ended")
    session.progress.say(f"{batch.file_name}: {remote.status}")


def receive(session: Session) -> None:
    """Collect every ended batch whose files are whole; handle those the provider refused."""
    for batch in batches.in_state(session.database, BatchState.ENDED):
        status = (batch.remote_status or "").lower()
        downloads = _download_both(session, batch)
        # A batch refused in validation may still name files; only lines in them show that it ran.
        if status == "failed" and not batch.began and not any(d.n_lines for d in downloads or ()):
            _refused(session, batch)
        else:
            _collect(session, batch, status, downloads)


def _refused(session: Session, batch: BatchRow) -> None:
    """The provider refused the batch before it ran: nothing was judged or billed."""
    said = batch.error or "no reason given"
    kind = lifecycle.refusal([(None, said)])
    if kind is Refusal.QUEUE_FULL:
        kept = batches.replace(
            session.database,
            batch,
            BatchState.UPLOADED,
            session.clock.stamp(),
            input_file_id=batch.input_file_id,
            input_expires_at=batch.input_expires_at,
            refusals=batch.refusals,
            fresh_uploads=batch.fresh_uploads,
        )
        again = batches.get(session.database, kept)
        assert again is not None, "just planned"
        queue_full(session, again, said)
        return
    delete_input(session, batch)
    if kind is Refusal.FILE_UNUSABLE and batch.fresh_uploads == 0:
        batches.replace(session.database, batch, BatchState.PLANNED, session.clock.stamp(), fresh_uploads=1, error=said)
        session.progress.warn(f"{batch.file_name}: {said}; uploading it afresh once")
        return
    batches.replace(
        session.database,
        batch,
        BatchState.PLANNED,
        session.clock.stamp(),
        fresh_uploads=batch.fresh_uploads,
        error=said,
    )
    session.refusals.append(f"batch for {batch.file_name} refused: {said}")


@dataclass(slots=True)
class Download:
    """A file as downloaded: where it lies, its hash, and how many lines it holds."""

    kind: str
    path: Path
    remote_file_id: str
    sha256: str
    n_bytes: int
    n_lines: int


def _collect(session: Session, batch: BatchRow, status: str, downloads: list[Download] | None) -> None:
    if downloads is None:
        _settle_or_wait(session, batch, status, [], "its files cannot be read yet")
        return
    held = sum(d.n_lines for d in downloads)
    end = BatchEnd(status, batch.began, (batch.count_completed or 0) + (batch.count_failed or 0), held)
    has_files = bool(batch.output_file_id or batch.error_file_id)
    if lifecycle.is_whole(end, has_files=has_files, expected=batch.n_requests):
        _take(session, batch, status, downloads)
    else:
        _settle_or_wait(session, batch, status, downloads, f"{end.claimed} answers are claimed, {held} are there")


def _settle_or_wait(session: Session, batch: BatchRow, status: str, downloads: list[Download], why: str) -> None:
    ended = seconds_of(batch.ended_at) if batch.ended_at else session.clock.now()
    if session.clock.now() - ended >= session.waiting.settle:
        session.progress.warn(f"{batch.file_name}: {why}; no longer waited for")
        _take(session, batch, status, downloads)
        return
    batches.note(session.database, batch, error=why, **_refreshed(session, batch))
    session.progress.say(f"{batch.file_name}: {why}; read again later")


def _refreshed(session: Session, batch: BatchRow) -> dict[str, str | None]:
    """File ids may appear after the status; asked again, a missing answer changes nothing."""
    assert batch.remote_batch_id is not None, "an ended batch has its remote id"
    try:
        with session.call():
            remote = session.provider.batch(batch.remote_batch_id)
    except (Unavailable, Rejected):
        return {}
    return {
        "output_file_id": remote.output_file_id or batch.output_file_id,
        "error_file_id": remote.error_file_id or batch.error_file_id,
    }


def _download_both(session: Session, batch: BatchRow) -> list[Download] | None:
    """Both result files, in whatever final state; None when one cannot be had now."""
    downloads = []
    for kind, file_id in (("output", batch.output_file_id), ("error", batch.error_file_id)):
        if file_id is None:
            continue
        download = _download(session, batch, kind, file_id)
        if download is None:
            return None
        downloads.append(download)
    session.boundary("downloaded")
    return downloads


def _download(session: Session, batch: BatchRow, kind: str, file_id: str) -> Download | None:
    target = session.folder.raw / f"{Path(batch.file_name).stem}-b{batch.batch_id}-{kind}.jsonl"
    try:
        with session.call():
            expected = session.provider.file(file_id).n_bytes
        with WholeFile(target) as whole:
            with session.call():
                n_bytes = session.provider.download(file_id, whole)
            if expected is not None and n_bytes != expected:
                session.progress.warn(f"{target.name}: {n_bytes} of {expected} bytes came; downloaded again later")
                return None
            session.boundary("before_archive")
            sha256 = whole.commit()
    except (Unavailable, Rejected) as error:
        session.progress.warn(f"{batch.file_name}: {kind} file {file_id}: {error.message}")
        return None
    n_lines = sum(1 for line in _lines(target) if line.strip())
    return Download(kind, target, file_id, sha256, n_bytes, n_lines)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as source:
        yield from split_lines(iter(lambda: source.read(CHUNK), b""))


def _take(session: Session, batch: BatchRow, status: str, downloads: list[Download]) -> None:
    """Store all lines and outcomes of a batch and mark it collected: one transaction."""
    with session.database.transaction():
        answered = 0
        for download in downloads:
            answered += store_lines(session, batch, download)
            session.boundary("stored_file")
        end = BatchEnd(status, batch.began, (batch.count_completed or 0) + (batch.count_failed or 0), answered)
        outcome, detail = lifecycle.outcome_without_line(end)
        n_without = answers.close_without_line(
            session.database, batch.request_file_id, outcome, detail, session.clock.stamp()
        )
        if n_without:
            session.event(
                "without_line",
                f"{n_without} requests: {outcome.value}{f' ({detail})' if detail else ''}",
                batch.batch_id,
            )
        batches.move(session.database, batch, BatchState.COLLECTED, collected_at=session.clock.stamp(), error=None)
        session.boundary("before_collect_commit")
    session.boundary("collected")
    _after_collection(session, batch, status, n_without)


def store_lines(session: Session, batch: BatchRow, download: Download) -> int:
    """Store every line of a file verbatim and read those that are answers; returns how many were read."""
    raw_file_id = answers.add_raw_file(
        session.database,
        batch.batch_id,
        download.kind,
        download.path.name,
        remote_file_id=download.remote_file_id,
        sha256=download.sha256,
        n_bytes=download.n_bytes,
        n_lines=download.n_lines,
        at=session.clock.stamp(),
    )
    read = 0
    for number, line in enumerate(_lines(download.path), start=1):
        if line.strip():
            read += _store_line(session, batch, raw_file_id, number, line)
    return read


def _store_line(session: Session, batch: BatchRow, raw_file_id: int, number: int, line: bytes) -> int:
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
    if attempt is None or attempt.request_file_id != batch.request_file_id:
        answers.add_raw_line(database, raw_file_id, number, custom_id, "unknown", text)
        return 0
    reading = read_record(
        record, lambda content: session.judging.read(content, attempt.request, database), surrogates=replaced
    )
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


def _after_collection(session: Session, batch: BatchRow, status: str, n_without: int) -> None:
    if batch.input_expires_at is None:
        delete_input(session, batch)
    account = answers.count_outcome(session.database, batch.request_file_id, Outcome.ACCOUNT)
    codes = answers.failure_codes(session.database, batch.request_file_id)
    found = lifecycle.systematic(codes, batch.n_requests)
    if found is not None:
        outcome, code, n = found
        message = answers.first_message(session.database, batch.request_file_id, outcome, code) or "no message"
        reason = f"{n} of {batch.n_requests} requests of {batch.file_name} ended {outcome} with {code or 'no code'}: {message}"
        session.stand("halted", reason)
        session.refusals.append(reason)
    elif account:
        said = answers.first_message(session.database, batch.request_file_id, Outcome.ACCOUNT.value)
        reason = f"{account} requests of {batch.file_name} were refused for the account: {said}"
        session.stand("stopped", reason)
        session.refusals.append(reason)
    elif status == "cancelled" and n_without and session.may_send:
        session.stand("stopped", f"batch of {batch.file_name} was cancelled at the provider")
