"""``collect --from FILE...``: answers that another engine wrote, given any number of times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iwb_batch.core.lines import parse_object
from iwb_batch.core.render import run_id_of
from iwb_batch.core.words import counted
from iwb_batch.errors import InputError, UsageError
from iwb_batch.inputs.rows import open_bytes
from iwb_batch.model import BatchState, Outcome
from iwb_batch.providers.files import HOST
from iwb_batch.store import answers, batches, views
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow.folder import WholeFile
from iwb_batch.workflow.ingest import CHUNK, Download, lines_of, store_lines
from iwb_batch.workflow.receive import stop_where_needed
from iwb_batch.workflow.session import Session


def take(session: Session, paths: Sequence[Path], *, close: bool) -> None:
    """Store the lines of all files at once, then collect each batch whose lines have all come.

    With ``close`` what is still awaited is given up as missing. InputError: a file without one line of this run.
    """
    if session.run.host != HOST:
        named = "--from" if paths else "--close"
        raise UsageError(f"{named} is for runs of --provider files", hint="Other runs fetch their answers themselves.")
    for path in paths:
        _check(session, path)
    for path in paths:
        _take_one(session, path)
    for batch in batches.in_state(session.database, BatchState.SUBMITTED):
        _collect_if_whole(session, batch, close=close)


def _check(session: Session, path: Path) -> None:
    """Every file is looked at before the first is stored."""
    run_id, others = session.run.run_id, set()
    open_bytes(path).close()
    for line in lines_of(path):
        record = parse_object(line)
        custom_id = record.get("custom_id") if isinstance(record, dict) else None
        found = run_id_of(custom_id) if isinstance(custom_id, str) else None
        if found == run_id and isinstance(record, dict):
            _is_answer(path, record)
            return
        if found is not None:
            others.add(found)
    whose = (
        f"its lines belong to run {', '.join(sorted(others))}" if others else "it has no line with a custom_id of ours"
    )
    raise InputError(
        f"{path.name}: no line of run {run_id} ({session.run.name}); {whose}",
        hint="Name the run these answers belong to: `iwb-batch query RUN 'select run_id from run'` shows its id.",
    )


def _is_answer(path: Path, record: dict[str, object]) -> None:
    if "body" in record and not record.keys() & {"response", "error"}:
        raise InputError(
            f"{path.name}: holds requests, not answers",
            hint="Give the file that the engine wrote, not the one it read.",
        )


def _take_one(session: Session, path: Path) -> None:
    number = answers.count_raw_files(session.database) + 1
    target = session.folder.raw / f"given-{number:04d}.jsonl"
    with WholeFile(target) as whole:
        with open_bytes(path) as source:
            while block := source.read(CHUNK):
                whole.write(block)
        sha256 = whole.commit()
    if answers.has_raw_file(session.database, sha256):
        target.unlink()
        session.progress.say(f"{path.name}: taken before")
        return
    n_lines = sum(1 for line in lines_of(target) if line.strip())
    download = Download("given", target, None, sha256, whole.n_bytes, n_lines)
    with session.database.transaction():
        read = store_lines(session, download, None, None)
        session.event("given", f"{path.name}: {counted(n_lines, 'line')}, {counted(read, 'answer')}")
    session.progress.say(f"{path.name}: {counted(read, 'answer')} in {counted(n_lines, 'line')}")


def _collect_if_whole(session: Session, batch: BatchRow, *, close: bool) -> None:
    awaited = views.open_attempts_of(session.database, batch.request_file_id)
    if awaited and not close:
        session.progress.say(f"{batch.file_name}: {counted(awaited, 'answer')} awaited")
        return
    with session.database.transaction():
        collected = _collect(session, batch, "completed", Outcome.MISSING, "closed")
        session.refusals.extend(stop_where_needed(session, collected))
    session.progress.say(f"{batch.file_name}: collected" + (f", {awaited} given up as missing" if awaited else ""))


def cancel(session: Session) -> None:
    """Close what is awaited as cancelled: there is no provider that could say that it has stopped."""
    for batch in batches.in_state(session.database, BatchState.SUBMITTED):
        awaited = views.open_attempts_of(session.database, batch.request_file_id)
        _collect(session, batch, "cancelled", Outcome.CANCELLED, None)
        session.progress.say(
            f"{batch.file_name}: {counted(awaited, 'answer')} no longer awaited; --from still takes what comes"
        )


def _collect(session: Session, batch: BatchRow, status: str, outcome: Outcome, detail: str | None) -> BatchRow:
    """Give what has no answer this outcome and mark the batch collected: one transaction."""
    now = session.clock.stamp()
    with session.database.transaction():
        ended = batches.move(session.database, batch, BatchState.ENDED, remote_status=status, ended_at=now)
        answers.close_without_line(session.database, batch.request_file_id, outcome, detail, now)
        return batches.move(session.database, ended, BatchState.COLLECTED, collected_at=now)
