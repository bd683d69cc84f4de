"""What a refusal means for the next command: a batch that was made all the same is adopted, a refused one waits."""

from __future__ import annotations

import pytest

from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault
from iwb_batch.errors import ProviderRefused
from iwb_batch.workflow.collect import ByHand
from tests.cli.support import Cli, Emulation, Inputs
from tests.faults.conftest import Build
from tests.faults.invariants import check_invariants


def test_too_many_requests_said_of_a_call_that_went_through(build: Build) -> None:
    said = HttpFault(fault="status", status=429, commit=True, method="POST", path="^/batches$", nth=(1,))
    world = build(faults=FaultPlan(http=[said]), n_items=1)
    world.submit()
    assert world.collect(watch=True) == 0
    assert len(world.service.batches_created) == 1
    assert world.outcomes() == {"valid": 5}
    check_invariants(world)


@pytest.mark.parametrize("fail_fast", [True, False], ids=["at create", "in validation"])
def test_a_refused_file_is_sent_again_only_when_the_user_says_so(
    cli: Cli, two: Inputs, emulate: Emulation, fail_fast: bool
) -> None:
    known = {"gpt-5.4-mini": 10**9}
    resource = emulate(deployments=known, fail_fast=fail_fast)
    refused = cli.submit(two, "--wait", "20")
    refused.refused(5, "batch for 0001.jsonl refused: model_not_found", hint=f"submit --run {cli.folder.name}")
    posts = len(resource.posts)
    for _ in range(3):
        done = cli("collect", "--watch", "--poll-interval", "0.02", "--wait", "0.1")
        assert done.code == 4, done.err
        assert "note: the run is halted: batch for 0001.jsonl refused: model_not_found" in done.err
        assert f"`iwb-batch submit --run {cli.folder.name}` goes on" in done.err
    assert len(resource.posts) == posts
    assert cli("status", "--json").json()["state"] == "halted"
    assert cli.submit(two, "--wait", "20").code == 5, "still refused: said again, and the run waits again"
    known["gpt-5.4"] = 10**9
    assert cli("submit", "--run", cli.folder.name, "--wait", "20").code == 0
    assert cli.collect().code == 0
    assert resource.service.paid_twice() == []


def test_retrying_all_sends_a_refused_file_again(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(faults={"batches": [{"fault": "failed", "code": "model_not_found", "nth": [1]}]})
    assert cli.submit(two, "--wait", "20").code == 5
    assert cli.collect("--retry", "all", "--yes").code == 0


def test_a_refused_batch_keeps_no_other_answers_away(build: Build) -> None:
    refused = BatchFault(fault="failed", code="model_not_found", message="No such deployment.", nth=(2,))
    world = build(faults=FaultPlan(batches=[refused]), n_items=3)
    with pytest.raises(ProviderRefused, match=r"batch for 0002\.jsonl refused: model_not_found"):
        world.both()
    assert world.collect(watch=True) == 4
    assert world.outcomes() == {"valid": 8}
    assert world.posts("/batches") == 2
    check_invariants(world)
    assert world.both() == 0
    assert world.posts("/batches") == 3
    check_invariants(world)


def test_a_systematic_failure_is_not_taken_for_a_refusal_that_submit_may_repeat(build: Build) -> None:
    faults = [
        BatchFault(fault="all_errored", kind="rejected", nth=(1,)),
        BatchFault(fault="failed", code="model_not_found", message="No such deployment.", nth=(2,)),
    ]
    world = build(faults=FaultPlan(batches=faults), n_items=3)
    for _ in range(4):
        world.attempt()
    assert world.row("SELECT standing FROM run") == ("halted",)
    with pytest.raises(ProviderRefused, match="is halted: 8 of 8 requests"):
        world.submit()
    assert world.collect(ByHand(retry=("all",)), watch=True) == 0
    check_invariants(world)
