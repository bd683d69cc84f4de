"""The clock as a parameter, so that tests wait for nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class Clock:
    """Wall clock for what is stored, monotonic clock for how long we wait."""

    def now(self) -> float:
        """Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; Ctrl-C ends it at once."""
        if seconds > 0:
            time.sleep(seconds)

    def stamp(self) -> str:
        """Now, as run.db stores it."""
        return stamp(self.now())


def stamp(seconds: float) -> str:
    """Unix seconds as ISO 8601 UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def seconds_of(text: str) -> float:
    """Unix seconds of a stored time."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()
