"""The other ways a run can go, each as a world: lanes, requests made online, generated texts, files carried by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from iwb_batch.emulator.faults import FaultPlan, RequestFault
from iwb_batch.emulator.judge import Completion, Rehearsal
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.transport import InProcess
from iwb_batch.providers.base import Rejected
from iwb_batch.providers.files import FilesProvider
from iwb_batch.providers.lanes import Lanes
from iwb_batch.workflow import advance, generating
from iwb_batch.workflow.collect import ByHand
from iwb_batch.workflow.settings import Inputs, JudgeSettings, Options
from iwb_batch.workflow.submit import SubmitRequest, Submitted
from tests.faults.harness import KEY, RUN, World, adapter_in_process, plan

ONLINE = "gpt-5.4-online"


class Steady(Rehearsal):
    """The rehearsal judge, whose answer depends on the texts alone: not on the deployment, nor on the token limit."""

    def answer(self, body: Mapping[str, Any]) -> Completion:
        return super().answer({**body, "model": "", "max_completion_tokens": 8_000})


# --- lanes -------------------------------------------------------------------------------------------


class _Wire(InProcess):
    """A network that can be cut."""

    def __init__(self, service: Service, lane: str, down: set[str]) -> None:
        super().__init__(service)
        self._lane = lane
        self._down = down

    def handle_request(self, request: Any) -> Any:
        if self._lane in self._down:
            from importlib import import_module

            library = import_module(type(request).__module__.partition(".")[0])
            raise library.ConnectError("Connection refused", request=request)
        return super().handle_request(request)


class LaneWorld(World):
    """Two resources with a deployment each; what they count they count together."""

    LANES = (("east", "judge-e"), ("west", "judge-w"))

    def __init__(self, root: Path) -> None:
        self.down: set[str] = set()
        options = Options(max_requests_per_file=4, lanes=tuple(lane for lane, _ in self.LANES))
        super().__init__(root, faults=plan(), judge=Steady(), options=options)
        self.judge["lanes"] = self.LANES
        self._other = Service(
            Settings(key=KEY), judge=Steady(), faults=self.faults, state=root / "other", clock=self.clock.now
        )
        self._other.ledger = self._other._batches._ledger = self.service.ledger
        adapters = {
            mark[:-1]: adapter_in_process(service, network=_Wire(service, mark[:-1], self.down))
            for mark, service in self.services.items()
        }
        self._adapters = list(adapters.values())
        self.adapter = Lanes(adapters)

    @property
    def services(self) -> dict[str, Service]:
        return {"east/": self.service, "west/": self._other}

    def close(self) -> None:
        for adapter in self._adapters:
            adapter.close()
        super().close()


# --- online ------------------------------------------------------------------------------------------


class _Asked(Steady):
    """Tells its world of each request made online."""

    world: OnlineWorld

    def answer(self, body: Mapping[str, Any]) -> Completion:
        if body.get("model") == ONLINE:
            self.world.asked(body)
        return super().answer(body)


class OnlineWorld(World):
    """A run whose last requests may be made one by one."""

    def __init__(self, root: Path) -> None:
        judge = _Asked()
        judge.world = self
        super().__init__(root, faults=plan(), judge=judge)
        self.wrong: list[str] = []
        """What was asked online although it must not be."""

    def finish_online(self) -> int:
        return self.collect(ByHand(online_judge=ONLINE), wait=0.0)

    def bring_home(self, passes: int = 8) -> None:
        """What is under way comes home; what waits for another attempt is left for ``finish_online``."""
        for _ in range(passes):
            with self.session(wait=0.0) as session:
                advance.one_pass(session, resubmit=False)

    def asked(self, body: Mapping[str, Any]) -> None:
        """A request is made online: one with this body must have no answer yet, and the run must be under way."""
        standing = self.value("SELECT standing FROM run")
        if standing != "running":
            self.wrong.append(f"asked in a {standing} run")
        names = [name for name, sent in self._lines("requests/*-online.jsonl") if sent["body"] == body]
        on_disk = {name for name, _ in self._lines("raw/*-answers.jsonl")}
        read = dict(self.rows("SELECT custom_id, outcome FROM attempt_reading"))
        if not any(read.get(name, "no such attempt") is None and name not in on_disk for name in names):
            self.wrong.append(f"asked again: {names}")

    def _lines(self, pattern: str) -> Iterator[tuple[str, Any]]:
        for path in self.folder.path.glob(pattern):
            for line in path.read_bytes().split(b"\n")[:-1]:
                record = json.loads(line)
                yield record["custom_id"], record

    def note_online_answers(self) -> None:
        """What a verdict was read from online counts as delivered: a batch must not run it again."""
        for (name,) in self.rows(
            "SELECT a.custom_id FROM attempt_reading a JOIN request_file f USING (request_file_id)"
            " WHERE f.online = 1 AND a.outcome = 'valid'"
        ):
            self.service.ledger.delivered(name)

    def both(self) -> int:
        """What was begun online is finished online."""
        self.submit()
        code = self.collect(watch=True, timeout=4_000.0 if self._begun_online() else None)
        return self.finish_online() if code == 3 and self._begun_online() else code

    def _begun_online(self) -> bool:
        sql = (
            "SELECT count(*) FROM batch JOIN request_file USING (request_file_id) WHERE online = 1"
            " AND state NOT IN ('collected', 'dropped')"
        )
        return bool(self.value(sql))


# --- generated texts -----------------------------------------------------------------------------------

GENERATION_FAULTS = (
    RequestFault(fault="empty", match="-i1-", times=1),
    RequestFault(fault="server_error", match="-i2-", times=1),
    RequestFault(fault="truncated_empty", match="-i3-", times=1),
    RequestFault(fault="refusal", match="-i4-", times=2),
)


class GenerateWorld(World):
    """``generate``: each command sends, brings home and writes the file when nothing is open any more."""

    def __init__(self, root: Path) -> None:
        super().__init__(
            root,
            faults=FaultPlan(requests=GENERATION_FAULTS),
            judge=Steady(),
            n_items=6,
            options=Options(max_requests_per_file=4),
        )
        self.runs_dir.mkdir()
        self.out = self.runs_dir / "responses.jsonl"
        self.moves_away = False
        """Whether the user moves a file away that holds less than all texts."""

    def request(self, **judge: Any) -> SubmitRequest:
        inputs = Inputs(benchmark="indic-writing-bench", dataset=(str(self.items),), model_name="writer")
        settings = JudgeSettings(**{"judge": "writer", "protocol": "generate", **judge})
        return SubmitRequest(inputs, settings, self.options, self.waiting, self.runs_dir, RUN)

    def generate(self, *, watch: bool = False, timeout: float | None = None) -> int:
        waiting = replace(self.waiting, watch=watch, timeout=timeout)
        done = generating.generate(
            replace(self.request(), waiting=waiting),
            self.out,
            connect=self.connect,
            confirm=lambda _question: True,
            clock=self.clock,
            progress=self.heard,
            boundary=self.boundary,
        )
        assert (done.written is None) == (self.counts()["open"] > 0)
        return done.code

    def both(self) -> int:
        if self.moves_away:
            self.out.unlink(missing_ok=True)
        return self.generate(watch=True, timeout=self.waiting.timeout)

    def results(self) -> dict[Any, Any]:
        """The texts in run.db."""
        sql = "SELECT q.item_index, t.content FROM verdict JOIN request q USING (request_id) JOIN answer_text t"
        return {(row[0],): row[1] for row in self.rows(f"{sql} USING (reading_id)")}

    def written(self) -> dict[Any, Any]:
        """The texts in the file."""
        lines = self.out.read_bytes().split(b"\n")[:-1]
        return {(row["index"],): row["response"] for row in map(json.loads, lines)}


# --- files carried by hand -----------------------------------------------------------------------------


class FilesWorld(World):
    """Provider ``files``: a careful user carries request files to an engine (the emulator) and answers back.

    Careful: an engine is stopped before a run is cancelled; what it has answered is given before anything is
    closed, resumed or retried.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root, faults=plan(), judge=Steady(), adapter=FilesProvider())
        self.judge["provider"] = "files"
        self._engine = adapter_in_process(self.service)
        self._answers = root / "answers"
        self._answers.mkdir()
        self.carried: dict[str, str] = {}
        """Request file -> batch at the engine."""
        self.brought: dict[str, list[Path]] = {}
        """Request file -> what the engine wrote, once it is through."""

    def awaited(self) -> list[str]:
        sql = "SELECT name FROM batch JOIN request_file USING (request_file_id) WHERE state = 'submitted' ORDER BY name"
        return [row[0] for row in self.rows(sql)] if self.folder.database.is_file() else []

    def carry(self) -> None:
        """Start the engine on every awaited request file that it has not got."""
        for name in self.awaited():
            if name not in self.carried:
                sent = self._engine.upload(self.folder.requests / name, name, expires_after=86_400)
                while self._engine.file(sent.file_id).status == "pending":
                    pass
                try:
                    self.carried[name] = self._engine.create(sent.file_id, {}).batch_id
                except Rejected:
                    continue  # it did not take the file: tried again later

    def fetch(self, polls: int = 1) -> None:
        """Look after the engine; bring what it wrote when it is through, as often as it takes to be whole."""
        for name, batch_id in list(self.carried.items()):
            if name in self.brought:
                continue
            for _ in range(polls):
                found = self._engine.batch(batch_id)
            if found.status not in ("completed", "failed", "expired", "cancelled"):
                continue
            ids = [key for key in (found.output_file_id, found.error_file_id) if key]
            if found.status == "failed" and not found.began:
                del self.carried[name]  # the engine refused the file: tried again later
            elif ids or found.status != "completed":
                self.brought[name] = [self._bring(key) for key in ids]

    def _bring(self, file_id: str) -> Path:
        path = self._answers / f"{file_id}.jsonl"
        for _ in range(3):
            with path.open("wb") as target:
                self._engine.download(file_id, target)
        return path

    def answers(self) -> tuple[Path, ...]:
        return tuple(path for paths in self.brought.values() for path in paths if path.stat().st_size)

    def give(self, paths: Sequence[Path] | None = None, *, close: bool = False) -> int:
        """``collect --from``, with ``--close`` where everything awaited was carried and brought."""
        chosen = self.answers() if paths is None else tuple(paths)
        return self.collect(ByHand(answers=chosen, close=close and self.closable()))

    def closable(self) -> bool:
        return all(name in self.brought for name in self.awaited())

    def stop_engine(self) -> None:
        """Cancel what runs and wait for its end."""
        for name, batch_id in self.carried.items():
            if name not in self.brought:
                with suppress(Rejected):  # it has ended
                    self._engine.cancel(batch_id)
        self.fetch(polls=12)

    def collect(self, by_hand: ByHand | None = None, *, watch: bool = False, **waiting: Any) -> int:
        if by_hand is not None and by_hand.retry:
            self.stop_engine()
            by_hand = replace(by_hand, answers=self.answers())
        return super().collect(by_hand, watch=watch, **waiting)

    def cancel(self) -> int:
        self.stop_engine()
        return super().cancel()

    def submit(self, request: SubmitRequest | None = None, *, yes: bool = True) -> Submitted:
        """Named, it resumes a stopped run: what the engine has answered is given before."""
        if self.folder.database.is_file() and self.value("SELECT standing FROM run") != "running":
            self.stop_engine()
            self.give()
        return super().submit(request, yes=yes)

    def both(self) -> int:
        self.submit()
        code = self.give()
        for _ in range(8):
            if code != 3:
                break
            self.carry()
            self.fetch(polls=12)
            code = self.give(close=True)
        return code

    def close(self) -> None:
        self._engine.close()
        super().close()
