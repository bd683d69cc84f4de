"""Sending: upload, wait until the file is processed, create the batch. The intent is committed before each call."""

from __future__ import annotations

from iwb_batch.core import lifecycle
from iwb_batch.core.lifecycle import Refusal
from iwb_batch.core.words import counted
from iwb_batch.errors import DamagedRun, ProviderRefused
from iwb_batch.inputs.rows import file_sha256
from iwb_batch.model import BatchState, Outcome
from iwb_batch.providers.base import Ambiguous, Rejected, RemoteBatch, RemoteFile, Unavailable
from iwb_batch.providers.files import HOST
from iwb_batch.store import answers, batches, views
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow import quota
from iwb_batch.workflow.clock import seconds_of, stamp
from iwb_batch.workflow.session import Session, retry_moment, words
from iwb_batch.workflow.standing import halt_for

INPUT_EXPIRES_AFTER = 30 * 24 * 3600
"""Seconds an input file lives at the provider; with an expiry the quota is 10,000 files instead of 500."""

FILE_LOST = frozenset({"error", "deleting", "deleted"})
"""Statuses of an uploaded file over which no batch can be created any more."""

ASSUMED_OUTPUT_TOKENS = 1_000
"""Output tokens assumed for a request before the run has any answer."""


def send_what_fits(session: Session) -> None:
    """Move planned batches on as far as quota, budget and the provider allow, in order; each lane has its quota."""
    full: set[str] = set()
    for batch in batches.in_state(session.database, BatchState.PLANNED, BatchState.UPLOADED):
        if not session.may_send:
            return
        if batch.lane in full or not session.is_due(batch.not_before):
            continue
        if not _fits_quota(session, batch):
            full.add(batch.lane)
            continue
        if not _fits_budget(session, batch):
            return
        if batch.state is BatchState.PLANNED:
            uploaded = _upload(session, batch)
            if uploaded is None:
                continue
            batch = uploaded  # noqa: PLW2901 (the same batch, one state further)
        if _is_processed(session, batch):
            _create(session, batch)


def waiting_reason(session: Session) -> str | None:
    """Why planned batches are still here, in words; None when none is."""
    held = batches.in_state(session.database, BatchState.PLANNED, BatchState.UPLOADED)
    if not held:
        return None
    reasons = {batch.error for batch in held if batch.error}
    return next(iter(sorted(reasons)), None)


def _fits_quota(session: Session, batch: BatchRow) -> bool:
    limit = quota.limit(session, batch.lane)
    if limit is None:
        return True
    in_flight = batches.tokens_in_flight(session.database, batch.lane)
    if in_flight + batch.n_tokens <= limit:
        return True
    if batch.n_tokens > limit and batch.n_requests > 1:
        split(session, batch, f"{batch.n_tokens} estimated tokens, limit {limit}")
        return False
    if in_flight == 0:
        return True  # alone in the queue and indivisible: only the provider can say
    _wait_for(session, batch, f"waits for the enqueued-token limit: {in_flight} of {limit} tokens are in flight")
    return False


def _wait_for(session: Session, batch: BatchRow, why: str) -> None:
    if batch.error != why:
        batches.note(session.database, batch, error=why)
        session.progress.say(f"{batch.file_name}: {why}")


def split(session: Session, batch: BatchRow, why: str) -> None:
    """Give up a file too large for the limit; its requests go into smaller files. Costs no budget."""
    with session.database.transaction():
        answers.close_without_line(
            session.database, batch.request_file_id, Outcome.NOT_RUN, lifecycle.SPLIT, session.clock.stamp()
        )
        batches.move(session.database, batch, BatchState.DROPPED, error=f"split: {why}")
    session.boundary("split")
    session.progress.say(f"{batch.file_name}: split, {why}")
    delete_input(session, batch)


def expected_cost(session: Session, requests: int, input_tokens: int) -> float | None:
    """USD a number of requests is expected to cost, from this run's own answers once there are any."""
    per_answer = views.mean_completion_tokens(session.database) or ASSUMED_OUTPUT_TOKENS
    return session.prices.cost(input_tokens, requests * per_answer)


def _fits_budget(session: Session, batch: BatchRow) -> bool:
    budget = session.options.budget
    if budget is None:
        return True
    spent = sum(row.cost_usd or 0.0 for row in views.usage(session.database))
    spent += expected_cost(session, *views.uncounted(session.database)) or 0.0
    in_flight = expected_cost(session, *views.requests_in_flight(session.database)) or 0.0
    this = expected_cost(session, batch.n_requests, batch.n_tokens) or 0.0
    if spent + in_flight + this <= budget:
        return True
    _wait_for(
        session,
        batch,
        f"held back by --budget {budget:.2f}: spent {spent:.2f}, in flight {in_flight:.2f}, this file {this:.2f} USD",
    )
    return False


