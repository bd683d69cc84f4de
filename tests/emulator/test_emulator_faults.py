"""Planned faults of requests and batches, and the fault file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from iwb_batch import schemas
from iwb_batch.emulator import answers, service
from iwb_batch.emulator.faults import OBJECT_FAULTS, BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.emulator.http import html_reply
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import InputError
from tests.emulator.direct import Direct, by_id, content, ids, line, request_file, rows

DOCS = Path(__file__).resolve().parents[2] / "docs" / "emulator.md"
VICTIM = line(0)["custom_id"]


def hit(fault: str, **more: Any) -> tuple[dict[str, Any], bytes, bytes]:
    """Run three lines of which the first gets the fault."""
    with Service(faults=FaultPlan(requests=[RequestFault(fault=fault, match="-i0-", **more)])) as emulated:
        batch, output, error = Direct(emulated).run(request_file(3))
        assert (VICTIM in emulated.delivered_good) == (fault in answers.USABLE)
    assert {line(1)["custom_id"], line(2)["custom_id"]} <= set(by_id(output)) if fault != "malformed_line" else True
    return batch, output, error


def verdict(text: str) -> Any:
    return json.loads(text)


CONTENTS = [
    pytest.param("fenced", lambda text: text.startswith("```json\n{") and text.endswith("}\n```"), id="fenced"),
    pytest.param("prose", lambda text: not text.startswith("{") and '{"score":' in text, id="prose"),
    pytest.param("out_of_range", lambda text: verdict(text)["score"] == 11, id="out of range"),
    pytest.param("string_score", lambda text: verdict(text)["score"] in set("123456789") | {"10"}, id="string"),
    pytest.param("u2028", lambda text: "\u2028" in verdict(text)["reason"], id="line separator"),
    pytest.param("surrogate", lambda text: verdict(text)["reason"].endswith("\ud83d"), id="lone surrogate"),
    pytest.param("empty", lambda text: text == "", id="empty"),
    pytest.param("truncated_empty", lambda text: text == "", id="eaten by reasoning"),
    pytest.param("refusal", lambda text: text is None, id="refusal"),
    pytest.param("content_filter_output", lambda text: text is None, id="filtered output"),
]


@pytest.mark.parametrize(("fault", "holds"), CONTENTS)
def test_faults_of_the_content(fault: str, holds: Any) -> None:
    batch, output, error = hit(fault)
    assert holds(content(by_id(output)[VICTIM]))
    assert batch["request_counts"] == {"total": 3, "completed": 3, "failed": 0}
    assert error == b""


@pytest.mark.parametrize("fault", ["invalid_json", "truncated"])
def test_broken_json_has_no_whole_object(fault: str) -> None:
    _, output, _ = hit(fault)
    text = content(by_id(output)[VICTIM])
    assert text.startswith("{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert "}" not in text


def test_a_separator_is_raw_in_the_file() -> None:
    _, output, _ = hit("u2028")
    assert "\u2028".encode() in output
    assert len(rows(output)) == 3


@pytest.mark.parametrize(
    ("fault", "reason", "usage"),
    [
        ("truncated", "length", {"completion_tokens": 8000}),
        ("truncated_empty", "length", {"completion_tokens": 8000}),
        ("content_filter_output", "content_filter", {}),
        ("refusal", "stop", {}),
        ("no_usage", "stop", None),
    ],
)
def test_finish_reason_and_usage(fault: str, reason: str, usage: dict[str, int] | None) -> None:
    _, output, _ = hit(fault)
    body = by_id(output)[VICTIM]["response"]["body"]
    assert body["choices"][0]["finish_reason"] == reason
    if usage is None:
        assert "usage" not in body
    else:
        assert body["usage"] | usage == body["usage"]
    if fault == "truncated_empty":
        assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 8000
    if fault == "refusal":
        assert body["choices"][0]["message"]["refusal"]


def test_another_model_may_answer() -> None:
    _, output, _ = hit("other_model")
    assert {row["response"]["body"]["model"] for row in rows(output)} == {"iwb-rehearsal", "iwb-rehearsal-other"}


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("content_filter_input", 400, "content_filter"),
        ("rate_limited", 429, "429"),
        ("server_error", 500, "internal_error"),
        ("rejected", 400, "unsupported_parameter"),
        ("account", 429, "insufficient_quota"),
        ("output_limit", 400, "invalid_value"),
        ("status_zero", 0, None),
    ],
)
def test_errors_go_to_the_error_file_and_cost_nothing(fault: str, status: int, code: str | None) -> None:
    batch, output, error = hit(fault)
    assert set(by_id(output)) == ids(3) - {VICTIM}
    row = by_id(error)[VICTIM]
    assert (row["error"], row["response"]["status_code"]) == (None, status)
    assert row["response"]["body"].get("error", {}).get("code") == code
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}


def test_a_filtered_prompt_names_its_category() -> None:
    _, _, error = hit("content_filter_input")
    inner = by_id(error)[VICTIM]["response"]["body"]["error"]["innererror"]
    assert inner["content_filter_result"]["violence"] == {"filtered": True, "severity": "medium"}


def test_a_timed_out_line_has_no_response() -> None:
    _, _, error = hit("request_timeout")
    row = by_id(error)[VICTIM]
    assert (row["response"], row["error"]["code"]) == (None, "request_timeout")


LINES = [
    pytest.param("dropped", [], [], id="in neither file"),
    pytest.param("duplicate", [VICTIM, VICTIM], [], id="twice"),
    pytest.param("duplicate_error", [VICTIM], [VICTIM], id="in both files"),
    pytest.param("unknown_id", [VICTIM, f"stray-{VICTIM}"], [], id="foreign id"),
]


@pytest.mark.parametrize(("fault", "in_output", "in_error"), LINES)
def test_faults_of_lines(fault: str, in_output: list[str], in_error: list[str]) -> None:
    batch, output, error = hit(fault)
    found = [[row["custom_id"] for row in rows(data) if VICTIM in row["custom_id"]] for data in (output, error)]
    assert found == [in_output, in_error]
    assert batch["request_counts"] == {"total": 3, "completed": 3, "failed": 0}


def test_a_malformed_line_spoils_no_other() -> None:
    _, output, _ = hit("malformed_line")
    parsed, broken = 0, 0
    for text in output.split(b"\n")[:-1]:
        try:
            json.loads(text)
            parsed += 1
        except json.JSONDecodeError:
            broken += 1
    assert (parsed, broken) == (2, 1)


def test_times_counts_the_attempts_of_one_request() -> None:
    plan = FaultPlan(requests=[RequestFault(fault="rate_limited", times=2)])
    failed = []
    with Service(faults=plan) as emulated:
        for attempt in (1, 2, 3):
            _, _, error = Direct(emulated).run(request_file(3, attempt=attempt))
            failed.append(len(rows(error)))
        assert emulated.paid_twice() == []
    assert failed == [3, 3, 0]


def test_nth_is_the_line_of_the_request_file() -> None:
    plan = FaultPlan(requests=[RequestFault(fault="rate_limited", nth=(2, 5))])
    with Service(faults=plan) as emulated:
        _, _, error = Direct(emulated).run(request_file(6))
    assert set(by_id(error)) == {line(1)["custom_id"], line(4)["custom_id"]}


def test_chance_depends_on_the_seed_and_the_request_only() -> None:
    struck = []
    for seed, shuffle in ((1, 1), (1, 2), (3, 1)):
        plan = FaultPlan(requests=[RequestFault(fault="rate_limited", probability=0.3)], seed=seed)
        with Service(Settings(seed=shuffle), faults=plan) as emulated:
            _, _, error = Direct(emulated).run(request_file(200))
        struck.append(set(by_id(error)))
    assert struck[0] == struck[1] != struck[2]
    assert all(35 < len(found) < 85 for found in struck)


def test_the_first_fault_that_hits_a_line_counts() -> None:
    plan = FaultPlan(requests=[RequestFault(fault="empty", nth=(1,)), RequestFault(fault="server_error")])
    with Service(faults=plan) as emulated:
        _, output, error = Direct(emulated).run(request_file(3))
    assert (set(by_id(output)), len(rows(error))) == ({VICTIM}, 2)


def one(**fault: Any) -> Service:
    return Service(faults=FaultPlan(batches=[BatchFault(**fault)]))


CODES = ["invalid_json_line", "too_many_tasks", "url_mismatch", "model_not_found", "duplicate_custom_id", "empty_file"]
CODES += ["model_mismatch", "invalid_request", "input_modified", "input_no_permissions", "token_limit_exceeded"]


@pytest.mark.parametrize("code", CODES)
def test_each_documented_code_can_fail_a_batch_later_or_at_create(code: str) -> None:
    with one(fault="failed", code=code, line=3, times=1) as emulated:
        client = Direct(emulated)
        batch = client.finish(client.submit(request_file(2)))
        assert (batch["status"], batch["in_progress_at"]) == ("failed", None)
        error = batch["errors"]["data"][0]
        assert (error["code"], error["line"]) == (code, 3)
        assert error["message"] != code
        assert client.finish(client.submit(request_file(2)))["status"] == "completed"
    with one(fault="failed", code=code, message="in words", when="create", nth=(1,)) as emulated:
        client = Direct(emulated)
        file_id = client.file(request_file(2))
        reply = client.create(file_id)
        assert (reply.status, list(reply.json())) == (400, ["errors"])
        assert reply.json()["errors"]["data"] == [{"code": code, "message": "in words", "line": None, "param": None}]
        assert client.create(file_id).status == 200
        assert len(emulated.batches_created) == 1


@pytest.mark.parametrize(
    ("fault", "code"), [("expired", "batch_expired"), ("cancelled", "batch_cancelled")], ids=["expired", "cancelled"]
)
@pytest.mark.parametrize("lines", [True, False], ids=["with lines", "without lines"])
def test_a_batch_ends_with_a_share_done(fault: str, code: str, lines: bool) -> None:
    with one(fault=fault, share=0.6, lines=lines) as emulated:
        batch, output, error = Direct(emulated).run(request_file(5))
        assert sum(emulated.executions.values()) == 3
    assert (batch["status"], batch["request_counts"]["completed"], len(rows(output))) == (fault, 3, 3)
    assert [row["error"]["code"] for row in rows(error)] == [code] * (2 if lines else 0)
    if lines:
        assert set(by_id(output)) | set(by_id(error)) == ids(5)


@pytest.mark.parametrize(("share", "has_output"), [(0.4, True), (0.0, False)])
def test_a_batch_fails_midway(share: float, has_output: bool) -> None:
    with one(fault="failed_midway", share=share, code="internal_error", message="lost a node") as emulated:
        batch, output, _ = Direct(emulated).run(request_file(5))
    assert batch["status"] == "failed"
    assert batch["in_progress_at"] is not None
    assert batch["errors"]["data"][0]["message"] == "lost a node"
    assert (batch["output_file_id"] is not None) == has_output
    assert len(rows(output)) == 5 * share


def test_a_batch_completes_with_every_line_failed() -> None:
    with one(fault="all_errored", kind="rejected") as emulated:
        batch, _, error = Direct(emulated).run(request_file(3))
        assert not emulated.executions
    assert (batch["status"], batch["output_file_id"]) == ("completed", None)
    assert batch["request_counts"] == {"total": 3, "completed": 0, "failed": 3}
    assert set(by_id(error)) == ids(3)


def test_a_stuck_batch_runs_for_ever() -> None:
    with one(fault="stuck") as emulated:
        client = Direct(emulated)
        batch_id = client.submit(request_file(1))
        assert [client.poll(batch_id)["status"] for _ in range(20)] == ["in_progress"] * 20


def test_a_gone_batch_is_404_and_out_of_the_listing() -> None:
    with one(fault="gone", polls=2) as emulated:
        client = Direct(emulated)
        batch_id = client.submit(request_file(1))
        seen = [client.call("GET", f"/batches/{batch_id}").status for _ in range(4)]
        assert seen == [200, 200, 404, 404]
        assert client.call("GET", "/batches").json()["data"] == []


FORMS: list[Any] = [
    pytest.param({"fault": "empty_ids"}, {"output_file_id": "", "error_file_id": ""}, id="empty ids"),
    pytest.param({"fault": "capitalised"}, {"status": "Validating"}, id="capitalised"),
    pytest.param({"fault": "unknown_status", "word": "queued_up"}, {"status": "queued_up"}, id="unknown word"),
    pytest.param(
        {"fault": "iso_times"}, {"created_at": "1970-01-01T00:00:07+00:00", "failed_at": None}, id="ISO times"
    ),
    pytest.param(
        {"fault": "null_counts"},
        {"request_counts": {"total": None, "completed": None, "failed": None}},
        id="null counts",
    ),
]


@pytest.mark.parametrize(("fault", "expected"), FORMS)
def test_the_batch_object_may_look_odd(fault: dict[str, Any], expected: dict[str, Any]) -> None:
    with Service(faults=FaultPlan(batches=[BatchFault(**fault)]), clock=lambda: 7.9) as emulated:
        client = Direct(emulated)
        made = client.create(client.file(request_file(1))).json()
        assert made | expected == made
        assert client.finish(made["id"])["status"].lower() == "completed"


def test_counts_may_lie() -> None:
    with one(fault="wrong_counts", completed=2, failed=1, total=3) as emulated:
        batch, output, _ = Direct(emulated).run(request_file(2))
    assert batch["request_counts"] == {"total": 5, "completed": 4, "failed": 1}
    assert len(rows(output)) == 2


def test_an_azure_batch_may_have_no_error_file() -> None:
    with one(fault="no_error_file") as emulated:
        batch, _, _ = Direct(emulated).run(request_file(2))
    assert batch["error_file_id"] is None


@pytest.mark.parametrize(
    ("reads", "seen"), [(2, [False, False, True, True]), (None, [False] * 4)], ids=["late", "never"]
)
def test_output_ids_may_come_late(reads: int | None, seen: list[bool]) -> None:
    with one(fault="late_output", reads=reads) as emulated:
        client = Direct(emulated)
        batch = client.finish(client.submit(request_file(2)))
        found = [batch, *(client.poll(batch["id"]) for _ in range(3))]
    assert {entry["status"] for entry in found} == {"completed"}
    assert {entry["request_counts"]["completed"] for entry in found} == {2}
    assert [entry["output_file_id"] is not None for entry in found] == seen


def test_an_output_file_may_be_short_at_first() -> None:
    with one(fault="short_output", reads=2, share=0.5) as emulated:
        client = Direct(emulated)
        batch = client.finish(client.submit(request_file(4)))
        sizes = [len(rows(client.content(batch["output_file_id"]))) for _ in range(3)]
    assert sizes == [2, 2, 4]


def test_several_faults_meet_in_one_batch_found_by_its_file_name() -> None:
    plan = FaultPlan(
        batches=[BatchFault(fault="capitalised", match="-f2"), BatchFault(fault="null_counts", match="-f2")]
    )
    with Service(faults=plan) as emulated:
        client = Direct(emulated)
        made = [client.create(client.file(request_file(1), f"iwb-x-f{n}.jsonl")).json() for n in (1, 2)]
    assert [entry["status"] for entry in made] == ["validating", "Validating"]
    assert [entry["request_counts"]["total"] for entry in made] == [0, None]


@pytest.mark.parametrize(("commit", "n"), [(False, 0), (True, 1)], ids=["refused", "carried out"])
def test_a_server_error_may_hide_a_created_batch(commit: bool, n: int) -> None:
    plan = FaultPlan(http=[HttpFault(fault="status", method="POST", path="^/batches$", status=500, commit=commit)])
    with Service(faults=plan) as emulated:
        client = Direct(emulated)
        assert client.create(client.file(request_file(1))).status == 500
        assert len(emulated.batches_created) == n


@pytest.mark.parametrize(("fault", "body"), [("bad_json", b'{"id": "batch_'), ("empty_body", b"")])
def test_a_reply_may_be_unreadable_with_status_200(fault: str, body: bytes) -> None:
    plan = FaultPlan(http=[HttpFault(fault=fault, method="POST", path="^/batches$", times=1)])
    with Service(faults=plan) as emulated:
        client = Direct(emulated)
        reply = client.create(client.file(request_file(1)))
        assert (reply.status, reply.read()) == (200, body)
        assert reply.headers["content-type"] == "application/json"
        assert len(emulated.batches_created) == 1


def test_a_fault_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    value = {
        "seed": 5,
        "requests": [{"fault": "fenced", "probability": 0.5, "times": None}],
        "batches": [{"fault": "expired", "nth": [1, 3], "share": 0.25}],
        "http": [{"fault": "status", "status": 429, "retry_after": 1.5}],
    }
    path.write_text(json.dumps(value), encoding="utf-8")
    plan = FaultPlan.load(path)
    assert list(plan.requests) == [RequestFault(fault="fenced", probability=0.5)]
    assert list(plan.batches) == [BatchFault(fault="expired", nth=(1, 3), share=0.25)]
    assert list(plan.http) == [HttpFault(fault="status", status=429, retry_after=1.5)]
    assert (plan.seed, FaultPlan.load(path, seed=9).seed) == (5, 9)


BAD_PLANS = [
    pytest.param({"requests": [{"fault": "nonsense"}]}, r"faults\.json \$\.requests\[0\]\.fault", id="unknown fault"),
    pytest.param({"requests": [{}]}, r"'fault' is a required property", id="no fault"),
    pytest.param({"batch": []}, r"'batch' was unexpected", id="unknown group"),
    pytest.param({"http": [{"fault": "status", "status": 200}]}, r"\$\.http\[0\]\.status", id="status of success"),
    pytest.param({"http": [{"fault": "status", "path": "("}]}, r"\$\.http\[0\]\.path: not a regular", id="pattern"),
    pytest.param([], r"is not of type 'object'", id="a list"),
]


@pytest.mark.parametrize(("value", "message"), BAD_PLANS)
def test_a_bad_fault_file_names_the_place(value: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        FaultPlan.load(path)
    assert caught.value.hint


def test_a_missing_or_broken_fault_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: cannot be read"):
        FaultPlan.load(tmp_path / "none.json")
    (tmp_path / "half.json").write_bytes(b'{\n"seed": ')
    with pytest.raises(InputError, match=r"half\.json line 2: not JSON"):
        FaultPlan.load(tmp_path / "half.json")


def test_the_schema_names_exactly_the_faults_there_are() -> None:
    defs = schemas.load("faults.schema.json")["$defs"]
    lines = {"request_timeout", "dropped", "duplicate", "duplicate_error", "unknown_id", "malformed_line"}
    tables: set[str | None] = {*answers.CONTENT, *answers.COMPLETION, *answers.ERRORS}
    assert set(defs["requestKind"]["enum"]) == tables | lines
    assert set(defs["errorKind"]["enum"]) == {*answers.ERRORS, "request_timeout"}
    for name in defs["http"]["properties"]["fault"]["enum"]:
        if name not in OBJECT_FAULTS:
            fault = HttpFault(fault=name)
            assert service.before(fault) or service.after(fault, html_reply(200))


def test_the_examples_in_the_documentation_are_valid() -> None:
    blocks = re.findall(r"```json\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    plans = [FaultPlan.of(json.loads(block)) for block in blocks]
    assert all(any(group) for group in zip(*((plan.requests, plan.batches, plan.http) for plan in plans), strict=True))


def test_the_documentation_names_every_fault() -> None:
    defs = schemas.load("faults.schema.json")["$defs"]
    names = [*defs["requestKind"]["enum"]]
    names += [*defs["batch"]["properties"]["fault"]["enum"], *defs["http"]["properties"]["fault"]["enum"]]
    text = DOCS.read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in text] == []
