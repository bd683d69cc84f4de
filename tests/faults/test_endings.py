"""How batches end, at the level of a whole run: what is kept, what goes again, what is never bought twice."""

from __future__ import annotations

import pytest

from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.workflow.collect import ByHand
from iwb_batch.workflow.settings import Options
from tests.faults.conftest import Build
from tests.faults.harness import GRACE, SETTLE, Scores, plan
from tests.faults.invariants import check_invariants, n_lines, remote_batches, unaccounted

FORMS = {
    "expired, the rest in the error file": BatchFault(fault="expired", share=0.5, nth=(1,)),
    "expired, the rest nowhere": BatchFault(fault="expired", share=0.5, lines=False, nth=(1,)),
    "expired before anything ran": BatchFault(fault="expired", share=0.0, lines=False, nth=(1,)),
    "failed midway": BatchFault(fault="failed_midway", share=0.5, nth=(1,)),
    "capitalised status": BatchFault(fault="capitalised"),
    "times as ISO text": BatchFault(fault="iso_times"),
    "ids as empty text": BatchFault(fault="empty_ids"),
    "null counts": BatchFault(fault="null_counts"),
    "a status nobody knows": BatchFault(fault="unknown_status", word="re-balancing", polls=4),
    "no error file": BatchFault(fault="no_error_file"),
    "counts that claim more": BatchFault(fault="wrong_counts", completed=3, total=3),
    "counts that claim less": BatchFault(fault="wrong_counts", completed=-2, total=-2),
    "file ids come late": BatchFault(fault="late_output", reads=2),
    "output short at first": BatchFault(fault="short_output", share=0.4, reads=2),
}


@pytest.mark.parametrize("fault", FORMS.values(), ids=FORMS.keys())
def test_every_ending_comes_to_the_scores_of_the_undisturbed_run(
    build: Build, expected: Scores, fault: BatchFault
) -> None:
    world = build(faults=plan(batches=[fault]))
    assert world.finish() == 0
    check_invariants(world)
    assert (world.scores(), unaccounted(world), world.errors) == (expected, [], [])


def test_an_expired_batch_keeps_its_answers_and_only_the_rest_goes_again(build: Build) -> None:
    world = build(faults=FaultPlan(batches=[BatchFault(fault="expired", share=0.6, nth=(1,))]), n_items=1)
    assert world.finish() == 0
    assert world.outcomes() == {"expired": 2, "valid": 5}
    assert [n_lines(batch) for batch in remote_batches(world)] == [5, 2]
    assert world.value("SELECT max(attempts) FROM request_status") == 2
    check_invariants(world)


def test_expired_lines_spend_none_of_the_budget_for_bad_answers(build: Build) -> None:
    faults = FaultPlan(
        requests=[RequestFault(fault="invalid_json", match="-i0-c0-", times=3)],
        batches=[BatchFault(fault="expired", share=0.0, nth=(1, 2, 4, 6))],
    )
    world = build(faults=faults, n_items=1)
    assert world.finish() == 0
    assert world.outcomes() == {"expired": 5 + 5 + 1 + 1, "invalid_json": 3, "valid": 5}
    check_invariants(world)


def test_a_part_that_expires_costs_only_its_own_missing_lines(build: Build) -> None:
    faults = FaultPlan(batches=[BatchFault(fault="expired", share=0.5, nth=(2,))])
    world = build(faults=faults, options=Options(max_requests_per_file=4), n_items=3)
    assert world.finish() == 0
    sizes = [n_lines(batch) for batch in remote_batches(world)]
    assert sizes == [4, 4, 4, 3, 2]
    check_invariants(world)


