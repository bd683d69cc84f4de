"""A broken download never costs answers that an earlier look had already brought."""

from __future__ import annotations

import pytest

from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.workflow import download
from iwb_batch.workflow.settings import Options
from tests.faults.conftest import Build
from tests.faults.harness import SETTLE
from tests.faults.invariants import check_invariants

BROKEN = {
    "ends halfway without a word": HttpFault(fault="silent_short", path="^/files/.*/content$"),
    "another page in its place": HttpFault(fault="bad_json", path="^/files/.*/content$"),
    "empty": HttpFault(fault="empty_body", path="^/files/.*/content$"),
    "gone meanwhile": HttpFault(fault="status", status=404, path="^/files/.*/content$"),
}


@pytest.mark.parametrize("fault", BROKEN.values(), ids=BROKEN.keys())
def test_the_last_look_before_giving_up_does_not_replace_a_better_one(build: Build, fault: HttpFault) -> None:
    faults = FaultPlan(requests=[RequestFault(fault="dropped", match="-c4-", times=1)])
    world = build(faults=faults, n_items=1)
    world.submit()
    for _ in range(4):
        assert world.collect(wait=0.0) == 3
    assert "5 answers are claimed, 4 are there" in world.heard.text()
    world.clock.sleep(SETTLE)
    faults.http = [fault]
    assert world.collect(wait=0.0) == 3
    assert world.outcomes() == {"missing": 1, "valid": 4}
    faults.http = ()
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"missing": 1, "valid": 5}
    check_invariants(world)


def test_what_was_archived_before_a_crash_counts_when_the_file_is_gone_afterwards(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1)
    assert world.crash("downloaded")
    del world.service._files._files[str(world.value("SELECT output_file_id FROM batch"))]
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


def test_downloads_that_break_off_inside_a_line_never_close_a_batch(build: Build) -> None:
    """The network is at fault as long as the provider announces more than came, and what came ends inside a line."""
    faults = FaultPlan(http=[HttpFault(fault="silent_short", path="^/files/.*/content$")])
    world = build(faults=faults, n_items=1)
    assert world.crash("ended")
    for _ in range(6):
        assert world.collect(wait=0.0) == 3
        world.clock.sleep(2 * SETTLE)
    assert world.outcomes() == {}
    assert "the last line is cut off; asked again later" in world.heard.text()
    faults.http = ()
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


def test_two_looks_far_apart_are_not_enough_to_take_answers_for_missing(build: Build) -> None:
    faults = FaultPlan(batches=[BatchFault(fault="short_output", share=0.4, reads=None, nth=(1,))])
    world = build(faults=faults, n_items=1)
    assert world.crash("ended")
    for _ in range(2):
        assert world.collect(wait=0.0) == 3
        assert world.outcomes() == {}
        world.clock.sleep(2 * SETTLE)
    assert world.collect(wait=0.0) == 3
    assert world.outcomes() == {"missing": 3, "valid": 2}


def test_another_lack_starts_time_and_looks_anew(build: Build) -> None:
    faults = FaultPlan(batches=[BatchFault(fault="short_output", share=0.4, reads=None, nth=(1,))])
    world = build(faults=faults, n_items=1)
    absent = HttpFault(fault="status", status=404, path="^/files/.*/content$")
    assert world.crash("ended")
    for http in ([absent], [absent], [absent], [], []):
        faults.http = http
        assert world.collect(wait=0.0) == 3
        assert world.outcomes() == {}
        world.clock.sleep(SETTLE / 3 if http else SETTLE)
    assert "bytes came; read again for up to 1800 s" in world.heard.text()
    assert world.collect(wait=0.0) == 3
    assert world.outcomes() == {"missing": 3, "valid": 2}


def test_settle_0_takes_at_once_what_came(build: Build) -> None:
    world = build(faults=FaultPlan(http=[HttpFault(fault="silent_short", path="^/files/.*/content$", nth=(1,))]))
    assert world.crash("ended")
    assert world.collect(wait=0.0, settle=0.0) == 3
    assert world.outcomes()["missing"] > 0


def test_the_provider_is_asked_once_more_before_answers_are_taken_for_missing(build: Build) -> None:
    """Its file ids came after the second look and long before the third."""
    fault = BatchFault(fault="late_output", reads=None, nth=(1,))
    world = build(faults=FaultPlan(batches=[fault]), n_items=1)
    assert world.crash("ended")
    for _ in range(2):
        assert world.collect(wait=0.0) == 3
    (batch,) = world.service._batches._batches.values()
    batch.faults = []
    world.clock.sleep(2 * SETTLE)
    assert world.collect(wait=0.0) == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


def test_a_network_that_is_away_is_no_look(build: Build) -> None:
    fault = BatchFault(fault="late_output", reads=None, nth=(1,))
    faults = FaultPlan(batches=[fault])
    world = build(faults=faults, n_items=1)
    assert world.crash("ended")
    assert world.collect(wait=0.0) == 3
    faults.http = [HttpFault(fault="reset_before")]
    for _ in range(3):
        world.clock.sleep(2 * SETTLE)
        world.attempt()
    faults.http = ()
    (batch,) = world.service._batches._batches.values()
    batch.faults = []
    assert world.collect(wait=0.0) == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


def test_a_cut_is_noticed_where_the_provider_tells_no_size(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a file: what came of it is one line too, so the counts show nothing."""
    monkeypatch.setattr(download, "_announced_bytes", lambda _session, _file_id: None)
    faults = FaultPlan(http=[HttpFault(fault="silent_short", path="^/files/.*/content$", nth=(1, 2, 3))])
    world = build(faults=faults, n_items=1, options=Options(max_requests_per_file=1))
    world.submit()
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)
