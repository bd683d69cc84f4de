"""What the commands write: data to stdout, messages and progress to stderr, hostile text made visible."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

import click

from iwb_batch.report.display import visible

if TYPE_CHECKING:
    from tqdm import tqdm


def prepare_streams() -> None:
    """Let no console encoding stop a command: what it cannot show appears as an escape."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def data(text: str) -> None:
    """Write data to stdout, ending in one newline."""
    click.echo(text.removesuffix("\n"))


def message(text: str) -> None:
    """Write one line to stderr."""
    click.echo(visible(text), err=True)


class Console:
    """Progress on stderr: a bar on a terminal, a line at each change of state elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._bar: tqdm[Any] | None = None
        self._what = ""

    def say(self, message: str) -> None:
        """One line about a change of state."""
        self._line(visible(message))

    def warn(self, message: str) -> None:
        """One line the user should know about."""
        self._line(f"note: {visible(message)}")

    def _line(self, text: str) -> None:
        self._end()
        click.echo(text, err=True)

    def count(self, what: str, done: int, total: int) -> None:
        """How far a long step is."""
        if not self._stream.isatty():
            return
        if self._bar is None or self._what != what:
            self._end()
            from tqdm import tqdm

            self._bar, self._what = tqdm(total=total, desc=what, unit="", file=self._stream, leave=False), what
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._end()

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def is_interactive() -> bool:
    """True when a question can be asked and answered."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def confirm_unless(yes: bool) -> Callable[[str], bool]:
    """A function that asks on a terminal, and says yes elsewhere or with ``--yes``."""

    def confirm(question: str) -> bool:
        if yes or not is_interactive():
            return True
        return click.confirm(visible(question), default=True, err=True)

    return confirm
