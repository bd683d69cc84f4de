"""Receiving: poll, download both files, store every line, read every answer. Raw bytes come first."""

from __future__ import annotations

from iwb_batch.core import lifecycle
from iwb_batch.core.lifecycle import BatchEnd, Refusal
from iwb_batch.core.words import counted
from iwb_batch.model import BatchState, Outcome
from iwb_batch.providers.base import Rejected, RemoteBatch, Unavailable
from iwb_batch.store import answers, batches, plan, views
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow.clock import seconds_of
from iwb_batch.workflow.download import Arrived, download_both
from iwb_batch.workflow.ingest import Download, store_lines
from iwb_batch.workflow.quota import queue_full
from iwb_batch.workflow.send import delete_input
from iwb_batch.workflow.session import Session, words
from iwb_batch.workflow.standing import halt_for

CANCEL_ASKED = "cancel_asked"
"""Event of a batch whose cancellation this run asked for."""


def poll(session: Session, *, only_status: str | None = None) -> None:
    """Ask for the status of every submitted batch once (or only of those last seen in ``only_status``).

    The second form is for the quick looks within one command: a batch that is not found there yet is not counted
    as not found, since a provider may take a moment to know what it has just created.
    """
    for batch in batches.in_state(session.database, BatchState.SUBMITTED):
        if only_status is not None and (batch.remote_status or "").lower() != only_status:
            continue
        try:
            remote = _ask(session, batch)
        except Rejected as error:
            if only_status is None or error.status != 404:
                _not_found(session, batch, error)
            continue
        if remote is not None:
            _enter_status(session, batch, remote)


def _ask(session: Session, batch: BatchRow) -> RemoteBatch | None:
    """A batch as the provider sees it now; None: nobody answers, which is told. Raises Rejected."""
    assert batch.remote_batch_id is not None, "a batch that was submitted has its remote id"
    try:
        with session.call():
            return session.provider.batch(batch.remote_batch_id)
    except Unavailable as error:
        session.progress.warn(f"{batch.remote_batch_id}: {error.message}; asked again later")
        return None


def _not_found(session: Session, batch: BatchRow, error: Rejected) -> None:
    """Count a definite refusal to tell of a batch; after some in a row it is gone, as far as this run can know."""
    polls = batch.not_found_polls + 1
    if error.status != 404:
        batches.note(session.database, batch, error=words(error.errors, error.message))
        session.progress.warn(f"{batch.remote_batch_id}: {words(error.errors, error.message)}")
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
        f" `collect {session.run.name} --retry missing` sends its requests again"
    )


