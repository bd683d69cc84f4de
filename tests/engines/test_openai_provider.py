"""``--provider openai`` from end to end, against a server with OpenAI's own paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cli.support import KEY, Cli, Emulation, Inputs, Resource, Scripted, check_schema, own_score
from tests.emulator.direct import Direct, rows


@pytest.fixture
def opened(emulate: Emulation, monkeypatch: pytest.MonkeyPatch) -> Emulation:
    """Resources whose address is in OpenAI's variables alone."""
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{emulate.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return emulate


def submitted(cli: Cli, given: Inputs, *more: str) -> None:
    done = cli.submit(given, "--provider", "openai", "--judge", "gpt-5.4-mini", "--yes", *more)
    assert done.code == 0, done.err


def outcomes(cli: Cli) -> list[tuple[int, str | None, int]]:
    """Rows of (attempt, outcome, how many)."""
    found = cli.query("select attempt, outcome, count(*) as n from attempt_log group by 1, 2 order by 1, 2")
    return [(row["attempt"], row["outcome"], row["n"]) for row in found]


def batch_object(resource: Resource, place: int = 0) -> dict[str, Any]:
    """The batch as the server shows it."""
    return Direct(resource.service, "/v1", KEY).poll(resource.service.batches_created[place])


@pytest.mark.parametrize("slash", ["", "/"])
def test_submit_collect_and_report(
    cli: Cli, two: Inputs, opened: Emulation, monkeypatch: pytest.MonkeyPatch, slash: str
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{opened.url}/v1{slash}")
    resource = opened(judge=Scripted(own_score, model="gpt-5.4-mini-2026"))
    submitted(cli, two)
    done = cli.collect()
    assert done.code == 0, done.err
    report = cli("report", "--format", "json")
    assert report.code == 0
    check_schema(report.json(), "report-rubric.schema.json")
    assert (report.json()["n_complete"], report.json()["overall"]["score"]) == (2, 1.5)
    assert {path.split("/")[1] for _, path, _ in resource.service.calls} == {"v1"}
    assert set(resource.service.executions.values()) == {1}
    batch = batch_object(resource)
    assert (batch["endpoint"], batch["completion_window"]) == ("/v1/chat/completions", "24h")
    assert batch["metadata"].keys() >= {"iwb_run", "iwb_name", "iwb_file", "iwb_sha256"}
    lines = rows(Direct(resource.service, "/v1", KEY).content(batch["output_file_id"]))
    assert all(line["id"].startswith("batch_req_") for line in lines)
    assert {line["url"] for line in cli.lines()} == {"/v1/chat/completions"}


def test_a_missing_key_is_named(cli: Cli, two: Inputs, opened: Emulation, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = opened()
    monkeypatch.delenv("OPENAI_API_KEY")
    done = cli.submit(two, "--provider", "openai")
    done.refused(5, "OPENAI_API_KEY is not set: nothing was sent", hint="export OPENAI_API_KEY=")
    assert resource.posts == []


def test_a_dated_api_version_is_azures(cli: Cli, two: Inputs, opened: Emulation) -> None:
    opened()
    done = cli.submit(two, "--provider", "openai", "--api-version", "2025-04-01-preview")
    done.refused(2, "is for Azure only", hint="leave it out")


def test_the_environment_of_azure_changes_nothing(
    cli: Cli, two: Inputs, opened: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = opened()
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://elsewhere.openai.azure.com")
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    submitted(cli, two)
    assert cli.collect().code == 0
    assert len(resource.service.batches_created) == 1


EXPIRED: list[Any] = [
    pytest.param({"fault": "expired", "share": 0.6, "times": 1}, id="a line for each that was not done"),
    pytest.param({"fault": "expired", "share": 0.6, "times": 1, "lines": False}, id="no line"),
]


@pytest.mark.parametrize("fault", EXPIRED)
def test_what_expired_goes_again_and_nothing_else(
    cli: Cli, two: Inputs, opened: Emulation, fault: Mapping[str, Any]
) -> None:
    resource = opened(faults={"batches": [fault]})
    submitted(cli, two)
    done = cli.collect()
    assert done.code == 0, done.err
    assert outcomes(cli) == [(1, "expired", 4), (1, "valid", 6), (2, "valid", 4)]
    assert [batch_object(resource, place)["request_counts"]["total"] for place in (0, 1)] == [10, 4]
    assert resource.service.paid_twice() == []
    named = cli.query("select count(*) as n from attempt_log where error_code = 'batch_expired'")
    assert named == [{"n": 4 if fault.get("lines", True) else 0}]


def test_a_batch_cancelled_by_somebody_else_stops_the_run_and_keeps_its_answers(
    cli: Cli, two: Inputs, opened: Emulation
) -> None:
    resource = opened(faults={"batches": [{"fault": "cancelled", "share": 0.3, "times": 1}]})
    submitted(cli, two)
    done = cli.collect()
    assert done.code == 4, done.err
    assert outcomes(cli) == [(1, "cancelled", 7), (1, "valid", 3)]
    named = cli.query("select distinct error_code from attempt_log where outcome = 'cancelled'")
    assert named == [{"error_code": "batch_cancelled"}]
    assert cli("status", "--json").json()["state"] == "stopped"
    assert len(resource.service.batches_created) == 1
    again = cli("submit", "--run", cli.names[0], "--wait", "0", "--yes")
    assert again.code == 0, again.err
    assert cli.collect().code == 0
    assert outcomes(cli) == [(1, "cancelled", 7), (1, "valid", 3), (2, "valid", 7)]
    assert resource.service.paid_twice() == []


def test_cancel_reaches_the_server(cli: Cli, two: Inputs, opened: Emulation) -> None:
    resource = opened(polls_per_stage=1)
    submitted(cli, two)
    batch_object(resource)
    done = cli("cancel", "--yes")
    assert done.code == 0, done.err
    assert cli.collect().code == 4
    assert batch_object(resource)["status"] == "cancelled"
    assert outcomes(cli) == [(1, "cancelled", 5), (1, "valid", 5)]


def test_a_batch_of_errors_has_no_output_file_and_every_line_an_outcome(
    cli: Cli, two: Inputs, opened: Emulation
) -> None:
    resource = opened(faults={"batches": [{"fault": "all_errored", "kind": "rate_limited", "times": 1}]})
    submitted(cli, two)
    done = cli.collect()
    assert done.code == 0, done.err
    assert batch_object(resource)["output_file_id"] is None
    assert outcomes(cli) == [(1, "transient", 10), (2, "valid", 10)]


def test_a_lost_reply_makes_no_second_batch(cli: Cli, two: Inputs, opened: Emulation) -> None:
    faults = {"http": [{"fault": "lost_reply", "method": "POST", "path": "^/batches$", "nth": [1]}]}
    resource = opened(faults=faults)
    assert cli.submit(two, "--provider", "openai", "--yes").code in (0, 3)
    assert cli.collect().code == 0
    assert len(resource.service.batches_created) == 1
    assert resource.service.paid_twice() == []


def test_another_server_under_the_same_run_is_refused(
    cli: Cli, two: Inputs, opened: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened()
    submitted(cli, two)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://gateway.example/v1")
    cli("collect").refused(2, "127.0.0.1", "gateway.example")
