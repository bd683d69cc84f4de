"""The life of a batch: stages, counts, cancelling, quotas, listings, what is refused at create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from iwb_batch.emulator.faults import FaultPlan, HttpFault
from iwb_batch.emulator.http import HttpRequest
from iwb_batch.emulator.judge import Completion
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from tests.emulator.direct import KEY, Direct, by_id, content, ids, line, request_file, rows


class AlwaysA:
    """A judge that prefers what it sees first."""

    def answer(self, body: Mapping[str, Any]) -> Completion:
        return Completion('{"preference": "A", "reason": "first"}')


def statuses(client: Direct, batch_id: str, n: int) -> list[str]:
    return [client.poll(batch_id)["status"] for _ in range(n)]


def test_each_get_is_one_step() -> None:
    with Service() as service:
        client = Direct(service)
        made = client.create(client.file(request_file(2)), metadata={"iwb_run": "r"}).json()
        assert (made["status"], made["metadata"], made["endpoint"]) == (
            "validating",
            {"iwb_run": "r"},
            "/chat/completions",
        )
        assert (made["output_file_id"], made["errors"]) == (None, None)
        assert statuses(client, made["id"], 4) == ["in_progress", "finalizing", "completed", "completed"]


def test_listing_moves_nothing() -> None:
    with Service() as service:
        client = Direct(service)
        client.submit(request_file(1))
        for _ in range(5):
            assert client.call("GET", "/batches").json()["data"][0]["status"] == "validating"


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        pytest.param(0, ["completed", "completed"], id="all at once"),
        pytest.param(
            2, ["validating", "in_progress", "in_progress", "finalizing", "finalizing", "completed"], id="two"
        ),
    ],
)
def test_polls_for_each_stage(polls: int, expected: list[str]) -> None:
    with Service(Settings(polls_per_stage=polls)) as service:
        client = Direct(service)
        assert statuses(client, client.submit(request_file(1)), len(expected)) == expected


def test_the_clock_is_the_callers() -> None:
    with Service(clock=lambda: 1_000.0) as service:
        client = Direct(service)
        batch = client.finish(client.submit(request_file(1)))
    assert batch["created_at"] == batch["in_progress_at"] == batch["completed_at"] == 1_000
    assert batch["expires_at"] == 1_000 + 86_400
    assert batch["failed_at"] is None


def test_output_is_shuffled_by_the_seed_and_complete() -> None:
    orders = []
    for seed in (1, 1, 2):
        with Service(Settings(seed=seed)) as service:
            _, output, error = Direct(service).run(request_file(30))
        orders.append([row["custom_id"] for row in rows(output)])
        assert set(orders[-1]) == ids(30)
        assert error == b""
    assert orders[0] == orders[1] != orders[2]
    assert orders[0] != [line(number)["custom_id"] for number in range(30)]


def test_the_same_request_gets_the_same_answer() -> None:
    answers = []
    for _ in range(2):
        with Service() as service:
            _, output, _ = Direct(service).run(request_file(20))
        answers.append({key: content(row) for key, row in by_id(output).items()})
    assert answers[0] == answers[1]
    assert len(set(answers[0].values())) > 2


def test_another_judge_can_sit_in() -> None:
    with Service(judge=AlwaysA()) as service:
        _, output, _ = Direct(service).run(request_file(3))
    assert {content(row) for row in rows(output)} == {'{"preference": "A", "reason": "first"}'}


def test_a_cancelled_batch_keeps_what_was_done() -> None:
    with Service() as service:
        client = Direct(service)
        batch_id = client.submit(request_file(4))
        client.poll(batch_id)
        assert client.call("POST", f"/batches/{batch_id}/cancel").json()["status"] == "cancelling"
        assert client.call("POST", f"/batches/{batch_id}/cancel").json()["status"] == "cancelling"
        batch = client.poll(batch_id)
        assert batch["status"] == "cancelled"
        assert batch["request_counts"] == {"total": 4, "completed": 2, "failed": 0}
        assert len(rows(client.content(batch["output_file_id"]))) == 2
        assert sum(service.executions.values()) == 2
        assert client.call("POST", f"/batches/{batch_id}/cancel").status == 400


def test_a_batch_cancelled_before_it_ran_has_no_files() -> None:
    with Service() as service:
        client = Direct(service)
        batch_id = client.submit(request_file(4))
        client.call("POST", f"/batches/{batch_id}/cancel")
        batch = client.poll(batch_id)
        assert (batch["status"], batch["output_file_id"], batch["error_file_id"]) == ("cancelled", None, None)
        assert not service.executions


def test_openai_s_cancelled_lines_are_named() -> None:
    with Service() as service:
        client = Direct(service, "/v1")
        batch_id = str(client.create(client.file(request_file(4)), endpoint="/v1/chat/completions").json()["id"])
        client.poll(batch_id)
        client.call("POST", f"/batches/{batch_id}/cancel")
        batch = client.poll(batch_id)
        errors = rows(client.content(batch["error_file_id"]))
        assert [row["error"]["code"] for row in errors] == ["batch_cancelled"] * 2
        assert {row["custom_id"] for row in errors} | set(by_id(client.content(batch["output_file_id"]))) == ids(4)


def quota(data: bytes) -> dict[str, int]:
    return {"gpt-5.4": len(data) // 4 * 2 + 1, "other": 10**9}


def test_enqueued_tokens_are_held_until_a_batch_ends() -> None:
    data = request_file(5)
    with Service(Settings(deployments=quota(data))) as service:
        client = Direct(service)
        file_id = client.file(data)
        made = [client.create(file_id).json()["id"] for _ in range(3)]
        third = client.poll(made[2])
        assert third["status"] == "failed"
        assert third["errors"]["data"][0]["code"] == "token_limit_exceeded"
        assert third["in_progress_at"] is None
        assert client.finish(made[0])["status"] == "completed"
        again = client.create(file_id).json()["id"]
        assert client.finish(again)["status"] == "completed"


@pytest.mark.parametrize(
    ("deployments", "code"),
    [({"gpt-5.4": 10}, "token_limit_exceeded"), ({"gpt-4.1-bt": 10**9, "gpt-5-bt": 10**9}, "model_not_found")],
)
def test_a_fast_failing_resource_refuses_at_create(deployments: dict[str, int], code: str) -> None:
    with Service(Settings(deployments=deployments, fail_fast=True)) as service:
        client = Direct(service)
        reply = client.create(client.file(request_file(5)))
        assert reply.status == 400
        assert list(reply.json()) == ["errors"]
        assert reply.json()["errors"]["data"][0]["code"] == code
        assert service.batches_created == []


def test_an_unknown_deployment_fails_the_batch_and_names_the_known_ones() -> None:
    with Service(Settings(deployments={"gpt-4.1-bt": 10**9, "gpt-5-bt": 10**9})) as service:
        client = Direct(service)
        batch = client.finish(client.submit(request_file(1)))
    assert batch["status"] == "failed"
    assert "'gpt-4.1-bt, gpt-5-bt'" in batch["errors"]["data"][0]["message"]


BAD_CREATES = [
    pytest.param({"completion_window": "1h"}, "completion_window", id="window"),
    pytest.param({"endpoint": "/embeddings"}, "endpoint", id="endpoint"),
    pytest.param({"metadata": {f"k{n}": "v" for n in range(17)}}, "metadata", id="17 pairs"),
    pytest.param({"metadata": {"k": 1}}, "metadata", id="number as value"),
    pytest.param({"metadata": {"k" * 65: "v"}}, "metadata", id="long key"),
    pytest.param({"metadata": {"k": "v" * 513}}, "metadata", id="long value"),
    pytest.param({"input_file_id": "file-unknown"}, "input_file_id", id="unknown file"),
    pytest.param({"input_file_id": None}, "input_file_id", id="no file"),
]


@pytest.mark.parametrize(("change", "param"), BAD_CREATES)
def test_a_bad_create_is_refused(change: dict[str, Any], param: str) -> None:
    with Service() as service:
        client = Direct(service)
        reply = client.create(client.file(request_file(1)), **change)
        assert (reply.status, reply.json()["error"]["param"]) == (400, param)
        assert service.batches_created == []


def test_sixteen_pairs_of_metadata_are_taken() -> None:
    with Service() as service:
        client = Direct(service)
        assert client.create(client.file(request_file(1)), metadata={f"k{n}": "v" for n in range(16)}).status == 200


def test_a_pending_file_cannot_be_used_yet() -> None:
    with Service(Settings(pending_polls=2)) as service:
        client = Direct(service)
        file_id = client.upload(request_file(1)).json()["id"]
        reply = client.create(file_id)
        assert reply.status == 400
        assert f"The input file '{file_id}' is in 'pending' state." in reply.json()["error"]["message"]
        assert [client.call("GET", f"/files/{file_id}").json()["status"] for _ in range(2)] == ["pending", "processed"]
        assert client.create(file_id).status == 200


def test_batches_are_listed_newest_first_in_pages() -> None:
    with Service() as service:
        client = Direct(service)
        made = [client.submit(request_file(1)) for _ in range(3)]
        first = client.call("GET", "/batches", limit="2").json()
        assert [entry["id"] for entry in first["data"]] == made[:0:-1]
        assert (first["has_more"], first["last_id"]) == (True, made[1])
        rest = client.call("GET", "/batches", limit="2", after=made[1]).json()
        assert ([entry["id"] for entry in rest["data"]], rest["has_more"]) == (made[:1], False)


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "x"}, {"after": "batch_none"}])
def test_a_bad_page_is_refused(query: dict[str, str]) -> None:
    with Service() as service:
        assert Direct(service).call("GET", "/batches", **query).status == 400


def test_a_lagging_batch_stays_hidden_through_every_page() -> None:
    plan = FaultPlan(http=[HttpFault(fault="list_lag", path="^/batches$", method="POST", nth=(2,), listings=1)])
    with Service(faults=plan) as service:
        client = Direct(service)
        made = [client.submit(request_file(1)) for _ in range(3)]

        def listed() -> list[str]:
            page = client.call("GET", "/batches", limit="1").json()
            found = [entry["id"] for entry in page["data"]]
            while page["has_more"]:
                page = client.call("GET", "/batches", limit="1", after=page["last_id"]).json()
                found += [entry["id"] for entry in page["data"]]
            return found

        assert listed() == [made[2], made[0]]
        assert listed() == made[::-1]
        assert client.poll(made[1])["id"] == made[1]


def test_what_ran_twice_is_counted() -> None:
    data, again = request_file(2), request_file(2, attempt=2)
    with Service() as service:
        client = Direct(service)
        client.run(data)
        assert (service.paid_twice(), len(service.delivered_good)) == ([], 2)
        client.run(data)
        assert service.paid_twice() == sorted(ids(2))
        client.run(again)
        assert service.paid_twice() == sorted(ids(2) | ids(2, attempt=2))
        assert service.executions[line(0)["custom_id"]] == 2


def test_the_calls_are_on_record() -> None:
    with Service() as service:
        client = Direct(service)
        client.call("GET", "/batches/none")
        client.call("GET", "/batches")
        assert service.calls == [("GET", "/openai/v1/batches/none", 404), ("GET", "/openai/v1/batches", 200)]


UNKNOWN = [
    pytest.param("GET", "/nothing", {}, id="prefix"),
    pytest.param("GET", "/openai/v1/nothing", {}, id="noun"),
    pytest.param("DELETE", "/openai/v1/batches", {}, id="verb on batches"),
    pytest.param("DELETE", "/openai/v1/files", {}, id="verb on files"),
    pytest.param("GET", "/openai/batches", {}, id="no api-version"),
    pytest.param("GET", "/openai/batches", {"api-version": "latest"}, id="odd api-version"),
    pytest.param("GET", "/openai/v1/files/file-none/content", {}, id="content of nothing"),
    pytest.param("DELETE", "/openai/v1/files/file-none", {}, id="file"),
    pytest.param("POST", "/openai/v1/batches/none/cancel", {}, id="batch"),
]


@pytest.mark.parametrize(("method", "path", "query"), UNKNOWN)
def test_what_does_not_exist_is_404(method: str, path: str, query: dict[str, str]) -> None:
    with Service() as service:
        reply = service.handle(HttpRequest(method, path, query, {"api-key": KEY}))
    assert (reply.status, reply.json()["error"]["code"]) == (404, "404")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({"api-key": "right"}, 200, id="key"),
        pytest.param({"authorization": "Bearer right"}, 200, id="bearer"),
        pytest.param({"api-key": "wrong"}, 401, id="wrong key"),
        pytest.param({"authorization": "Bearer wrong"}, 401, id="wrong bearer"),
        pytest.param({}, 401, id="nothing"),
    ],
)
def test_credentials(headers: dict[str, str], status: int) -> None:
    with Service(Settings(key="right")) as service:
        reply = service.handle(HttpRequest("GET", "/openai/v1/batches", {}, headers))
    assert reply.status == status
    if status == 401:
        assert reply.json()["error"]["message"].startswith("Access denied due to invalid subscription key")


@pytest.mark.parametrize("body", [b"{", b"[]", b""])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with Service() as service:
        reply = service.handle(HttpRequest("POST", "/openai/v1/batches", {}, {"api-key": KEY}, body))
    assert reply.status == 400


def test_chat_without_a_deployment_of_that_name_is_404() -> None:
    with Service(Settings(deployments={"gpt-5.4": 1})) as service:
        client = Direct(service)
        body = {"messages": [{"role": "user", "content": "नमस्ते"}]}
        assert client.call("POST", "/chat/completions", body | {"model": "gpt-5.4"}).status == 200
        reply = client.call("POST", "/chat/completions", body | {"model": "gpt-6"})
        assert (reply.status, reply.json()["error"]["code"]) == (404, "DeploymentNotFound")
        reply = client.call("POST", "/chat/completions", body | {"model": "gpt-5.4", "temperature": 0.7})
        assert (reply.status, reply.json()["error"]["code"]) == (400, "unsupported_parameter")
