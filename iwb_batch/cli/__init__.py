"""The command line: parse, call one use case, print. The only place that catches everything and sets exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from iwb_batch import __version__
from iwb_batch.cli import output
from iwb_batch.cli.commands import Commands
from iwb_batch.cli.params import PATH, RUNS_DIR
from iwb_batch.errors import InputError, IwbError, UsageError

COMPLETE = "_IWB_BATCH_COMPLETE"
"""Set by a shell's completion script."""


class Settings:
    """What stands before the command, and the run at work for the message of an interruption."""

    def __init__(self, runs_dir: Path, *, verbose: bool) -> None:
        self.runs_dir = runs_dir
        self.verbose = verbose
        self.run: str | None = None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="iwb-batch")
@click.option(
    "--runs-dir",
    type=PATH,
    default=Path(RUNS_DIR),
    show_default=True,
    envvar="IWB_BATCH_RUNS_DIR",
    help="Folder of the runs.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show the calls made, and the traceback of an unexpected error.")
@click.pass_context
def cli(context: click.Context, runs_dir: Path, *, verbose: bool) -> None:
    """Judge model-written text with an LLM through the Azure OpenAI Batch API."""
    context.obj = Settings(runs_dir, verbose=verbose)
    if verbose:
        import logging

        logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(name)s: %(message)s")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit code; or answer a shell that completes one, as click has them ask."""
    asked = os.environ.get(COMPLETE)
    if asked:
        from click.shell_completion import shell_complete

        sys.exit(shell_complete(cli, {}, "iwb-batch", COMPLETE, asked))
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit code."""
    output.prepare_streams()
    context: click.Context | None = None
    try:
        with cli.make_context(
            "iwb-batch", list(sys.argv[1:] if arguments is None else arguments), auto_envvar_prefix="IWB_BATCH"
        ) as context:
            code = cli.invoke(context)
            return code if isinstance(code, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except IwbError as error:
        output.message(f"error: {error.message}")
        output.message(f"  {error.hint or _next_step(error)}")
        return error.exit_code
    except (KeyboardInterrupt, click.Abort, EOFError) as stop:
        _interrupted(_settings(context), stop)
        return 130
    except BrokenPipeError:
        # The reader of stdout went away (head, a pager): nothing is wrong.
        sys.stdout = None
        return 0
    except Exception as error:  # noqa: BLE001 (the one place: an unexpected error is one line for the user)
        return _unexpected(error, _settings(context))


def _next_step(error: IwbError) -> str:
    """What to do next where the error itself does not say it."""
    if isinstance(error, UsageError):
        return "`iwb-batch COMMAND --help` lists the options."
    if isinstance(error, InputError):
        return "Mend the input, then run the same command again."
    return "Mend the cause, then run the same command again; the run is as it was."


def _settings(context: click.Context | None) -> Settings | None:
    return context.find_object(Settings) if context is not None else None


def _interrupted(settings: Settings | None, stop: BaseException) -> None:
    known = settings.run if settings is not None else None
    name = stop.args[0] if isinstance(stop, KeyboardInterrupt) and stop.args else known
    run = f" {name}" if name else ""
    output.message("interrupted: everything so far is saved; batches at the provider go on.")
    output.message(f"  `iwb-batch collect{run}` goes on from here, `iwb-batch cancel{run}` stops the remote work.")


def _unexpected(error: Exception, settings: Settings | None) -> int:
    if settings is not None and settings.verbose:
        import logging

        logging.getLogger(__name__).error("unexpected error", exc_info=error)
    output.message(f"error: unexpected {type(error).__name__}: {error}")
    output.message("  This is a fault of iwb-batch; the run is as it was. Run again with -v for a traceback to report.")
    return 1
