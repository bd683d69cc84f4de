"""One command at work on one run: everything the steps share, and how calls are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from iwb_batch.core.prices import Prices
from iwb_batch.errors import ProviderRefused
from iwb_batch.providers.base import BatchProvider, CallFailed, ProviderMessage, Rejected, Unavailable
from iwb_batch.store import batches, plan, views
from iwb_batch.store.database import Database
from iwb_batch.workflow.clock import Clock, seconds_of, stamp
from iwb_batch.workflow.folder import RunFolder
from iwb_batch.workflow.judging import Judging
from iwb_batch.workflow.progress import Progress
from iwb_batch.workflow.settings import Options, Waiting

LONGEST_DELAY = 3_600.0
"""Seconds; nothing is put off for longer, whatever a server asks for."""

Boundary = Callable[[str], None]
"""Called with the name of each step between two durable states: the seam where tests let the process die."""


def no_boundary(_name: str) -> None:
    """Nothing happens between two steps."""


@dataclass
class Session:
    """A run opened for work."""

    database: Database
    folder: RunFolder
    provider: BatchProvider
    judging: Judging
    options: Options
    waiting: Waiting
    clock: Clock
    progress: Progress
    boundary: Boundary = no_boundary
    fresh: bool = False
    """True when the run was made by this very command: no call can have been lost yet."""
    answered: bool = False
    """True once any call got an answer."""
    unanswered: str | None = None
    """The last failure without an answer, and who did not give it."""
    silent: set[str] = field(default_factory=set)
    """Hosts of whom this command has told that they do not answer."""
    refusals: list[str] = field(default_factory=list)
    """Definite refusals of batches, told at the end of the pass."""
    looked: bool = False
    """True once this pass has read the provider's list of batches to the end."""
    found_wanting: set[int] = field(default_factory=set)
    """Batches this pass has found wanting: however often it looks, it counts as one look at each."""
    held_until: float = 0.0
    """Monotonic moment before which the server asked not to be called again."""

    @property
    def run(self) -> views.Run:
        """The run row, read afresh."""
        return views.run(self.database)

    @property
    def prices(self) -> Prices:
        """Prices stored in the run."""
        run = self.run
        return Prices(run.price_input, run.price_cached, run.price_output, run.price_source)

    @property
    def may_send(self) -> bool:
        """True while the run is neither stopped nor halted."""
        return self.run.standing == "running"

    def counts(self) -> dict[str, int]:
        """Requests by status, counted again only after something was written: nobody else writes under the lock."""
        return self.database.once("count_statuses", views.count_statuses)

    def event(self, kind: str, detail: str | None = None, batch_id: int | None = None) -> None:
        """Append an event to run.db."""
        batches.add_event(self.database, self.clock.stamp(), kind, detail, batch_id)

    def later(self, seconds: float) -> str:
        """The stored form of a moment from now."""
        return stamp(self.clock.now() + seconds)

    def is_due(self, moment: str | None) -> bool:
        """True when a stored moment has passed, is absent, or was written by a clock that has been set back since."""
        ahead = 0.0 if moment is None else seconds_of(moment) - self.clock.now()
        return ahead <= 0 or ahead > LONGEST_DELAY

    def pause(self, seconds: float) -> float:
        """How long to sleep before the next look: at least what the server asked for."""
        return max(seconds, self.held_until - self.clock.monotonic())

    def stand(self, standing: str, reason: str | None) -> None:
        """Stop, halt or continue the run; committed with its event."""
        with self.database.transaction():
            plan.update_run(self.database, standing=standing, standing_reason=reason)
            self.event(standing, reason)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around each provider call: remembers whether anybody answers, and ends at refused credentials."""
        try:
            yield
            self.answered = True
        except CallFailed as error:
            host = error.host or self.provider.host
            if error.status is not None:
                self.answered = True
            else:
                self.unanswered = f"{host} cannot be reached: {error.message}"
                if isinstance(error, Unavailable):  # a lost reply to a POST is told where it matters
                    self._tell_silence(host)
            if error.retry_after is not None:
                self.held_until = self.clock.monotonic() + min(error.retry_after, LONGEST_DELAY)
            if isinstance(error, Rejected) and error.status in (401, 403):
                raise ProviderRefused(
                    f"{host} refused the credentials: {words(error.errors, error.message)}",
                    hint="Check the key (or the role for Entra ID) and the endpoint, then run the same command again;"
                    " nothing is lost.",
                ) from error
            raise

    def _tell_silence(self, host: str) -> None:
        """Say at once, and once, that somebody does not answer, and for how long it is asked again."""
        if host in self.silent or not (self.waiting.wait or self.waiting.watch):
            return
        self.silent.add(host)
        until = f"--wait ({self.waiting.wait:g} s) is over"
        if self.waiting.watch:
            until = "it answers" if self.waiting.timeout is None else "--timeout is over"
        self.progress.warn(f"{host} does not answer; asked again until {until}")


def words(errors: Iterable[ProviderMessage], otherwise: str) -> str:
    """The provider's own words in one line: code, line, message."""
    parts = []
    for error in errors:
        where = f"line {error.line}: " if error.line is not None else ""
        code = f"{error.code}: " if error.code else ""
        parts.append(f"{code}{where}{error.message}")
    text = "; ".join(parts[:3]) or otherwise
    return " ".join(text.split())[:600]


def retry_moment(session: Session, error: Unavailable, otherwise: float) -> str:
    """When to try again after an unavailable answer: the server's Retry-After, else ``otherwise`` seconds."""
    return session.later(min(otherwise if error.retry_after is None else error.retry_after, LONGEST_DELAY))
