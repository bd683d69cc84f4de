"""Input files without expiry are deleted once their batch is collected, also when the process died before it could."""

from __future__ import annotations

import pytest

from iwb_batch.emulator.faults import BatchFault, HttpFault
from iwb_batch.emulator.settings import Settings
from iwb_batch.workflow.settings import Options
from tests.faults.conftest import Build
from tests.faults.harness import KEY, WITHOUT_EXPIRY, World, adapter_in_process, plan
from tests.faults.invariants import check_invariants

OF_INPUTS = "SELECT count(*) FROM event WHERE kind = ?"


def old(world: World) -> World:
    """The same world seen through the old surface."""
    world.adapter = adapter_in_process(world.service, api_version=WITHOUT_EXPIRY)
    return world


def inputs_left(world: World) -> int:
    """Uploaded request files that the provider still has."""
    return sum(stored.purpose == "batch" for stored in world.service._files._files.values())


def deletes(world: World) -> int:
    return sum(method == "DELETE" for method, _, _ in world.service.calls)


@pytest.mark.parametrize("nth", [1, 2])
def test_a_crash_right_after_a_batch_was_collected(build: Build, nth: int) -> None:
    world = old(build())
    assert world.crash("collected", nth)
    left = inputs_left(world)
    assert world.collect(watch=True) == 0
    assert left > 0
    assert inputs_left(world) == 0
    assert world.value(OF_INPUTS, "input_deleted") == world.value("SELECT count(*) FROM batch")
    check_invariants(world)


def test_a_crash_right_after_a_file_was_split(build: Build) -> None:
    world = old(
        build(
            settings=Settings(key=KEY, deployments={"gpt-5.4": 9_000}, fail_fast=True),
            options=Options(max_requests_per_file=50),
            faults=plan(requests=()),
        )
    )
    assert world.crash("split")
    assert world.finish() == 0
    assert inputs_left(world) == 0


def test_a_file_whose_batch_was_refused_for_its_queue_is_deleted_after_the_next_batch_over_it(build: Build) -> None:
    full = BatchFault(fault="failed", code="token_limit_exceeded", times=1)
    world = old(build(faults=plan(batches=[full], requests=()), n_items=1))
    assert world.finish() == 0
    assert (inputs_left(world), world.posts("/files"), world.posts("/batches")) == (0, 1, 2)
    assert deletes(world) == 1


def test_without_an_answer_the_next_pass_deletes_it(build: Build) -> None:
    away = HttpFault(fault="status", status=503, method="DELETE", times=2)
    world = old(build(faults=plan(http=[away], requests=()), n_items=1))
    world.submit()
    assert world.collect(watch=True) == 0
    assert world.collect() == 0
    assert inputs_left(world) == 0
    assert deletes(world) == 3


@pytest.mark.parametrize("status", [400, 403])
def test_a_refusal_is_noted_once_and_ends_nothing(build: Build, status: int) -> None:
    world = old(build(faults=plan(http=[HttpFault(fault="status", status=status, method="DELETE")])))
    assert world.finish() == 0
    assert world.errors == []
    tried = deletes(world)
    assert world.collect() == 0
    assert deletes(world) == tried == world.value(OF_INPUTS, "input_not_deleted") == inputs_left(world)


def test_a_file_deleted_by_hand_is_not_asked_for_again(build: Build) -> None:
    world = old(build(n_items=1))
    assert world.crash("collected")
    world.delete_remote()
    assert world.finish() == 0
    tried = deletes(world)
    assert world.collect() == 0
    assert deletes(world) == tried
    assert world.value(OF_INPUTS, "input_gone") >= 1


def test_files_that_expire_by_themselves_are_left_alone(build: Build) -> None:
    world = build()
    assert world.finish() == 0
    assert deletes(world) == 0
