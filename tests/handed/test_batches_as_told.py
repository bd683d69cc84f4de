"""Batch objects and result files written down by hand: what a run makes of each, through the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iwb_batch.core import lifecycle
from tests.cli.support import Cli, Done, Inputs, check_schema
from tests.handed.conftest import Tell
from tests.handed.wire import Ending, answered, good, not_executed, refused, scored

ONE_PASS = ("collect", "--wait", "0")


def numbers(cli: Cli) -> tuple[int, int, int]:
    """Requests scored, open and failed."""
    status = cli("status", "--json").json()
    check_schema(status, "status.schema.json")
    return status["scored"], status["open"], status["failed"]


def submitted(cli: Cli, given: Inputs, *options: str) -> Done:
    done = cli.submit(given, "--run", "mine", *options)
    assert done.code == 0, done.err
    return done


def sent(cli: Cli, number: int) -> list[str]:
    """What is behind the run's id in the custom_ids of a request file."""
    lines = (cli.folder / "requests" / f"{number:04d}.jsonl").read_bytes().split(b"\n")
    return [json.loads(line)["custom_id"].partition("-")[2] for line in lines if line]


def all_lines(answer: dict[str, Any]) -> Ending:
    """Five lines with one and the same error, no output file."""
    return Ending(["completed"], None, [(place, answer) for place in range(5)], counts=(5, 0, 5))


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        pytest.param(404, "DeploymentNotFound", "No deployment with this name on the resource.", id="wrong deployment"),
        pytest.param(400, "unsupported_parameter", "Parameter 'max_tokens' not accepted.", id="wrong parameter"),
    ],
)
def test_a_completed_batch_of_nothing_but_errors_is_no_success(
    cli: Cli, one: Inputs, tell: Tell, status: int, code: str, message: str
) -> None:
    wire = tell(all_lines(refused(status, code, message)))
    submitted(cli, one)
    cli.collect().refused(5, "5 of 5 requests", code, message, hint="--retry")
    assert numbers(cli) == (0, 0, 5)
    report = cli("report", "--format", "json")
    assert report.code == 4
    assert (report.json()["overall"]["score"], report.json()["pooled_mean"]) == (None, None)
    assert cli.query("select error_code, message, count(*) as n from failure group by 1, 2") == [
        {"error_code": code, "message": message, "n": 5}
    ]
    before = cli.query("select * from attempt_log"), len(wire.calls)
    again = {(done.code, done.out, done.err) for done in (cli(*ONE_PASS) for _ in range(5))}
    assert len(again) == 1
    assert next(iter(again))[0] == 4
    assert (cli.query("select * from attempt_log"), len(wire.calls)) == before
    assert len(wire.batches_created) == 1


def test_a_look_at_a_batch_in_validation_says_so_and_keeps_the_run(cli: Cli, one: Inputs, tell: Tell) -> None:
    tell(Ending(["validating", "validating", *good().statuses], good().output, counts=(5, 5, 0)))
    submitted(cli, one)
    done = cli(*ONE_PASS)
    assert done.code == 3, done.err
    assert "not finished: 0001.jsonl validating" in done.err
    assert "Traceback" not in done.err
    assert cli.collect().code == 0
    assert numbers(cli) == (5, 0, 0)


def test_an_expired_batch_keeps_three_answers_and_two_lines_go_again(cli: Cli, one: Inputs, tell: Tell) -> None:
    answers = [(place, scored(7)) for place in (0, 1, 3)]
    expired = [(place, not_executed("batch_expired")) for place in (2, 4)]
    tell(Ending(["in_progress", "expired"], answers, expired, counts=(5, 3, 2)), good(2))
    submitted(cli, one, "--max-resubmits", "0")
    assert cli.collect().code == 0
    assert sent(cli, 2) == ["i0-c2-r1-a2", "i0-c4-r1-a2"]
    scores = cli.query("select score, count(*) as n from score group by 1 order by 1")
    assert [tuple(row.values()) for row in scores] == [(6, 2), (7, 3)]


def test_a_cancelled_batch_scores_what_was_answered_and_the_rest_waits(cli: Cli, one: Inputs, tell: Tell) -> None:
    answers = [(3, scored(4)), (0, scored(10))]
    tell(Ending(["cancelling", "cancelled"], answers, None, counts=(5, 2, 0)), good(3))
    submitted(cli, one)
    assert cli.collect().code == 4
    assert numbers(cli) == (2, 3, 0)
    rows = cli.query("select criterion_index, status, last_outcome from request_status order by 1")
    assert [row["last_outcome"] for row in rows] == ["valid", "cancelled", "cancelled", "valid", "cancelled"]
    found = cli.query("select criterion_index, score from score order by 1")
    assert [tuple(row.values()) for row in found] == [(0, 10), (3, 4)]
    assert cli("submit", "--run", "mine", "--wait", "0").code == 0
    assert sent(cli, 2) == ["i0-c1-r1-a2", "i0-c2-r1-a2", "i0-c4-r1-a2"]
    assert cli.collect().code == 0


