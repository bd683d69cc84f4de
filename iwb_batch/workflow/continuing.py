"""Continuing an existing run: its plan must be the same, what may differ is stored, repeats may grow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Set
from typing import Any

from iwb_batch.core import lifecycle
from iwb_batch.core.prices import Prices, prices_for
from iwb_batch.errors import PlanChanged, UsageError
from iwb_batch.store import plan
from iwb_batch.workflow.prepare import planned_requests
from iwb_batch.workflow.session import Session
from iwb_batch.workflow.settings import Inputs, JudgeSettings, Options, canonical, differences

_CHOOSE_ITEMS = ("where", "limit", "allow_missing", "revision")
_OF_INPUTS = ("model_name", "subset", "split", "strip_reasoning", "empty_responses")
_OF_RUN = ("provider", "orders", "repeats", "protocol")
_OF_JUDGE = ("max_completion_tokens", "reasoning_effort", "structured_output")


def merged(stored: Options, given: Options, named: Set[str]) -> Options:
    """The stored options with those the user named."""
    fields = [field.name for field in dataclasses.fields(Options) if field.name in named]
    return dataclasses.replace(stored, **{name: getattr(given, name) for name in fields})


def asked_of(stored: Mapping[str, Any], inputs: Inputs, judge: JudgeSettings, named: Set[str]) -> dict[str, Any]:
    """The plan asked for when a run is named without its inputs: the stored one with what the user named.

    UsageError: an option that chooses items, which only counts together with the inputs.
    """
    choosing = [f"--{name.replace('_', '-')}" for name in _CHOOSE_ITEMS if name in named]
    if choosing:
        raise UsageError(
            f"{', '.join(choosing)}: the items of a run are chosen when it is made",
            hint="Leave it out to continue the run, or give --benchmark and --responses too.",
        )
    asked = dict(stored)
    asked |= {name: getattr(inputs, name) for name in _OF_INPUTS if name in named}
    asked |= {name: getattr(judge, name) for name in _OF_RUN if name in named}
    asked["judge"] = {**stored["judge"], **{name: getattr(judge, name) for name in _OF_JUDGE if name in named}}
    if "judge" in named:
        asked["judge"]["deployment"] = judge.judge
    return asked


def take_over(session: Session, asked: Mapping[str, Any], options: Options) -> bool:
    """Check the plan asked for against the run's, and store what may differ; True when repeats were added.

    PlanChanged: the plans differ, which is named. UsageError: a budget without a known price.
    """
    run = session.run
    found = differences(run.plan, asked)
    if found:
        named = "; ".join(f"{d.name}: {_short(d.run)} -> {_short(d.asked)}" for d in found)
        raise PlanChanged(
            f"run {run.name} exists with another plan: {named}",
            hint="Choose another --run, or leave it out to get a run of its own.",
        )
    prices = checked_prices(run.judge, run.provider, options)
    with session.database.transaction():
        plan.update_run(
            session.database,
            options=canonical(options.stored()),
            price_input=prices.input,
            price_cached=prices.cached,
            price_output=prices.output,
            price_source=prices.source,
        )
        plan.set_policy(session.database, lifecycle.policy(options.max_resubmits, options.resubmit_filtered))
        grows = bool(asked["repeats"] > run.plan["repeats"])
        if grows:
            _grow(session, asked["repeats"])
    return grows


def checked_prices(judge: str, provider: str, options: Options) -> Prices:
    """Prices of the judge: the user's, else the bundled table's. UsageError: a budget without a known price."""
    prices = prices_for(
        judge,
        price_input=options.price_input,
        price_cached=options.price_cached,
        price_output=options.price_output,
        bundled=provider == "azure",
    )
    if options.budget is not None and not prices.known:
        raise UsageError(
            f"--budget: the price of {judge} is unknown",
            hint="Give --price-input and --price-output (USD per million tokens at batch price).",
        )
    return prices


def _grow(session: Session, repeats: int) -> None:
    run = session.run
    settings = dataclasses.replace(session.judging.settings, repeats=repeats)
    plan.update_run(session.database, plan=canonical({**run.plan, "repeats": repeats}))
    planned = planned_requests(session.database, session.judging, settings, run.run_id)
    plan.add_requests(session.database, planned)
    session.event("repeats", f"{run.plan['repeats']} -> {repeats}")


def _short(value: object) -> str:
    text = canonical({"": value})[4:-1]
    return text if len(text) <= 60 else text[:57] + "..."
