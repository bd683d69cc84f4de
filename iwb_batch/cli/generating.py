"""``generate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import (
    NEW_FILE,
    TEXT,
    Amount,
    Whole,
    data_options,
    grace_option,
    provider_options,
    run_option,
    wait_option,
    yes_option,
)
from iwb_batch.cli.submitting import limit_options
from iwb_batch.core.words import counted
from iwb_batch.errors import UsageError


@click.command()
@data_options
@click.option("--model", type=TEXT, required=True, help="Deployment (or model) that writes the responses.")
@click.option("--out", type=NEW_FILE, required=True, help="Responses file to write, JSONL.")
@run_option
@click.option(
    "--sampling",
    type=click.Choice(["seed", "none"]),
    default="seed",
    show_default=True,
    help="Send the benchmark's temperature 0.7 and top_p 0.8, or no sampling parameters.",
)
@click.option(
    "--token-parameter",
    type=click.Choice(["max_tokens", "max_completion_tokens"]),
    default="max_completion_tokens",
    show_default=True,
    help="Name under which the token limit is sent.",
)
@click.option(
    "--max-completion-tokens", type=Whole(1), default=16_000, show_default=True, help="Token limit of a response."
)
@click.option("--reasoning-effort", type=TEXT, help="Sent as it is when given.")
@provider_options
@limit_options
@wait_option
@grace_option
@click.option("--watch", is_flag=True, help="Go on until every response is in.")
@click.option("--poll-interval", type=Amount(), default=60.0, show_default=True, help="Seconds between passes.")
@yes_option
@click.pass_context
def generate(context: click.Context, /, **given: Any) -> int:
    """Let a model write responses to the items, in batches. The same command again continues and writes --out."""
    from iwb_batch import benchmarks
    from iwb_batch.workflow import generating
    from iwb_batch.workflow.clock import Clock
    from iwb_batch.workflow.opening import connect_from

    if given["benchmark"] is None:
        raise UsageError("--benchmark is missing", hint=f"One of: {', '.join(benchmarks.names())}.")
    console = output.Console()
    done = generating.generate(
        _request(context.obj.runs_dir, given),
        given["out"],
        connect=connect_from(os.environ, console, context.call_on_close),
        confirm=output.confirm_unless(given["yes"]),
        clock=Clock(),
        progress=console,
    )
    if done.written is None:
        way = "run the same command again" if done.code == 3 else "nothing was written"
        console.say(f"not all responses are in; {way} (run {done.folder.path.name})")
    else:
        console.say(f"{given['out'].name}: {counted(done.written, 'response')}")
        output.data(str(given["out"]))
    return done.code


def _request(runs_dir: Path, given: dict[str, Any]) -> Any:
    from iwb_batch.workflow.settings import Inputs, JudgeSettings, Options, Waiting
    from iwb_batch.workflow.submit import SubmitRequest

    names = ("benchmark", "dataset", "subset", "split", "revision", "where", "limit")
    inputs = Inputs(**{name: given[name] for name in names}, model_name=given["model"])
    judge = JudgeSettings(
        judge=given["model"],
        protocol="generate",
        **{name: given[name] for name in ("provider", "max_completion_tokens", "reasoning_effort")},
        **{name: given[name] for name in ("sampling", "token_parameter")},
    )
    options = Options(**{name: given[name] for name in Options.__dataclass_fields__ if name in given})
    waiting = Waiting(**{name: given[name] for name in ("wait", "grace", "watch", "poll_interval")})
    return SubmitRequest(inputs, judge, options, waiting, runs_dir, given["run"])


COMMANDS = (generate,)
