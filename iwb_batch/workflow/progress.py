"""What a use case tells its caller while it works. The default says nothing."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Receiver of messages; the CLI writes them to stderr."""

    def say(self, message: str) -> None:
        """One line about a change of state."""

    def warn(self, message: str) -> None:
        """One line the user should act on or know about."""

    def count(self, what: str, done: int, total: int) -> None:
        """How far a long step is; called again and again, ``done == total`` ends it."""


class Quiet:
    """Says nothing."""

    def say(self, message: str) -> None:
        """Do nothing."""

    def warn(self, message: str) -> None:
        """Do nothing."""

    def count(self, what: str, done: int, total: int) -> None:
        """Do nothing."""
