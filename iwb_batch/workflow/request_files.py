"""Writing request files: streamed, cut by limits, hashed, written once; each with its attempts in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from iwb_batch.core.split import Filler, Limits
from iwb_batch.errors import RunError
from iwb_batch.store import plan
from iwb_batch.store.database import Database
from iwb_batch.store.plan import PlannedAttempt, ToSend
from iwb_batch.workflow import pilot, quota
from iwb_batch.workflow.folder import WholeFile
from iwb_batch.workflow.judging import Judging
from iwb_batch.workflow.session import Session
from iwb_batch.workflow.settings import Measured

ATTEMPTS_AT_ONCE = 1_000
BYTES_AT_ONCE = 1 << 20


def limits_of(session: Session) -> Limits:
    """Limits of a request file: the user's, and the smallest enqueued-token limit learned so far."""
    options, lanes = session.options, session.judging.lanes
    tokens = quota.smallest(quota.limit(session, lane) for lane in lanes)
    return Limits(options.max_requests_per_file, options.max_bytes_per_file, tokens)


def _learned(session: Session) -> int | None:
    return quota.smallest(quota.learned(session, lane) for lane in session.judging.lanes)


def measure_open(session: Session) -> Measured:
    """What everything that would be sent now comes to, within all limits known so far."""
    return measure(session.database, limits_of(session), _learned(session))


def measure(database: Database, limits: Limits, learned: int | None = None) -> Measured:
    """What everything that would be sent comes to; bytes and files are exact while nothing was sent before."""
    plan.mark_sendable(database)
    filler, files, requests, n_bytes, n_tokens = Filler(limits), 0, 0, 0, 0
    for item_index, size in plan.sizes(database):
        files += filler.add(size.n_bytes, _within(learned, size.n_tokens), _name(item_index))
        requests += 1
        n_bytes += size.n_bytes
        n_tokens += size.n_tokens
    return Measured(files, requests, n_bytes, n_tokens)


@dataclass(frozen=True, slots=True)
class Route:
    """Where requests go when it is not the run's own deployment: another judge, made online."""

    judging: Judging
    by: str


def write_request_files(session: Session, online: Route | None = None) -> int:
    """Write request files for every open request without an open attempt; returns how many requests."""
    plan.mark_sendable(session.database)
    pilot.restrict(session)
    total = plan.count_sendable(session.database)
    if total == 0:
        return 0
    with ExitStack() as stack:
        writer = _Writer(session, online, stack)
        for done, to_send in enumerate(plan.sendable(session.database), start=1):
            writer.add(to_send)
            session.progress.count("writing requests", done, total)
        writer.commit()
    return total


class _Writer:
    """Cuts the stream of requests into files; each file goes to the lane with the least to do so far."""

    def __init__(self, session: Session, online: Route | None, stack: ExitStack) -> None:
        self._session = session
        self._online = online
        self._stack = stack
        self._judging = session.judging if online is None else online.judging
        self._run_id = session.run.run_id
        self._learned = _learned(session)
        self._filler = Filler(limits_of(session))
        self._lane = self._judging.lanes[0]
        self._current: _OpenFile | None = None

    def add(self, to_send: ToSend) -> None:
        """Append one request, in a new file where it does not fit into the present one."""
        attempt, line = self._judging.render(self._run_id, to_send, self._lane)
        if self._filler.add(len(line), _within(self._learned, attempt.n_tokens), _name(to_send.request.item_index)):
            self.commit()
            self._lane = plan.idlest_lane(self._session.database, self._judging.lanes)
            attempt, line = self._judging.render(self._run_id, to_send, self._lane)
            self._current = self._stack.enter_context(_open_file(self._session, self._lane, self._online))
        assert self._current is not None, "the first line opens a file"
        self._current.add(attempt, line, self._judging.fault(attempt, line, self._lane))

    def commit(self) -> None:
        """Complete the present file, if there is one."""
        if self._current is not None:
            self._current.commit()
            self._current = None
            self._stack.close()


def _within(learned: int | None, n_tokens: int) -> int:
    """A line above a limit that was only learned fills a file of its own: whether it fits, the provider must say."""
    return n_tokens if learned is None else min(n_tokens, learned)


def _name(item_index: int) -> str:
    return f"item {item_index}"


class _OpenFile:
    """A request file being written, with its row and attempts in one open transaction."""

    def __init__(self, session: Session, whole: WholeFile, number: int, by: str | None) -> None:
        self._session = session
        self._by = by
        self._whole = whole
        self._number = number
        self._pending: list[tuple[PlannedAttempt, bytes]] = []
        self._held = 0
        self._requests = 0
        self._tokens = 0

    def add(self, attempt: PlannedAttempt, line: bytes, fault: str | None) -> None:
        """Append one line and its attempt. RunError: the line has a fault and is none a provider would take."""
        self._requests += 1
        if fault is not None:
            raise RunError(
                f"{self._whole.target.name} line {self._requests}, {attempt.custom_id}: {fault}",
                hint="Nothing of this file was sent, and no input can cause this: please report it.",
            )
        attempt.line = self._requests
        if self._by:
            attempt.changed = f"{attempt.changed}; {self._by}" if attempt.changed else self._by
        self._pending.append((attempt, line))
        self._held += len(line)
        self._tokens += attempt.n_tokens
        if self._held >= BYTES_AT_ONCE or len(self._pending) >= ATTEMPTS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        self._whole.write(b"".join(line for _, line in self._pending))
        plan.add_attempts(self._session.database, self._number, (attempt for attempt, _ in self._pending))
        self._pending.clear()
        self._held = 0

    def commit(self) -> None:
        """Put the file into place, then plan its batch. The file is on disk before anything depends on it."""
        self._flush()
        sha256 = self._whole.commit()
        self._session.boundary("request_file_written")
        plan.close_request_file(
            self._session.database,
            self._number,
            sha256=sha256,
            n_requests=self._requests,
            n_bytes=self._whole.n_bytes,
            n_tokens=self._tokens,
            at=self._session.clock.stamp(),
        )


@contextmanager
def _open_file(session: Session, lane: str, online: Route | None) -> Iterator[_OpenFile]:
    with session.database.transaction():
        number = plan.next_file_number(session.database)
        suffix = "-online" if online is not None else f"-{lane}" if lane else ""
        name = f"{number:04d}{suffix}.jsonl"
        at = session.clock.stamp()
        plan.open_request_file(session.database, number, name, at, lane=lane, online=online is not None)
        with WholeFile(session.folder.requests / name) as whole:
            yield _OpenFile(session, whole, number, None if online is None else online.by)
    session.boundary("request_file_planned")