def _enter_status(session: Session, batch: BatchRow, remote: RemoteBatch) -> None:
    seen = {
        "remote_status": remote.status,
        "began": int(batch.began or remote.began or lifecycle.is_running(remote.status)),
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


def receive(session: Session, *, refused_only: bool = False) -> None:
    """Collect every ended batch whose files are whole; handle those the provider refused (or only those)."""
    for batch in batches.in_state(session.database, BatchState.ENDED):
        failed = (batch.remote_status or "").lower() == "failed"
        if refused_only and (batch.began or not failed):
            continue
        present = batch if batch.wanting is None else _asked_again(session, batch)
        if present is None:
            continue
        arrived = download_both(session, present)
        if arrived.unanswered is not None:
            session.progress.warn(f"{batch.file_name}: {arrived.unanswered}; asked again later")
        else:
            _decide(session, present, arrived)


def _asked_again(session: Session, batch: BatchRow) -> BatchRow | None:
    """A batch found wanting, as the provider sees it now; None: nobody answers, so nothing may be decided.

    File ids may appear after the status, and counts may be put right.
    """
    try:
        remote = _ask(session, batch)
    except Rejected:
        return batch
    if remote is None:
        return None
    batches.note(
        session.database,
        batch,
        output_file_id=remote.output_file_id or batch.output_file_id,
        error_file_id=remote.error_file_id or batch.error_file_id,
        count_completed=batch.count_completed if remote.completed is None else remote.completed,
        count_failed=batch.count_failed if remote.failed is None else remote.failed,
    )
    return batches.get(session.database, batch.batch_id)


def _decide(session: Session, batch: BatchRow, arrived: Arrived) -> None:
    # A batch refused in validation may still name files; only lines in them, or answers claimed, show that it ran.
    ran = batch.began or arrived.n_lines > 0 or bool(batch.count_completed)
    refused = (batch.remote_status or "").lower() == "failed" and not ran
    end = _end(batch, arrived.n_lines)
    why, complaint = arrived.wanting, arrived.complaint
    has_files = bool(batch.output_file_id or batch.error_file_id)
    if why is None and not refused and not lifecycle.is_whole(end, has_files=has_files, expected=batch.n_requests):
        claimed = "no count of answers is given"
        if end.claimed is not None:
            claimed = f"{counted(end.claimed, 'answer is', 'answers are')} claimed"
        why = complaint = f"{claimed}, {end.held} are there"
    if arrived.cut is not None and session.waiting.settle > 0:
        session.progress.warn(
            f"{batch.file_name}: {arrived.cut}, the last line is cut off; asked again later"
            " (--settle 0 takes what came)"
        )
        return
    if why is not None and complaint is not None and not _has_settled(session, batch, why, complaint):
        return
    if refused:
        _refused(session, batch)
    else:
        _take(session, batch, arrived.files)


def _end(batch: BatchRow, held: int) -> BatchEnd:
    status = (batch.remote_status or "").lower()
    claimed: int | None = (batch.count_completed or 0) + (batch.count_failed or 0)
    if batch.count_completed is None and batch.count_failed is None:
        # Of itself "completed" says that every line was answered.
        claimed = batch.n_requests if status == "completed" else None
    return BatchEnd(status, batch.began, claimed, held)


def _has_settled(session: Session, batch: BatchRow, why: str, complaint: str) -> bool:
    """True when files were found wanting for long enough and often enough, always for the same reason.

    The time runs from the first look that found this lack, not from the end of the batch: a machine that slept, or
    a network that was away, has not looked. Another lack is another story: its time and its looks begin anew.
    """
    same, settle = batch.wanting == complaint, session.waiting.settle
    since = (batch.wanting_since if same else None) or session.clock.stamp()
    waited = session.clock.now() - seconds_of(since)
    if waited < 0:  # the clock was set back
        since, waited = session.clock.stamp(), 0.0
    looks = (batch.wanting_looks if same else 0) + (not same or batch.batch_id not in session.found_wanting)
    session.found_wanting.add(batch.batch_id)
    if waited >= settle and (looks >= lifecycle.LOOKS_BEFORE_MISSING or settle == 0):
        session.progress.warn(f"{batch.file_name}: {why}; no longer waited for")
        return True
    if not same:
        session.progress.say(f"{batch.file_name}: {why}; read again for up to {settle:.0f} s")
    found = {"wanting": complaint, "wanting_since": since, "wanting_looks": looks}
    batches.note(session.database, batch, **found)
    return False


def _refused(session: Session, batch: BatchRow) -> None:
    """The provider refused the batch before it ran: nothing was judged or billed."""
    said = batch.error or "no reason given"
    kind = lifecycle.refusal([(None, said)])
    if kind is Refusal.QUEUE_FULL:
        _plan_again(session, batch, BatchState.UPLOADED, said, batch.fresh_uploads)
        return
    delete_input(session, batch)
    if kind is Refusal.FILE_UNUSABLE and batch.fresh_uploads == 0:
        _plan_again(session, batch, BatchState.PLANNED, said, 1)
        session.progress.warn(f"{batch.file_name}: {said}; uploading it afresh once")
        return
    with session.database.transaction():
        again = _plan_again(session, batch, BatchState.PLANNED, said, 0)
        reason = halt_for(session, again)
    session.refusals.append(reason)


def _plan_again(session: Session, batch: BatchRow, state: BatchState, said: str, fresh_uploads: int) -> BatchRow:
    """Drop a refused batch and plan another over the same file; with ``uploaded`` the file stays where it is."""
    uploaded = state is BatchState.UPLOADED
    with session.database.transaction():
        number = batches.replace(
            session.database,
            batch,
            state,
            session.clock.stamp(),
            input_file_id=batch.input_file_id if uploaded else None,
            input_expires_at=batch.input_expires_at if uploaded else None,
            refusals=batch.refusals,
            fresh_uploads=fresh_uploads,
            error=said,
        )
        again = batches.get(session.database, number)
        assert again is not None, "just planned"
        if uploaded:
            queue_full(session, again, said)
        return again


def take_online(session: Session, batch: BatchRow, answers_file: Download, status: str) -> None:
    """Collect a request file whose requests were made one by one; ``status``: completed or cancelled."""
    ended = batches.move(
        session.database, batch, BatchState.ENDED, remote_status=status, ended_at=session.clock.stamp()
    )
    _take(session, ended, [answers_file])


def _take(session: Session, batch: BatchRow, files: list[Download]) -> None:
    """Store all lines and outcomes of a batch, mark it collected, stop the run where it must: one transaction."""
    with session.database.transaction():
        answered = 0
        for file in files:
            answered += store_lines(session, file, batch.batch_id, batch.request_file_id)
            session.boundary("stored_file")
        outcome, detail = lifecycle.outcome_without_line(_end(batch, answered))
        n_without = answers.close_without_line(
            session.database, batch.request_file_id, outcome, detail, session.clock.stamp()
        )
        if n_without:
            session.event(
                "without_line",
                f"{counted(n_without, 'request')}: {outcome.value}{f' ({detail})' if detail else ''}",
                batch.batch_id,
            )
        batches.move(session.database, batch, BatchState.COLLECTED, collected_at=session.clock.stamp(), error=None)
        refused = stop_where_needed(session, batch)
        session.boundary("before_collect_commit")
    session.boundary("collected")
    session.refusals.extend(refused)
    if batch.input_expires_at is None:
        delete_input(session, batch)


def stop_where_needed(session: Session, batch: BatchRow) -> list[str]:
    """Halt or stop the run for what a batch came to; returns what is told as refused. Part of its transaction."""
    codes = answers.failure_codes(session.database, batch.request_file_id)
    found = lifecycle.systematic(codes, batch.n_requests)
    if found is not None:
        outcome, code, n = found
        message = answers.first_message(session.database, batch.request_file_id, outcome, code) or "no message"
        ended = f"{n} of {counted(batch.n_requests, 'request')} of {batch.file_name} ended {outcome}"
        reason = f"{ended} with {code or 'no code'}: {message}"
        session.stand("halted", reason)
        return [reason]
    models = views.models(session.database) if session.options.lanes else {}
    if len(models) > 1:
        named = ", ".join(f"{model} ({counted(n, 'answer')})" for model, n in models.items())
        reason = f"lanes must hold one model, the answers name {len(models)}: {named}"
        session.stand("halted", reason)
        return [reason]
    account = answers.count_outcome(session.database, batch.request_file_id, Outcome.ACCOUNT)
    if account:
        said = answers.first_message(session.database, batch.request_file_id, Outcome.ACCOUNT.value)
        refused = counted(account, f"request of {batch.file_name} was", f"requests of {batch.file_name} were")
        reason = f"{refused} refused for the account: {said}"
        if session.may_send:
            session.stand("stopped", reason)
        return [reason]
    if (batch.remote_status or "").lower() == "cancelled" and session.may_send:
        _after_cancel(session, batch)
    return []


def _after_cancel(session: Session, batch: BatchRow) -> None:
    """A batch cancelled by somebody else stops the run; one that we cancelled ends after the user has resumed."""
    if batches.has_event(session.database, CANCEL_ASKED, batch_id=batch.batch_id):
        released = plan.release(session.database, [Outcome.CANCELLED.value], fresh_budget=False)
        session.event("resumed", f"{counted(released, 'request')} released", batch.batch_id)
    else:
        session.stand("stopped", f"batch of {batch.file_name} was cancelled at the provider")
