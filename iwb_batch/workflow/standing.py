"""A run that is halted for a refused batch: nothing is sent by itself, since the same file would be refused again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iwb_batch.model import BatchState
from iwb_batch.store import batches, views
from iwb_batch.store.batches import BatchRow
from iwb_batch.store.database import Database

if TYPE_CHECKING:
    from iwb_batch.workflow.session import Session


def refusal_of(batch: BatchRow) -> str:
    """What the provider said of a batch it refused; the batch waits with these words until the user goes on."""
    return f"batch for {batch.file_name} refused: {batch.error}"


def halt_for(session: Session, batch: BatchRow) -> str:
    """Halt the run, unless it is stopped or halted already, and return what is told."""
    if session.may_send:
        session.stand("halted", refusal_of(batch))
    return refusal_of(batch)


def is_for_refusal(database: Database) -> bool:
    """True when a run is halted for a batch that waits: the user may have mended what the provider refused."""
    waiting = batches.in_state(database, BatchState.PLANNED, BatchState.UPLOADED)
    return views.run(database).standing_reason in {refusal_of(batch) for batch in waiting}


def told(database: Database) -> str | None:
    """Why a run sends nothing, and which command goes on; None for one that may send."""
    run = views.run(database)
    if run.standing == "running":
        return None
    way = f"iwb-batch collect {run.name} --retry OUTCOME"
    if run.standing == "stopped" or is_for_refusal(database):
        way = f"iwb-batch submit --run {run.name}"
    return f"the run is {run.standing}: {run.standing_reason or 'by hand'}; `{way}` goes on"
