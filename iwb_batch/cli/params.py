"""Option types and shared options. Every option has an environment twin: IWB_BATCH_<COMMAND>_<OPTION>."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from iwb_batch.core.words import counted

if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:  # generic in the stubs of newer click only
    ParamType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])


class Lines(ParamType):
    """Text; a repeatable option takes one value a line from its environment variable."""

    name = "text"

    def split_envvar_value(self, rv: str) -> list[str]:
        """One value a line; blank lines are none."""
        return [line.removesuffix("\r") for line in rv.split("\n") if line.strip()]

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Text without the white space at its ends; fails when nothing is left."""
        text = str(value).strip()
        if not text:
            self.fail("an empty text says nothing; leave the option out", param, ctx)
        return text


class KeyValue(Lines):
    """``KEY=VALUE``."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A (key, value) pair."""
        if isinstance(value, tuple):
            return value
        key, sign, text = str(value).partition("=")
        if not sign or not key.strip():
            self.fail(f"{value!r} is not KEY=VALUE", param, ctx)
        return key.strip(), text


class Whole(ParamType):
    """A whole number in ASCII digits: int() would take digits of other scripts silently."""

    name = "integer"

    def __init__(self, least: int = 0, most: int = 10**15 - 1) -> None:
        self.least = least
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; fails outside what is allowed."""
        text = str(value).replace("_", "")
        if re.fullmatch(r"[0-9]{1,15}", text, re.ASCII) is None or not self.least <= int(text) <= self.most:
            to = f" to {self.most:,}" if self.most < 10**15 - 1 else ""
            self.fail(f"{value!r} is not a whole number from {self.least}{to}", param, ctx)
        return int(text)


class Amount(ParamType):
    """A number that is not negative, in ASCII digits: seconds, US dollars.

    Below a billion: more seconds than that are no moment a clock can name.
    """

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?|\.[0-9]+", str(value), re.ASCII) is None:
            self.fail(f"{value!r} is not a number from 0 to 999,999,999", param, ctx)
        return float(str(value))


class FileLines(Lines):
    """Paths; a repeatable option takes one a line, since a path may hold any other separator."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A path."""
        return Path(str(value).strip())


class RowOption(click.Option):
    """A repeatable option of several values; click would drop an incomplete row of its environment twin silently."""

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """Rows of values; fails where one is cut short."""
        words = (self.resolve_envvar_value(ctx) or "").split()
        if len(words) % self.nargs:
            held = f"{self.envvar} holds {counted(len(words), 'value')}"
            raise click.BadParameter(f"{held}; awaited are {self.metavar}, one such row a line", ctx, self)
        return super().value_from_envvar(ctx)


class NewFile(click.Path):
    """Where a command writes: anywhere but over the files a run consists of."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A path; fails for run.db, run.lock and what lies in requests/ and raw/ of a run folder."""
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        place = path.resolve()
        for folder in place.parents:
            if (folder / "run.db").is_file() and place.relative_to(folder).parts[0].startswith(RUN_FILES):
                self.fail(f"{path} belongs to the run {folder.name}: its files are never overwritten", param, ctx)
        return path


RUNS_DIR = "runs"
RUN_FILES = ("run.db", "run.lock", "requests", "raw")
PATH = click.Path(path_type=Path)
NEW_FILE = NewFile()
TEXT = Lines()


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Apply several options in the order given."""

    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


data_options = together(
    click.option("--benchmark", type=TEXT, help="Benchmark to judge on; a wrong name lists them."),
    click.option(
        "--dataset",
        type=TEXT,
        multiple=True,
        help="Hub id, folder with configs, or a parquet / JSONL / JSON file. Repeatable for pairs.",
    ),
    click.option("--subset", type=TEXT, help="Config of the data set (a language), or language of the rows."),
    click.option("--split", type=TEXT, default="test", show_default=True, help="Split of the data set."),
    click.option("--revision", type=TEXT, help="Revision of a hub data set."),
    click.option(
        "--where",
        type=KeyValue(),
        multiple=True,
        help="Judge only items with KEY=VALUE. Same key: or; different keys: and.",
    ),
    click.option("--limit", type=Whole(1), help="Judge the first N items left after --where."),
)

provider_options = together(
    click.option(
        "--provider",
        type=click.Choice(["azure", "openai", "files"]),
        default="azure",
        show_default=True,
        help="Who runs batches.",
    ),
    click.option("--api-version", type=TEXT, help="'v1' or a date for the classic surface. [default: v1]"),
    click.option(
        "--auth", type=click.Choice(["key", "entra"]), default="key", show_default=True, help="API key or Entra ID."
    ),
    click.option("--entra-scope", type=TEXT, help="Scope of the Entra ID token."),
)

wait_option = click.option(
    "--wait", type=Amount(), default=60.0, show_default=True, help="Seconds to wait for uploads and validation."
)
grace_option = click.option(
    "--grace",
    type=Amount(),
    default=120.0,
    show_default=True,
    help="Seconds before a lost create call may be repeated.",
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


def run_names(context: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """What a shell offers where a run is named: the run folders whose names a command takes."""
    from iwb_batch.workflow.folder import is_safe_name, run_folders

    # A shell asks without the defaults being filled in, and with ~ as it was typed.
    given = context.find_root().params.get("runs_dir")
    runs_dir = Path(given or os.environ.get("IWB_BATCH_RUNS_DIR") or RUNS_DIR)
    try:
        names = [found.path.name for found in run_folders(runs_dir.expanduser())]
    except (OSError, RuntimeError):  # no permission; no home
        return []
    return [name for name in names if name.startswith(incomplete) and is_safe_name(name)]


run_argument = click.argument("run", required=False, shell_complete=run_names)
run_option = click.option(
    "--run",
    type=TEXT,
    help="Name of the run. [default: made from benchmark, subset, model and plan]",
    shell_complete=run_names,
)


def format_option(help_text: str) -> Callable[[F], F]:
    """``--format`` of the commands that write a report."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(["table", "markdown", "csv", "json"]),
        default="table",
        show_default=True,
        help=help_text,
    )
