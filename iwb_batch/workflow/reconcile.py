"""Looking at the provider before anything is sent: lost uploads and lost batches are found and adopted."""

from __future__ import annotations

from iwb_batch.core import lifecycle
from iwb_batch.core.words import counted
from iwb_batch.model import BatchState
from iwb_batch.providers.base import Rejected, RemoteBatch, Unavailable
from iwb_batch.store import batches
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow.clock import seconds_of
from iwb_batch.workflow.send import submitted, upload_name, uploaded
from iwb_batch.workflow.session import Session

_UNSETTLED = (BatchState.PLANNED, BatchState.UPLOADING, BatchState.UPLOADED, BatchState.CREATING)


def reconcile(session: Session) -> bool:
    """Match what the run does not know to have happened with what the provider lists.

    Returns False when a listing could not be read to the end: then nothing may be sent in this pass.
    """
    unsettled = batches.in_state(session.database, *_UNSETTLED)
    lost = [b for b in unsettled if b.state in (BatchState.UPLOADING, BatchState.CREATING)]
    if not unsettled or (session.looked and not lost) or (session.fresh and not lost):
        return True
    try:
        with session.call():
            remote = _ours(session, unsettled)
    except (Unavailable, Rejected) as error:
        session.progress.warn(f"the provider's list of batches cannot be read to the end: {error.message}")
        return False
    session.looked = True
    for batch in unsettled:
        _settle(session, batch, remote)
    return _settle_uploads(session)


def _ours(session: Session, unsettled: list[BatchRow]) -> list[RemoteBatch]:
    """Listed batches that carry this run's mark or one of its open input files, oldest first."""
    run_id = session.run.run_id
    inputs = {b.input_file_id for b in unsettled if b.input_file_id is not None}
    found = [
        r
        for r in session.provider.batches()
        if r.metadata.get("iwb_run") == run_id or (r.input_file_id is not None and r.input_file_id in inputs)
    ]
    return sorted(found, key=lambda r: (r.created_at or 0.0, r.batch_id))


def _settle(session: Session, batch: BatchRow, remote: list[RemoteBatch]) -> None:
    known = batches.remote_ids(session.database)
    matches = [r for r in remote if r.batch_id not in known and is_of(r, batch)]
    if matches:
        adopt(session, batch, matches[0])
        for other in matches[1:]:
            session.event("second_batch", f"{other.batch_id} is over the same file {batch.file_name}", batch.batch_id)
            session.progress.warn(f"{other.batch_id}: a second batch over {batch.file_name} exists at the provider")
        return
    if batch.state is BatchState.CREATING:
        _not_listed(session, batch)


def is_of(remote: RemoteBatch, batch: BatchRow) -> bool:
    """True when a listed batch is over this batch's request file: told by its metadata, else by its input file."""
    if "iwb_sha256" in remote.metadata:
        return remote.metadata["iwb_sha256"] == batch.file_sha256 and remote.metadata.get("iwb_file") == batch.file_name
    return batch.input_file_id is not None and remote.input_file_id == batch.input_file_id


def adopt(session: Session, batch: BatchRow, remote: RemoteBatch) -> None:
    """Take a batch that exists at the provider as the one of this file. No call is made."""
    with session.database.transaction():
        if batch.state is BatchState.PLANNED:
            batch = batches.move(session.database, batch, BatchState.UPLOADING)
        if batch.state is BatchState.UPLOADING:
            batch = batches.move(session.database, batch, BatchState.UPLOADED, input_file_id=remote.input_file_id)
        if batch.state is BatchState.UPLOADED:
            batch = batches.move(session.database, batch, BatchState.CREATING)
        submitted(session, batch, remote)
        session.event("adopted", f"{remote.batch_id} for {batch.file_name}", batch.batch_id)
    session.progress.say(f"{batch.file_name}: found at the provider as {remote.batch_id}")


def _not_listed(session: Session, batch: BatchRow) -> None:
    """A lost create call is taken not to have happened only after the grace period and two full listings."""
    batch = batches.note(session.database, batch, empty_listings=batch.empty_listings + 1)
    waited = session.clock.now() - seconds_of(batch.called_at) if batch.called_at else -1.0
    if waited < 0:  # the clock was set back: the grace period runs again
        batches.note(session.database, batch, called_at=session.clock.stamp())
        return
    if waited >= session.waiting.grace and batch.empty_listings >= lifecycle.LISTINGS_BEFORE_CREATE:
        batches.move(session.database, batch, BatchState.UPLOADED, error="the lost create call did not happen")
        session.event(
            "create_not_found", f"{batch.file_name}: {counted(batch.empty_listings, 'listing')}", batch.batch_id
        )


def _settle_uploads(session: Session) -> bool:
    lost = batches.in_state(session.database, BatchState.UPLOADING)
    if not lost:
        return True
    try:
        with session.call():
            listed = list(session.provider.files())
    except (Unavailable, Rejected) as error:
        session.progress.warn(f"the provider's list of files cannot be read to the end: {error.message}")
        return False
    for batch in lost:
        name = upload_name(session, batch)
        match = next((f for f in listed if f.filename == name and f.n_bytes in (None, batch.n_bytes)), None)
        if match is not None and match.status != "error":
            uploaded(session, batch, match)
            session.event("upload_found", f"{match.file_id} for {batch.file_name}", batch.batch_id)
        else:
            batches.move(session.database, batch, BatchState.PLANNED, error="the lost upload did not arrive")
    return True
