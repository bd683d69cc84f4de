"""What random schedules over the other ways of a run have found, each as small as it can be told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iwb_batch.emulator.faults import HttpFault
from iwb_batch.workflow.session import no_boundary
from tests.faults.harness import Crash
from tests.faults.invariants import check_invariants
from tests.faults.worlds import OnlineWorld


@pytest.fixture
def online(tmp_path: Path) -> Iterator[OnlineWorld]:
    """A run of which four requests failed once and wait for another attempt."""
    with OnlineWorld(tmp_path) as world:
        world.submit()
        while world.outcomes().get("valid") != 11:
            with world.session() as session:
                from iwb_batch.workflow import advance

                advance.one_pass(session, resubmit=False)
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


def test_a_stopped_run_with_nobody_to_ask_is_cancelled_all_the_same(online: OnlineWorld) -> None:
    online.faults.http = [HttpFault(fault="status", status=429, path="chat/completions")]
    assert online.finish_online() == 3
    online.cancel()
    assert online.outcomes()["cancelled"] == 4
    assert online.collect() == 4
