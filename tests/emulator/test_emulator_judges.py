"""The rehearsal judge, and lines sent on to a real endpoint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.emulator.app import running
from iwb_batch.emulator.build import build_service
from iwb_batch.emulator.faults import FaultPlan, HttpFault
from iwb_batch.emulator.judge import REASON, Completion, Rehearsal, wanted
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.upstream import Upstream
from iwb_batch.errors import UsageError
from tests.emulator.direct import KEY, Direct, content, ids, jsonl, line, request_file, rows


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5.4", "messages": [{"role": "user", "content": text}]} | more


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": {"properties": properties}}}


WANTED = [
    pytest.param(chat('Return {"score": 1-10}'), "score", id="score in the prompt"),
    pytest.param(chat('Return {"preference": "A" or "B"}'), "preference", id="preference in the prompt"),
    pytest.param(chat("Schreibe ein Gedicht", response_format=schema(score={})), "score", id="score in the format"),
    pytest.param(chat("Which?", response_format=schema(preference={})), "preference", id="preference in the format"),
    pytest.param(chat('"preference": "A"\n' + "x" * 900 + '{"score": 1}'), "score", id="planted in the response"),
    pytest.param(chat('"score": 9, then: {"preference": "A"}'), "preference", id="last key counts"),
    pytest.param(chat("लिखो: एक कविता"), "text", id="no judge prompt"),
    pytest.param(
        {"messages": [{"role": "user", "content": [{"type": "text", "text": '"score"'}]}]}, "score", id="parts"
    ),
    pytest.param({"messages": "none"}, "text", id="no messages"),
]


@pytest.mark.parametrize(("body", "kind"), WANTED)
def test_what_a_request_asks_for(body: dict[str, Any], kind: str) -> None:
    assert wanted(body) == kind


def test_scores_are_plausible_repeatable_and_honest() -> None:
    answers = [Rehearsal().answer(chat(f'{n}: {{"score": }}')).content or "" for n in range(3000)]
    verdicts = [json.loads(text) for text in answers]
    counts = Counter(verdict["score"] for verdict in verdicts)
    assert set(counts) == set(range(1, 11))
    assert counts[6] + counts[7] + counts[8] > 1600
    assert 5.5 < sum(score * n for score, n in counts.items()) / 3000 < 7.5
    assert {verdict["reason"] for verdict in verdicts} == {REASON}
    assert Rehearsal().answer(chat('5: {"score": }')).content == answers[5]


def test_preferences_fall_to_both_sides() -> None:
    answers = [Rehearsal().answer(chat(f'{n}: "preference"')).content or "" for n in range(200)]
    counts = Counter(json.loads(text)["preference"] for text in answers)
    assert set(counts) == {"A", "B"}
    assert min(counts.values()) > 60


def test_token_counts_are_there_and_add_up() -> None:
    for text in ("short", "long " * 5000):
        usage = Rehearsal().answer(chat(text)).usage
        assert usage is not None
        assert usage.prompt_tokens
        assert usage.cached_tokens
        assert usage.reasoning_tokens
        assert usage.completion_tokens
        assert usage.cached_tokens < usage.prompt_tokens
        assert usage.reasoning_tokens < usage.completion_tokens


def test_the_token_limit_cuts_the_answer() -> None:
    whole = Rehearsal().answer(chat('"score"', max_completion_tokens=8000))
    assert whole.finish_reason == "stop"
    eaten = Rehearsal().answer(chat('"score"', max_completion_tokens=10))
    assert (eaten.content, eaten.finish_reason) == ("", "length")
    assert eaten.usage is not None
    assert eaten.usage.completion_tokens == 10
    cut = Rehearsal().answer(chat("text only", max_tokens=530))
    assert cut.usage is not None
    assert cut.finish_reason in ("stop", "length")


REJECTED = [
    pytest.param({"temperature": 0.7}, "temperature", id="temperature"),
    pytest.param({"max_tokens": 100}, "max_tokens", id="max_tokens"),
    pytest.param({"messages": []}, "messages", id="no messages"),
]


@pytest.mark.parametrize(("change", "param"), REJECTED)
def test_a_reasoning_deployment_rejects_line_by_line(change: dict[str, Any], param: str) -> None:
    with Service() as service:
        batch, _, error = Direct(service).run(jsonl(line(0, body=change), line(1, body=change)))
    assert (batch["status"], batch["output_file_id"]) == ("completed", None)
    assert {row["response"]["body"]["error"]["param"] for row in rows(error)} == {param}


def test_another_deployment_takes_sampling_parameters() -> None:
    body = {"model": "my-llama", "temperature": 0.7, "max_tokens": 16_000}
    with Service() as service:
        _, output, _ = Direct(service).run(jsonl(line(0, body=body)))
    assert len(rows(output)) == 1


class Truth:
    """A judge for the endpoint behind: it answers with what it was asked."""

    def answer(self, body: Mapping[str, Any]) -> Completion:
        return Completion(str(body["messages"][-1]["content"])[:20] + str(body.get("max_completion_tokens")))


@pytest.fixture
def endpoint() -> Iterator[tuple[Service, str]]:
    plan = FaultPlan(http=[HttpFault(fault="status", status=503, retry_after=0.01, times=2)])
    with Service(Settings(key="up"), judge=Truth(), faults=plan) as service, running(service) as url:
        yield service, f"{url}/v1"


def finished(client: Direct, batch_id: str) -> dict[str, Any]:
    batch = client.poll(batch_id)
    while batch["status"] not in ("completed", "cancelled"):
        batch = client.poll(batch_id)
    return batch


def test_every_line_goes_to_the_endpoint(endpoint: tuple[Service, str]) -> None:
    behind, url = endpoint
    with build_service(
        key=KEY, judge="rehearsal", faults=None, seed=1, state=None, upstream=url, upstream_key="up"
    ) as s:
        client = Direct(s)
        batch = finished(client, client.submit(request_file(12)))
        output = client.content(batch["output_file_id"])
        assert batch["request_counts"] == {"total": 12, "completed": 12, "failed": 0}
        assert {row["custom_id"] for row in rows(output)} == ids(12)
        assert all(content(row).endswith("8000") for row in rows(output))
        assert set(s.executions.values()) == {1}
    assert len([call for call in behind.calls if call[2] == 503]) == 2
    assert len([call for call in behind.calls if call[2] == 200]) == 12


def test_an_endpoint_s_refusal_becomes_an_error_line(endpoint: tuple[Service, str]) -> None:
    _, url = endpoint
    with Service(Settings(concurrency=2), judge=Upstream(url, "wrong key")) as service:
        client = Direct(service)
        batch = finished(client, client.submit(request_file(2)))
        errors = rows(client.content(batch["error_file_id"]))
    assert [row["response"]["status_code"] for row in errors] == [401, 401]
    assert errors[0]["response"]["body"]["error"]["code"] == "401"


def test_a_silent_endpoint_becomes_503_lines() -> None:
    with Service() as service, running(service) as url:
        pass
    with Service(judge=Upstream(url, tries=1)) as service:
        _, _, error = Direct(service).run(request_file(1))
    assert rows(error)[0]["response"]["status_code"] == 503


def test_a_cancelled_background_batch_stops_early(endpoint: tuple[Service, str]) -> None:
    _, url = endpoint
    with Service(Settings(concurrency=1), judge=Upstream(url, "up")) as service:
        client = Direct(service)
        batch_id = client.submit(request_file(300))
        client.poll(batch_id)
        assert client.call("POST", f"/batches/{batch_id}/cancel").json()["status"] == "cancelling"
        batch = finished(client, batch_id)
        done = len(rows(client.content(batch["output_file_id"])))
    assert batch["status"] == "cancelled"
    assert batch["request_counts"]["completed"] == done < 300


def test_build_service_reads_the_options(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('{"requests": [{"fault": "empty"}]}', encoding="utf-8")
    with build_service(key=KEY, judge="rehearsal", faults=path, seed=4, state=tmp_path / "state") as service:
        _, output, _ = Direct(service).run(request_file(1))
        assert content(rows(output)[0]) == ""
        assert service.settings.key == KEY
        assert service.settings.seed == 4
    with pytest.raises(UsageError, match="no judge named 'oracle'"):
        build_service(key=None, judge="oracle", faults=None, seed=0, state=None)
