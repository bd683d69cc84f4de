"""A small complete run under faults: built at use-case level, driven to its end, checked against what must hold.

The real SDK talks to the emulator in process; the clock is a number that sleeping advances; every command opens the
run afresh, as a new process would.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.emulator.judge import Judge
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.transport import InProcess
from iwb_batch.errors import IwbError
from iwb_batch.providers.base import BatchProvider
from iwb_batch.providers.connection import from_environment
from iwb_batch.providers.openai_batch import OpenAIBatch
from iwb_batch.store import database as db
from iwb_batch.store import views
from iwb_batch.store.database import Database
from iwb_batch.workflow import collect as collecting
from iwb_batch.workflow import opening
from iwb_batch.workflow import reparse as reparsing
from iwb_batch.workflow import submit as submitting
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.collect import ByHand
from iwb_batch.workflow.folder import RunFolder
from iwb_batch.workflow.session import Boundary, Session, no_boundary
from iwb_batch.workflow.settings import Inputs, JudgeSettings, Options, Waiting
from iwb_batch.workflow.submit import SubmitRequest, Submitted

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where there is a disk in memory, the many small runs of these tests go there: each commit waits for its disk."""

KEY = "loopback-only-key"
RUN = "small"
WITHOUT_EXPIRY = "2024-10-21"
"""A dated surface that takes ``expires_after`` and does nothing with it."""
START = 1_800_000_000.0
GRACE = 120.0
SETTLE = 1_800.0
DAY = 86_400.0
QUERIES = ("गाँव की सुबह पर एक छोटी कविता लिखिए।", "写一段关于江南雨季的短文。", "Write a short letter to a night train.")
ANSWERS = (
    "धूप उतरी खेत पर,\u2028चिड़िया बोली पेड़ पर।",
    "雨落在青瓦上，巷子安静得像一口井。",
    "Dear train, you leave {criteria} behind.",
)

RESUBMISSIONS = (
    RequestFault(fault="invalid_json", match="-i0-c1-", times=1),
    RequestFault(fault="server_error", match="-i1-c2-", times=1),
    RequestFault(fault="truncated", match="-i2-c3-", times=1),
    RequestFault(fault="refusal", match="-i2-c4-", times=2),
)
"""Faults of four requests, so that even the undisturbed run sends three generations of request files."""

Scores = dict[tuple[int, int, int], int]
"""Score by (item index, criterion index, repeat)."""


class Crash(BaseException):
    """The process dies here, as far as one process can die inside another: nothing handles it."""


class FakeClock(Clock):
    """A clock that stands still unless somebody sleeps; ``jump`` moves the wall clock alone."""

    def __init__(self, start: float = START) -> None:
        self.wall = start
        self.steady = 0.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def sleep(self, seconds: float) -> None:
        self.wall += max(seconds, 0.0)
        self.steady += max(seconds, 0.0)

    def jump(self, seconds: float) -> None:
        self.wall += seconds


@dataclass
class Heard:
    """A progress that remembers what was said."""

    lines: list[str] = field(default_factory=list)

    def say(self, message: str) -> None:
        self.lines.append(message)

    def warn(self, message: str) -> None:
        self.lines.append(message)

    def count(self, what: str, done: int, total: int) -> None:
        """Not remembered."""

    def text(self) -> str:
        return "\n".join(self.lines)


def write_inputs(folder: Path, n_items: int = 3) -> tuple[Path, Path]:
    """A dataset file and a responses file of ``n_items`` items with five criteria each."""
    items, responses = folder / "items.jsonl", folder / "responses.jsonl"
    bands = {band: f"{band}: what such a text looks like" for band in ("1-2", "3-4", "5-6", "7-8", "9-10")}
    with items.open("w", encoding="utf-8") as rows, responses.open("w", encoding="utf-8") as answers:
        for index in range(n_items):
            checklist = [
                {"name": f"गुण {number}", "criteria_description": f"Quality {number} of text {index}.", **bands}
                for number in range(5)
            ]
            query = f"{QUERIES[index % 3]} ({index})"
            row = {"index": index, "query": query, "domain": "Poetry", "language": "Hindi", "checklist": checklist}
            rows.write(json.dumps(row, ensure_ascii=False) + "\n")
            answers.write(json.dumps({"index": index, "response": ANSWERS[index % 3]}, ensure_ascii=False) + "\n")
    return items, responses


