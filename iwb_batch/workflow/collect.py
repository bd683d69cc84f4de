"""``collect``: one pass, or passes until done; decisions a user may take by hand; ``cancel``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iwb_batch.core import lifecycle
from iwb_batch.core.words import counted
from iwb_batch.errors import Declined, RunError, Unreachable, UsageError
from iwb_batch.model import BatchState, Outcome
from iwb_batch.providers.base import Ambiguous, Rejected, Unavailable
from iwb_batch.providers.files import HOST
from iwb_batch.store import batches, kept, plan
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow import advance, given, online, opening, pilot, standing
from iwb_batch.workflow.receive import CANCEL_ASKED, poll, receive
from iwb_batch.workflow.reconcile import adopt, is_of, reconcile
from iwb_batch.workflow.send import delete_left_inputs, waiting_reason
from iwb_batch.workflow.session import Session
from iwb_batch.workflow.submit import Confirm


@dataclass(frozen=True, slots=True)
class ByHand:
    """What the user decided: outcomes to retry (``all`` for any), a lost batch to adopt or to create again."""

    retry: tuple[str, ...] = ()
    adopt: tuple[tuple[int, str], ...] = ()
    recreate: tuple[int, ...] = ()
    answers: tuple[Path, ...] = ()
    """Files another engine wrote (``--from``)."""
    close: bool = False
    online_judge: str | None = None
    """Deployment that finishes the last few requests online (``--finish-online``)."""


def collect(session: Session, by_hand: ByHand, confirm: Confirm) -> int:
    """Bring answers home and resubmit what failed; returns the exit code (0, 3 or 4)."""
    opening.check_prompt(session)
    online.take_ended(session)
    _apply(session, by_hand, confirm)
    started = session.clock.monotonic()
    while True:
        advance.one_pass(session, resubmit=by_hand.online_judge is None)
        delete_left_inputs(session)
        code = advance.collect_code(session)
        if not session.waiting.watch:
            advance.tell_unreachable(session)
        if by_hand.online_judge is not None:
            code = _online(session, by_hand.online_judge, confirm)
        if code != 3 or not session.waiting.watch or _waits_for_the_user(session) or not _sleep(session, started):
            _tell(session, code)
            return code


def _online(session: Session, deployment: str, confirm: Confirm) -> int:
    """Finish online what waits for another attempt, until nothing does or only failures are left."""
    online.finish_online(session, deployment, confirm)
    advance.tell_refusals(session)
    return advance.collect_code(session)


def _waits_for_the_user(session: Session) -> bool:
    """True when time alone changes nothing: answers are given by hand, or the budget holds back all that is left."""
    if batches.in_state(session.database, *advance.LIVE):
        return session.run.provider == "files"
    unsent = batches.in_state(session.database, BatchState.PLANNED, BatchState.UPLOADED)
    return any("--budget" in (b.error or "") for b in unsent) and all(session.is_due(b.not_before) for b in unsent)


def _sleep(session: Session, started: float) -> bool:
    """Wait for the next pass; False when ``--timeout`` is over."""
    pause = session.pause(session.waiting.poll_interval)
    if session.waiting.timeout is not None:
        left = session.waiting.timeout - (session.clock.monotonic() - started)
        if left <= 0:
            return False
        pause = min(pause, left)
    kept.keep(session.database)
    session.clock.sleep(pause)
    return True


def _tell(session: Session, code: int) -> None:
    counts = session.counts()
    done = "answered" if session.run.protocol == "generate" else "judged"
    all_of_them = counted(sum(counts.values()), "request")
    line = f"{counts['scored']} of {all_of_them} {done}, {counts['open']} open, {counts['failed']} failed"
    if code == 3:
        running = batches.in_state(session.database, *advance.LIVE, BatchState.PLANNED, BatchState.UPLOADED)
        states = sorted({f"{b.file_name} {(b.remote_status or b.state.value)}" for b in running})
        line += f"; not finished: {', '.join(states[:5])}" if states else "; not finished"
        if batches.in_state(session.database, BatchState.SUBMITTED, online=True):
            line += "; --finish-online goes on with what was begun online"
        why = waiting_reason(session)
        line += f" ({why})" if why else ""
    session.progress.say(line)
    halted = standing.told(session.database)
    if halted is not None:
        session.progress.warn(halted)


def _apply(session: Session, by_hand: ByHand, confirm: Confirm) -> None:
    for batch_id, remote_id in by_hand.adopt:
        _adopt(session, batch_id, remote_id)
    for batch_id in by_hand.recreate:
        _recreate(session, batch_id, confirm)
    if by_hand.answers or by_hand.close:
        given.take(session, by_hand.answers, close=by_hand.close)
    if by_hand.retry:
        _retry(session, by_hand.retry, confirm)


def _unsettled(session: Session, batch_id: int) -> BatchRow:
    batch = batches.get(session.database, batch_id)
    if batch is None or batch.state is not BatchState.CREATING:
        raise UsageError(
            f"batch {batch_id} is not ambiguous",
            hint="`iwb-batch status` shows the batches; only one in state 'creating' can be adopted or created again.",
        )
    return batch


def _adopt(session: Session, batch_id: int, remote_id: str) -> None:
    batch = _unsettled(session, batch_id)
    try:
        with session.call():
            remote = session.provider.batch(remote_id)
    except Rejected as error:
        raise UsageError(f"--adopt: the provider does not know {remote_id}: {error.message}") from error
    except Unavailable as error:
        raise Unreachable(f"--adopt: {remote_id}: {error.message}", hint="Try again later.") from error
    if remote_id in batches.remote_ids(session.database) or not is_of(remote, batch):
        raise UsageError(
            f"--adopt: {remote_id} is not a batch over {batch.file_name}",
            hint="Its metadata iwb_file and iwb_sha256, or its input file, must be those of the ambiguous batch.",
        )
    adopt(session, batch, remote)


def _recreate(session: Session, batch_id: int, confirm: Confirm) -> None:
    batch = _unsettled(session, batch_id)
    if not confirm(f"create a batch for {batch.file_name} again? If the lost one exists it is paid twice."):
        raise Declined("nothing was created")
    with session.database.transaction():
        batches.move(session.database, batch, BatchState.UPLOADED, error="created again by hand")
        session.event("recreate", batch.file_name, batch.batch_id)


def _retry(session: Session, outcomes: Sequence[str], confirm: Confirm) -> None:
    known = {o.value for o in Outcome} - {Outcome.VALID.value}
    unknown = [o for o in outcomes if o != "all" and o not in known]
    if unknown:
        raise UsageError(f"--retry: no outcome '{unknown[0]}'", hint=f"Outcomes: all, {', '.join(sorted(known))}.")
    chosen = None if "all" in outcomes else list(outcomes)
    if not confirm(f"give requests that ended {', '.join(outcomes)} a fresh budget and send them again?"):
        raise Declined("nothing was released")
    if chosen is None or Outcome.MISSING.value in chosen:
        _look_again(session)
    with session.database.transaction():
        n = plan.release(session.database, chosen, fresh_budget=True)
        session.event("retry", f"{', '.join(outcomes)}: {counted(n, 'request')}")
        pilot.override(session)
        if session.run.standing != "running":
            session.stand("running", None)
    session.progress.say(f"{counted(n, 'request gets', 'requests get')} a fresh budget")


def _look_again(session: Session) -> None:
    """Ask once more for each batch that was taken for gone, before its requests are paid for again.

    One that the provider knows after all (a wrong endpoint or project was asked before) is waited for instead.
    Raises RunError where the provider cannot be asked.
    """
    for batch in batches.in_state(session.database, BatchState.COLLECTED):
        if batch.remote_status != lifecycle.GONE or batch.remote_batch_id is None:
            continue
        try:
            with session.call():
                remote = session.provider.batch(batch.remote_batch_id)
        except Rejected:
            continue
        except Unavailable as error:
            raise RunError(
                f"{batch.remote_batch_id}: cannot be asked for now ({error.message}); nothing was released",
                hint="Run the same command again: a batch that still exists must not be paid for twice.",
            ) from error
        with session.database.transaction():
            batches.move(session.database, batch, BatchState.SUBMITTED, remote_status=remote.status, not_found_polls=0)
            session.event("found_again", batch.remote_batch_id, batch.batch_id)
        session.progress.say(
            f"{batch.file_name}: the provider knows {batch.remote_batch_id} after all; it is waited for"
        )


def cancel(session: Session) -> int:
    """Stop the run first, then cancel its remote batches; answered work stays. Returns the exit code 0 or 3."""
    if advance.is_finished(session) and session.may_send:
        session.progress.say("the run is finished: there is nothing to cancel")
        return 0
    session.stand("stopped", "cancelled by the user")
    session.boundary("stopped")
    reconcile(session)
    with session.database.transaction():
        for batch in batches.in_state(session.database, BatchState.PLANNED, BatchState.UPLOADED):
            session.progress.say(f"{batch.file_name}: not sent")
    if session.run.host == HOST:
        given.cancel(session)
    online.take_ended(session)
    online.let_go(session)
    for batch in batches.in_state(session.database, BatchState.SUBMITTED):
        _cancel_one(session, batch)
    poll(session)
    receive(session)
    for batch in batches.in_state(session.database, BatchState.UPLOADING, BatchState.CREATING):
        session.progress.warn(f"{batch.file_name}: not known yet whether it was sent; cancel again in a few minutes")
    advance.tell_unreachable(session)
    session.progress.say(f"`iwb-batch submit --run {session.run.name}` resumes the run")
    return 3 if batches.in_state(session.database, *advance.LIVE) else 0


def _cancel_one(session: Session, batch: BatchRow) -> None:
    assert batch.remote_batch_id is not None, "a submitted batch has its remote id"
    session.event(CANCEL_ASKED, batch.remote_batch_id, batch.batch_id)
    try:
        with session.call():
            remote = session.provider.cancel(batch.remote_batch_id)
    except (Unavailable, Ambiguous, Rejected) as error:
        session.progress.warn(f"{batch.remote_batch_id}: not cancelled: {error.message}; run cancel again")
        return
    batches.note(session.database, batch, remote_status=remote.status)
    session.boundary("cancel_asked")
    session.progress.say(f"{batch.file_name}: {remote.status}")


def delete_remote(session: Session) -> int:
    """Delete input, output and error files of collected batches at the provider; returns how many."""
    deleted = 0
    for batch in batches.in_state(session.database, BatchState.COLLECTED):
        for file_id in (batch.input_file_id, batch.output_file_id, batch.error_file_id):
            if file_id is None:
                continue
            try:
                with session.call():
                    deleted += session.provider.delete_file(file_id)
            except (Unavailable, Ambiguous, Rejected) as error:
                session.progress.warn(f"{file_id}: not deleted: {error.message}")
    session.event("remote_deleted", counted(deleted, "file"))
    return deleted
