"""``submit``: check inputs, plan, ask, write request files, send. The same command again continues."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from iwb_batch.core import tokens
from iwb_batch.core.prices import Prices
from iwb_batch.core.split import Limits
from iwb_batch.core.words import counted
from iwb_batch.errors import Declined, IwbError, ProviderRefused, RunError, UsageError
from iwb_batch.model import Outcome
from iwb_batch.providers.base import BatchProvider
from iwb_batch.store import batches, plan, views
from iwb_batch.store import database as db
from iwb_batch.store.database import Database
from iwb_batch.workflow import advance, continuing, opening, pilot, standing
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.folder import RunFolder
from iwb_batch.workflow.opening import Connect
from iwb_batch.workflow.prepare import Prepared, prepare
from iwb_batch.workflow.progress import Progress
from iwb_batch.workflow.receive import receive
from iwb_batch.workflow.request_files import measure, measure_open
from iwb_batch.workflow.send import ASSUMED_OUTPUT_TOKENS, expected_cost, waiting_reason
from iwb_batch.workflow.session import Boundary, Session, no_boundary
from iwb_batch.workflow.settings import (
    Estimate,
    Inputs,
    JudgeSettings,
    Measured,
    Options,
    Waiting,
)

Opened = Callable[..., AbstractContextManager[Session]]
"""``opening.working`` with everything but the folder and what may differ between making and continuing a run."""

Confirm = Callable[[str], bool]
"""Asks a question on a terminal; True elsewhere and with ``--yes``."""


@dataclass(frozen=True, slots=True)
class SubmitRequest:
    """Everything ``submit`` was told."""

    inputs: Inputs
    judge: JudgeSettings
    options: Options
    waiting: Waiting
    runs_dir: Path
    run: str | None = None
    named: Set[str] = frozenset()
    """Settings the user gave; where a run is continued without its inputs, the others are the run's own."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """What came of it: the folder, how many request files were sent, the exit code (0 or 3)."""

    folder: RunFolder
    sent: int
    files: int
    code: int


def dry_run(request: SubmitRequest, *, clock: Clock, progress: Progress) -> tuple[Prepared, Estimate]:
    """Check and plan everything in a temporary folder; contacts no provider, writes no run."""
    if request.run is not None:
        folders.check_name(request.run)
    with tempfile.TemporaryDirectory(prefix="iwb-batch-") as temporary:
        database = db.create(Path(temporary) / "run.db")
        try:
            prepared = _prepare(database, request, "(no endpoint: dry run)", clock, progress)
            return prepared, estimate(database, prepared, request)
        finally:
            database.close()


def submit(
    request: SubmitRequest,
    *,
    connect: Connect,
    confirm: Confirm,
    clock: Clock,
    progress: Progress,
    boundary: Boundary = no_boundary,
) -> Submitted:
    """Make the run, or find it, and send what fits. Raises before anything is sent when an input is wrong."""
    opened = partial(opening.working, waiting=request.waiting, clock=clock, progress=progress, boundary=boundary)
    if request.run is not None:
        folders.check_name(request.run)
        existing = RunFolder(request.runs_dir / request.run)
        if existing.database.is_file() and request.inputs.responses is None and not request.inputs.dataset:
            return _resume(existing, request, partial(opened, connect=connect), confirm)
        if not request.inputs.benchmark:
            raise UsageError(
                f"--run {request.run}: there is no such run to continue",
                hint="Give --benchmark and --responses to make it; `iwb-batch runs` lists those that exist.",
            )
    prices_of(request)
    # Credentials are asked for before inputs are read: a missing key is cheaper to find than a bad line.
    provider = connect(request.judge.provider, request.options)
    with folders.explained(request.runs_dir):
        request.runs_dir.mkdir(parents=True, exist_ok=True)
    with folders.staging(request.runs_dir) as staged:
        prepared, target = _stage(staged, request, provider.host, confirm, clock, progress)
        fresh = not target.database.is_file()
        if fresh:
            boundary("staged")
            folders.adopt_staging(staged, target)
            boundary("run_created")
    return _work(target, request, prepared, partial(opened, connect=_reuse(provider)), confirm, fresh=fresh)


