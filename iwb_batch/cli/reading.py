"""Commands that only read: ``status``, ``report``, ``query``, ``show``, ``runs``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import NEW_FILE, PATH, Whole, format_option, json_option, run_argument, run_names
from iwb_batch.errors import UsageError

if TYPE_CHECKING:
    from iwb_batch.report.formats import Format as Form

FORMATS = ("table", "csv", "json", "jsonl")


@click.command()
@run_argument
@json_option
@click.pass_context
def status(context: click.Context, run: str | None, *, as_json: bool) -> int:
    """Show how far a run is: requests, outcomes, batches, tokens, cost."""
    from iwb_batch.report import status as text
    from iwb_batch.workflow import looking
    from iwb_batch.workflow import status as use_case
    from iwb_batch.workflow.clock import Clock

    with looking.reading(looking.choose(context.obj.runs_dir, run)) as database:
        found = use_case.standing(database, Clock())
    output.data(text.render(found, as_json=as_json))
    return 0


@click.command()
@run_argument
@format_option("How the report is written.")
@click.option("--compat", is_flag=True, help="The table of the original WritingBench scorer instead.")
@click.option(
    "--requirements",
    type=PATH,
    help="WritingBench: the original's requirement/ folder, for style, format and length scores.",
)
@click.option("--human", type=PATH, help="Labels by people: index, score (and criterion), or row, preferred.")
@click.option("--html", type=NEW_FILE, help="Also write one self-contained page with every item.")
@click.option("--plots", type=NEW_FILE, help="Also draw the numbers into this folder, as PNG and SVG (extra `plots`).")
@click.pass_context
def report(context: click.Context, /, run: str | None, form: Form, *, compat: bool, **given: Path | None) -> int:
    """Print the numbers of a run, each with how many items it rests on. Exit 0 complete, 3 open, 4 incomplete."""
    from iwb_batch.workflow import looking, reporting

    beside = reporting.Beside(human=given["human"], html=given["html"], plots=given["plots"])
    folder = looking.choose(context.obj.runs_dir, run)
    done = reporting.full_report(folder, form, compat=compat, requirements=given["requirements"], beside=beside)
    for path in done.written:
        output.message(f"wrote {path}")
    output.data(done.text)
    unkept = reporting.keep(folder, done.text, form, compat=compat)
    if unkept is not None:
        output.message(f"note: {unkept}")
    return done.code


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[RUN] SQL", shell_complete=run_names)
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="How rows are written."
)
@click.pass_context
def query(context: click.Context, arguments: tuple[str, ...], form: str) -> int:
    """Run SQL on a run file, read-only. docs/audit.md describes tables and views."""
    from iwb_batch.workflow import looking, querying

    run, sql = _run_and(arguments, "SQL")
    with looking.reading(looking.choose(context.obj.runs_dir, run)) as database:
        for chunk in querying.rows(database, sql, form):
            click.echo(chunk)
    return 0


@click.command()
@click.argument("arguments", nargs=-1, required=True, metavar="[RUN] INDEX", shell_complete=run_names)
@click.option("--criterion", type=Whole(), help="Only this criterion (from 0).")
@json_option
@click.pass_context
def show(context: click.Context, arguments: tuple[str, ...], criterion: int | None, *, as_json: bool) -> int:
    """Show one item: prompt, response, every attempt, every verdict."""
    from iwb_batch.workflow import looking, showing

    run, text = _run_and(arguments, "INDEX")
    index = Whole().convert(text, None, None)
    folder = looking.choose(context.obj.runs_dir, run)
    with looking.reading(folder) as database:
        found = showing.item(database, index, criterion)
    output.data(json.dumps(found, ensure_ascii=False, indent=2) if as_json else showing.to_text(found))
    return 0


def _run_and(arguments: tuple[str, ...], what: str) -> tuple[str | None, str]:
    """One argument is the SQL or INDEX (run names are never all digits), two are RUN and it."""
    if len(arguments) > 2:
        raise UsageError(f"too many arguments: give [RUN] {what}", hint="Put the SQL into quotes.")
    return (arguments[0], arguments[1]) if len(arguments) == 2 else (None, arguments[0])


@click.command()
@json_option
@click.pass_context
def runs(context: click.Context, *, as_json: bool) -> int:
    """List the runs."""
    from iwb_batch.workflow import listing

    found = listing.runs(Path(context.obj.runs_dir))
    output.data(json.dumps(found, ensure_ascii=False, indent=2) if as_json else _runs_text(found))
    return 0


def _runs_text(found: list[dict[str, Any]]) -> str:
    if not found:
        return "no runs"
    from iwb_batch.report import rows

    columns = ("run", "state", "scored", "planned", "judge", "created_at")
    return "\n".join(rows.table(columns, [[entry.get(name, "") for name in columns] for entry in found]))


COMMANDS = (status, report, query, show, runs)