def _upload(session: Session, batch: BatchRow) -> BatchRow | None:
    path = session.folder.requests / batch.file_name
    if not path.is_file() or file_sha256(path) != batch.file_sha256:
        raise DamagedRun(
            f"{path}: missing or changed since it was written",
            hint="Restore it from a copy; nothing is sent from a changed file.",
        )
    session.boundary("before_upload_intent")
    batch = batches.move(session.database, batch, BatchState.UPLOADING, called_at=session.clock.stamp(), error=None)
    session.boundary("upload_intent")
    try:
        with session.call():
            remote = session.provider.upload(path, upload_name(session, batch), expires_after=INPUT_EXPIRES_AFTER)
    except Ambiguous as error:
        batches.note(session.database, batch, error=f"upload unanswered: {error.message}")
        session.progress.warn(f"{batch.file_name}: no answer to the upload; the provider's list of files will tell")
        return None
    except Unavailable as error:
        _back_to(session, batch, BatchState.PLANNED, error)
        return None
    except Rejected as error:
        batches.move(session.database, batch, BatchState.PLANNED, error=words(error.errors, error.message))
        raise ProviderRefused(
            f"upload of {batch.file_name} refused: {words(error.errors, error.message)}",
            hint="Nothing was sent for judging. Mend the cause (too many input files: delete old ones), then run the"
            " same command again.",
        ) from error
    except ProviderRefused:
        batches.move(session.database, batch, BatchState.PLANNED)
        raise
    session.boundary("upload_answered")
    return uploaded(session, batch, remote)


def upload_name(session: Session, batch: BatchRow) -> str:
    """File name of an upload: ties the file to run and request file, names nothing local."""
    return f"iwb-{session.run.run_id}-{batch.file_name}"


def uploaded(session: Session, batch: BatchRow, remote: RemoteFile) -> BatchRow:
    """Enter that the provider has the file."""
    expires = stamp(remote.expires_at) if remote.expires_at else None
    batch = batches.move(
        session.database, batch, BatchState.UPLOADED, input_file_id=remote.file_id, input_expires_at=expires, error=None
    )
    session.boundary("uploaded")
    return batch


def _back_to(session: Session, batch: BatchRow, state: BatchState, error: Unavailable) -> None:
    batches.move(
        session.database,
        batch,
        state,
        not_before=retry_moment(session, error, lifecycle.BACK_OFF_FIRST),
        error=f"try again later: {error.message}",
    )
    session.progress.warn(f"{batch.file_name}: {error.message}; will be tried again")


def _is_processed(session: Session, batch: BatchRow) -> bool:
    """Azure refuses a batch over a file that is not processed yet, so its status is asked first."""
    assert batch.input_file_id is not None, "an uploaded batch has its file id"
    try:
        with session.call():
            remote = session.provider.file(batch.input_file_id)
    except Unavailable:
        return False
    except Rejected as error:
        _not_known(session, batch, error)
        return False
    if remote.status in FILE_LOST:
        details = remote.status_details or "no details"
        _fresh_upload(session, batch, f"the provider could not process the file ({remote.status}): {details}")
        return False
    if remote.status in (None, "processed", "uploaded"):
        return True
    _wait_for(session, batch, f"uploaded; the provider's file status is {remote.status}")
    return False


def _not_known(session: Session, batch: BatchRow, error: Rejected) -> None:
    """Right after an upload the file may not be known yet; later it has expired or was deleted."""
    said = words(error.errors, error.message)
    waited = session.clock.now() - seconds_of(batch.called_at) if batch.called_at else session.waiting.grace
    if error.status == 404 and not 0 <= waited < session.waiting.grace:
        _fresh_upload(session, batch, f"the uploaded file is gone: {said}")
    else:
        batches.note(session.database, batch, error=said)


def _fresh_upload(session: Session, batch: BatchRow, why: str) -> None:
    if batch.fresh_uploads >= 1:
        with session.database.transaction():
            # The user starts over: by then the cause is mended.
            batch = batches.move(
                session.database, batch, BatchState.PLANNED, input_file_id=None, fresh_uploads=0, error=why
            )
            halt_for(session, batch)
        raise ProviderRefused(
            f"{batch.file_name}: {why} (again after a fresh upload)",
            hint="Nothing of this file was judged or billed. Run `iwb-batch doctor` for the file round trip, then"
            f" `iwb-batch submit --run {session.run.name}`.",
        )
    delete_input(session, batch)
    batches.move(
        session.database,
        batch,
        BatchState.PLANNED,
        input_file_id=None,
        fresh_uploads=batch.fresh_uploads + 1,
        error=why,
    )
    session.progress.warn(f"{batch.file_name}: {why}; uploading it afresh once")