def test_a_batch_cancelled_at_the_provider_stops_the_run_and_keeps_what_was_answered(build: Build) -> None:
    world = build(faults=FaultPlan(batches=[BatchFault(fault="cancelled", share=0.4, nth=(1,))]), n_items=1)
    world.submit()
    assert world.collect(watch=True) == 4
    assert world.outcomes() == {"cancelled": 3, "valid": 2}
    assert world.counts() == {"scored": 2, "open": 3, "failed": 0}
    assert world.row("SELECT standing FROM run") == ("stopped",)
    posts = world.posts("/batches")
    assert world.collect(watch=True) == 4
    assert world.posts("/batches") == posts
    assert world.resume().code == 0
    assert world.collect(watch=True) == 0
    assert world.counts() == {"scored": 5, "open": 0, "failed": 0}
    check_invariants(world)


@pytest.mark.parametrize("lines", [True, False], ids=["with lines", "without lines"])
def test_a_cancelled_batch_stops_the_run_however_it_reports_the_rest(build: Build, lines: bool) -> None:
    world = build(
        faults=FaultPlan(batches=[BatchFault(fault="cancelled", share=0.4, lines=lines, nth=(1,))]), n_items=1
    )
    world.submit()
    assert world.collect(watch=True) == 4
    assert world.row("SELECT standing FROM run") == ("stopped",)
    assert world.outcomes()["cancelled"] == 3


def test_lines_in_neither_file_are_named_missing_after_settling_and_go_again(build: Build) -> None:
    world = build(
        faults=FaultPlan(requests=[RequestFault(fault="dropped", match="-c[24]-", times=1)]),
        n_items=2,
        options=Options(),
    )
    world.submit()
    for _ in range(5):
        assert world.collect(wait=0.0) == 3
        world.clock.sleep(60)
    assert world.outcomes() == {}, "nothing is decided while answers may still come"
    assert "10 answers are claimed, 6 are there" in world.heard.text()
    world.clock.sleep(SETTLE)
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"missing": 4, "valid": 10}
    assert world.value("SELECT count(*) FROM attempt_log WHERE outcome = 'missing' AND detail = 'maybe_paid'") == 4
    check_invariants(world)


def test_completed_without_file_ids_is_read_again_then_missing(build: Build) -> None:
    faults = FaultPlan(batches=[BatchFault(fault="late_output", reads=None, nth=(1,))])
    world = build(faults=faults, n_items=1)
    world.submit()
    started = world.clock.now()
    assert world.collect(watch=True) == 0
    assert world.clock.now() - started >= SETTLE
    assert world.outcomes() == {"missing": 5, "valid": 5}
    check_invariants(world, paid_once=False)


@pytest.mark.parametrize("kind", ["expired", "cancelled", "failed_midway"])
def test_a_batch_that_ran_and_names_neither_files_nor_counts_is_read_again(
    build: Build, expected: Scores, kind: str
) -> None:
    """Its answers are paid for; that nothing is said of them yet must not send them again."""
    silent = [BatchFault(fault="null_counts", nth=(1,)), BatchFault(fault="late_output", reads=2, nth=(1,))]
    world = build(faults=plan(batches=[*silent, BatchFault(fault=kind, share=0.5, nth=(1,))]))
    code = world.finish()
    if kind == "cancelled":
        assert (code, world.resume().code) == (4, 0)
        code = world.finish()
    assert code == 0
    check_invariants(world)
    assert (world.scores(), unaccounted(world)) == (expected, [])


def test_settling_does_not_run_while_nobody_looks(build: Build) -> None:
    """The batch ends, the machine sleeps longer than --settle, and the first look afterwards finds a short file."""
    faults = FaultPlan(batches=[BatchFault(fault="short_output", share=0.4, reads=3, nth=(1,))])
    world = build(faults=faults, n_items=1)
    assert world.crash("ended")
    world.clock.sleep(10 * SETTLE)
    assert world.collect(wait=0.0) == 3
    assert world.outcomes() == {}
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


