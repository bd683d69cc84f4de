"""One step forward for a run: look, send, poll, receive, plan again. submit and collect are loops over these."""

from __future__ import annotations

from iwb_batch.errors import ProviderRefused, Unreachable
from iwb_batch.model import BatchState
from iwb_batch.store import batches, views
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow import pilot, standing
from iwb_batch.workflow.receive import poll, receive
from iwb_batch.workflow.reconcile import reconcile
from iwb_batch.workflow.request_files import write_request_files
from iwb_batch.workflow.send import send_what_fits
from iwb_batch.workflow.session import Session

UNSENT = (BatchState.PLANNED, BatchState.UPLOADING, BatchState.UPLOADED, BatchState.CREATING)
LIVE = (BatchState.UPLOADING, BatchState.CREATING, BatchState.SUBMITTED, BatchState.ENDED)
FIRST_PAUSE = 0.5
LAST_PAUSE = 10.0


def send(session: Session) -> None:
    """Look at the provider, then send what fits."""
    if batches.in_state(session.database, *UNSENT) and reconcile(session):
        send_what_fits(session)


def plan_and_send(session: Session) -> None:
    """Write request files for what needs another attempt and send what fits."""
    if not session.may_send:
        reconcile(session)
        return
    write_request_files(session)
    send(session)
    if session.may_send and write_request_files(session):  # a file was split for its size
        send(session)


def send_within_wait(session: Session) -> None:
    """Send, waiting at most ``--wait`` seconds for files to be processed and batches to be accepted."""
    deadline = session.clock.monotonic() + session.waiting.wait
    pause = FIRST_PAUSE
    plan_and_send(session)
    while True:
        left = deadline - session.clock.monotonic()
        if left <= 0 or not _may_still_change(session, left):
            return
        session.clock.sleep(min(session.pause(pause), left))
        pause = min(pause * 2, LAST_PAUSE)
        plan_and_send(session)
        poll(session, only_status="validating")
        receive(session, refused_only=True)
        if session.refusals:
            return


def _may_still_change(session: Session, seconds: float) -> bool:
    """True while waiting these seconds may send more or show that a batch was accepted."""
    if not session.may_send:
        return False
    unsent = batches.in_state(session.database, *UNSENT)
    sent = batches.in_state(session.database, BatchState.SUBMITTED)
    held_back = all(_is_held_back(session, b, seconds) for b in unsent)
    validating = any((b.remote_status or "").lower() == "validating" for b in sent)
    return (bool(unsent) and not held_back) or validating


def _is_held_back(session: Session, batch: BatchRow, seconds: float) -> bool:
    """True when a batch waits for something other than these seconds: budget, quota, or a later moment."""
    if batch.error is not None and ("--budget" in batch.error or "in flight" in batch.error):
        return True
    return batch.not_before is not None and batch.not_before > session.later(seconds)


def one_pass(session: Session, *, resubmit: bool = True) -> None:
    """Everything that can be done now for a run: the body of ``collect``.

    Without ``resubmit`` what waits for another attempt is left alone: it is about to be asked online.
    """
    session.looked = False
    session.found_wanting.clear()
    reconcile(session)
    poll(session)
    receive(session)
    tell_refusals(session)  # before anything more is sent
    pilot.apply_gates(session)
    if resubmit:
        send_within_wait(session)
    elif session.may_send:
        send(session)
    receive(session)
    tell_refusals(session)


def tell_refusals(session: Session) -> None:
    """Raise what the provider refused in this pass, once everything else is safe in run.db."""
    if session.refusals:
        reasons, session.refusals = session.refusals, []
        raise ProviderRefused(
            reasons[0] + (f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""),
            hint=_way_on(session),
        )


def _way_on(session: Session) -> str:
    way = f"iwb-batch submit --run {session.run.name}"
    if session.run.standing == "halted" and not standing.is_for_refusal(session.database):
        way = f"iwb-batch collect {session.run.name} --retry OUTCOME"
    return f"Nothing more is sent. Mend the cause, then `{way}`."


def tell_unreachable(session: Session) -> None:
    """Raise when not a single call of this command got an answer."""
    if session.unanswered is not None and not session.answered:
        raise Unreachable(
            session.unanswered,
            hint="Check the network and the endpoint's spelling, then run the same command again; nothing is lost.",
        )


def is_finished(session: Session) -> bool:
    """True when nothing is under way and nothing more would be sent."""
    if batches.in_state(session.database, *LIVE):
        return False
    if not session.may_send:
        return True
    counts = session.counts()
    if counts["open"] == 0:
        return True
    return views.open_attempts(session.database) == 0 and not views.anything_to_send(session.database)


def collect_code(session: Session) -> int:
    """Exit code of ``collect``: 0 every request judged, 4 finished but not all judged, 3 not finished."""
    counts = session.counts()
    if counts["open"] == 0 and counts["failed"] == 0:
        return 0
    return 4 if is_finished(session) else 3
