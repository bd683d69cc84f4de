"""``--pilot N``: N requests first, spread over the run; the gates decide whether the rest is sent."""

from __future__ import annotations

from iwb_batch.core.pilot import PilotOutcome, failed_gates
from iwb_batch.core.words import counted
from iwb_batch.store import batches, pilots, views
from iwb_batch.workflow.send import expected_cost
from iwb_batch.workflow.session import Session

PASSED, OVERRIDDEN = "pilot_passed", "pilot_overridden"
HALTED = "pilot: "
"""How the reason of a run begins that its pilot has halted."""


def is_pending(session: Session) -> bool:
    """True while only the pilot's requests may be sent."""
    return session.options.pilot is not None and not batches.has_event(session.database, PASSED, OVERRIDDEN)


def restrict(session: Session) -> None:
    """Leave only the pilot's requests among those to be sent; none once they have been written."""
    if session.options.pilot is not None and is_pending(session):
        pilots.keep_spread(session.database, session.options.pilot)


def apply_gates(session: Session) -> None:
    """Once every request of the pilot has an outcome: release the rest, or halt the run."""
    if not session.may_send or not is_pending(session) or not pilots.is_over(session.database):
        return
    found = failed_gates(_outcome(session))
    if not found:
        session.event(PASSED, counted(session.options.pilot or 0, "request"))
        session.progress.say("the pilot passed its gates; the rest is sent")
        return
    session.stand("halted", HALTED + "; ".join(found))
    session.progress.warn(f"the pilot did not pass: {'; '.join(found)}")


def is_halting(session: Session) -> bool:
    """True when the run waits because its pilot did not pass."""
    return session.run.standing == "halted" and (session.run.standing_reason or "").startswith(HALTED)


def passes_now(session: Session) -> bool:
    """Look again at a pilot that halted the run: with another ``--budget`` it may pass, and the run goes on."""
    if not is_halting(session) or failed_gates(_outcome(session)):
        return False
    with session.database.transaction():
        session.event(PASSED, f"with a budget of {session.options.budget} USD")
        session.stand("running", None)
    return True


def override(session: Session) -> None:
    """The user goes on after a pilot that did not pass."""
    if is_pending(session) and pilots.is_over(session.database):
        session.event(OVERRIDDEN, None)


def _outcome(session: Session) -> PilotOutcome:
    attempts, valid, truncated = pilots.tally(session.database)
    counted = sum(row.cost_usd or 0.0 for row in views.usage(session.database))
    # Answers without token counts cost something too: they are taken at their estimate, never at 0.
    spent = counted + (expected_cost(session, *views.uncounted(session.database)) or 0.0)
    planned = sum(session.counts().values())
    known = session.prices.known and attempts > 0
    return PilotOutcome(
        attempts=attempts,
        valid=valid,
        truncated=truncated,
        projected_cost=spent / attempts * planned if known else None,
        budget=session.options.budget,
    )
