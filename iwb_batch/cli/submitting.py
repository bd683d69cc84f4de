"""``submit``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from iwb_batch.cli import output
from iwb_batch.cli.params import (
    PATH,
    TEXT,
    Amount,
    Whole,
    data_options,
    grace_option,
    provider_options,
    run_option,
    together,
    wait_option,
    yes_option,
)
from iwb_batch.errors import UsageError
from iwb_batch.report.display import visible

if TYPE_CHECKING:
    from iwb_batch.workflow.submit import SubmitRequest

_SAID = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

judge_options = together(
    click.option("--judge", type=TEXT, default="gpt-5.4", show_default=True, help="Deployment that scores."),
    click.option(
        "--max-completion-tokens", type=Whole(1), default=8000, show_default=True, help="Token limit of an answer."
    ),
    click.option("--reasoning-effort", type=TEXT, help="Sent as it is when given."),
    click.option("--structured-output", is_flag=True, help="Ask for the verdict by JSON schema."),
    click.option(
        "--lane",
        "lanes",
        type=TEXT,
        multiple=True,
        help="A deployment of the same model on its own resource; IWB_BATCH_LANE_<NAME>_ENDPOINT, _API_KEY, _JUDGE.",
    ),
    click.option(
        "--repeats", type=Whole(1, 1_000), default=1, show_default=True, help="How often each request is judged."
    ),
    click.option(
        "--orders",
        type=click.Choice(["both", "chosen-first", "rejected-first", "random"]),
        default="both",
        show_default=True,
        help="Pairs: which text is shown first.",
    ),
    click.option(
        "--protocol",
        type=click.Choice(["pairwise", "pointwise"]),
        help="Pairs: compare the two texts, or score each on its own. [default: pairwise]",
    ),
)

response_options = together(
    click.option("--responses", type=PATH, help="Responses of the model under test: JSONL, JSON, CSV or Parquet."),
    click.option("--model-name", type=TEXT, help="Name of that model. [default: stem of the responses file]"),
    click.option(
        "--strip-reasoning",
        type=click.Choice(["auto", "exact", "required", "off"]),
        default="auto",
        show_default=True,
        help="How a chain of thought is cut off before judging.",
    ),
    click.option("--allow-missing", is_flag=True, help="Go on without items that have no response."),
    click.option(
        "--empty-responses",
        type=click.Choice(["judge", "exclude"]),
        help="What to do with responses without an answer.",
    ),
)

limit_options = together(
    click.option(
        "--max-resubmits", type=Whole(), default=3, show_default=True, help="Resubmissions after the first attempt."
    ),
    click.option(
        "--resubmit-filtered", type=Whole(), default=0, show_default=True, help="Resubmissions after a content filter."
    ),
    click.option(
        "--max-requests-per-file", type=Whole(1), default=50_000, show_default=True, help="Lines of a request file."
    ),
    click.option(
        "--max-bytes-per-file", type=Whole(1), default=190_000_000, show_default=True, help="Bytes of a request file."
    ),
    click.option("--enqueued-token-limit", type=Whole(1), help="Input tokens that may wait at the deployment."),
    click.option("--price-input", type=Amount(), help="USD per million input tokens at batch price."),
    click.option("--price-cached", type=Amount(), help="USD per million cached input tokens."),
    click.option("--price-output", type=Amount(), help="USD per million output tokens."),
    click.option("--budget", type=Amount(), help="USD; counts work in flight, checked before each request file."),
    click.option("--pilot", type=Whole(1), help="Send N requests first; collect sends the rest when they went well."),
)


@click.command()
@data_options
@response_options
@run_option
@judge_options
@provider_options
@limit_options
@wait_option
@grace_option
@click.option("--dry-run", is_flag=True, help="Check everything and print what it would cost; send nothing.")
@yes_option
@click.pass_context
def submit(context: click.Context, /, **given: Any) -> int:
    """Check inputs, write request files, upload them and create batches. The same command again continues."""
    from iwb_batch.workflow import submit as use_case
    from iwb_batch.workflow.clock import Clock
    from iwb_batch.workflow.opening import connect_from

    request = _request(context, given)
    console = output.Console()
    if given["dry_run"]:
        _require_inputs(given)
        prepared, found = use_case.dry_run(request, clock=Clock(), progress=console)
        output.data(_dry_run_text(prepared.n_items, found))
        return 0
    if not _continues(given):
        _require_inputs(given)
    done = use_case.submit(
        request,
        connect=connect_from(os.environ, console, context.call_on_close),
        confirm=output.confirm_unless(given["yes"]),
        clock=Clock(),
        progress=console,
    )
    output.data(str(done.folder.path))
    return done.code


def _require_inputs(given: dict[str, Any]) -> None:
    if given["benchmark"] is None:
        from iwb_batch import benchmarks

        raise UsageError("--benchmark is missing", hint=f"One of: {', '.join(benchmarks.names())}.")
    from iwb_batch import benchmarks

    protocol = benchmarks.get(given["benchmark"], given["protocol"]).protocol
    pairs = protocol != "rubric"
    if protocol == "pointwise" and given["orders"] != "both":
        raise UsageError("--orders is for the pairwise protocol", hint="A text scored on its own has no order.")
    if not pairs and given["orders"] != "both":
        raise UsageError("--orders is for pairs", hint="A response is judged on its own: leave it out.")
    if not pairs and given["responses"] is None:
        raise UsageError("--responses is missing", hint='A file with one {"index": ..., "response": ...} a line.')
    if pairs and given["responses"] is not None:
        raise UsageError(
            "--responses is not for pairs", hint="The data hold both texts; --judge names who compares them."
        )


def _continues(given: dict[str, Any]) -> bool:
    """True when a run is named and none of the inputs that would make it."""
    inputs = (given["benchmark"], given["responses"], *given["dataset"])
    return given["run"] is not None and not any(inputs)


def _request(context: click.Context, given: dict[str, Any]) -> SubmitRequest:
    from iwb_batch.workflow.settings import Inputs, JudgeSettings, Options, Waiting
    from iwb_batch.workflow.submit import SubmitRequest

    inputs = Inputs(
        benchmark=given["benchmark"] or "",
        dataset=given["dataset"],
        subset=given["subset"],
        split=given["split"],
        revision=given["revision"],
        responses=given["responses"],
        model_name=given["model_name"],
        strip_reasoning=given["strip_reasoning"],
        where=given["where"],
        limit=given["limit"],
        allow_missing=given["allow_missing"],
        empty_responses=given["empty_responses"],
    )
    judge = JudgeSettings(
        **{name: given[name] for name in ("judge", "provider", "max_completion_tokens", "reasoning_effort")},
        **{name: given[name] for name in ("structured_output", "repeats", "orders", "protocol")},
        lanes=_lanes(given["lanes"], given["judge"]),
    )
    given["lanes"] = tuple(sorted(given["lanes"]))  # the order of the words makes no other run
    options = Options(**{name: given[name] for name in Options.__dataclass_fields__})
    waiting = Waiting(wait=given["wait"], grace=given["grace"])
    named = frozenset(name for name in given if context.get_parameter_source(name) in _SAID)
    return SubmitRequest(inputs, judge, options, waiting, context.obj.runs_dir, given["run"], named)


def _lanes(names: tuple[str, ...], judge: str) -> tuple[tuple[str, str], ...]:
    """(lane, deployment): the lane's own deployment where its variable names one, else ``--judge``."""
    if len(set(names)) != len(names):
        raise UsageError("--lane: a name is given twice", hint="Each lane is one resource.")
    if "online" in names:
        raise UsageError("--lane online: the word is taken", hint="Choose another name.")
    variables = {name: f"IWB_BATCH_LANE_{name.upper().replace('-', '_')}_JUDGE" for name in names}
    return tuple(sorted((name, os.environ.get(variable, "").strip() or judge) for name, variable in variables.items()))


def _dry_run_text(n_items: int, found: Any) -> str:
    cost = "unknown (give --price-input and --price-output)" if found.cost_usd is None else f"{found.cost_usd:.2f} USD"
    lines = [
        ("items", f"{n_items:,}"),
        ("requests", f"{found.size.requests:,}"),
        ("request files", f"{found.size.files:,}"),
        ("bytes", f"{found.size.n_bytes:,}"),
        ("input tokens", f"{found.size.n_tokens:,}  ({found.token_label})"),
        ("output tokens", f"{found.output_tokens:,}  (assumed: 1,000 for each request)"),
        ("cost", cost),
        ("prices", found.price_source or "none known for this deployment"),
        *(("note", note) for note in found.notes),
    ]
    return "\n".join(f"{name:<14}{visible(value)}" for name, value in lines)


COMMANDS = (submit,)