def _stage(
    staged: RunFolder, request: SubmitRequest, host: str, confirm: Confirm, clock: Clock, progress: Progress
) -> tuple[Prepared, RunFolder]:
    """Plan into the staged folder; a plan that makes a new run is shown and asked for."""
    database = db.create(staged.database)
    try:
        prepared = _prepare(database, request, host, clock, progress)
        target = RunFolder(request.runs_dir / (request.run or _name(request, prepared)))
        if not target.database.is_file():
            _announce(prepared, progress)
            _ask(estimate(database, prepared, request), request.options.pilot, confirm, progress)
            plan.update_run(database, name=target.path.name)
            batches.add_event(database, clock.stamp(), "planned", counted(prepared.n_items, "item"))
    finally:
        database.close()
    return prepared, target


def _name(request: SubmitRequest, prepared: Prepared) -> str:
    step = "generate" if request.judge.protocol == "generate" else None
    return folders.derived_name(
        step, request.inputs.benchmark, prepared.subset, prepared.model_name, plan_sha256=prepared.plan_sha256
    )


def _reuse(provider: BatchProvider) -> Connect:
    return lambda _provider, _options: provider


def _prepare(database: Database, request: SubmitRequest, host: str, clock: Clock, progress: Progress) -> Prepared:
    return prepare(
        database,
        request.inputs,
        request.judge,
        request.options,
        host=host,
        prices=prices_of(request),
        created_at=clock.stamp(),
        progress=progress,
    )


def prices_of(request: SubmitRequest) -> Prices:
    """Prices of the judge. UsageError: a budget is given and they are unknown."""
    return continuing.checked_prices(request.judge.judge, request.judge.provider, request.options)


def estimate(database: Database, prepared: Prepared, request: SubmitRequest) -> Estimate:
    """What sending everything that waits comes to. Output is assumed until the run has answers of its own."""
    options = request.options
    limits = Limits(options.max_requests_per_file, options.max_bytes_per_file, options.enqueued_token_limit)
    measured = measure(database, limits)
    output = measured.requests * ASSUMED_OUTPUT_TOKENS
    prices = prices_of(request)
    return Estimate(
        size=measured,
        output_tokens=output,
        cost_usd=prices.cost(measured.n_tokens, output),
        token_label=tokens.best_counter().label,
        price_source=prices.source,
        notes=prepared.notes,
    )


def _announce(prepared: Prepared, progress: Progress) -> None:
    for note in prepared.notes:
        progress.warn(note)


def _ask(found: Estimate, pilot_size: int | None, confirm: Confirm, progress: Progress) -> None:
    line = described(found.size, found.cost_usd)
    if pilot_size is not None and pilot_size < found.size.requests:
        line += f"; the pilot sends {pilot_size} of them first"
    progress.say(line)
    if not confirm(f"{line}. Send?"):
        raise Declined("nothing was sent", hint="Run the same command again to send.")


def described(found: Measured, cost_usd: float | None) -> str:
    """What would be sent, in one line."""
    cost = "cost unknown" if cost_usd is None else f"about {cost_usd:.2f} USD"
    return (
        f"{counted(found.requests, 'request')} in {counted(found.files, 'request file')}, {found.n_bytes / 1e6:.1f} MB,"
        f" {counted(found.n_tokens, 'input token')}, {cost}"
    )


def _resume(folder: RunFolder, request: SubmitRequest, opened: Opened, confirm: Confirm) -> Submitted:
    """``submit --run NAME`` without inputs: continue the run as it was planned."""
    with opened(folder, options=lambda stored: continuing.merged(stored, request.options, request.named)) as session:
        asked = continuing.asked_of(session.run.plan, request.inputs, request.judge, request.named)
        _take_over(session, asked, session.options, confirm)
        return _continue(session, confirm, resume=True)