def test_an_account_without_funds_costs_no_resubmission(cli: Cli, one: Inputs, tell: Tell) -> None:
    wire = tell(all_lines(refused(429, "insufficient_quota", "Quota used up; see plan and billing.")), good())
    submitted(cli, one, "--max-resubmits", "0")
    cli.collect().refused(5, "Quota used up; see plan and billing.", hint="submit --run")
    assert numbers(cli) == (0, 5, 0)
    assert cli(*ONE_PASS).code in (3, 4, 5)
    assert len(wire.batches_created) == 1, "nothing is sent before the user says so"
    assert cli("submit", "--run", "mine", "--wait", "0").code == 0
    assert cli.collect().code == 0
    assert numbers(cli) == (5, 0, 0)
    assert cli("status", "--json").json()["outcomes"] == {"account": 5, "valid": 5}


def test_a_batch_that_fails_validation_tells_line_and_code_and_leaves_no_file(
    cli: Cli, one: Inputs, tell: Tell
) -> None:
    fault = {"code": "invalid_json_line", "line": 2, "param": None, "message": "Line is not valid JSON."}
    wire = tell(Ending(["validating", "failed"], errors={"object": "list", "data": [fault]}))
    done = cli.submit(one, "--wait", "30")
    done.refused(5, "0001.jsonl refused", "invalid_json_line: line 2: Line is not valid JSON.")
    assert numbers(cli) == (0, 5, 0)
    assert cli.query("select count(*) as n from attempt_log where outcome is not null") == [{"n": 0}]
    assert [path.rsplit("/", 2)[-2] for method, path, _ in wire.calls if method == "DELETE"] == ["files"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        pytest.param("token_limit_exceeded", "Too many enqueued tokens on this deployment.", id="as Azure says it"),
        pytest.param("token_limit_exceeded", "Come back later.", id="by code"),
        pytest.param("invalid_request", "The enqueued token limit is reached.", id="by words"),
    ],
)
def test_a_batch_that_failed_for_the_queue_waits_and_spends_nothing(
    cli: Cli, one: Inputs, tell: Tell, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    monkeypatch.setattr(lifecycle, "BACK_OFF_FIRST", 0.02)
    fault = {"code": code, "line": None, "param": None, "message": message}
    full = Ending(["validating", "failed"], errors={"object": "list", "data": [fault]})
    wire = tell(full, full, good())
    assert cli.submit(one, "--max-resubmits", "0").code in (0, 3)
    assert cli.collect().code == 0
    assert numbers(cli) == (5, 0, 0)
    assert len(wire.batches_created) == 3
    assert cli("status", "--json").json()["outcomes"] == {"valid": 5}
    assert cli.query("select max(attempts) as n from request_status") == [{"n": 1}]
    assert not [path for path in wire.posts if path.endswith("/cancel")]


def test_a_batch_answered_404_for_ever_is_gone_and_no_longer_asked_for(cli: Cli, one: Inputs, tell: Tell) -> None:
    wire = tell(Ending(["gone"]), good())
    submitted(cli, one)
    done = cli.collect()
    assert done.code == 4, done.err
    assert "the provider no longer knows this batch" in done.err
    assert "`collect mine --retry missing` sends its requests again" in done.err
    assert numbers(cli) == (0, 0, 5)
    asked = sum(wire.polls.values())
    assert cli.collect().code == 4
    assert sum(wire.polls.values()) == asked == 3
    retried = cli.collect("--retry", "missing", "--yes")
    assert retried.code == 0, retried.err
    assert numbers(cli) == (5, 0, 0)


def test_a_limit_reached_told_as_a_bad_request_is_asked_for_again_with_more_tokens(
    cli: Cli, one: Inputs, tell: Tell
) -> None:
    words = "Output limit reached before the message was complete (max_tokens or model limit)."
    cut = [(2, refused(400, "invalid_request_error", words))]
    tell(Ending(["completed"], [(p, scored(6)) for p in (0, 1, 3, 4)], cut, counts=(5, 4, 1)), good(1))
    submitted(cli, one, "--max-completion-tokens", "1000")
    assert cli.collect().code == 0
    assert cli("status", "--json").json()["outcomes"] == {"truncated": 1, "valid": 5}
    assert {line["custom_id"][-2:]: line["body"]["max_completion_tokens"] for line in cli.lines()} == {
        "a1": 1000,
        "a2": 2000,
    }


FIRED = {
    "hate": {"filtered": False, "severity": "safe"},
    "jailbreak": {"filtered": False, "detected": False},
    "violence": {"filtered": True, "severity": "medium"},
}


def test_a_filtered_line_is_named_with_the_category_that_fired(cli: Cli, one: Inputs, tell: Tell) -> None:
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": FIRED}
    blocked = [(1, refused(400, "content_filter", "Prompt blocked by the content policy.", innererror=inner))]
    wire = tell(Ending(["completed"], [(p, scored(9)) for p in (0, 2, 3, 4)], blocked, counts=(5, 4, 1)))
    submitted(cli, one)
    assert cli.collect().code == 4
    assert numbers(cli) == (4, 0, 1)
    (failure,) = cli.query("select criterion_index, outcome, detail, message from failure")
    assert tuple(failure.values()) == (1, "filtered", "violence/medium", "Prompt blocked by the content policy.")
    assert cli.query("select count(*) as n from score where criterion_index = 1") == [{"n": 0}]
    assert len(wire.batches_created) == 1
    assert "filtered" in cli("report").out
    assert "violence/medium" in cli("show", "0").out


DRAFT = '{"score": 3, "reason": "weak"}'


def test_answers_without_a_verdict_are_told_apart_and_give_no_score(cli: Cli, one: Inputs, tell: Tell) -> None:
    lines = [
        (0, answered("", refusal="I can't help with rating this.")),
        (1, answered(None, refusal="No.")),
        (2, answered(None, "content_filter")),
        (3, answered("", reasoning_content="The answer is decent, maybe 6 or 7.")),
        (4, answered("", "length", reasoning_content=f"Draft: {DRAFT} but", reasoning=DRAFT)),
    ]
    tell(Ending(["completed"], lines, counts=(5, 5, 0)))
    submitted(cli, one, "--max-resubmits", "0")
    assert cli.collect().code == 4
    rows = cli.query("select criterion_index, outcome, message from failure order by 1")
    assert [row["outcome"] for row in rows] == ["refused", "refused", "filtered", "empty", "truncated"]
    assert [row["message"] for row in rows][:2] == ["I can't help with rating this.", "No."]
    assert cli.query("select count(*) as n from judgement") == [{"n": 0}]
    table = cli("report").out
    for word in ("refused", "filtered", "empty", "truncated"):
        assert word in table
    assert cli("report", "--format", "json").json()["overall"]["score"] is None


def test_lines_without_usage_are_scored_and_their_cost_is_unknown(cli: Cli, one: Inputs, tell: Tell) -> None:
    content = json.dumps({"score": 5, "reason": "y"})
    lines = [(0, answered(content, usage=False)), (1, answered(content, usage=None))]
    lines += [(place, scored(7)) for place in (2, 3, 4)]
    tell(Ending(["completed"], lines, counts=(5, 5, 0)))
    submitted(cli, one)
    assert cli.collect().code == 0
    found = cli.query("select score from score order by criterion_index")
    assert [row["score"] for row in found] == [5, 5, 7, 7, 7]
    assert cli("status", "--json").json()["cost_usd"] is None
    assert cli("report").code == 0
    usage = cli.query("select class, attempts, cost_usd from usage where attempts > 0 order by 1")
    assert [(row["class"], row["attempts"]) for row in usage] == [("good", 3), ("unknown", 2)]
    assert usage[1]["cost_usd"] is None
    assert usage[0]["cost_usd"] > 0


def test_characters_that_cut_or_break_files_elsewhere_cost_no_answer(cli: Cli, one: Inputs, tell: Tell) -> None:
    """Raw U+2028 and U+0085 in a line, a lone surrogate as an escape, CRLF, and no line end after the last line."""
    contents = [
        json.dumps({"score": 6, "reason": "ends\u2028here"}, ensure_ascii=False),
        r'{"score": 7, "reason": "odd \udc81 char"}',
        json.dumps({"score": 8, "reason": "next\u0085line \u2029"}, ensure_ascii=False),
        json.dumps({"score": 9, "reason": "a\0b"}),
        json.dumps({"score": 10, "reason": "अच्छा 🙂"}),
    ]
    lines = [
        json.dumps({"custom_id": f"@{place}@", **answered(content)}, ensure_ascii=False).encode()
        for place, content in enumerate(contents)
    ]
    assert "\u2028".encode() in lines[0]
    told = lines[0] + b"\n" + lines[1] + b"\r\n" + b"\n".join(lines[2:])
    wire = tell(Ending(["completed"], told, counts=(5, 5, 0)))
    submitted(cli, one)
    assert cli.collect().code == 0
    found = cli.query("select score, reason from score order by criterion_index")
    assert [row["score"] for row in found] == [6, 7, 8, 9, 10]
    assert found[0]["reason"] == "ends\u2028here"
    assert found[1]["reason"] == "odd \ufffd char"
    assert found[3]["reason"] == "a\0b"
    (raw,) = (cli.folder / "raw").iterdir()
    assert raw.read_bytes() == wire._content("output", 0)
    for command in (["report"], ["show", "0"], ["export", "--format", "jsonl"], ["export", "--format", "csv"]):
        assert cli(*command).code == 0
