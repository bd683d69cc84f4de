"""Refusals: quota is waited for and learned, a file is uploaded afresh once, everything else is said once and stops."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from iwb_batch.core import lifecycle
from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.emulator.judge import Completion, LineError, Rehearsal
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import Declined, ProviderRefused
from iwb_batch.workflow.collect import ByHand
from iwb_batch.workflow.settings import Options
from tests.faults.conftest import Build
from tests.faults.harness import KEY, World, plan
from tests.faults.invariants import check_invariants, remote_batches

QUOTA = 14_000
"""Enqueued tokens of the small deployment; the emulator counts bytes / 4, a file of 4 requests is about 8,500."""


def small_quota(limit: int, *, fail_fast: bool) -> Settings:
    return Settings(key=KEY, deployments={"gpt-5.4": limit}, fail_fast=fail_fast)


def refusals(world: World) -> int:
    """How often the provider refused for its queue: refused creates and batches that failed validation."""
    creates = sum(
        method == "POST" and path.endswith("/batches") and status == 400 for method, path, status in world.service.calls
    )
    failed = sum(str(batch.status) == "failed" for batch in remote_batches(world))
    return creates + failed


@pytest.mark.parametrize("fail_fast", [True, False], ids=["refused at create", "failed afterwards"])
@pytest.mark.parametrize("per_file", [2, 4], ids=["2 a file", "4 a file"])
def test_many_files_flow_through_a_small_quota(build: Build, fail_fast: bool, per_file: int) -> None:
    world = build(
        settings=small_quota(QUOTA, fail_fast=fail_fast),
        options=Options(max_requests_per_file=per_file),
        faults=FaultPlan(),
        n_items=6,
    )
    world.submit()
    assert world.collect(watch=True) == 0
    check_invariants(world)
    assert world.outcomes() == {"valid": 30}
    assert world.value("SELECT max(attempts) FROM request_status") == 1
    learned = world.value("SELECT enqueued_limit FROM lane")
    assert learned is not None
    assert learned <= QUOTA
    if fail_fast:
        assert refusals(world) <= 3, "once the limit is known it is kept"
    else:
        # What was on its way before the first refusal may fail too; a file fails again only where our estimate,
        # which is far below the emulator's count for these scripts, let one too many through.
        assert world.value("SELECT max(refusals) FROM batch") <= 2


def test_a_file_above_the_quota_is_split_and_costs_no_budget(build: Build) -> None:
    world = build(
        settings=small_quota(9_000, fail_fast=True),
        options=Options(max_requests_per_file=50, max_resubmits=0),
        faults=FaultPlan(),
        n_items=3,
    )
    world.submit()
    assert world.collect(watch=True) == 0
    check_invariants(world)
    outcomes = world.outcomes()
    assert outcomes["valid"] == 15
    assert set(outcomes) == {"valid", "not_run"}
    assert world.value("SELECT count(*) FROM attempt_log WHERE outcome = 'not_run' AND detail <> 'split'") == 0
    assert max(batch.tokens for batch in remote_batches(world)) <= 9_000


def test_the_provider_counts_more_tokens_than_we_estimate(build: Build) -> None:
    """The named limit seems to fit and does not: what fits is learned from the refusals, not asked for ever."""
    world = build(
        settings=small_quota(6_000, fail_fast=False),
        options=Options(max_requests_per_file=50),
        faults=FaultPlan(),
        n_items=2,
    )
    estimate = 0
    world.submit()
    estimate = world.value("SELECT max(n_tokens) FROM request_file")
    assert world.collect(watch=True) == 0
    sent = max(batch.tokens for batch in remote_batches(world))
    assert sent > estimate, "the emulator's count is the larger one here"
    assert refusals(world) <= 8
    assert world.outcomes()["valid"] == 10
    check_invariants(world)


class Counting(Rehearsal):
    """Names as prompt tokens what the emulator's queue counts for the line: its bytes / 4."""

    def answer(self, body: Mapping[str, Any]) -> Completion:
        said = super().answer(body)
        assert said.usage is not None
        n_bytes = len(json.dumps(body, ensure_ascii=False).encode()) + 100  # what stands around the body
        return replace(said, usage=replace(said.usage, prompt_tokens=n_bytes // 4))


@pytest.mark.parametrize(("given", "refused"), [(None, 1), (6_500, 0)], ids=["named by the refusal", "given"])
def test_once_answers_show_how_the_provider_counts_one_refusal_is_enough(
    build: Build, given: int | None, refused: int
) -> None:
    """Its count is far above our estimate: the answers of the pilot say how far, so its limit is read in our tokens."""
    world = build(
        settings=small_quota(6_500, fail_fast=True),
        options=Options(max_requests_per_file=50, pilot=2, enqueued_token_limit=given),
        faults=FaultPlan(),
        judge=Counting(),
        n_items=2,
    )
    world.submit()
    assert world.collect(watch=True) == 0
    sums = world.row("SELECT sum(prompt_tokens), sum(n_tokens) FROM attempt_reading WHERE outcome = 'valid'")
    assert sums is not None
    counted, estimated = sums
    rest = 0.8 * estimated
    assert rest < 6_500 < counted / estimated * rest, "what is left seems to fit and does not"
    assert refusals(world) == refused
    assert world.outcomes()["valid"] == 10
    check_invariants(world)


@pytest.mark.parametrize(
    ("counted", "estimated", "limit"),
    [
        pytest.param(0, 0, 900, id="no answer yet"),
        pytest.param(300, 100, 300, id="three times ours"),
        pytest.param(50, 100, 900, id="less than ours: left alone"),
        pytest.param(10**9, 1, 1, id="never below one token"),
    ],
)
def test_a_limit_in_the_tokens_we_count(counted: int, estimated: int, limit: int) -> None:
    assert lifecycle.in_our_count(900, counted=counted, estimated=estimated) == limit


def test_a_queue_full_of_somebody_elses_work_is_waited_for(build: Build) -> None:
    said = "The enqueued token limit of this deployment is reached."
    fault = BatchFault(fault="failed", code="token_limit_exceeded", message=said, when="create", nth=tuple(range(1, 9)))
    world = build(faults=FaultPlan(batches=[fault]), n_items=1)
    world.submit()
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"valid": 5}
    assert world.value("SELECT count(*) FROM request_file") == 1, "a small file is not split for what others hold"
    assert world.value("SELECT refusals FROM batch") == 8
    check_invariants(world)


def test_back_off_doubles_from_five_seconds() -> None:
    assert [lifecycle.back_off(n) for n in range(1, 5)] == [5, 10, 20, 40]
    assert lifecycle.back_off(50) == lifecycle.BACK_OFF_LAST


LEARNED = {
    "a named limit below the sum explains it": ((50_000, None, 40_000, 20_000, 1), 50_000),
    "a named limit that is known already teaches nothing": ((50_000, 50_000, 40_000, 20_000, 1), None),
    "the sum seemed to fit: it was too much": ((50_000, None, 20_000, 20_000, 1), 39_999),
    "the sum seemed to fit a known limit": ((50_000, 50_000, 20_000, 20_000, 1), 39_999),
    "alone, unnamed: wait": ((None, None, 0, 400_000, 2), None),
    "alone, unnamed, three times: half": ((None, None, 0, 400_000, 3), 200_000),
    "alone and small: others fill the queue": ((None, None, 0, 20_000, 30), None),
    "alone, named, seems to fit: remembered": ((50_000, None, 0, 40_000, 1), 50_000),
    "alone, named, seems to fit, three times: half": ((50_000, 50_000, 0, 40_000, 3), 20_000),
    "alone, far below the named limit: wait": ((500_000, 500_000, 0, 40_000, 9), None),
    "never below one token": ((None, None, 1, 0, 1), 1),
}


@pytest.mark.parametrize(("given", "learned"), LEARNED.values(), ids=LEARNED.keys())
def test_what_a_refusal_teaches(given: tuple[int | None, int | None, int, int, int], learned: int | None) -> None:
    named, known, in_flight, n_tokens, refused = given
    found = lifecycle.learned_limit(named, known, in_flight=in_flight, n_tokens=n_tokens, refusals=refused)
    assert found == learned


def test_a_learned_limit_below_one_request_does_not_end_the_run(build: Build) -> None:
    """Resubmissions after a learned limit: a single large line gets a file of its own instead of an error."""
    faults = FaultPlan(requests=[RequestFault(fault="invalid_json", match="-c0-", times=1)])
    world = build(faults=faults, n_items=2, options=Options(max_requests_per_file=1))
    world.submit()
    with world.session() as session:
        session.database.execute("UPDATE lane SET enqueued_limit = 10")
    assert world.collect(watch=True) == 0
    assert world.counts()["scored"] == 10
    check_invariants(world)


# --- refusals that stop ------------------------------------------------------------------------------

UNKNOWN = BatchFault(fault="failed", code="model_not_found", message="The deployment 'gpt-5.4' does not exist.", line=1)


def test_an_unknown_deployment_is_said_once_and_nothing_goes_again(build: Build) -> None:
    world = build(faults=plan(batches=[UNKNOWN]))
    with pytest.raises(ProviderRefused, match=r"model_not_found: line 1: The deployment 'gpt-5.4' does not exist"):
        world.submit()
    created = len(world.service.batches_created)
    assert created <= 2, "both files may have been on their way, none went twice"
    assert world.outcomes() == {}
    check_invariants(world)


def test_after_the_deployment_is_mended_the_same_command_goes_on(build: Build) -> None:
    world = build(faults=plan(batches=[replace(UNKNOWN, nth=(1, 2))]))
    assert world.finish() == 0
    assert all(isinstance(error, ProviderRefused) and error.exit_code == 5 for error in world.errors)
    assert 1 <= len(world.errors) <= 2
    check_invariants(world)


def test_a_refused_create_stops_before_the_next_file(build: Build) -> None:
    world = build(faults=plan(batches=[replace(UNKNOWN, when="create")]))
    with pytest.raises(ProviderRefused, match="model_not_found"):
        world.submit()
    assert world.posts("/batches") == 1
    check_invariants(world)


def test_a_refused_batch_in_a_pass_of_collect_sends_nothing_more(build: Build) -> None:
    world = build(faults=plan(batches=[UNKNOWN]))
    assert world.crash("submitted", 2)
    created = world.posts("/batches")
    with pytest.raises(ProviderRefused, match="model_not_found"):
        world.collect(wait=0.0)
    assert world.posts("/batches") == created
    assert world.outcomes() == {}
    check_invariants(world)


def test_the_input_file_of_a_refused_batch_is_deleted(build: Build) -> None:
    world = build(faults=plan(batches=[UNKNOWN]), n_items=1)
    with pytest.raises(ProviderRefused):
        world.submit()
    assert [call for call in world.service.calls if call[0] == "DELETE"]
    assert world.value("SELECT count(*) FROM event WHERE kind = 'input_deleted'") == 1


NOT_FOUND = BatchFault(fault="failed", code="invalid_request", message="The input file 'file-1' cannot be found.")


@pytest.mark.parametrize("when", ["batch", "create"])
def test_a_file_that_cannot_be_found_is_uploaded_afresh_once(build: Build, when: str) -> None:
    world = build(faults=FaultPlan(batches=[replace(NOT_FOUND, when=when, nth=(1,))]), n_items=1)
    assert world.finish() == 0
    assert world.errors == []
    assert world.posts("/files") == 2
    assert "uploading it afresh once" in world.heard.text()
    check_invariants(world)


@pytest.mark.parametrize("when", ["batch", "create"])
def test_a_file_that_cannot_be_found_twice_stops(build: Build, when: str) -> None:
    world = build(faults=FaultPlan(batches=[replace(NOT_FOUND, when=when)]), n_items=1)
    with pytest.raises(ProviderRefused, match="cannot be found"):
        world.both()
    assert world.posts("/files") == 2
    assert world.outcomes() == {}
    check_invariants(world)


def test_a_file_in_error_twice_stops_with_its_details_and_starts_over_when_asked(build: Build) -> None:
    fault = HttpFault(fault="file_error", method="POST", path="^/files$", nth=(1, 2), details="Line 7 is too long.")
    world = build(faults=plan(http=[fault]), n_items=1)
    with pytest.raises(ProviderRefused, match=r"Line 7 is too long.*again after a fresh upload"):
        world.submit()
    assert world.posts("/files") == 2
    assert world.posts("/batches") == 0
    check_invariants(world)
    assert world.finish() == 0
    check_invariants(world)


def test_a_file_that_stays_pending_is_waited_for(build: Build) -> None:
    world = build(
        faults=plan(http=[HttpFault(fault="file_pending", method="POST", path="^/files$", polls=15)]), n_items=1
    )
    submitted = world.submit()
    assert submitted.code == 3
    assert "the provider's file status is pending" in world.heard.text()
    assert world.posts("/batches") == 0
    assert world.collect(watch=True) == 0
    assert world.posts("/files") == world.value("SELECT count(*) FROM request_file")
    check_invariants(world)


def test_a_file_that_is_pending_for_ever_ends_with_three(build: Build) -> None:
    world = build(faults=plan(http=[HttpFault(fault="file_pending", method="POST", path="^/files$")]), n_items=1)
    world.submit()
    assert world.collect(watch=True, timeout=7200.0) == 3
    assert (world.posts("/files"), world.posts("/batches")) == (1, 0)
    check_invariants(world)


def test_an_upload_that_expired_before_its_batch_was_created_is_made_again(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1)
    assert world.crash("uploaded")
    world.clock.sleep(31 * 86_400)
    assert world.finish() == 0
    assert world.posts("/files") == 2
    check_invariants(world)


def test_the_quota_of_files_is_told_with_the_way_out(build: Build) -> None:
    world = build(settings=Settings(key=KEY, max_files_expiring=1))
    with pytest.raises(ProviderRefused, match="quotaExceeded") as refused:
        world.submit()
    assert refused.value.exit_code == 5
    assert "delete old ones" in str(refused.value.hint)
    check_invariants(world)


def test_401_in_the_middle_loses_nothing(build: Build) -> None:
    fault = HttpFault(fault="unauthorized", nth=tuple(range(14, 20)))
    world = build(faults=plan(http=[fault]))
    assert world.finish() == 0
    assert world.errors
    assert all(isinstance(error, ProviderRefused) and "credentials" in error.message for error in world.errors)
    check_invariants(world)


# --- systematic failure ------------------------------------------------------------------------------


class Refuses:
    """A judge deployment that refuses every request in the same way until it is mended."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        self.error = LineError(status, {"error": dict(error)})
        self.mended = False
        self._inner = Rehearsal()

    def answer(self, body: Mapping[str, Any]) -> Completion:
        if not self.mended:
            raise self.error
        return self._inner.answer(body)


SHIELD = {
    "code": "content_filter",
    "message": "The response was filtered due to the prompt triggering the content management policy.",
    "innererror": {
        "code": "ResponsibleAIPolicyViolation",
        "content_filter_result": {"jailbreak": {"detected": True, "filtered": True}},
    },
}
PARAMETER = {"code": "unsupported_parameter", "message": "Unsupported parameter: 'max_tokens'.", "param": "max_tokens"}
SYSTEMATIC = {"a wrong parameter": (400, PARAMETER, "rejected"), "a jailbreak shield": (400, SHIELD, "filtered")}


@pytest.mark.parametrize(("status", "error", "outcome"), SYSTEMATIC.values(), ids=SYSTEMATIC.keys())
def test_a_systematic_failure_halts_once_and_retry_goes_on(
    build: Build, status: int, error: dict[str, Any], outcome: str
) -> None:
    judge = Refuses(status, error)
    world = build(judge=judge, faults=FaultPlan(), options=Options(max_requests_per_file=4, resubmit_filtered=3))
    with pytest.raises(ProviderRefused) as halted:
        world.both()
    assert str(error["message"]) in halted.value.message
    assert halted.value.exit_code == 5
    assert world.row("SELECT standing FROM run") == ("halted",)
    assert set(world.outcomes()) == {outcome}
    created = world.posts("/batches")
    world.attempt()
    world.attempt()
    assert world.posts("/batches") == created
    assert world.value("SELECT max(attempts) FROM request_status") == 1
    check_invariants(world)
    judge.mended = True
    assert world.collect(ByHand(retry=(outcome,)), watch=True) == 0
    assert world.counts() == {"scored": 15, "open": 0, "failed": 0}
    check_invariants(world)


def test_a_halt_survives_a_crash_right_after_the_batch_was_collected(build: Build) -> None:
    world = build(judge=Refuses(400, PARAMETER), faults=FaultPlan(), options=Options(max_requests_per_file=4))
    assert world.crash("collected")
    assert world.row("SELECT standing FROM run") == ("halted",)
    created = world.posts("/batches")
    assert world.attempt() is None
    assert world.posts("/batches") == created
    check_invariants(world)


def test_two_of_three_alike_are_no_systematic_failure() -> None:
    assert lifecycle.systematic({("rejected", "x"): 2}, 2) is None
    assert lifecycle.systematic({("rejected", "x"): 8, ("rejected", "y"): 2}, 10) is None
    assert lifecycle.systematic({("rejected", "x"): 9}, 10) == ("rejected", "x", 9)


def test_an_account_without_funds_stops_at_once_and_resumes_after_the_top_up(build: Build) -> None:
    world = build(faults=FaultPlan(requests=[RequestFault(fault="account", times=1)]), options=Options(max_resubmits=0))
    with pytest.raises(ProviderRefused, match="refused for the account"):
        world.both()
    assert world.row("SELECT standing FROM run") == ("stopped",)
    created = world.posts("/batches")
    assert world.collect(watch=True) == 4
    with pytest.raises(Declined):
        world.submit(yes=False)
    assert world.posts("/batches") == created
    assert world.resume().code == 0
    assert world.collect(watch=True) == 0
    assert world.outcomes() == {"account": 15, "valid": 15}
    check_invariants(world)


def test_the_provider_s_words_come_from_an_errors_body(build: Build) -> None:
    """Azure refuses a create with a list under ``errors``, which the SDK's own message leaves out."""
    world = build(settings=Settings(key=KEY, deployments={"other": 10**9}, fail_fast=True), n_items=1)
    with pytest.raises(ProviderRefused, match=r"model_not_found.*Valid deployments are 'other'"):
        world.submit()
    assert json.dumps(world.errors) == "[]"
