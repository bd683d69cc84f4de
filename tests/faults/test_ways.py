"""What random schedules over the other ways of a run have found, each as small as it can be told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.emulator.faults import BatchFault, HttpFault, RequestFault
from iwb_batch.emulator.settings import Settings
from iwb_batch.workflow.collect import ByHand
from iwb_batch.workflow.session import no_boundary
from iwb_batch.workflow.settings import Options
from tests.faults.conftest import Build
from tests.faults.harness import KEY, Crash, World, plan
from tests.faults.invariants import check_invariants
from tests.faults.worlds import OnlineWorld, Steady


@pytest.fixture
def online(tmp_path: Path) -> Iterator[OnlineWorld]:
    """A run of which four requests failed once and wait for another attempt."""
    with OnlineWorld(tmp_path) as world:
        world.submit()
        world.bring_home()
        assert world.outcomes()["valid"] == 11
        yield world


def dies_at(world: OnlineWorld, name: str) -> None:
    def die(passed: str) -> None:
        if passed == name:
            raise Crash(name)

    world.boundary = die
    with pytest.raises(Crash):
        world.finish_online()
    world.boundary = no_boundary


@pytest.mark.parametrize("name", ["request_file_planned", "online_answer", "before_collect_commit", "collected"])
def test_what_was_answered_online_is_read_whenever_the_process_died(online: OnlineWorld, name: str) -> None:
    dies_at(online, name)
    assert online.finish_online() == 0
    assert len(online.scores()) == 15
    assert online.wrong == []
    check_invariants(online)


def test_nothing_is_asked_online_in_a_stopped_run(online: OnlineWorld) -> None:
    dies_at(online, "online_answer")
    online.cancel()
    assert online.finish_online() == 4
    assert online.wrong == []


def test_cancel_takes_what_was_answered_online_and_lets_go_of_the_rest(online: OnlineWorld) -> None:
    """Resumed, the rest may go as a batch again."""
    dies_at(online, "online_answer")
    online.cancel()
    assert len(online.scores()) == 12
    assert online.outcomes()["cancelled"] == 3
    online.resume()
    assert online.collect(watch=True) == 0
    online.note_online_answers()
    check_invariants(online)


def test_a_learned_limit_below_one_request_does_not_keep_it_from_being_asked_online(online: OnlineWorld) -> None:
    with online.session() as session:
        session.database.execute("UPDATE lane SET enqueued_limit = 10")
    assert online.finish_online() == 0


def test_a_stopped_run_with_nobody_to_ask_is_cancelled_all_the_same(online: OnlineWorld) -> None:
    online.faults.http = [HttpFault(fault="status", status=429, path="chat/completions")]
    assert online.finish_online() == 3
    online.cancel()
    assert online.outcomes()["cancelled"] == 4
    assert online.collect() == 4


def a_pilot(build: Build, *, batches: Sequence[BatchFault] = (), **world: Any) -> World:
    """A run of 15 requests, 4 of them first; nothing is wrong with its answers."""
    return build(faults=plan(batches=batches, requests=()), judge=Steady(), options=Options(pilot=4), **world)


def passed(world: World) -> bool:
    return bool(world.value("SELECT count(*) FROM event WHERE kind = 'pilot_passed'"))


def test_a_pilot_too_large_for_the_queue_is_sent_in_parts_and_judged_by_its_answers(build: Build) -> None:
    world = a_pilot(build, settings=Settings(key=KEY, deployments={"gpt-5.4": 2_500}, fail_fast=True))
    world.submit()
    assert world.collect(watch=True) == 0
    assert passed(world)
    assert len(world.scores()) == 15
    check_invariants(world)


def a_cancelled_pilot(build: Build) -> World:
    """Cancelled right after it was sent, and what was answered until then brought home."""
    world = a_pilot(build)
    world.submit()
    world.cancel()
    world.collect(watch=True)
    return world


def test_a_pilot_that_was_cancelled_goes_on_where_it_was(build: Build) -> None:
    world = a_cancelled_pilot(build)
    assert world.outcomes() == {"cancelled": 2, "valid": 2}
    world.resume()
    assert world.value("SELECT count(*) FROM attempt") == 6, "what was cancelled, and nothing more"
    assert world.collect(watch=True) == 0
    assert passed(world)
    check_invariants(world)


def test_a_pilot_whose_requests_nobody_releases_is_not_waited_for(build: Build) -> None:
    """The user went on, but not with what was cancelled: that is left, and everything else is sent."""
    world = a_cancelled_pilot(build)
    assert world.collect(ByHand(retry=("rejected",)), watch=True, timeout=3_600.0) == 4
    assert len(world.scores()) == 13
    assert world.collect(ByHand(retry=("all",)), watch=True) == 0
    assert len(world.scores()) == 15


def test_a_pilot_whose_batch_expired_is_sent_again(build: Build) -> None:
    world = a_pilot(build, batches=[BatchFault(fault="expired", share=0.0, lines=False, times=1)])
    world.submit()
    assert world.collect(watch=True) == 0
    assert passed(world)
    check_invariants(world)


def test_answers_of_a_pilot_that_are_no_verdicts_halt_it_whatever_became_of_the_rest(build: Build) -> None:
    world = a_pilot(build, batches=[BatchFault(fault="expired", share=0.5, times=1)])
    world.faults.requests = [RequestFault(fault="invalid_json", match="-a1$")]
    world.submit()
    assert world.collect(watch=True) == 4
    assert world.value("SELECT standing_reason FROM run") == "pilot: 2 of 4 answers are valid, 95% are needed"