def test_an_unreachable_file_is_never_taken_for_missing(build: Build) -> None:
    """No answer about a file is no reason to buy its lines again, however long it lasts."""
    faults = FaultPlan(http=[HttpFault(fault="reset_before", path="^/files/.*/content$")])
    world = build(faults=faults, n_items=1)
    world.submit()
    for _ in range(30):
        assert world.collect(wait=0.0) == 3
        world.clock.sleep(SETTLE)
    assert world.outcomes() == {}
    faults.http = ()
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


def test_one_file_that_is_gone_does_not_cost_the_other(build: Build) -> None:
    world = build(faults=FaultPlan(requests=[RequestFault(fault="server_error", match="-c1-", times=1)]), n_items=1)
    assert world.crash("ended")
    del world.service._files._files[str(world.value("SELECT error_file_id FROM batch"))]
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"missing": 1, "valid": 5}
    check_invariants(world)


def test_a_batch_the_provider_no_longer_knows_is_gone_after_three_polls(build: Build) -> None:
    faults = FaultPlan(batches=[BatchFault(fault="gone", polls=1, nth=(1,))])
    world = build(faults=faults, n_items=1)
    world.submit()
    codes = [world.collect(wait=0.0) for _ in range(4)]
    assert (codes[0], codes[-1]) == (3, 4)
    assert world.outcomes() == {"missing": 5}
    assert world.counts() == {"scored": 0, "open": 0, "failed": 5}
    assert "--retry missing` sends its requests again" in world.heard.text()
    polls = len(world.service.calls)
    assert world.collect(watch=True) == 4
    assert not [call for call in world.service.calls[polls:] if call[1].endswith(remote_batches(world)[0].key)]
    assert world.collect(ByHand(retry=("missing",)), watch=True) == 0
    assert world.outcomes() == {"missing": 5, "valid": 5}
    check_invariants(world, paid_once=False)


def test_a_batch_not_found_right_after_its_creation_is_not_gone(build: Build) -> None:
    faults = plan(http=[HttpFault(fault="status", status=404, method="GET", path="^/batches/.", times=6)])
    world = build(faults=faults)
    world.submit()
    assert {row[0] for row in world.rows("SELECT state FROM batch")} == {"submitted"}
    check_invariants(world)


def test_server_errors_never_make_a_batch_gone(build: Build, expected: Scores) -> None:
    faults = plan(http=[HttpFault(fault="status", status=503, method="GET", path="^/batches/.", times=30)])
    world = build(faults=faults)
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)


def test_a_batch_that_ran_and_failed_is_no_refusal(build: Build) -> None:
    world = build(faults=FaultPlan(batches=[BatchFault(fault="failed_midway", share=0.4, nth=(1,))]), n_items=1)
    assert world.finish() == 0
    assert world.errors == []
    assert world.outcomes() == {"not_run": 3, "valid": 2 + 3}
    check_invariants(world)


def test_a_stuck_batch_is_waited_for_until_the_timeout(build: Build) -> None:
    world = build(faults=FaultPlan(batches=[BatchFault(fault="stuck", nth=(1,))]), n_items=1)
    world.submit()
    started = world.clock.now()
    assert world.collect(watch=True, timeout=3600.0) == 3
    assert 3600 <= world.clock.now() - started < 3600 + 2 * GRACE
    assert "not finished: 0001.jsonl in_progress" in world.heard.text()
    check_invariants(world)


def test_all_lines_errored_and_no_output_file(build: Build) -> None:
    faults = FaultPlan(batches=[BatchFault(fault="all_errored", kind="server_error", nth=(1,))])
    world = build(faults=faults, n_items=1)
    assert world.finish() == 0
    assert world.outcomes() == {"transient": 5, "valid": 5}
    check_invariants(world)


def test_a_second_look_at_a_finished_run_changes_nothing(build: Build) -> None:
    world = build(faults=FaultPlan(batches=[BatchFault(fault="all_errored", kind="rejected")]), n_items=1)
    world.attempt()
    before = world.rows("SELECT * FROM attempt_log"), world.rows("SELECT * FROM reading"), len(world.service.calls)
    for _ in range(5):
        assert world.collect() == 4
    assert (world.rows("SELECT * FROM attempt_log"), world.rows("SELECT * FROM reading")) == before[:2]
    assert len(world.service.calls) == before[2]
    check_invariants(world)


