"""``--pilot N``: a few requests first, gates, then the rest; ``--notify`` once at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from iwb_batch.core.pilot import PilotOutcome, failed_gates
from tests.cli.support import Cli, Emulation, inputs


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        pytest.param(PilotOutcome(20, 19, 1), [], id="95 per cent valid, 5 per cent cut"),
        pytest.param(PilotOutcome(20, 18, 0), ["18 of 20 answers are valid"], id="too few valid"),
        pytest.param(PilotOutcome(100, 95, 6), ["6 of 100 answers are cut"], id="too many cut"),
        pytest.param(PilotOutcome(20, 20, 0, 11.0, 10.0), ["11.00 USD"], id="too dear"),
        pytest.param(PilotOutcome(20, 20, 0, 10.0, 10.0), [], id="just within the budget"),
        pytest.param(PilotOutcome(20, 20, 0, None, 10.0), ["unknown"], id="a budget and no known cost"),
        pytest.param(PilotOutcome(0, 0, 0), ["no request"], id="nothing sent"),
    ],
)
def test_gates(outcome: PilotOutcome, words: list[str]) -> None:
    found = failed_gates(outcome)
    assert len(found) == len(words)
    for word, gate in zip(words, found, strict=True):
        assert word in gate


def test_the_pilot_is_spread_over_the_run_and_the_rest_follows(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    given = inputs(tmp_path / "in", 8)
    service = emulate().service
    assert cli.submit(given, "--yes", "--pilot", "4").code == 0
    assert sum(service.executions.values()) <= 4
    sent = cli.query("select item_index from request join attempt using (request_id) order by 1")
    assert [row["item_index"] for row in sent] == [1, 3, 5, 7]
    done = cli.collect()
    assert done.code == 0, done.err
    assert "the pilot passed" in done.err
    assert cli.query("select count(*) as n from score") == [{"n": 40}]
    assert not service.paid_twice()


def test_a_pilot_that_fails_halts_the_run_and_the_user_may_go_on(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    given = inputs(tmp_path / "in", 4)
    emulate(faults={"requests": [{"fault": "string_score", "match": "-a1$", "times": 1}]})
    cli.submit(given, "--yes", "--pilot", "4")
    done = cli.collect()
    assert done.code == 4, done.err
    status = cli("status", "--json").json()
    assert status["state"] == "halted"
    assert "0 of 4 answers are valid" in " ".join(status["messages"])
    assert cli.query("select count(*) as n from attempt") == [{"n": 4}], "nothing was sent again"
    done = cli.collect("--retry", "all", "--yes")
    assert done.code == 0, done.err
    assert cli.query("select count(*) as n from score") == [{"n": 20}]


def test_notify_runs_once(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    emulate()
    cli.submit(inputs(tmp_path / "in", 1), "--yes")
    told = tmp_path / "told"
    command = f'echo "$IWB_RUN $IWB_EXIT_CODE" >> {told}'
    assert cli.collect("--notify", command).code == 0
    assert cli.collect("--notify", command).code == 0
    assert told.read_text(encoding="utf-8") == f"{cli.folder.name} 0\n"


def test_notify_stays_silent_while_the_run_goes_on(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    emulate(polls_per_stage=5)
    cli.submit(inputs(tmp_path / "in", 1), "--yes")
    told = tmp_path / "told"
    assert cli("collect", "--wait", "0", "--notify", f"touch {told}").code == 3
    assert not told.exists()


def test_notify_tells_a_halt_and_after_the_user_went_on_the_end(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    emulate(faults={"batches": [{"fault": "all_errored", "kind": "rejected", "times": 1}]})
    cli.submit(inputs(tmp_path / "in", 1), "--yes")
    told = tmp_path / "told"
    command = f'echo "$IWB_EXIT_CODE" >> {told}'
    assert cli.collect("--notify", command).code == 5
    assert cli.collect("--notify", command).code == 4
    assert told.read_text(encoding="utf-8") == "5\n"
    assert cli.collect("--retry", "all", "--yes", "--notify", command).code == 0
    assert cli.collect("--notify", command).code == 0
    assert told.read_text(encoding="utf-8") == "5\n0\n"


def test_notify_stays_silent_where_the_next_command_may_go_on(
    cli: Cli, emulate: Emulation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emulate()
    cli.submit(inputs(tmp_path / "in", 1), "--yes")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "another")
    assert cli.collect("--notify", f"touch {tmp_path / 'told'}").code == 5
    assert not (tmp_path / "told").exists()


def test_a_pilot_above_the_budget_goes_on_when_the_budget_is_raised(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    given = inputs(tmp_path / "in", 4)
    emulate()
    prices = ("--price-input", "1000", "--price-output", "1000")
    done = cli.submit(given, "--yes", "--pilot", "4", "--budget", "10", *prices)
    assert "20 requests in 1 request file" in done.err
    assert "the pilot sends 4 of them first" in done.err
    assert "the pilot is sent" in done.err
    assert cli.collect().code == 4
    again = cli.submit(given, "--yes", "--pilot", "4", "--budget", "11", *prices)
    again.refused(1, "is halted", "the budget is 10.00 USD", hint="--budget")
    assert cli.submit(given, "--yes", "--pilot", "4", "--budget", "100000", *prices).code == 0
    assert cli.collect().code == 0
    assert cli.query("select count(*) as n from score") == [{"n": 20}]
