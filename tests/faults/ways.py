"""The machine for the other ways of a run: the same rules and faults, and a few of each way's own."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from iwb_batch.emulator.faults import RequestFault
from iwb_batch.workflow.session import no_boundary
from iwb_batch.workflow.settings import Options
from tests.faults.harness import RESUBMISSIONS, WITHOUT_EXPIRY, Crash, World, adapter_in_process, plan
from tests.faults.invariants import check_invariants
from tests.faults.machine import ALL_HTTP, BATCH_FAULTS, REQUEST_FAULTS, RunMachine
from tests.faults.worlds import FilesWorld, GenerateWorld, LaneWorld, OnlineWorld, Steady


class ClassicMachine(RunMachine):
    """The dated surface, where input files get no expiry: at the end none of the run's is left at the provider."""

    @classmethod
    def make(cls, root: Path) -> World:
        world = super().make(root)
        world.adapter = adapter_in_process(world.service, api_version=WITHOUT_EXPIRY)
        return world

    def heal(self) -> None:
        super().heal()
        self.world.collect()
        kept = "SELECT substr(detail, 1, instr(detail, ':') - 1) FROM event WHERE kind = 'input_not_deleted'"
        sent = self.world.rows(f"SELECT input_file_id FROM batch WHERE input_file_id NOT IN ({kept})")
        assert {row[0] for row in sent} & self.world.service._files._files.keys() == set()


class PilotMachine(RunMachine):
    """``--pilot N``: until the pilot has passed, or the user went on without it, at most N requests are sent."""

    @classmethod
    def make(cls, root: Path) -> World:
        return World(root, faults=plan(), judge=Steady(), options=Options(max_requests_per_file=8, pilot=4))

    @classmethod
    def calm(cls, root: Path) -> World:
        return World(root, faults=plan(), judge=Steady())

    @initialize(n=st.integers(1, 6), faultless=st.booleans())
    def size(self, n: int, faultless: bool) -> None:
        self.world.options = replace(self.world.options, pilot=n)
        if faultless:  # the first attempts of the pilot are all good
            self.world.faults.requests = [f for f in self.world.faults.requests if f not in RESUBMISSIONS]

    def everything_holds(self) -> None:
        super().everything_holds()
        if not self.exists:
            return
        over = self.world.value("SELECT count(*) FROM event WHERE kind IN ('pilot_passed', 'pilot_overridden')")
        sent = self.world.value("SELECT count(DISTINCT request_id) FROM attempt")
        assert over or sent <= (self.world.options.pilot or 0), f"{sent} requests sent in the pilot"


class LaneMachine(RunMachine):
    """Two lanes, one of which may be out of reach for a while."""

    world: LaneWorld
    per_file = 4

    @classmethod
    def make(cls, root: Path) -> World:
        return LaneWorld(root)

    @rule(lanes=st.sets(st.sampled_from(["east", "west"])))
    def out_of_reach(self, lanes: set[str]) -> None:
        self.figures.injected["lane out of reach"] += len(lanes)
        self.world.down.clear()
        self.world.down.update(lanes)

    def heal(self) -> None:
        self.world.down.clear()
        super().heal()


DEATHS_ONLINE = (
    *(("online_answer", nth) for nth in range(1, 5)),
    *((name, 1) for name in ("request_file_planned", "before_collect_commit", "collected")),
)


class OnlineMachine(RunMachine):
    """``--finish-online`` at any moment, with calls that fail and processes that die."""

    world: OnlineWorld

    @classmethod
    def make(cls, root: Path) -> World:
        return OnlineWorld(root)

    @precondition(lambda self: self.exists)
    @rule()
    def bring_home(self) -> None:
        self.run(self.world.bring_home)

    @precondition(lambda self: self.exists)
    @rule()
    def finish_online(self) -> None:
        self.run(self.world.finish_online)

    @precondition(lambda self: self.exists)
    @rule(name=st.sampled_from(sorted(ALL_HTTP)), nth=st.integers(1, 5))
    def finish_online_with_a_fault(self, name: str, nth: int) -> None:
        self.run(self.world.bring_home)
        fault = replace(ALL_HTTP[name], nth=(nth,), method="POST", path="chat/completions")
        self.world.faults.http = [*self.world.faults.http, fault]
        self.figures.injected[f"{name}, online"] += 1
        self.run(self.world.finish_online)

    @precondition(lambda self: self.exists)
    @rule(place=st.sampled_from(DEATHS_ONLINE))
    def crash_online(self, place: tuple[str, int]) -> None:
        name, left = place

        def die(passed: str) -> None:
            nonlocal left
            left -= passed == name
            if left == 0 and passed == name:
                raise Crash(name)

        self.run(self.world.bring_home)
        self.world.boundary = die
        try:
            self.run(self.world.finish_online)
        except Crash:
            self.figures.injected["crash online"] += 1
        finally:
            self.world.boundary = no_boundary

    def everything_holds(self) -> None:
        if self.exists:
            self.world.note_online_answers()
        super().everything_holds()
        assert self.world.wrong == []


class GenerateMachine(RunMachine):
    """``generate``: texts instead of scores, a file at the end."""

    world: GenerateWorld
    per_file = 4

    @classmethod
    def make(cls, root: Path) -> World:
        return GenerateWorld(root)

    def wanted(self) -> dict[Any, Any]:
        return self.expected

    def request_fault(self, name: str) -> RequestFault:
        fault = REQUEST_FAULTS[name]
        return replace(fault, match=re.sub(r"c\d-", "", fault.match or ""))

    @rule(watch=st.booleans())
    def generate(self, watch: bool) -> None:
        self.run(lambda: self.world.generate(watch=watch, timeout=4_000.0))

    def reparse(self, nth: int = 0) -> None:
        """There are no verdicts to read again."""

    def more_repeats(self) -> None:
        """``generate`` has no repeats."""

    def heal(self) -> None:
        self.world.moves_away = True
        super().heal()
        assert self.world.written() == self.expected


class FilesMachine(RunMachine):
    """Request files carried to an engine by hand, its answers given in any order and number."""

    world: FilesWorld

    @classmethod
    def make(cls, root: Path) -> World:
        return FilesWorld(root)

    @initialize(
        batches=st.lists(st.sampled_from(sorted(BATCH_FAULTS)), max_size=3),
        requests=st.lists(st.sampled_from(sorted(REQUEST_FAULTS)), max_size=2, unique=True),
        http=st.just([]),
    )
    def begin(self, batches: list[str], requests: list[str], http: list[tuple[str, int]]) -> None:
        super().begin(batches, requests, http)

    def another_http_fault(self) -> None:
        """No call is made."""

    @rule(polls=st.sampled_from([1, 3, 12]))
    def engine_works(self, polls: int) -> None:
        self.world.carry()
        self.world.fetch(polls)

    @precondition(lambda self: self.exists and self.world.brought)
    @rule(kept=st.sets(st.integers(0, 9)), close=st.booleans())
    def give_some(self, kept: set[int], close: bool) -> None:
        chosen = [path for place, path in enumerate(self.world.answers()) if place in kept or close]
        self.run(lambda: self.world.give(chosen, close=close))

    def everything_holds(self) -> None:
        check_invariants(self.world)


WAYS: dict[str, type[RunMachine]] = {
    "dated surface": ClassicMachine,
    "pilot": PilotMachine,
    "lanes": LaneMachine,
    "online": OnlineMachine,
    "generate": GenerateMachine,
    "files": FilesMachine,
}
