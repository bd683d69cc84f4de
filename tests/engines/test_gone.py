"""A batch that was taken for gone is asked for once more before its requests are paid for again."""

from __future__ import annotations

from tests.cli.support import Cli, Emulation, Inputs

LOST = {"fault": "status", "status": 404, "method": "GET", "path": "/batches/", "times": 3}


def gone(cli: Cli) -> None:
    for _ in range(4):
        cli("collect", "--wait", "0")
    assert cli.query("select distinct outcome, detail from failure") == [{"outcome": "missing", "detail": "gone"}]


def test_a_batch_that_is_known_after_all_is_waited_for_and_nothing_is_sent_again(
    cli: Cli, emulate: Emulation, two: Inputs
) -> None:
    service = emulate(faults={"http": [LOST]}).service
    assert cli.submit(two, "--yes").code == 0
    gone(cli)
    done = cli.collect("--retry", "missing", "--yes")
    assert done.code == 0, done.err
    assert "after all" in done.err
    assert len(service.batches_created) == 1
    assert not service.paid_twice()
    assert cli.query("select count(*) as n from score") == [{"n": 10}]
    assert cli("doctor", cli.folder.name).code == 0


def test_a_batch_that_is_really_gone_is_sent_again(cli: Cli, emulate: Emulation, two: Inputs) -> None:
    service = emulate(faults={"batches": [{"fault": "gone", "nth": [1]}]}, polls_per_stage=2).service
    assert cli.submit(two, "--yes").code == 0
    gone(cli)
    done = cli.collect("--retry", "missing", "--yes")
    assert done.code == 0, done.err
    assert len(service.batches_created) == 2
    assert cli.query("select count(*) as n from score") == [{"n": 10}]


def test_without_an_answer_nothing_is_released(cli: Cli, emulate: Emulation, two: Inputs) -> None:
    late = {"fault": "status", "status": 503, "method": "GET", "path": "/batches/", "nth": list(range(1, 40))}
    service = emulate(faults={"http": [LOST, late]}).service
    assert cli.submit(two, "--yes").code == 0
    gone(cli)
    cli("collect", "--retry", "missing", "--yes", "--wait", "0").refused(1, "cannot be asked for now")
    assert len(service.batches_created) == 1
