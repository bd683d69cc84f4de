"""Outcomes: one for every line, in the shapes of Azure, OpenAI and vLLM, whatever the types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.lines import parse_noting, parse_object
from iwb_batch.core.outcome import read_record
from iwb_batch.core.verdict import InvalidVerdict, VerdictReader, score_judgement
from iwb_batch.model import Judgement, Outcome, Reading, Usage

SCHEMA = Path(__file__).parents[2] / "schemas" / "judgement.schema.json"
READER = VerdictReader(json.loads(SCHEMA.read_text(encoding="utf-8")))
GOOD = '{"score": 7, "reason": "ठीक है"}'
USAGE = {"prompt_tokens": 120, "completion_tokens": 40, "total_tokens": 160}


def judge(content: str) -> Judgement | InvalidVerdict:
    verdict = READER.read(content)
    return verdict if isinstance(verdict, InvalidVerdict) else score_judgement(verdict)


def never(content: str) -> Judgement | InvalidVerdict:
    pytest.fail(f"no verdict may be read from {content!r}")


def answer(content: object, finish: object = "stop", *, usage: object = USAGE, **message: object) -> dict[str, Any]:
    """A line of status 200 as Azure writes it."""
    body = {
        "id": "chatcmpl-x",
        "object": "chat.completion",
        "model": "gpt-5.4-2026-03-05",
        "system_fingerprint": "fp_1",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": usage,
    }
    return {"custom_id": "i0", "response": {"request_id": "r", "status_code": 200, "body": body}, "error": None}


def refusal(status: object, code: object = None, message: object = None, **more: object) -> dict[str, Any]:
    """A line whose error is nested in the body, the top-level error null."""
    body = {"error": {"code": code, "message": message, **more}}
    return {"custom_id": "i0", "response": {"request_id": "r", "status_code": status, "body": body}, "error": None}


def not_run(code: str) -> dict[str, Any]:
    """A line of a request that never ran: no response, the error at the top."""
    return {"id": "x", "custom_id": "i0", "response": None, "error": {"code": code, "message": "never ran"}}


def vllm(status: object, error: object) -> dict[str, Any]:
    return {
        "id": "v",
        "custom_id": "i0",
        "response": {"status_code": status, "request_id": "r", "body": None},
        "error": error,
    }


def read(record: dict[str, Any]) -> Reading:
    return read_record(record, judge)


def test_a_valid_answer_is_read_whole() -> None:
    usage = {
        **USAGE,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    assert read(answer(GOOD, usage=usage)) == Reading(
        outcome=Outcome.VALID,
        http_status=200,
        finish_reason="stop",
        content=GOOD,
        usage=Usage(prompt_tokens=120, cached_tokens=64, completion_tokens=40, reasoning_tokens=12),
        model="gpt-5.4-2026-03-05",
        system_fingerprint="fp_1",
        judgement=Judgement(reason="ठीक है", score=7),
    )


@pytest.mark.parametrize(
    ("record", "outcome"),
    [
        pytest.param(answer(GOOD), Outcome.VALID, id="valid"),
        pytest.param(
            answer([{"type": "text", "text": '{"score": 7,'}, {"type": "text", "text": '"reason": "r"}'}]),
            Outcome.VALID,
            id="content in parts",
        ),
        pytest.param(answer("7/10"), Outcome.INVALID_JSON, id="prose"),
        pytest.param(answer('{"score": 11, "reason": "r"}'), Outcome.INVALID_SCHEMA, id="out of range"),
        pytest.param(answer('{"score": 9, "reason": "cut he', "length"), Outcome.TRUNCATED, id="cut in the reason"),
        pytest.param(answer('{"reason": "Complete.", "score": 1', "length"), Outcome.TRUNCATED, id="cut in the score"),
        pytest.param(answer('{"score": 11, "reason": "r"}', "length"), Outcome.TRUNCATED, id="cut and out of range"),
        pytest.param(answer("", "length"), Outcome.TRUNCATED, id="thoughts took all tokens"),
        pytest.param(answer(None, "length"), Outcome.TRUNCATED, id="null content at the limit"),
        pytest.param(answer(""), Outcome.EMPTY, id="empty content"),
        pytest.param(answer(None), Outcome.EMPTY, id="null content"),
        pytest.param(answer(" \n\u200b\ufeff"), Outcome.EMPTY, id="blank content"),
        pytest.param(answer(7), Outcome.EMPTY, id="number as content"),
        pytest.param(answer({"score": 7, "reason": "r"}), Outcome.EMPTY, id="object as content"),
        pytest.param(answer([{"type": "reasoning", "text": GOOD}, 7, None]), Outcome.EMPTY, id="parts without text"),
        pytest.param(answer("", refusal="No."), Outcome.REFUSED, id="refusal and empty content"),
        pytest.param(answer(None, refusal="No."), Outcome.REFUSED, id="refusal and null content"),
        pytest.param(answer(None, "length", refusal="No."), Outcome.REFUSED, id="refusal at the limit"),
        pytest.param(answer([{"type": "refusal", "refusal": "No."}]), Outcome.REFUSED, id="refusal as a part"),
        pytest.param(answer(GOOD, refusal="No."), Outcome.VALID, id="content beside a refusal"),
        pytest.param(answer(GOOD, refusal=""), Outcome.VALID, id="empty refusal"),
        pytest.param(answer("", refusal=" "), Outcome.EMPTY, id="blank refusal"),
        pytest.param(answer(None, "content_filter"), Outcome.FILTERED, id="filtered output"),
        pytest.param(answer(GOOD, "content_filter"), Outcome.FILTERED, id="filtered, with a whole verdict"),
        pytest.param(answer(None, "content_filter", refusal="No."), Outcome.FILTERED, id="filtered before refused"),
        pytest.param(not_run("batch_expired"), Outcome.EXPIRED, id="batch_expired"),
        pytest.param(not_run("batch_cancelled"), Outcome.CANCELLED, id="batch_cancelled"),
        pytest.param(not_run("request_timeout"), Outcome.TRANSIENT, id="request_timeout"),
        pytest.param(not_run("something_new"), Outcome.TRANSIENT, id="unknown code without status"),
        pytest.param(refusal(400, "content_filter"), Outcome.FILTERED, id="filtered input"),
        pytest.param(
            refusal(400, None, innererror={"code": "ResponsibleAIPolicyViolation"}),
            Outcome.FILTERED,
            id="filtered by the inner code",
        ),
        pytest.param(refusal(403, "content_filter"), Outcome.FILTERED, id="filtered whatever the status"),
        pytest.param(
            refusal(
                400,
                "invalid_request_error",
                "Output limit reached before the message was complete (max_tokens or model limit).",
            ),
            Outcome.TRUNCATED,
            id="output limit said by text",
        ),
        pytest.param(
            refusal(400, None, "Could not finish the message because max_tokens or model output limit was reached."),
            Outcome.TRUNCATED,
            id="could not finish",
        ),
        pytest.param(refusal(400, "output_limit_reached"), Outcome.TRUNCATED, id="output limit said by code"),
        pytest.param(
            refusal(
                400,
                "invalid_value",
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
            ),
            Outcome.REJECTED,
            id="limit asked for is too large",
        ),
        pytest.param(
            refusal(
                400,
                "context_length_exceeded",
                "This model's maximum context length is 8192 tokens. The limit was reached.",
            ),
            Outcome.REJECTED,
            id="prompt too long",
        ),
        pytest.param(
            refusal(400, "unsupported_parameter", "Parameter 'max_tokens' not accepted"),
            Outcome.REJECTED,
            id="unsupported parameter",
        ),
        pytest.param(refusal(404, "DeploymentNotFound", "No deployment"), Outcome.REJECTED, id="404"),
        pytest.param(refusal(422, None, "bad"), Outcome.REJECTED, id="422"),
        pytest.param(refusal(204), Outcome.REJECTED, id="another 2xx"),
        pytest.param(refusal(401, "invalid_api_key"), Outcome.ACCOUNT, id="401"),
        pytest.param(refusal(403, "forbidden"), Outcome.ACCOUNT, id="403"),
        pytest.param(refusal(402, None, "Insufficient Balance"), Outcome.ACCOUNT, id="402"),
        pytest.param(refusal(429, "insufficient_quota", "Quota used up"), Outcome.ACCOUNT, id="429 quota"),
        pytest.param(refusal(429, "billing_hard_limit_reached"), Outcome.ACCOUNT, id="429 billing"),
        pytest.param(refusal(429, None, "n", type="insufficient_quota"), Outcome.ACCOUNT, id="429 quota as type"),
        pytest.param(
            refusal(429, None, "You exceeded your current quota, check your plan."),
            Outcome.ACCOUNT,
            id="429 quota said by text",
        ),
        pytest.param(refusal(429, "rate_limit_exceeded", "Rate limit reached"), Outcome.TRANSIENT, id="429 rate limit"),
        pytest.param(
            refusal(429, "429", "exceeded token rate limit of your tier. See aka.ms/oai/quotaincrease"),
            Outcome.TRANSIENT,
            id="429 rate limit that links to a quota page",
        ),
        pytest.param(
            refusal(429, "rate_limit_exceeded", "Raise it by adding to your credit balance."),
            Outcome.TRANSIENT,
            id="429 rate limit that speaks of money",
        ),
        pytest.param(
            refusal(400, "bad", "The rate limit was reached: max_tokens a minute."),
            Outcome.REJECTED,
            id="a rate limit is no output limit",
        ),
        pytest.param(refusal(408), Outcome.TRANSIENT, id="408"),
        pytest.param(refusal(409), Outcome.TRANSIENT, id="409"),
        pytest.param(refusal(500, "server_error"), Outcome.TRANSIENT, id="500"),
        pytest.param(refusal(599), Outcome.TRANSIENT, id="599"),
        pytest.param(refusal(0), Outcome.TRANSIENT, id="status 0"),
        pytest.param(refusal(None), Outcome.TRANSIENT, id="status null"),
        pytest.param(refusal("400"), Outcome.REJECTED, id="status as text"),
        pytest.param({"custom_id": "i0"}, Outcome.TRANSIENT, id="neither response nor error"),
        pytest.param(
            vllm(400, {"error": {"message": "bad", "type": "BadRequestError", "code": 400}}),
            Outcome.REJECTED,
            id="vLLM 400",
        ),
        pytest.param(
            vllm(404, {"error": {"message": "no model", "type": "NotFoundError", "code": 404}}),
            Outcome.REJECTED,
            id="vLLM 404",
        ),
        pytest.param(vllm(500, "the engine died"), Outcome.TRANSIENT, id="vLLM error as text"),
        pytest.param(vllm(400, "url is not supported"), Outcome.REJECTED, id="vLLM refusal as text"),
        pytest.param(
            vllm(None, {"error": {"message": "bad", "code": 400}}), Outcome.REJECTED, id="vLLM code instead of a status"
        ),
        pytest.param(
            {"response": {"status_code": 502, "body": "<html>Bad gateway"}}, Outcome.TRANSIENT, id="HTML body"
        ),
    ],
)
def test_first_rule_that_fits_decides(record: dict[str, Any], outcome: Outcome) -> None:
    reading = read(record)
    assert reading.outcome is outcome
    assert (reading.judgement is not None) == (outcome is Outcome.VALID)


def test_reasoning_fields_are_never_read() -> None:
    draft = '{"score": 3, "reason": "weak"}'
    for finish, outcome in (("length", Outcome.TRUNCATED), ("stop", Outcome.EMPTY)):
        record = answer("", finish, reasoning_content=f"Draft: {draft} but", reasoning=draft, thinking=draft)
        reading = read_record(record, never)
        assert (reading.outcome, reading.judgement) == (outcome, None)


def test_a_whole_verdict_at_the_limit_counts_and_is_noted() -> None:
    reading = read(answer(f"```json\n{GOOD}\n```", "length"))
    assert reading.outcome is Outcome.VALID
    assert reading.judgement == Judgement(reason="ठीक है", score=7, notes=("fence", "cut"))


def test_the_refusal_text_is_the_message() -> None:
    assert read(answer("", refusal="मैं इसे नहीं आँक सकता।")).message == "मैं इसे नहीं आँक सकता।"


def test_refused_and_filtered_are_told_apart() -> None:
    outcomes = [read(answer(None, refusal="No.")).outcome, read(answer(None, "content_filter")).outcome]
    assert outcomes == [Outcome.REFUSED, Outcome.FILTERED]


SAFE = {"filtered": False, "severity": "safe"}
FIRED = {
    "hate": SAFE,
    "jailbreak": {"filtered": False, "detected": False},
    "violence": {"filtered": True, "severity": "medium"},
}


@pytest.mark.parametrize(
    ("results", "detail"),
    [
        pytest.param(FIRED, "violence/medium", id="category and severity"),
        pytest.param({**FIRED, "hate": {"filtered": True, "severity": "high"}}, "hate/high, violence/medium", id="two"),
        pytest.param({"jailbreak": {"filtered": True, "detected": True}}, "jailbreak", id="jailbreak"),
        pytest.param({"jailbreak": {"filtered": False, "detected": True}}, "jailbreak", id="only detected"),
        pytest.param({"custom_blocklists": [{"filtered": True, "id": "mine"}]}, "custom_blocklists", id="blocklists"),
        pytest.param({"hate": SAFE}, None, id="none named"),
        pytest.param({"error": {"code": "content_filter_error"}}, None, id="filter was down"),
        pytest.param(["violence"], None, id="a list"),
        pytest.param({"violence": True, "hate": [True, [1]]}, None, id="other types"),
    ],
)
def test_the_category_that_fired_is_named(results: object, detail: str | None) -> None:
    by_input = refusal(400, "content_filter", "Blocked.", innererror={"content_filter_result": results})
    assert read(by_input).detail == detail
    assert read(refusal(400, "content_filter", content_filter_results=results)).detail == detail
    by_output = answer(None, "content_filter")
    by_output["response"]["body"]["choices"][0]["content_filter_results"] = results
    assert read(by_output).detail == detail
    by_prompt = answer(None, "content_filter")
    by_prompt["response"]["body"]["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": results}]
    assert read(by_prompt).detail == detail


def test_a_filtered_line_keeps_the_words_of_the_provider() -> None:
    reading = read(refusal(400, "content_filter", "Blocked by policy."))
    assert (reading.http_status, reading.error_code, reading.message) == (400, "content_filter", "Blocked by policy.")


def test_one_filtered_line_costs_one_line() -> None:
    lines = [json.dumps(answer(GOOD)).encode()] * 20
    lines[11] = json.dumps(refusal(400, "content_filter", "Blocked.")).encode()
    outcomes = []
    for line in lines:
        record = parse_object(line)
        assert isinstance(record, dict)
        outcomes.append(read(record).outcome)
    assert outcomes.count(Outcome.VALID) == 19
    assert outcomes[11] is Outcome.FILTERED


@pytest.mark.parametrize(
    ("record", "code", "message", "outcome"),
    [
        pytest.param(
            refusal(404, "DeploymentNotFound", "No deployment with this name."),
            "DeploymentNotFound",
            "No deployment with this name.",
            Outcome.REJECTED,
            id="every line of a wrong deployment",
        ),
        pytest.param(
            refusal(429, "insufficient_quota", "Quota used up."),
            "insufficient_quota",
            "Quota used up.",
            Outcome.ACCOUNT,
            id="every line of an account without funds",
        ),
        pytest.param(
            refusal(400, "unsupported_parameter", "Parameter not accepted."),
            "unsupported_parameter",
            "Parameter not accepted.",
            Outcome.REJECTED,
            id="every line with a refused parameter",
        ),
    ],
)
def test_code_and_message_name_what_is_common(
    record: dict[str, Any], code: str, message: str, outcome: Outcome
) -> None:
    readings = [read(record) for _ in range(3)]
    assert {(reading.error_code, reading.message, reading.outcome) for reading in readings} == {
        (code, message, outcome)
    }


@pytest.mark.parametrize(
    ("record", "code", "message"),
    [
        pytest.param(
            refusal(400, None, "m", type="invalid_request_error"),
            "invalid_request_error",
            "m",
            id="type for a null code",
        ),
        pytest.param(vllm(404, {"error": {"message": "m", "code": 404}}), "404", "m", id="numeric code"),
        pytest.param(vllm(500, "the engine died"), None, "the engine died", id="text"),
        pytest.param(vllm(500, {"error": "the engine died"}), None, "the engine died", id="text in an object"),
        pytest.param({"response": {"status_code": 502, "body": "Bad gateway"}}, None, "Bad gateway", id="text as body"),
        pytest.param(refusal(400, ["x"], {"y": 1}), None, None, id="other types"),
        pytest.param(refusal(400, "x", "क" * 3_000), "x", "क" * 2_000, id="long message"),
        pytest.param(refusal(400, "x", "odd \ud800"), "x", "odd \ufffd", id="lone surrogate"),
    ],
)
def test_the_words_of_the_provider(record: dict[str, Any], code: str | None, message: str | None) -> None:
    reading = read(record)
    assert (reading.error_code, reading.message) == (code, message)


def test_the_nested_error_speaks_before_the_one_at_the_top() -> None:
    record = refusal(400, "inner", "nested words")
    record["error"] = {"code": "outer", "message": "words at the top"}
    assert (read(record).error_code, read(record).message) == ("inner", "nested words")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(None, Usage(), id="null"),
        pytest.param([], Usage(), id="list"),
        pytest.param({}, Usage(), id="empty"),
        pytest.param({"prompt_tokens": 0}, Usage(prompt_tokens=0), id="zero is known"),
        pytest.param({"prompt_tokens": -1, "completion_tokens": 1.5}, Usage(), id="negative and fraction"),
        pytest.param({"prompt_tokens": True, "completion_tokens": "7"}, Usage(), id="boolean and text"),
        pytest.param({"prompt_tokens": 2**63}, Usage(), id="more than SQLite holds"),
        pytest.param({"prompt_tokens": 2**63 - 1, "completion_tokens": 10**12 + 1}, Usage(), id="too many to add up"),
        pytest.param({"prompt_tokens": 10**12}, Usage(10**12), id="the most"),
        pytest.param(
            {"prompt_tokens_details": None, "completion_tokens_details": 3}, Usage(), id="details of other types"
        ),
    ],
)
def test_usage_is_optional_and_never_guessed(usage: object, expected: Usage) -> None:
    reading = read(answer(GOOD, usage=usage))
    assert reading.usage == expected
    assert reading.judgement is not None
    assert reading.judgement.score == 7


def test_a_line_without_usage_is_scored() -> None:
    record = answer('{"score": 5, "reason": "y"}')
    del record["response"]["body"]["usage"]
    reading = read(record)
    assert (reading.outcome, reading.usage) == (Outcome.VALID, Usage())


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        pytest.param(r"{\"score\": 7, \"reason\": \"odd \\udc81 char\"}", ("surrogate",), id="escaped in the verdict"),
        pytest.param(r"{\"score\": 7, \"reason\": \"odd \udc81 char\"}", ("surrogate",), id="escaped in the line"),
        pytest.param(r"{\"score\": 7, \"reason\": \"even\"}", (), id="none"),
    ],
)
def test_a_lone_surrogate_costs_no_score(content: str, notes: tuple[str, ...]) -> None:
    line = json.dumps(answer("CONTENT")).replace("CONTENT", content).encode()
    parsed = parse_noting(line)
    assert isinstance(parsed, tuple)
    record, replaced = parsed
    judgement = read_record(record, judge, surrogates=replaced).judgement
    assert judgement is not None
    assert (judgement.score, judgement.notes) == (7, notes)
    assert judgement.reason == ("odd \ufffd char" if notes else "even")


def test_a_surrogate_elsewhere_in_the_line_is_no_matter_of_the_judgement() -> None:
    judgement = read_record(answer(GOOD), judge, surrogates=True).judgement
    assert judgement is not None
    assert judgement.notes == ()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([200, 400, 429, "content_filter", "length", GOOD]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "response",
    "error",
    "status_code",
    "body",
    "choices",
    "message",
    "content",
    "refusal",
    "finish_reason",
    "usage",
]
KEYS += [
    "code",
    "type",
    "innererror",
    "content_filter_result",
    "content_filter_results",
    "prompt_filter_results",
    "model",
]


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(st.dictionaries(st.sampled_from(KEYS), st.recursive(JSON, grown, max_leaves=12)))
def test_whatever_a_line_holds_it_has_one_outcome(record: dict[str, Any]) -> None:
    reading = read(record)
    assert isinstance(reading.outcome, Outcome)
    assert (reading.judgement is not None) == (reading.outcome is Outcome.VALID)
    assert reading.http_status is None or 0 <= reading.http_status <= 999
    for text in (reading.detail, reading.finish_reason, reading.error_code, reading.message, reading.model):
        assert text is None or isinstance(text, str)


PLACES = [
    ["response"],
    ["response", "status_code"],
    ["response", "body"],
    ["response", "body", "choices"],
    ["response", "body", "choices", 0],
    ["response", "body", "choices", 0, "message"],
    ["response", "body", "choices", 0, "message", "content"],
    ["response", "body", "choices", 0, "finish_reason"],
    ["response", "body", "usage"],
    ["response", "body", "usage", "prompt_tokens"],
    ["error"],
]


@settings(deadline=None, derandomize=True, max_examples=500)
@given(st.sampled_from(PLACES), JSON)
def test_a_wrong_type_anywhere_in_a_good_line_does_not_crash(place: list[str | int], value: object) -> None:
    record: Any = answer(GOOD)
    holder = record
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    assert isinstance(read(record).outcome, Outcome)
