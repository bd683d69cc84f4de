"""Failures people have met with batch tools, each as a run of ours with its right result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.emulator.judge import Completion, LineError, Rehearsal
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import DamagedRun, ProviderRefused, RunError
from iwb_batch.model import Usage
from iwb_batch.store import answers
from iwb_batch.workflow import reporting
from iwb_batch.workflow.settings import Options, Waiting
from tests.faults.conftest import Build
from tests.faults.harness import GRACE, KEY, RESUBMISSIONS, Scores, World, plan
from tests.faults.invariants import check_invariants, remote_batches


class Scripted:
    """A judge that answers by the criterion named in the prompt; others get a rehearsal answer."""

    def __init__(self, script: Mapping[str, Completion | LineError]) -> None:
        self.script = script
        self.calls: list[str] = []

    def answer(self, body: Mapping[str, Any]) -> Completion:
        text = json.dumps(body["messages"], ensure_ascii=False)
        self.calls.append(text)
        for criterion, answer in self.script.items():
            if criterion in text:
                if isinstance(answer, LineError):
                    raise answer
                return answer
        return Rehearsal().answer(body)


def raw(message: dict[str, Any], *, finish: str = "stop", usage: Any = ...) -> Completion:
    """A whole chat completion; without ``usage`` the block is left out when it is None."""
    body: dict[str, Any] = {
        "id": "x",
        "object": "chat.completion",
        "model": "gpt-5.4",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}],
    }
    if usage is not ...:
        body["usage"] = usage
    return Completion(None, raw=json.dumps(body).encode())


GOOD = json.dumps({"score": 6, "reason": "स्पष्ट"}, ensure_ascii=False)


def last_outcomes(world: World) -> dict[int, str]:
    return dict(world.rows("SELECT criterion_index, last_outcome FROM request_status ORDER BY 1"))


# --- batch life --------------------------------------------------------------------------------------


def test_a_process_that_dies_in_the_fourth_of_five_uploads_loses_none(build: Build) -> None:
    """The first three batches run on; the restart finds them and sends only the fourth and the fifth."""
    fault = HttpFault(fault="lost_reply", method="POST", path="^/files$", nth=(4,))
    world = build(faults=FaultPlan(http=[fault]), options=Options(max_requests_per_file=3))
    assert world.crash("upload_intent", 4)
    assert len(world.service.batches_created) == 3
    assert [row[0] for row in world.rows("SELECT state FROM batch ORDER BY batch_id")] == [
        *["submitted"] * 3,
        "uploading",
        "planned",
    ]
    assert world.finish() == 0
    assert len(world.service.batches_created) == 5
    check_invariants(world)


def test_a_create_answered_with_500_after_it_happened_makes_one_batch(build: Build) -> None:
    fault = HttpFault(fault="status", status=500, commit=True, method="POST", path="^/batches$", nth=(1,))
    world = build(faults=FaultPlan(http=[fault]), n_items=1)
    assert world.finish() == 0
    assert (len(world.service.batches_created), world.posts("/batches")) == (1, 1)


def test_a_store_step_that_fails_for_some_rows_stores_none_of_them(
    build: Build, expected: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler of one row fails: the batch is not collected, and 'judged' counts what is stored."""
    world = build()
    world.submit()
    add_readings = answers.add_readings

    def failing(database: Any, readings: Any, at: str) -> None:
        monkeypatch.setattr(answers, "add_readings", add_readings)
        add_readings(database, readings[:5], at)
        message = "the row cannot be stored"
        raise RunError(message)

    monkeypatch.setattr(answers, "add_readings", failing)
    with pytest.raises(RunError, match="cannot be stored"):
        world.collect(watch=True)
    assert world.counts() == {"scored": 0, "open": 15, "failed": 0}
    assert world.value("SELECT count(*) FROM raw_line") == 0
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)


def test_a_batch_failed_for_its_queue_is_neither_judged_nor_cancelled(build: Build) -> None:
    said = "The enqueued token limit is reached."
    fault = BatchFault(fault="failed", code="token_limit_exceeded", message=said, nth=(1, 2))
    world = build(faults=FaultPlan(batches=[fault]), n_items=1)
    assert world.finish() == 0
    assert world.outcomes() == {"valid": 5}
    assert not any(path.endswith("/cancel") for _, path, _ in world.service.calls)
    check_invariants(world)


