"""A run under random commands, crashes and faults in random order, as a Hypothesis state machine.

After each step everything in ``check_invariants`` holds. At the end the faults are taken away and the run is led to its
end: every request has its outcome, the scores are those of the undisturbed run, nothing was paid twice, nothing lost.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from iwb_batch.emulator.faults import BatchFault, HttpFault, RequestFault
from iwb_batch.errors import IwbError, LockHeld, PlanChanged
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.collect import ByHand
from iwb_batch.workflow.session import no_boundary
from tests.faults.harness import IN_MEMORY, Crash, World, plan
from tests.faults.invariants import check_invariants, unaccounted
from tests.faults.sweeping import HTTP_FAULTS, SQL_FAULTS, Figures, failing_files, failing_sql
from tests.faults.test_kills import BOUNDARIES

SETTINGS = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=False)

BATCH_FAULTS: dict[str, BatchFault] = {
    "expired with lines": BatchFault(fault="expired", share=0.5, times=1),
    "expired without lines": BatchFault(fault="expired", share=0.3, lines=False, times=1),
    "cancelled by somebody else": BatchFault(fault="cancelled", share=0.5, times=1),
    "failed midway": BatchFault(fault="failed_midway", share=0.5, times=1),
    "refused for its queue": BatchFault(fault="failed", code="token_limit_exceeded", times=2),
    "refused for its queue at create": BatchFault(fault="failed", code="token_limit_exceeded", when="create", times=2),
    "refused": BatchFault(fault="failed", code="model_not_found", times=1),
    "refused at create": BatchFault(fault="failed", code="model_not_found", when="create", times=1),
    "null counts": BatchFault(fault="null_counts", times=2),
    "file ids come late": BatchFault(fault="late_output", reads=1, times=2),
    "output short at first": BatchFault(fault="short_output", share=0.5, reads=1, times=2),
    "counts that lie": BatchFault(fault="wrong_counts", completed=2, total=2, times=2),
    "empty ids": BatchFault(fault="empty_ids", times=2),
    "unknown status": BatchFault(fault="unknown_status", word="resting", polls=3, times=1),
    "all lines errored": BatchFault(fault="all_errored", kind="server_error", times=1),
    "all lines rejected": BatchFault(fault="all_errored", kind="rejected", times=1),
}
REQUEST_FAULTS: dict[str, RequestFault] = {
    "dropped line": RequestFault(fault="dropped", match="-i1-c0-", times=1),
    "malformed line": RequestFault(fault="malformed_line", match="-i0-c3-", times=1),
    "duplicate line": RequestFault(fault="duplicate", match="-i1-c4-", times=1),
    "duplicate in the error file": RequestFault(fault="duplicate_error", match="-i2-c0-", times=1),
    "unknown id": RequestFault(fault="unknown_id", match="-i2-c1-", times=1),
    "account": RequestFault(fault="account", match="-i0-c2-", times=1),
    "rate limited": RequestFault(fault="rate_limited", match="-i1-c1-", times=3),
}
OTHER_HTTP: dict[str, HttpFault] = {
    "listed late": HttpFault(fault="list_lag", method="POST", listings=1),
    "file in error": HttpFault(fault="file_error", method="POST", path="^/files$"),
    "file pending": HttpFault(fault="file_pending", method="POST", path="^/files$", polls=4),
    "upload reset": HttpFault(fault="reset_upload", method="POST", path="^/files$"),
}
ALL_HTTP = HTTP_FAULTS | OTHER_HTTP


class RunMachine(RuleBasedStateMachine):
    """One schedule of a plain run. ``expected`` and ``figures`` are shared by all schedules of a test."""

    expected: dict[Any, Any]
    figures: Figures
    world: World
    per_file = 8

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="iwb-machine-", dir=IN_MEMORY))
        self.world = self.make(self.root)

    @classmethod
    def make(cls, root: Path) -> World:
        """The world of one schedule."""
        return World(root, faults=plan())

    @classmethod
    def calm(cls, root: Path) -> World:
        """A world in which nothing goes wrong but its request faults: its results are what is expected."""
        return cls.make(root)

    @classmethod
    def undisturbed(cls) -> dict[Any, Any]:
        """The results of the calm world."""
        with tempfile.TemporaryDirectory(prefix="iwb-faults-", dir=IN_MEMORY) as root, cls.calm(Path(root)) as world:
            assert world.finish() == 0
            check_invariants(world)
            return world.results()

    def wanted(self) -> dict[Any, Any]:
        """The results at the end: the same request asked again gets the same answer."""
        return {(*key[:2], n): score for key, score in self.expected.items() for n in range(1, self.world.repeats + 1)}

    @initialize(
        batches=st.lists(st.sampled_from(sorted(BATCH_FAULTS)), max_size=3),
        requests=st.lists(st.sampled_from(sorted(REQUEST_FAULTS)), max_size=2, unique=True),
        http=st.lists(st.tuples(st.sampled_from(sorted(ALL_HTTP)), st.integers(1, 40)), max_size=3),
    )
    def begin(self, batches: list[str], requests: list[str], http: list[tuple[str, int]]) -> None:
        self.figures.runs += 1
        faults = self.world.faults
        faults.batches = [BATCH_FAULTS[name] for name in batches]
        faults.requests = [*faults.requests, *(self.request_fault(name) for name in requests)]
        faults.http = [replace(ALL_HTTP[name], nth=(nth,)) for name, nth in http]
        self.figures.injected.update([*batches, *requests, *(name for name, _ in http)])

    def request_fault(self, name: str) -> RequestFault:
        return REQUEST_FAULTS[name]

    def run(self, command: Callable[[], object]) -> None:
        """A command may end with one line for the user, and with nothing else."""
        try:
            command()
        except IwbError as error:
            self.world.errors.append(error)

    @rule()
    def submit(self) -> None:
        self.run(self.world.submit)

    @precondition(lambda self: self.exists)
    @rule(wait=st.sampled_from([0.0, 60.0]))
    def collect_pass(self, wait: float) -> None:
        self.run(lambda: self.world.collect(wait=wait))

    @precondition(lambda self: self.exists)
    @rule(timeout=st.sampled_from([120.0, 4_000.0]))
    def collect_watching(self, timeout: float) -> None:
        self.run(lambda: self.world.collect(watch=True, timeout=timeout))

    @precondition(lambda self: self.exists)
    @rule()
    def cancel(self) -> None:
        self.run(self.world.cancel)

    @precondition(lambda self: self.exists)
    @rule()
    def resume(self) -> None:
        self.run(self.world.resume)

    @precondition(lambda self: self.exists)
    @rule(outcome=st.sampled_from(["all", "rejected", "expired", "cancelled", "invalid_json"]))
    def retry(self, outcome: str) -> None:
        self.run(lambda: self.world.collect(ByHand(retry=(outcome,)), wait=0.0))

    @rule(seconds=st.sampled_from([1.0, 130.0, 2_000.0, 90_000.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.sleep(seconds)

    @rule(seconds=st.sampled_from([-100_000.0, -5.0, 100_000.0]))
    def clock_jumps(self, seconds: float) -> None:
        self.figures.injected["clock jump"] += 1
        self.world.clock.jump(seconds)

    @rule(name=st.sampled_from(BOUNDARIES), nth=st.integers(1, 3))
    def crash(self, name: str, nth: int) -> None:
        if self.world.crash(name, nth):
            self.figures.injected["crash at a boundary"] += 1

    @precondition(lambda self: self.exists)
    @rule(name=st.sampled_from(["stopped", "cancel_asked", "ended", "before_collect_commit"]))
    def crash_in_cancel(self, name: str) -> None:
        def die(passed: str) -> None:
            if passed == name:
                raise Crash(name)

        self.world.boundary = die
        try:
            self.run(self.world.cancel)
        except Crash:
            self.figures.injected["crash in cancel"] += 1
        finally:
            self.world.boundary = no_boundary

    @rule(message=st.sampled_from(sorted(SQL_FAULTS.values())), nth=st.integers(1, 400))
    def statement_fails(self, message: str, nth: int) -> None:
        with failing_sql(nth, message) as faults:
            self.world.attempt()
        self.figures.injected["SQL statement"] += faults.hit is not None

    @rule(number=st.sampled_from([errno.ENOSPC, errno.EIO]), nth=st.integers(1, 60))
    def file_operation_fails(self, number: int, nth: int) -> None:
        with failing_files(self.world.runs_dir, nth, number) as faults:
            self.world.attempt()
        self.figures.injected["file operation"] += faults.hit is not None

    @rule(name=st.sampled_from(sorted(ALL_HTTP)), nth=st.integers(1, 25))
    def another_http_fault(self, name: str, nth: int) -> None:
        self.world.faults.http = [*self.world.faults.http, replace(ALL_HTTP[name], nth=(nth,))]
        self.figures.injected[name] += 1

    @precondition(lambda self: self.live)
    @rule(place=st.integers(0, 20))
    def provider_cancels(self, place: int) -> None:
        self.figures.injected["cancelled at the provider"] += 1
        self.world.cancel_remote(self.live[place % len(self.live)])

    @precondition(lambda self: self.live)
    @rule(place=st.integers(0, 20), lines=st.booleans())
    def provider_expires(self, place: int, lines: bool) -> None:
        self.figures.injected["expired at the provider"] += 1
        batch = self.world.remote()[self.live[place % len(self.live)]]
        batch.faults = [BatchFault(fault="expired", share=0.4, lines=lines), *batch.faults]

    @precondition(lambda self: self.ambiguous)
    @rule(place=st.integers(0, 20))
    def adopt_by_hand(self, place: int) -> None:
        """The right batch may be adopted; any other is refused."""
        batch_id, own = self.ambiguous[0]
        others = [key for key in self.world.remote() if key not in own] or ["batch_none"]
        chosen = own[0] if own else others[place % len(others)]
        self.figures.injected["adopted by hand"] += 1
        self.run(lambda: self.world.collect(ByHand(adopt=((batch_id, chosen),)), wait=0.0))
        if not own:
            assert self.world.value("SELECT remote_batch_id FROM batch WHERE batch_id = ?", batch_id) != chosen

    @precondition(lambda self: any(not own for _, own in self.ambiguous))
    @rule()
    def recreate_by_hand(self) -> None:
        """Done only by a user who has seen at the provider that the batch is not there."""
        self.figures.injected["created again by hand"] += 1
        batch_id = next(batch_id for batch_id, own in self.ambiguous if not own)
        self.run(lambda: self.world.collect(ByHand(recreate=(batch_id,)), wait=0.0))

    @precondition(lambda self: self.exists)
    @rule(nth=st.integers(1, 60))
    def reparse(self, nth: int) -> None:
        """Reading again with the same parser changes nothing, also where it is broken off."""
        before = self.world.rows("SELECT * FROM attempt_log"), self.world.results()
        with failing_sql(nth, SQL_FAULTS["full"]) as faults:
            self.run(self.world.reparse)
        self.figures.injected["SQL statement of a reparse"] += faults.hit is not None
        assert (self.world.rows("SELECT * FROM attempt_log"), self.world.results()) == before

    @precondition(lambda self: self.exists)
    @rule()
    def delete_remote(self) -> None:
        """What is collected is needed no more at the provider."""
        self.run(self.world.delete_remote)

    @precondition(lambda self: self.exists and self.world.repeats == 1)
    @rule()
    def more_repeats(self) -> None:
        self.world.repeats = 2
        self.run(self.world.submit)

    @precondition(lambda self: self.exists)
    @rule()
    def second_process(self) -> None:
        self.figures.injected["second process"] += 1
        with folders.locked(self.world.folder):
            for command in (self.world.submit, self.world.collect, self.world.cancel):
                try:
                    command()
                except LockHeld:
                    continue
                raise AssertionError(command)

    @rule(per_file=st.sampled_from([3, 8, 50]), resubmits=st.sampled_from([1, 3]))
    def changed_settings(self, per_file: int, resubmits: int) -> None:
        self.world.options = replace(self.world.options, max_requests_per_file=per_file, max_resubmits=resubmits)

    @precondition(lambda self: self.exists)
    @rule()
    def another_plan(self) -> None:
        try:
            self.world.submit(self.world.request(max_completion_tokens=123))
        except (PlanChanged, IwbError):
            return
        raise AssertionError("another plan was taken")

    @property
    def exists(self) -> bool:
        return self.world.folder.database.is_file()

    @property
    def live(self) -> list[str]:
        """Remote batches that have not ended."""
        return [
            key
            for key, batch in self.world.remote().items()
            if batch.status in ("validating", "in_progress") and not batch.hidden
        ]

    @property
    def ambiguous(self) -> list[tuple[int, list[str]]]:
        """Batches in state 'creating', each with the remote batches over its file that the run does not know."""
        if not self.exists:
            return []
        known = {row[0] for row in self.world.rows("SELECT remote_batch_id FROM batch")}
        lost = {key: b.metadata.get("iwb_file") for key, b in self.world.remote().items() if key not in known}
        sql = (
            "SELECT batch_id, name FROM batch JOIN request_file USING (request_file_id)"
            " WHERE state = 'creating' AND online = 0"
        )
        return [(number, [key for key, f in lost.items() if f == name]) for number, name in self.world.rows(sql)]

    @invariant()
    def everything_holds(self) -> None:
        check_invariants(self.world)

    def teardown(self) -> None:
        try:
            self.heal()
        finally:
            self.world.close()
            shutil.rmtree(self.root, ignore_errors=True)

    def heal(self) -> None:
        """No more faults; a user who mends, resumes and retries gets every score, and nothing was paid twice."""
        self.world.faults.http = ()
        self.world.faults.batches = ()
        self.world.options = replace(self.world.options, max_requests_per_file=self.per_file, max_resubmits=4)
        for _ in range(30):
            code = self.world.attempt()
            standing = self.world.value("SELECT standing FROM run") if self.exists else "running"
            if code == 0:
                break
            self.world.clock.sleep(200)
            if standing == "stopped":
                self.run(self.world.resume)
            elif standing == "halted" or code == 4:
                self.run(lambda: self.world.collect(ByHand(retry=("all",)), watch=True))
        assert code == 0, (self.world.heard.lines[-20:], self.world.errors[-3:])
        self.everything_holds()
        assert self.world.results() == self.wanted()
        self.figures.repeated += len(self.world.service.paid_twice())
        self.figures.lost += len(unaccounted(self.world))
        assert self.figures.lost == 0


def schedules(
    expected: dict[Any, Any], *, examples: int, steps: int, seed: int | None = None, kind: type[RunMachine] = RunMachine
) -> Figures:
    """Run so many schedules of at most so many steps; derandomized, or from a seed."""
    from hypothesis import seed as seeded
    from hypothesis.stateful import run_state_machine_as_test

    attributes: dict[str, Any] = {"expected": expected, "figures": Figures()}
    machine = type("Seeded", (kind,), attributes)
    if seed is not None:
        seeded(seed)(machine)
    chosen = settings(SETTINGS, max_examples=examples, stateful_step_count=steps, derandomize=seed is None)
    run_state_machine_as_test(machine, settings=chosen)
    figures = attributes["figures"]
    assert isinstance(figures, Figures)
    assert isinstance(figures.injected, Counter)
    return figures
