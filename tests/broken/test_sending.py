"""A create call that was refused for now and carried out all the same: its batch is adopted, not made again."""

from __future__ import annotations

from iwb_batch.emulator.faults import FaultPlan, HttpFault
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