def test_uploaded_but_not_created_is_a_state_one_can_go_on_from(build: Build, expected: Scores) -> None:
    world = build()
    assert world.crash("uploaded")
    assert world.rows("SELECT state, input_file_id IS NOT NULL FROM batch ORDER BY 1") == [
        ("planned", 0),
        ("uploaded", 1),
    ]
    assert world.finish() == 0
    assert world.posts("/files") == 4, "the uploaded file is used, not uploaded again"
    assert world.scores() == expected
    check_invariants(world)


def test_a_poll_that_fails_is_stored_with_the_provider_s_words(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1)
    world.submit()
    world.faults.http = [HttpFault(fault="status", status=418, path="^/batches/.", nth=(1,))]
    assert world.collect(wait=0.0) == 3
    assert "418" in world.value("SELECT error FROM batch")
    assert world.collect(watch=True) == 0
    check_invariants(world)


def test_the_order_of_output_lines_changes_no_byte_of_the_report(build: Build) -> None:
    texts = []
    for seed in range(4):
        world = build(settings=Settings(key=KEY, seed=seed))
        assert world.finish() == 0
        texts.append(reporting.report(world.folder, "json")[0])
    assert len({(world.folder.raw / name).read_bytes() for (name,) in world.rows("SELECT name FROM raw_file")}) > 1
    assert texts == [texts[0]] * 4


def test_answers_of_a_resumed_run_land_on_their_own_items(build: Build, expected: Scores) -> None:
    """Some requests are answered before the crash; what is sent later is shorter than the plan and joined by name."""
    faults = plan(batches=[BatchFault(fault="expired", share=0.3, nth=(1, 2))])
    world = build(faults=faults)
    assert world.crash("collected", 2)
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)


def test_cost_uses_the_batch_price_and_sums_every_attempt(build: Build) -> None:
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}
    judge = Scripted(
        {
            "गुण 0": raw({"content": GOOD}, usage=usage),
            "गुण 1": raw({"content": "no verdict"}, usage=usage),
        }
    )
    options = Options(price_input=1.0, price_output=4.0, max_resubmits=1)
    world = build(faults=FaultPlan(), judge=judge, n_items=1, options=options)
    assert world.finish() == 4
    costs = dict(world.rows("SELECT class, cost_usd FROM usage"))
    assert costs["resubmitted"] == pytest.approx(1.0)
    assert costs["wasted"] == pytest.approx(1.0)
    assert costs["good"] > 1.0


def test_cost_at_an_unknown_price_is_unknown(build: Build) -> None:
    world = build(faults=FaultPlan(), n_items=1)
    world.submit(world.request(judge="a-deployment-nobody-prices"))
    assert world.collect(watch=True) == 0
    assert {row[0] for row in world.rows("SELECT cost_usd FROM usage")} == {None}


def test_a_400_for_the_output_limit_is_a_cut_answer_not_a_bad_request(build: Build) -> None:
    world = build(faults=FaultPlan(requests=[RequestFault(fault="output_limit", match="-c2-", times=1)]), n_items=1)
    assert world.finish() == 0
    log = world.rows("SELECT attempt, outcome, token_limit, changed FROM attempt_log WHERE custom_id LIKE '%-c2-%'")
    assert log == [(1, "truncated", 8_000, None), (2, "valid", 16_000, "max_completion_tokens 16000")]
    check_invariants(world)


def test_each_line_of_a_request_file_is_complete_before_it_is_uploaded(build: Build) -> None:
    world = build()
    assert world.finish() == 0
    for path in sorted(world.folder.requests.iterdir()):
        data = path.read_bytes()
        assert data.endswith(b"}\n")
        assert not data.startswith(b"\xef\xbb\xbf")
        lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
        assert all(line.keys() == {"custom_id", "method", "url", "body"} for line in lines)
        assert {(line["method"], line["url"], line["body"]["model"]) for line in lines} == {
            ("POST", "/v1/chat/completions", "gpt-5.4")
        }
        ids = [line["custom_id"] for line in lines]
        assert len(set(ids)) == len(ids)
        assert all(0 < len(name) <= 64 and name.isascii() for name in ids)