STRAYS = {
    "duplicate": {"duplicate": 1},
    "duplicate_error": {"duplicate": 1},
    "unknown_id": {"unknown": 1},
}


@pytest.mark.parametrize(("fault", "kinds"), STRAYS.items(), ids=STRAYS.keys())
def test_strays_are_kept_and_counted_and_change_no_score(build: Build, fault: str, kinds: dict[str, int]) -> None:
    calm = build(faults=FaultPlan(), n_items=1)
    assert calm.finish() == 0
    world = build(faults=FaultPlan(requests=[RequestFault(fault=fault, match="-c3-", times=1)]), n_items=1)
    assert world.finish() == 0
    assert world.scores() == calm.scores()
    assert dict(world.rows("SELECT kind, count(*) FROM raw_line WHERE kind <> 'answer' GROUP BY 1")) == kinds
    check_invariants(world)


def test_one_malformed_line_costs_one_line(build: Build) -> None:
    world = build(faults=FaultPlan(requests=[RequestFault(fault="malformed_line", match="-c3-", times=1)]), n_items=1)
    assert world.finish() == 0
    assert world.outcomes() == {"missing": 1, "valid": 5}
    assert world.value("SELECT count(*) FROM raw_line WHERE kind = 'unreadable'") == 1
    check_invariants(world)


def test_a_batch_found_again_is_not_bought_again_while_its_files_cannot_be_fetched(build: Build) -> None:
    faults = FaultPlan(batches=[BatchFault(fault="gone", polls=1, nth=(1,))])
    world = build(faults=faults, n_items=1)
    world.submit()
    assert [world.collect(wait=0.0) for _ in range(4)][-1] == 4
    (batch,) = remote_batches(world)
    batch.faults = []
    faults.http = [HttpFault(fault="status", status=500, path="/content$")]
    for _ in range(4):
        world.collect(ByHand(retry=("missing",)), wait=0.0)
        world.clock.sleep(GRACE)
    assert world.outcomes() == {"missing": 5}
    faults.http = ()
    assert world.collect(watch=True) == 0
    assert world.counts() == {"scored": 5, "open": 0, "failed": 0}
    check_invariants(world)


@pytest.mark.parametrize("status", [400, 410, 422])
def test_a_batch_of_which_nothing_is_told_any_more_is_gone_too(build: Build, status: int) -> None:
    faults = FaultPlan()
    world = build(faults=faults, n_items=1)
    world.submit()
    faults.http = [HttpFault(fault="status", status=status, method="GET", path="^/batches/.")]
    assert [world.collect(wait=0.0) for _ in range(4)][-1] == 4
    assert world.outcomes() == {"missing": 5}
    faults.http = ()
    assert world.collect(ByHand(retry=("missing",)), watch=True) == 0
    assert world.counts() == {"scored": 5, "open": 0, "failed": 0}
    check_invariants(world)


def test_failed_with_answers_claimed_is_no_refusal(build: Build) -> None:
    """The beginning is not given, but a batch that claims answers has run: they are paid for and may still come."""
    faults = FaultPlan(
        batches=[
            BatchFault(fault="failed", code="model_not_found", nth=(1,)),
            BatchFault(fault="wrong_counts", completed=3, total=5, nth=(1,)),
        ]
    )
    world = build(faults=faults, n_items=1)
    world.submit()
    assert world.collect(watch=True) == 0
    assert world.row("SELECT standing FROM run") == ("running",)
    assert world.value("SELECT count(*) FROM attempt_log WHERE outcome = 'missing' AND detail = 'maybe_paid'") == 5
    check_invariants(world)
