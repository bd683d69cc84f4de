"""Putting an emulator together from the values of ``iwb-batch emulate``."""

from __future__ import annotations

from pathlib import Path

from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.judge import Judge, Rehearsal
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import UsageError

UPSTREAM_CONCURRENCY = 8


def build_service(
    *,
    key: str | None,
    judge: str,
    faults: Path | None,
    seed: int,
    state: Path | None,
    upstream: str | None = None,
    upstream_key: str | None = None,
    upstream_model: str | None = None,
    upstream_token_parameter: str | None = None,
    concurrency: int = UPSTREAM_CONCURRENCY,
) -> Service:
    """A service with the named judge, or one that sends every line to ``upstream``, ``concurrency`` at once.

    With ``state`` it goes on where the last service in that folder stood. Raises UsageError for an unknown judge or a
    bad address, InputError for a bad fault file, IwbError for a state folder that cannot be used.
    """
    if judge != "rehearsal":
        raise UsageError(f"--judge: there is no judge named {judge!r}", hint="use rehearsal, or --upstream URL")
    plan = FaultPlan(seed=seed) if faults is None else FaultPlan.load(faults, seed=seed)
    chosen: Judge = Rehearsal()
    if upstream is not None:
        from iwb_batch.emulator.upstream import Upstream

        chosen = Upstream(upstream, upstream_key, model=upstream_model, token_parameter=upstream_token_parameter)
    settings = Settings(
        key=key,
        seed=seed,
        concurrency=0 if upstream is None else concurrency,
        checks_parameters=upstream is None,
    )
    return Service(settings, judge=chosen, faults=plan, state=state, keep=state is not None)