ODD = "𝔐𝔞𝔱𝔥 数学，全角！ नमस्ते\u2028दूसरी पंक्ति a\u0000b \U0001f600"


def test_any_text_reaches_the_provider_and_the_database_as_it_is(build: Build) -> None:
    """Mathematical letters, CJK, full-width marks, a line separator and NUL in one response."""
    world = build(faults=FaultPlan(), n_items=1)
    world.responses.write_text(json.dumps({"index": 0, "response": ODD}) + "\n", encoding="utf-8")
    assert world.finish() == 0
    for line in remote_batches(world)[0].source.path.read_bytes().split(b"\n")[:-1]:
        assert ODD in json.loads(line)["body"]["messages"][-1]["content"]
    assert world.value("SELECT answer FROM response") == ODD
    assert world.value("SELECT length(CAST(answer AS BLOB)) FROM response") == len(ODD.encode())


# --- resume ------------------------------------------------------------------------------------------


def test_one_row_for_each_request_however_many_attempts_it_took(build: Build) -> None:
    world = build()
    assert world.finish() == 0
    assert world.value("SELECT max(attempts) FROM request_status") == 3
    assert world.value("SELECT count(*) FROM score") == world.value("SELECT count(*) FROM request") == 15
    assert world.value("SELECT max(n_scored * 1.0 / n_planned) FROM item_score") == 1.0


def test_three_equal_items_are_three_items(build: Build) -> None:
    world = build(faults=FaultPlan(), options=Options(max_requests_per_file=5))
    row = json.loads(world.items.read_text(encoding="utf-8").split("\n")[0])
    with world.items.open("w", encoding="utf-8") as items, world.responses.open("w", encoding="utf-8") as responses:
        for index in range(3):
            items.write(json.dumps(row | {"index": index}) + "\n")
            responses.write(json.dumps({"index": index, "response": "the same"}) + "\n")
    assert world.crash("collected", 1)
    assert world.finish() == 0
    assert sum(world.service.executions.values()) == 15
    assert world.value("SELECT count(*) FROM item_score WHERE score IS NOT NULL") == 3
    check_invariants(world)


def test_a_run_of_another_prompt_is_not_continued(build: Build) -> None:
    world = build()
    world.submit()
    calls = len(world.service.calls)
    with world.session() as session:
        session.database.execute("UPDATE run SET prompt_sha256 = ?", ("0" * 64,))
    with pytest.raises(DamagedRun, match="made with another prompt"):
        world.collect()
    assert len(world.service.calls) == calls


# --- lines -------------------------------------------------------------------------------------------

FILTER = {
    "code": "content_filter",
    "message": "The response was filtered.",
    "innererror": {
        "code": "ResponsibleAIPolicyViolation",
        "content_filter_result": {"violence": {"filtered": True, "severity": "medium"}, "hate": {"filtered": False}},
    },
}


def test_a_filtered_request_names_its_category_and_costs_only_itself(build: Build) -> None:
    judge = Scripted({"गुण 2": LineError(400, {"error": FILTER})})
    world = build(faults=FaultPlan(), judge=judge, n_items=3)
    assert world.finish() == 4
    assert world.counts() == {"scored": 12, "open": 0, "failed": 3}
    outcome = world.rows("SELECT DISTINCT outcome, detail, error_code FROM failure")
    assert [(row[0], row[2]) for row in outcome] == [("filtered", "content_filter")]
    assert "violence" in outcome[0][1]
    assert "medium" in outcome[0][1]
    assert "hate" not in outcome[0][1]
    check_invariants(world)


def test_refusal_filter_and_silence_are_three_things_and_none_is_a_score(build: Build) -> None:
    judge = Scripted(
        {
            "गुण 0": raw({"content": "", "refusal": "I cannot rate this."}),
            "गुण 1": raw({"content": None}, finish="content_filter"),
            "गुण 2": raw({"content": "", "reasoning_content": '{"score": 3, "reason": "a draft"}'}),
            "गुण 3": raw({"content": None, "reasoning": '{"score": 3, "reason": "a draft"}'}, finish="length"),
            "गुण 4": raw({"content": GOOD}),
        }
    )
    world = build(faults=FaultPlan(), judge=judge, n_items=1, options=Options(max_resubmits=0))
    assert world.finish() == 4
    assert last_outcomes(world) == {0: "refused", 1: "filtered", 2: "empty", 3: "truncated", 4: "valid"}
    assert world.value("SELECT message FROM attempt_log WHERE outcome = 'refused'") == "I cannot rate this."
    assert world.scores() == {(0, 4, 1): 6}
    failed = world.rows("SELECT outcome FROM failure ORDER BY criterion_index")
    assert failed == [("refused",), ("filtered",), ("empty",), ("truncated",)]


