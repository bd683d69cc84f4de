"""``collect`` and ``cancel``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import (
    TEXT,
    Amount,
    FileLines,
    Lines,
    RowOption,
    Whole,
    grace_option,
    run_argument,
    run_names,
    wait_option,
    yes_option,
)
from iwb_batch.core.words import counted
from iwb_batch.errors import UsageError


class _Outcomes(Lines):
    """Outcomes separated by commas."""

    name = "outcome,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A tuple of words."""
        if isinstance(value, tuple):
            return value
        words = tuple(word.strip() for word in str(value).split(",") if word.strip())
        if not words:
            self.fail("no outcome is named", param, ctx)
        return words


@click.command()
@click.argument("arguments", nargs=-1, metavar="[RUN]", shell_complete=run_names)
@click.option("--watch", is_flag=True, help="Go on until every request has its outcome.")
@click.option("--poll-interval", type=Amount(), default=60.0, show_default=True, help="Seconds between passes.")
@click.option("--timeout", type=Amount(), help="Seconds after which --watch gives up waiting (exit 3).")
@wait_option
@click.option(
    "--settle",
    type=Amount(),
    default=1800.0,
    show_default=True,
    help="Seconds to wait for answers that are claimed but not there; 0 takes what came at once.",
)
@grace_option
@click.option(
    "--from", "answers", type=FileLines(), multiple=True, metavar="FILE...", help="Take answers another engine wrote."
)
@click.option("--close", is_flag=True, help="Provider files: give up what is still awaited as missing.")
@click.option("--finish-online", is_flag=True, help="Ask what waits for another attempt online, at the online price.")
@click.option("--online-judge", type=TEXT, metavar="DEPLOYMENT", help="Deployment for --finish-online.")
@click.option("--notify", type=TEXT, metavar="COMMAND", help="Run this once when the run is done or halted.")
@click.option("--retry", type=_Outcomes(), help="Give failed requests of these outcomes (or 'all') a fresh budget.")
@click.option(
    "--adopt",
    cls=RowOption,
    nargs=2,
    type=(Whole(1), TEXT),
    multiple=True,
    metavar="BATCH REMOTE_ID",
    help="Settle an ambiguous batch.",
)
@click.option("--recreate", type=Whole(1), multiple=True, metavar="BATCH", help="Create an ambiguous batch again.")
@click.option("--delete-remote", is_flag=True, help="Afterwards delete this run's collected files at the provider.")
@yes_option
@click.pass_context
def collect(context: click.Context, /, arguments: tuple[str, ...], **given: Any) -> int:
    """Bring verdicts home, validate them, resubmit what failed. One pass, or --watch."""
    from iwb_batch.workflow import collect as use_case
    from iwb_batch.workflow import looking, notify, opening
    from iwb_batch.workflow.clock import Clock
    from iwb_batch.workflow.settings import Waiting

    run, answers = _run_and_answers(arguments, given["answers"])
    _check_together(given)
    console = output.Console()
    confirm = output.confirm_unless(given["yes"])
    waiting = Waiting(
        **{name: given[name] for name in ("wait", "grace", "settle", "poll_interval", "timeout", "watch")}
    )
    by_hand = use_case.ByHand(
        retry=given["retry"] or (),
        adopt=given["adopt"],
        recreate=given["recreate"],
        answers=answers,
        close=given["close"],
        online_judge=given["online_judge"],
    )
    folder = looking.choose(context.obj.runs_dir, run)
    context.obj.run = folder.path.name
    with opening.working(
        folder,
        connect=opening.connect_from(os.environ, console, context.call_on_close),
        waiting=waiting,
        clock=Clock(),
        progress=console,
    ) as session:
        with notify.on_halt(session, given["notify"]):
            code = use_case.collect(session, by_hand, confirm)
        if given["notify"] and code != 3:
            notify.notify_once(session, given["notify"], code)
        if given["delete_remote"] and confirm("delete this run's collected files at the provider?"):
            console.say(f"{counted(use_case.delete_remote(session), 'file')} deleted at the provider")
    return code


def _check_together(given: dict[str, Any]) -> None:
    if given["finish_online"] != (given["online_judge"] is not None):
        raise UsageError(
            "--finish-online and --online-judge go together",
            hint="--online-judge names a deployment for online requests.",
        )


def _run_and_answers(arguments: tuple[str, ...], answers: tuple[Path, ...]) -> tuple[str | None, tuple[Path, ...]]:
    """``--from A B``: what follows the first file and is a file belongs to it; at most one word is left for RUN."""
    files = [word for word in arguments if answers and Path(word).suffix and Path(word).is_file()]
    words = [word for word in arguments if word not in files]
    if len(words) > 1:
        raise UsageError(f"too many arguments: {' '.join(words)}", hint="Give one RUN, or none for the newest.")
    return (words[0] if words else None), (*answers, *map(Path, files))


@click.command()
@run_argument
@yes_option
@click.option("--delete-remote", is_flag=True, help="Also delete this run's collected files at the provider.")
@click.pass_context
def cancel(context: click.Context, run: str | None, *, yes: bool, delete_remote: bool) -> int:
    """Stop the run and cancel its remote batches. What was answered stays and is billed."""
    from iwb_batch.workflow import collect as use_case
    from iwb_batch.workflow import looking, opening
    from iwb_batch.workflow.clock import Clock
    from iwb_batch.workflow.settings import Waiting

    folder = looking.choose(context.obj.runs_dir, run)
    context.obj.run = folder.path.name
    if not yes:
        if not output.is_interactive():
            raise UsageError("cancel needs --yes when there is no terminal to ask on")
        if not click.confirm(f"stop run {folder.path.name} and cancel its batches?", err=True):
            return 0
    console = output.Console()
    with opening.working(
        folder,
        connect=opening.connect_from(os.environ, console, context.call_on_close),
        waiting=Waiting(wait=0.0),
        clock=Clock(),
        progress=console,
    ) as session:
        code = use_case.cancel(session)
        if delete_remote:
            console.say(f"{counted(use_case.delete_remote(session), 'file')} deleted at the provider")
    if code == 3:
        console.say("cancelling takes up to 10 minutes; `iwb-batch collect` brings home what was answered")
    return code


COMMANDS = (collect, cancel)