def delete_input(session: Session, batch: BatchRow) -> None:
    """Delete an input file that is of no more use, and record it. A failure is harmless.

    Where nobody answered it is tried again by ``delete_left_inputs``; a refusal, also for want of a right, is final.
    """
    if batch.input_file_id is None:
        return
    try:
        with session.call():
            deleted = session.provider.delete_file(batch.input_file_id)
    except (Unavailable, Ambiguous) as error:
        session.progress.warn(f"input file {batch.input_file_id}: not deleted ({error.message}); tried again later")
        return
    except (Rejected, ProviderRefused) as error:
        session.event(batches.INPUT_KEPT, f"{batch.input_file_id}: {error}", batch.batch_id)
        return
    session.event(batches.INPUT_DELETED if deleted else batches.INPUT_GONE, batch.input_file_id, batch.batch_id)


def delete_left_inputs(session: Session) -> None:
    """Delete what an earlier command could not, or did not live to: input files without expiry that have served."""
    if session.run.host == HOST:
        return  # the files are the user's own
    for batch in batches.with_input_left(session.database):
        delete_input(session, batch)


def metadata(session: Session, batch: BatchRow) -> dict[str, str]:
    """What a batch carries at the provider, so that a lost one can be found and matched."""
    run = session.run
    return {
        "iwb_run": run.run_id,
        "iwb_name": run.name,
        "iwb_file": batch.file_name,
        "iwb_sha256": batch.file_sha256,
    }


def _create(session: Session, batch: BatchRow) -> None:
    assert batch.input_file_id is not None, "an uploaded batch has its file id"
    session.boundary("before_create_intent")
    input_file_id = batch.input_file_id
    batch = batches.move(
        session.database, batch, BatchState.CREATING, called_at=session.clock.stamp(), empty_listings=0, error=None
    )
    session.boundary("create_intent")
    try:
        with session.call():
            remote = session.provider.create(input_file_id, metadata(session, batch))
    except Ambiguous as error:
        batches.note(session.database, batch, error=f"create unanswered: {error.message}")
        session.progress.warn(
            f"{batch.file_name}: no answer to the create call; it is not repeated until the provider's list of batches"
            " shows whether it happened"
        )
        return
    except Unavailable as error:
        # A gateway may refuse a call that went through: the provider's list is read before the next one.
        session.fresh = session.looked = False
        _back_to(session, batch, BatchState.UPLOADED, error)
        return
    except Rejected as error:
        _refused_at_create(session, batch, error)
        return
    except ProviderRefused:
        batches.move(session.database, batch, BatchState.UPLOADED)
        raise
    session.boundary("create_answered")
    submitted(session, batch, remote)


def submitted(session: Session, batch: BatchRow, remote: RemoteBatch) -> BatchRow:
    """Enter that the provider has the batch."""
    batch = batches.move(
        session.database,
        batch,
        BatchState.SUBMITTED,
        remote_batch_id=remote.batch_id,
        remote_status=remote.status,
        submitted_at=session.clock.stamp(),
        error=None,
    )
    session.boundary("submitted")
    session.progress.say(
        f"{batch.file_name}: batch {remote.batch_id} {remote.status} ({counted(batch.n_requests, 'request')})"
    )
    return batch


def _refused_at_create(session: Session, batch: BatchRow, error: Rejected) -> None:
    said = words(error.errors, error.message)
    kind = lifecycle.refusal([(e.code, e.message) for e in error.errors] or [(None, error.message)])
    if kind is Refusal.QUEUE_FULL:
        batch = batches.move(session.database, batch, BatchState.UPLOADED, error=said)
        quota.queue_full(session, batch, said)
        return
    batch = batches.move(session.database, batch, BatchState.UPLOADED, error=said)
    if kind is Refusal.FILE_PENDING:
        return
    if kind is Refusal.FILE_UNUSABLE:
        _fresh_upload(session, batch, said)
        return
    raise ProviderRefused(
        halt_for(session, batch),
        hint="Nothing of this file was judged or billed, and nothing more is sent. Mend the cause, then"
        f" `iwb-batch submit --run {session.run.name}` (or run the same command again, if it was submit).",
    )