@pytest.mark.parametrize("usage", [None, ..., {}, {"prompt_tokens": "12"}], ids=["null", "absent", "empty", "text"])
def test_an_answer_without_usage_costs_an_unknown_sum_not_nothing(build: Build, usage: Any) -> None:
    judge = Scripted({"गुण": raw({"content": GOOD}, usage=usage)})
    world = build(faults=FaultPlan(), judge=judge, n_items=1)
    assert world.finish() == 0
    assert world.rows("SELECT class, attempts, cost_usd FROM usage") == [("unknown", 5, None)]


def test_a_lone_surrogate_in_a_reason_keeps_the_score_and_the_raw_bytes(build: Build, expected: Scores) -> None:
    world = build(faults=plan(requests=[*RESUBMISSIONS, RequestFault(fault="surrogate")]))
    assert world.finish() == 0
    assert world.scores() == expected
    assert b"\\ud" in (world.folder.raw / "0001-b1-output.jsonl").read_bytes()
    assert world.value("SELECT count(*) FROM score WHERE instr(reason, char(65533)) > 0") > 0
    check_invariants(world)


# --- database ----------------------------------------------------------------------------------------


def test_scores_are_numbers_and_sort_as_numbers(build: Build) -> None:
    judge = Scripted(
        {
            "गुण 0": Completion('{"score": 10, "reason": "a"}', usage=Usage()),
            "गुण 1": Completion('{"score": null, "reason": "b"}', usage=Usage()),
            "गुण 2": Completion('{"score": 9, "reason": "c"}', usage=Usage()),
        }
    )
    world = build(faults=FaultPlan(), judge=judge, n_items=1, options=Options(max_resubmits=0))
    assert world.finish() == 4
    sql = "SELECT score FROM score WHERE criterion_index < 3 ORDER BY score"
    assert world.rows(sql) == [(9,), (10,)]
    assert world.row("SELECT max(score), typeof(max(score)) FROM judgement") == (10, "integer")


def test_a_row_with_nine_hundred_more_keys_is_one_row(build: Build, expected: Scores) -> None:
    world = build()
    lines = world.items.read_text(encoding="utf-8").split("\n")
    lines[1] = json.dumps(json.loads(lines[1]) | {f"extra_{n}": n for n in range(900)}, ensure_ascii=False)
    world.items.write_text("\n".join(lines), encoding="utf-8")
    assert world.finish() == 0
    assert world.scores() == expected


def test_an_unfinished_validation_is_told_as_it_is(build: Build) -> None:
    world = build(settings=Settings(key=KEY, polls_per_stage=30), n_items=1)
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    for _ in range(2):
        world.submit()
    assert world.collect(wait=0.0) == 3
    assert "not finished: 0001.jsonl validating" in world.heard.text()


def test_a_validation_that_fails_is_told_with_line_numbers_before_submit_ends(build: Build) -> None:
    fault = BatchFault(fault="failed", code="invalid_json_line", message="Line 2 is no JSON.", line=2)
    world = build(faults=FaultPlan(batches=[fault]), n_items=1)
    with pytest.raises(ProviderRefused, match=r"invalid_json_line: line 2: Line 2 is no JSON\."):
        world.submit()
    assert any(method == "DELETE" for method, _, _ in world.service.calls)


def test_a_crash_while_writing_the_files_of_a_resubmission_writes_them_again(build: Build, expected: Scores) -> None:
    world = build()
    assert world.crash("request_file_written", 3)
    assert (world.folder.requests / "0003.jsonl").is_file(), "renamed into place, but unknown to run.db"
    assert world.value("SELECT count(*) FROM request_file") == 2
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)
