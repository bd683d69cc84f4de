"""``doctor``, ``reparse`` and ``export``."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import (
    NEW_FILE,
    PATH,
    TEXT,
    Amount,
    Whole,
    json_option,
    provider_options,
    run_argument,
    yes_option,
)
from iwb_batch.core.words import counted
from iwb_batch.errors import UsageError

if TYPE_CHECKING:
    from iwb_batch.report.checks import Check
    from iwb_batch.workflow.folder import RunFolder


@click.command()
@run_argument
@click.option("--probe", is_flag=True, help="Also send one real request as a batch; asks, and is billed.")
@click.option("--judge", type=TEXT, default="gpt-5.4", show_default=True, help="--probe: deployment to ask.")
@click.option("--reasoning-effort", type=TEXT, help="--probe: sent as it is when given.")
@click.option("--structured-output", is_flag=True, help="--probe: ask for the verdict by JSON schema.")
@click.option(
    "--max-completion-tokens", type=Whole(1), default=8000, show_default=True, help="--probe: limit of the answer."
)
@click.option("--timeout", type=Amount(), default=3600.0, show_default=True, help="--probe: seconds to wait.")
@click.option("--wait", type=Amount(), default=60.0, show_default=True, help="Seconds to wait for the file round trip.")
@provider_options
@json_option
@yes_option
@click.pass_context
def doctor(context: click.Context, /, run: str | None, **given: Any) -> int:
    """Check endpoint, credentials and a file's round trip, free of charge; with RUN check that run, offline.

    Exit 1 with a broken check.
    """
    if run is None:
        found = _machine(context.obj.runs_dir, given)
    else:
        from iwb_batch.workflow import looking
        from iwb_batch.workflow.run_checks import run_checks

        if given["probe"]:
            raise UsageError("--probe is about an endpoint, RUN about a run", hint="Give one of them.")
        found = run_checks(looking.choose(context.obj.runs_dir, run))
    return _tell(found, as_json=given["as_json"])


def _machine(runs_dir: Path, given: dict[str, Any]) -> list[Check]:
    from iwb_batch.report.checks import is_sound
    from iwb_batch.workflow import doctor as use_case
    from iwb_batch.workflow.clock import Clock
    from iwb_batch.workflow.settings import Options

    options = Options(**{name: given[name] for name in ("api_version", "auth", "entra_scope")})
    asked = use_case.Asked(given["provider"], options, given["wait"])
    found = list(use_case.local_checks(runs_dir))
    settings, connection = use_case.connect(asked, os.environ)
    found += settings
    if connection is None or not is_sound(settings):
        return found
    from iwb_batch.providers.openai_batch import OpenAIBatch

    with OpenAIBatch(connection) as provider:
        remote = list(use_case.remote_checks(provider, asked, Clock()))
        found += remote
        if given["probe"] and is_sound(remote):
            found += _probe(provider, given, connection.host)
    return found


def _probe(provider: Any, given: dict[str, Any], host: str) -> list[Check]:
    from iwb_batch.workflow import probe
    from iwb_batch.workflow.clock import Clock

    names = ("judge", "timeout", "max_completion_tokens", "reasoning_effort", "structured_output")
    asked = probe.Probe(**{name: given[name] for name in names})
    question = f"send one real request to {asked.judge} at {host} as a batch? It is billed, and may take long"
    if not output.confirm_unless(given["yes"])(question):
        return []
    output.message(f"one request to {asked.judge} as a batch; waiting at most {asked.timeout:.0f} s")
    return list(probe.probe(provider, asked, Clock()))


def _tell(found: Sequence[Check], *, as_json: bool) -> int:
    from iwb_batch.report import checks

    output.data(json.dumps(checks.shape(found), ensure_ascii=False, indent=2) if as_json else checks.to_text(found))
    return 0 if checks.is_sound(found) else 1


@click.command()
@run_argument
@click.pass_context
def reparse(context: click.Context, run: str | None) -> int:
    """Read the stored raw outputs again with the present parser and schema. No calls, no credentials."""
    from iwb_batch.workflow import looking
    from iwb_batch.workflow import reparse as use_case
    from iwb_batch.workflow.clock import Clock

    folder = looking.choose(context.obj.runs_dir, run)
    done = use_case.reparse(folder, clock=Clock(), progress=output.Console())
    output.data(use_case.to_text(done))
    return 0


def _export_bundle(folder: RunFolder, _form: str, out: Path | None) -> None:
    from iwb_batch.workflow import bundle

    target = out or Path(f"{folder.path.name}.zip")
    sha256 = bundle.write_bundle(folder, target)
    output.data(f"{target}  sha256 {sha256}")
    output.message(f"check it anywhere with: iwb-batch export --verify {target}")


def _export_lines(folder: RunFolder, form: str, out: Path | None) -> None:
    from iwb_batch.workflow import exporting

    if out is not None:
        exporting.write_judgements(folder, form, out)
        output.data(str(out))
        return
    for line in exporting.judgement_lines(folder, form):
        click.echo(line)


def _export_parquet(folder: RunFolder, _form: str, out: Path | None) -> None:
    from iwb_batch.workflow import tabular

    target = out or Path(f"{folder.path.name}.parquet")
    n = tabular.write_parquet(folder, target)
    output.data(f"{target}  {counted(n, 'judgement')}")


def _export_dataset(folder: RunFolder, _form: str, out: Path | None) -> None:
    from iwb_batch.workflow import tabular

    target = out or Path(f"{folder.path.name}-dataset")
    counts = tabular.write_dataset(folder, target)
    output.data(f"{target}  {', '.join(f'{n} {name}' for name, n in counts.items())}")


EXPORTS = {
    "bundle": _export_bundle,
    "csv": _export_lines,
    "jsonl": _export_lines,
    "parquet": _export_parquet,
    "dataset": _export_dataset,
}
"""How each format of ``export`` is written: (run folder, format, --out or None)."""


@click.command()
@run_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(list(EXPORTS)),
    default="bundle",
    show_default=True,
    help="Evidence bundle, or the judgements alone.",
)
@click.option(
    "--out", type=NEW_FILE, help="Where to write. [default: RUN.zip, RUN.parquet or RUN-dataset; stdout for csv, jsonl]"
)
@click.option("--verify", type=PATH, metavar="FILE", help="Check a bundle instead; needs no run folder.")
@json_option
@click.pass_context
def export(
    context: click.Context, run: str | None, form: str, out: Path | None, verify: Path | None, *, as_json: bool
) -> int:
    """Write an evidence bundle or the judgements of a run; with --verify check a bundle (exit 1 when it differs)."""
    if verify is not None:
        if run is not None or out is not None:
            raise UsageError("--verify checks a bundle on its own", hint="Leave RUN and --out out.")
        from iwb_batch.workflow import bundle

        return _tell(bundle.verify(verify), as_json=as_json)
    from iwb_batch.workflow import looking

    EXPORTS[form](looking.choose(context.obj.runs_dir, run), form, out)
    return 0


COMMANDS = (doctor, reparse, export)
