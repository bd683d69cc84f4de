"""Cancel, resume, retry, lost calls, adoption by hand, two processes: decisions that must not cost anything twice."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise

import pytest

from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import (
    Declined,
    LockHeld,
    PlanChanged,
    ProviderRefused,
    RunError,
    Unreachable,
    UsageError,
)
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.collect import ByHand
from iwb_batch.workflow.reconcile import reconcile
from iwb_batch.workflow.settings import Options, Waiting
from tests.faults.conftest import Build
from tests.faults.harness import GRACE, KEY, RUN, Crash, Scores, World, plan
from tests.faults.invariants import check_invariants, remote_batches, unaccounted

LOST = HttpFault(fault="lost_reply", method="POST", path="^/batches$", nth=(1,))


def states(world: World) -> list[str]:
    return [row[0] for row in world.rows("SELECT state FROM batch ORDER BY batch_id")]


# --- cancel ------------------------------------------------------------------------------------------


def test_cancel_stops_keeps_the_answered_and_sends_nothing_again(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=2, options=Options())
    world.submit()
    assert world.cancel() == 0
    assert world.row("SELECT standing FROM run") == ("stopped",)
    assert world.collect(watch=True) == 4
    assert world.outcomes() == {"cancelled": 5, "valid": 5}
    assert world.counts() == {"scored": 5, "open": 5, "failed": 0}
    assert world.posts("/batches") == 1
    with pytest.raises(Declined):
        world.submit(yes=False)
    assert world.resume().code == 0
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"cancelled": 5, "valid": 10}
    check_invariants(world)


def test_cancel_before_anything_ran(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1)
    world.submit()
    world.cancel()
    assert world.collect(watch=True) == 4
    assert unaccounted(world) == []
    assert world.resume().code == 0
    assert world.collect(watch=True) == 0
    check_invariants(world)


def test_cancel_of_a_batch_that_has_just_ended_brings_its_answers_home(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1, settings=Settings(key=KEY, polls_per_stage=0))
    world.crash("submitted")
    world.service._batches.get(world.service.batches_created[0])
    assert world.cancel() == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


def test_cancel_with_a_lost_create_cancels_what_it_finds(build: Build) -> None:
    world = build(faults=FaultPlan(http=[LOST]), n_items=1)
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    for _ in range(2):
        world.submit()
    assert states(world) == ["creating"] or states(world) == ["submitted"]
    world.cancel()
    assert [batch.status for batch in remote_batches(world)] in (["cancelling"], ["cancelled"])
    assert world.collect(watch=True) == 4
    check_invariants(world)


def test_a_crash_between_stopping_and_cancelling_leaves_a_stopped_run(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1)
    world.submit()

    def die(name: str) -> None:
        if name == "stopped":
            raise Crash(name)

    world.boundary = die
    with pytest.raises(Crash):
        world.cancel()
    world.boundary = lambda _name: None
    created = world.posts("/batches")
    assert world.collect(watch=True) in (0, 4)
    assert world.posts("/batches") == created
    check_invariants(world)


def test_planned_files_of_a_stopped_run_are_sent_after_resuming(build: Build) -> None:
    settings = Settings(key=KEY, deployments={"gpt-5.4": 10_000}, fail_fast=True)
    world = build(faults=FaultPlan(), settings=settings, options=Options(max_requests_per_file=4))
    assert world.submit().code == 3
    world.cancel()
    assert world.collect(watch=True) == 4
    waiting = states(world).count("uploaded") + states(world).count("planned")
    assert waiting >= 1
    world.resume()
    assert world.collect(watch=True) == 0
    assert world.counts()["scored"] == 15
    check_invariants(world)


def test_a_lost_cancel_call_is_told_and_can_be_repeated(build: Build) -> None:
    fault = HttpFault(fault="lost_reply", method="POST", path="/cancel$", nth=(1,))
    world = build(faults=FaultPlan(http=[fault]), n_items=1)
    world.submit()
    assert world.cancel() == 0
    assert "run cancel again" in world.heard.text()
    assert remote_batches(world)[0].status == "cancelled"
    assert world.collect(watch=True) == 4
    check_invariants(world)


# --- lost calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lost_reply", "bad_json", "html", "empty_body"])
def test_a_lost_create_is_found_and_adopted(build: Build, expected: Scores, kind: str) -> None:
    world = build(faults=plan(http=[HttpFault(fault=kind, method="POST", path="^/batches$", nth=(1, 2))]))
    assert world.finish() == 0
    assert world.scores() == expected
    assert world.value("SELECT count(*) FROM event WHERE kind = 'adopted'") == 2
    assert len(world.service.batches_created) == 4
    check_invariants(world)


def test_a_lost_create_that_the_listing_shows_late_is_not_created_again(build: Build) -> None:
    lag = HttpFault(fault="list_lag", method="POST", path="^/batches$", nth=(1,), listings=6)
    world = build(faults=FaultPlan(http=[LOST, lag]), n_items=1)
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    world.submit()
    assert states(world) == ["creating"]
    for _ in range(3):
        assert world.collect(wait=0.0) == 3
        world.clock.sleep(10)
    assert world.collect(watch=True) == 0
    assert len(world.service.batches_created) == 1
    check_invariants(world)


def test_a_create_that_never_happened_is_made_after_the_grace_period_only(build: Build) -> None:
    fault = HttpFault(fault="reset_before", method="POST", path="^/batches$", nth=(1,))
    world = build(faults=FaultPlan(http=[fault]), n_items=1)
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    world.submit()
    for _ in range(10):
        world.collect(wait=0.0)
    assert world.posts("/batches") == 1, "any number of listings does not shorten the grace period"
    assert states(world) == ["creating"]
    world.clock.sleep(GRACE)
    assert world.collect(watch=True) == 0
    assert world.posts("/batches") == 2
    check_invariants(world)


def test_one_listing_after_the_grace_period_is_not_enough(build: Build) -> None:
    fault = HttpFault(fault="reset_before", method="POST", path="^/batches$", nth=(1,))
    world = build(faults=FaultPlan(http=[fault]), n_items=1)
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    world.submit()
    world.clock.sleep(10 * GRACE)
    with world.session(wait=0.0) as session:
        reconcile(session)
        assert states(world) == ["creating"]
        reconcile(session)
        assert states(world) == ["uploaded"]


def test_an_unreadable_listing_leaves_the_batch_ambiguous(build: Build) -> None:
    world = build(faults=FaultPlan(http=[LOST, NO_LIST]), n_items=1)
    ambiguous(world)
    world.clock.sleep(10 * GRACE)
    world.collect(wait=0.0)
    assert states(world) == ["creating"]
    assert "cannot be read to the end" in world.heard.text()
    world.faults.http = ()
    assert world.collect(watch=True) == 0
    assert len(world.service.batches_created) == 1
    check_invariants(world)


def test_a_lost_upload_is_found_by_name_and_size(build: Build, expected: Scores) -> None:
    fault = HttpFault(fault="lost_reply", method="POST", path="^/files$", nth=(1, 2))
    world = build(faults=plan(http=[fault]))
    assert world.finish() == 0
    assert world.scores() == expected
    assert world.value("SELECT count(*) FROM event WHERE kind = 'upload_found'") == 2
    assert world.posts("/files") == 4
    check_invariants(world)


def test_an_upload_cut_in_the_middle_is_made_again(build: Build, expected: Scores) -> None:
    world = build(faults=plan(http=[HttpFault(fault="reset_upload", method="POST", path="^/files$", nth=(1, 3))]))
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)


def test_a_run_restored_from_an_older_copy_adopts_what_was_sent_since(build: Build, expected: Scores) -> None:
    """run.db of before the upload, the provider of after it: the batches are found by their metadata."""
    import shutil

    world = build()
    assert world.crash("request_file_planned", 2)
    shutil.copytree(world.folder.path, world.root / "copy")
    world.submit()
    shutil.rmtree(world.folder.path)
    shutil.move(world.root / "copy", world.folder.path)
    assert world.finish() == 0
    assert world.scores() == expected
    assert len(world.service.batches_created) == 4
    check_invariants(world)


# --- by hand -----------------------------------------------------------------------------------------


def ambiguous(world: World) -> int:
    """Bring the world to one batch whose create call was lost and whose listing cannot be read."""
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    world.submit()
    if states(world) == ["uploaded"]:
        world.submit()
    assert states(world) == ["creating"]
    return int(world.value("SELECT batch_id FROM batch"))


NO_LIST = HttpFault(fault="status", method="GET", path="^/batches$", status=500)


def test_adopt_by_hand(build: Build) -> None:
    world = build(faults=FaultPlan(http=[LOST, NO_LIST]), n_items=1)
    number = ambiguous(world)
    remote = world.service.batches_created[0]
    assert world.collect(ByHand(adopt=((number, remote),)), watch=True) == 0
    assert world.outcomes() == {"valid": 5}
    assert len(world.service.batches_created) == 1
    check_invariants(world)


def test_adopt_refuses_a_foreign_batch_and_an_unknown_one(build: Build) -> None:
    world = build(faults=FaultPlan(http=[LOST, NO_LIST]), n_items=1)
    number = ambiguous(world)
    with pytest.raises(UsageError, match="does not know batch_x"):
        world.collect(ByHand(adopt=((number, "batch_x"),)))
    source = next(iter(world.service._files._files.values()))
    body = {"input_file_id": source.key, "endpoint": "/chat/completions", "completion_window": "24h"}
    metadata = {"iwb_run": "somebody", "iwb_file": "0001.jsonl", "iwb_sha256": "0" * 64}
    foreign = world.service._batches.create(body | {"metadata": metadata}, "azure", ())
    with pytest.raises(UsageError, match=r"is not a batch over 0001\.jsonl"):
        world.collect(ByHand(adopt=((number, str(foreign["id"])),)))
    assert states(world) == ["creating"]


def test_recreate_asks_and_looks_once_more(build: Build) -> None:
    world = build(faults=FaultPlan(http=[LOST, NO_LIST]), n_items=1)
    number = ambiguous(world)
    world.faults.http = ()
    assert world.collect(ByHand(recreate=(number,)), watch=True) == 0
    assert len(world.service.batches_created) == 1, "the listing shows it after all"
    check_invariants(world)


def test_recreate_of_a_batch_that_is_not_ambiguous_is_refused(build: Build) -> None:
    world = build(n_items=1)
    world.submit()
    with pytest.raises(UsageError, match="is not ambiguous"):
        world.collect(ByHand(recreate=(1,)))


def test_retry_gives_failed_requests_a_fresh_budget(build: Build) -> None:
    faults = FaultPlan(requests=[RequestFault(fault="invalid_json", match="-c0-", times=4)])
    world = build(faults=faults, n_items=1, options=Options(max_resubmits=1))
    assert world.finish() == 4
    assert world.counts() == {"scored": 4, "open": 0, "failed": 1}
    assert world.collect(ByHand(retry=("invalid_json",)), watch=True) == 4
    assert world.outcomes() == {"invalid_json": 4, "valid": 4}
    assert world.collect(ByHand(retry=("all",)), watch=True) == 0
    assert world.outcomes() == {"invalid_json": 4, "valid": 5}
    check_invariants(world)


# --- who may work ------------------------------------------------------------------------------------


def test_a_second_process_is_told_who_holds_the_run(build: Build) -> None:
    world = build()
    world.submit()
    with folders.locked(world.folder):
        commands: list[Callable[[], object]] = [world.collect, world.submit, world.cancel]
        for command in commands:
            with pytest.raises(LockHeld, match=f"process {os.getpid()} works on this run"):
                command()
    assert world.finish() == 0
    check_invariants(world)


def test_the_runs_folder_is_made_by_one_of_two(build: Build) -> None:
    """Two submits of one plan at once: the second finds the folder taken when it puts its own into place."""
    world = build()

    def other(name: str) -> None:
        if name == "staged":
            world.boundary = lambda _name: None
            world.submit()

    world.boundary = other
    with pytest.raises(RunError, match="exists already"):
        world.submit()
    assert world.finish() == 0
    check_invariants(world)
    assert [path.name for path in world.runs_dir.iterdir()] == [RUN]


def test_another_plan_under_the_same_name_is_refused(build: Build) -> None:
    world = build()
    world.submit()
    posts = len(world.service.calls)
    with pytest.raises(PlanChanged, match="judge"):
        world.submit(world.request(max_completion_tokens=400))
    with pytest.raises(PlanChanged, match=r"gpt-4\.1"):
        world.submit(world.request(judge="gpt-4.1"))
    assert len(world.service.calls) == posts


def test_settings_that_may_differ_are_taken_over(build: Build) -> None:
    world = build(faults=FaultPlan(requests=[RequestFault(fault="invalid_json", match="-i0-c0-", times=2)]))
    world.options = Options(max_requests_per_file=8, max_resubmits=0)
    assert world.finish() == 4
    world.options = Options(max_requests_per_file=3, max_resubmits=2)
    assert world.finish() == 0
    check_invariants(world)


def test_repeats_may_grow_and_only_the_new_ones_are_sent(build: Build, expected: Scores) -> None:
    world = build()
    assert world.finish() == 0
    world.submit(world.request(repeats=2))
    assert world.collect(watch=True) == 0
    scores = world.scores()
    assert {key: score for key, score in scores.items() if key[2] == 1} == expected
    assert len(scores) == 30
    check_invariants(world)


def test_unreachable_is_said_when_nobody_ever_answered(build: Build) -> None:
    world = build(faults=FaultPlan(http=[HttpFault(fault="reset_before")]), n_items=1)
    with pytest.raises(Unreachable):
        world.submit()
    with pytest.raises(Unreachable):
        world.collect()
    assert world.collect(watch=True, timeout=600.0) == 3, "--watch goes on while the network is away"
    world.faults.http = ()
    assert world.finish() == 0
    check_invariants(world)


def test_a_long_retry_after_is_respected(build: Build, expected: Scores) -> None:
    fault = HttpFault(fault="status", status=429, retry_after=1500, path="^/batches/", nth=(1,))
    world = build(faults=plan(http=[fault]))
    times: list[float] = []
    handle = world.service.handle

    def timed(request: object) -> object:
        times.append(world.clock.now())
        return handle(request)  # type: ignore[arg-type]

    world.service.handle = timed  # type: ignore[assignment,method-assign]
    assert world.finish() == 0
    assert world.scores() == expected
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert max(gaps) >= 60
    check_invariants(world)


def test_a_batch_that_ends_cancelled_after_the_user_resumed_does_not_stop_the_run_again(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1, settings=Settings(key=KEY, polls_per_stage=3))
    world.submit()
    world.cancel()
    assert states(world) == ["submitted"]
    assert [batch.status for batch in remote_batches(world)] == ["cancelling"]
    world.resume()
    assert world.collect(watch=True) == 0
    assert world.outcomes()["valid"] == 5
    assert world.outcomes()["cancelled"] > 0
    check_invariants(world)


def test_a_cancel_that_dies_before_its_call_is_answered_is_remembered(build: Build) -> None:
    fault = HttpFault(fault="lost_reply", method="POST", path="/cancel$", nth=(1,))
    world = build(faults=FaultPlan(http=[fault]), n_items=1, settings=Settings(key=KEY, polls_per_stage=3))
    world.submit()
    world.cancel()
    world.resume()
    assert world.collect(watch=True) == 0
    assert world.posts("/batches") == 2
    check_invariants(world)


def test_nothing_is_sent_in_a_halted_run_by_any_command(build: Build) -> None:
    world = build(faults=FaultPlan(batches=[BatchFault(fault="all_errored", kind="rejected")]))
    world.attempt()
    world.attempt()
    assert world.row("SELECT standing FROM run") == ("halted",)
    posts = world.posts("/batches")
    for command in (world.submit, world.resume):
        with pytest.raises(ProviderRefused, match="is halted"):
            command()
    assert world.collect(watch=True) == 4
    assert world.posts("/batches") == posts
    check_invariants(world)


# --- waiting -----------------------------------------------------------------------------------------


def test_while_a_run_waits_its_counts_are_at_hand(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who looks at a large run between two passes need not wait until it is counted."""
    world = build(faults=FaultPlan(), n_items=2)
    world.submit()
    counted, wait = [], world.clock.sleep

    def sleep(seconds: float) -> None:
        counted.append(world.value("SELECT count(*) FROM kept_count"))
        wait(seconds)

    monkeypatch.setattr(world.clock, "sleep", sleep)
    assert world.collect(watch=True) == 0
    assert counted
    assert all(counted)
    check_invariants(world)