class World:
    """One emulated resource, one runs folder, one clock; commands are methods."""

    def __init__(
        self,
        root: Path,
        *,
        faults: FaultPlan | None = None,
        settings: Settings | None = None,
        judge: Judge | None = None,
        n_items: int = 3,
        options: Options | None = None,
        adapter: BatchProvider | None = None,
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.runs_dir = root / "runs"
        self.folder = RunFolder(self.runs_dir / RUN)
        self.clock = FakeClock()
        self.heard = Heard()
        self.errors: list[IwbError] = []
        self.options = options or Options(max_requests_per_file=8)
        self.waiting = Waiting(grace=GRACE, settle=SETTLE, timeout=10 * DAY)
        self.faults = faults if faults is not None else FaultPlan(requests=RESUBMISSIONS)
        self.service = Service(
            settings or Settings(key=KEY), judge=judge, faults=self.faults, state=root / "remote", clock=self.clock.now
        )
        self.items, self.responses = write_inputs(root, n_items)
        self.repeats = 1
        self.judge: dict[str, Any] = {"judge": "gpt-5.4"}
        self.boundary: Boundary = no_boundary
        self._reader: Database | None = None
        self.adapter: BatchProvider = adapter or adapter_in_process(self.service)

    def connect(self, _provider: str, _options: Options) -> BatchProvider:
        return self.adapter

    def request(self, **judge: Any) -> SubmitRequest:
        return SubmitRequest(
            inputs=Inputs(benchmark="indic-writing-bench", dataset=(str(self.items),), responses=self.responses),
            judge=JudgeSettings(**{**self.judge, "repeats": self.repeats, **judge}),
            options=self.options,
            waiting=self.waiting,
            runs_dir=self.runs_dir,
            run=RUN,
        )

    def submit(self, request: SubmitRequest | None = None, *, yes: bool = True) -> Submitted:
        """``submit`` with the same inputs each time."""
        return submitting.submit(
            request or self.request(),
            connect=self.connect,
            confirm=lambda _question: yes,
            clock=self.clock,
            progress=self.heard,
            boundary=self.boundary,
        )

    def resume(self) -> Submitted:
        """``submit --run NAME`` without inputs."""
        inputs = Inputs(benchmark="")
        return self.submit(replace(self.request(), inputs=inputs))

    @contextmanager
    def session(self, **waiting: Any) -> Iterator[Session]:
        with opening.working(
            self.folder,
            connect=self.connect,
            waiting=replace(self.waiting, **waiting),
            clock=self.clock,
            progress=self.heard,
            boundary=self.boundary,
        ) as session:
            yield session

    def collect(self, by_hand: ByHand | None = None, *, watch: bool = False, **waiting: Any) -> int:
        """``collect``, one pass or ``--watch``; the exit code."""
        with self.session(watch=watch, **waiting) as session:
            return collecting.collect(session, by_hand or ByHand(), lambda _question: True)

    def cancel(self) -> int:
        with self.session(wait=0.0) as session:
            return collecting.cancel(session)

    def reparse(self) -> None:
        reparsing.reparse(self.folder, clock=self.clock, progress=self.heard)

    def delete_remote(self) -> None:
        with self.session(wait=0.0) as session:
            collecting.delete_remote(session)

    def finish(self, *, commands: int = 40, pause: float = GRACE) -> int:
        """The same two commands again and again, as a user would, until the run needs nothing more."""
        for _ in range(commands):
            code = self.attempt()
            if code not in (None, 3):
                return code or 0
            self.clock.sleep(pause)
        raise AssertionError(f"not finished after {commands} rounds: {self.errors[-3:]} {self.heard.lines[-10:]}")

    def both(self) -> int:
        """``submit``, then ``collect --watch``."""
        self.submit()
        return self.collect(watch=True)

    def attempt(self) -> int | None:
        """``submit``, then ``collect --watch``: the exit code, None after an error a user would see as one line."""
        try:
            return self.both()
        except IwbError as error:
            self.errors.append(error)
            return None

    def crash(self, name: str, nth: int = 1) -> bool:
        """``submit`` and ``collect --watch`` as one process that dies at the ``nth`` passing of a boundary."""
        left = nth

        def boundary(passed: str) -> None:
            nonlocal left
            left -= passed == name
            if left == 0 and passed == name:
                raise Crash(name)

        self.boundary = boundary
        try:
            self.attempt()
        except Crash:
            return True
        finally:
            self.boundary = no_boundary
        return False

    def row(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        return next(iter(self.rows(sql, *parameters)), None)

    def value(self, sql: str, *parameters: Any) -> Any:
        found = self.row(sql, *parameters)
        return None if found is None else found[0]

    def rows(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        if self._reader is not None:
            return [tuple(row) for row in self._reader.rows(sql, parameters)]
        with self.reading():
            return self.rows(sql, *parameters)

    @contextmanager
    def reading(self) -> Iterator[Database]:
        """One connection for many questions."""
        with db.open_read_only(self.folder.database) as database:
            self._reader = database
            try:
                yield database
            finally:
                self._reader = None

    def scores(self) -> Scores:
        sql = "SELECT item_index, criterion_index, repeat, score FROM score"
        return {(row[0], row[1], row[2]): row[3] for row in self.rows(sql)}

    def outcomes(self) -> dict[str, int]:
        with db.open_read_only(self.folder.database) as database:
            return views.outcome_counts(database)

    def counts(self) -> dict[str, int]:
        with db.open_read_only(self.folder.database) as database:
            return views.status_counts(database)

    def results(self) -> dict[Any, Any]:
        """What the run is for: its scores."""
        return self.scores()

    @property
    def services(self) -> dict[str, Service]:
        """Every emulated resource, by what stands before its ids in run.db."""
        return {"": self.service}

    def remote(self) -> dict[str, Any]:
        """The batches at the emulated resources by the ids the run knows them by, oldest first."""
        return {f"{mark}{key}": b for mark, one in self.services.items() for key, b in one._batches._batches.items()}

    def cancel_remote(self, remote_id: str) -> None:
        """Somebody else cancels a batch at its resource."""
        mark, _, key = remote_id.rpartition("/")
        self.services[f"{mark}/" if mark else ""]._batches.cancel(key)

    def posts(self, path: str) -> int:
        """POST calls to ``/files`` or ``/batches`` that the emulator saw."""
        calls = [call for service in self.services.values() for call in service.calls]
        return sum(method == "POST" and where.endswith(path) for method, where, _ in calls)

    def close(self) -> None:
        close = getattr(self.adapter, "close", None)
        if callable(close):
            close()
        for service in self.services.values():
            service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def adapter_in_process(
    service: Service, *, api_version: str = "v1", provider: str = "azure", network: InProcess | None = None
) -> OpenAIBatch:
    """The real adapter over the real SDK, without sockets and without the SDK's own retries of reads."""
    base = "http://127.0.0.1:9" + ("/v1" if provider == "openai" else "")
    connection = connection_to(base, api_version=api_version, provider=provider)
    return OpenAIBatch(connection, read_retries=0, network=network or InProcess(service))


def connection_to(base: str, *, api_version: str = "v1", provider: str = "azure") -> Any:
    names = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_KEY")
    return from_environment(
        provider=provider,
        auth="key",
        api_version=api_version if provider == "azure" else None,
        entra_scope=None,
        environ=dict(zip(names, (base, KEY, base, KEY), strict=True)),
    )


def plan(
    *,
    http: Sequence[HttpFault] = (),
    batches: Sequence[BatchFault] = (),
    requests: Sequence[RequestFault] = RESUBMISSIONS,
) -> FaultPlan:
    """A fault plan over the usual request faults."""
    return FaultPlan(requests=requests, batches=batches, http=http)
