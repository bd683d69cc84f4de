"""Where a run stands: the data behind ``status`` and the exit codes of ``report``."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from iwb_batch.core.words import counted
from iwb_batch.model import BatchState
from iwb_batch.report.status import BatchLine, RunState, StatusData, Tokens
from iwb_batch.store import batches, views
from iwb_batch.store.database import Database
from iwb_batch.store.facts import run_facts
from iwb_batch.workflow.clock import Clock, seconds_of
from iwb_batch.workflow.standing import told

COMPLETE, OPEN, INCOMPLETE = 0, 3, 4


def standing(database: Database, clock: Clock) -> StatusData:
    """Read where a run stands."""
    run, facts = views.run(database), run_facts(database)
    counts = views.status_counts(database)
    return StatusData(
        run=run.name,
        state=state_of(run, counts, database),
        planned=facts.n_planned,
        scored=facts.n_scored,
        n_open=facts.n_open,
        failed=facts.n_failed,
        outcomes=facts.outcomes,
        failures=facts.failures,
        batches=[_batch_line(row) for row in views.batches(database)],
        tokens=Tokens(**views.tokens(database)),
        cost_usd=facts.cost_usd,
        eta_seconds=_eta(database, clock),
        rehearsal=facts.rehearsal,
        messages=tuple(_messages(database)),
    )


def _batch_line(row: dict[str, Any]) -> BatchLine:
    about = "ambiguous: its create call was not answered" if row["state"] == BatchState.CREATING.value else ""
    said = row["error"] or ""
    return BatchLine(
        batch_id=row["batch_id"],
        state=row["state"],
        remote_status=row["remote_status"],
        n_requests=row["n_requests"],
        remote_batch_id=row["remote_batch_id"],
        about="; ".join(part for part in (about, said) if part),
    )


def _messages(database: Database) -> Iterator[str]:
    name = views.run(database).name
    halted = told(database)
    if halted is not None:
        yield halted
    for batch in batches.in_state(database, BatchState.CREATING):
        yield (
            f"batch {batch.batch_id} ({batch.file_name}) is ambiguous: `collect {name}` looks for it at the provider;"
            f" by hand: `collect {name} --adopt {batch.batch_id} REMOTE_ID`"
            f" or `collect {name} --recreate {batch.batch_id}`"
        )
    left_out = views.left_out(database)
    if left_out:
        yield "items left out: " + ", ".join(f"{n} ({reason})" for reason, n in left_out.items())
    strays = views.strays(database)
    if strays:
        yield "lines kept but not read: " + ", ".join(f"{n} {kind}" for kind, n in strays.items())
    gone = views.gone(database)
    if gone:
        lost = counted(gone, "request was", "requests were")
        yield f"{lost} in a batch the provider no longer knows: `collect {name} --retry missing`"


def state_of(run: views.Run, counts: dict[str, int], database: Database) -> RunState:
    """One word: planned, running, stopped, halted, complete or incomplete."""
    if counts["open"] == 0 and counts["failed"] == 0:
        return "complete"
    if run.standing != "running":
        return "halted" if run.standing == "halted" else "stopped"
    if counts["open"] == 0:
        return "incomplete"
    moved = [state for state, _ in batches.states(database) if state != BatchState.PLANNED.value]
    return "running" if moved else "planned"


def report_code(database: Database) -> int:
    """Exit code of ``report``: 0 complete, 3 open, 4 finished incomplete."""
    counts = views.status_counts(database)
    if counts["open"]:
        return OPEN
    return INCOMPLETE if counts["failed"] else COMPLETE


def _eta(database: Database, clock: Clock) -> float | None:
    """Seconds until the last batch under way ends, by the median of this run's own batch times."""
    measured = batches.durations(database)
    under_way = [b.submitted_at for b in batches.in_state(database, BatchState.SUBMITTED) if b.submitted_at]
    if not measured or not under_way:
        return None
    usual = statistics.median(measured)
    return max(0.0, max(seconds_of(moment) for moment in under_way) + usual - clock.now())