def _work(
    folder: RunFolder, request: SubmitRequest, prepared: Prepared, opened: Opened, confirm: Confirm, *, fresh: bool
) -> Submitted:
    with opened(folder, fresh=fresh, options=lambda _stored: request.options) as session:
        if not fresh:
            _take_over(session, prepared.plan, request.options, confirm)
        return _continue(session, confirm, resume=request.run is not None and not fresh)


def _take_over(session: Session, asked: Mapping[str, Any], options: Options, confirm: Confirm) -> None:
    """Take over what may differ. Repeats that are added cost money, so they are asked for before they are planned."""
    with session.database.transaction():
        if not continuing.take_over(session, asked, options):
            return
        found = measure_open(session)
        cost = expected_cost(session, found.requests, found.n_tokens)
        line = f"{asked['repeats']} repeats: {described(found, cost)}"
        session.progress.say(line)
        if not confirm(f"{line}. Send?"):
            raise Declined("nothing was sent", hint="The run keeps the repeats it has.")


def _continue(session: Session, confirm: Confirm, *, resume: bool) -> Submitted:
    opening.check_prompt(session)
    if not session.may_send:
        _restart(session, confirm, resume=resume)
    advance.send_within_wait(session)
    receive(session)
    advance.tell_refusals(session)
    advance.tell_unreachable(session)
    return _summary(session)


def _restart(session: Session, confirm: Confirm, *, resume: bool) -> None:
    """A stopped run goes on only when it is named; a halted one by ``collect --retry``, or here after a refusal."""
    run = session.run
    if run.standing == "halted":
        if standing.is_for_refusal(session.database):
            session.stand("running", None)
            return
        if pilot.passes_now(session):
            return
        if pilot.is_halting(session):
            raise RunError(
                f"run {run.name} is halted: {run.standing_reason}",
                hint=f"`iwb-batch collect {run.name} --retry all` goes on all the same; so may a higher --budget.",
            )
        raise ProviderRefused(
            f"run {run.name} is halted: {run.standing_reason}",
            hint=f"When the cause is mended: `iwb-batch collect {run.name} --retry rejected,filtered`.",
        )
    if not resume:
        raise IwbError(
            f"run {run.name} is stopped: {run.standing_reason or 'cancelled'}",
            hint=f"`iwb-batch submit --run {run.name}` resumes it.",
        )
    if not confirm(f"run {run.name} is stopped ({run.standing_reason or 'cancelled'}). Resume and send the rest?"):
        raise Declined("the run stays stopped", hint="Nothing was sent.")
    with session.database.transaction():
        released = plan.release(session.database, [Outcome.CANCELLED.value, Outcome.ACCOUNT.value], fresh_budget=False)
        session.stand("running", None)
        session.event("resumed", f"{counted(released, 'request')} released")


def _summary(session: Session) -> Submitted:
    rows = [row for row in views.batches(session.database) if row["state"] != "dropped"]
    unsent = {state.value for state in advance.UNSENT}
    sent = sum(1 for row in rows if row["state"] not in unsent)
    if sent < len(rows):
        why = waiting_reason(session)
        session.progress.say(
            f"{sent} of {counted(len(rows), 'request file')} sent; collect sends the rest"
            + (f" ({why})" if why else "")
        )
    elif advance.is_finished(session):
        counts = session.counts()
        session.progress.say(
            f"finished: {counted(counts['scored'], 'request')} scored, {counts['failed']} failed; nothing to send"
        )
    elif pilot.is_pending(session):
        session.progress.say("the pilot is sent; `iwb-batch collect` looks at its answers and sends the rest")
    else:
        session.progress.say("everything is sent; `iwb-batch collect` brings the answers home")
    return Submitted(session.folder, sent, len(rows), 0 if sent == len(rows) else 3)
