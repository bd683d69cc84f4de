"""The lines of output and error files: their shapes, and what a planned fault makes of them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson

from iwb_batch.emulator.http import kind_of
from iwb_batch.emulator.judge import Completion, Judge, LineError, token_limit
from iwb_batch.model import Usage

Shape = Literal["azure", "openai"]

REASONING_MODEL = re.compile(r"^(gpt-5|o\d)")
SAMPLING = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs", "logit_bias")
USABLE = frozenset({"fenced", "prose", "u2028", "surrogate", "duplicate", "duplicate_error", "unknown_id", "no_usage"})
"""Faults that leave an answer a careful reader can use."""

SURROGATE_MARK = "\ue000"
"""Stands for a lone surrogate until the line is bytes: JSON text can hold its escape, UTF-8 cannot hold it."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What one input line came to: lines for either file, and how it is counted."""

    output: tuple[bytes, ...] = ()
    error: tuple[bytes, ...] = ()
    succeeded: bool = True
    executed: bool = True
    good: bool = True


def answer_line(
    raw: bytes, judge: Judge, fault: str | None, shape: Shape, created: int, *, checked: bool = True
) -> Answered:
    """Run one request line through the judge and a fault, both of which may turn it into an error line.

    ``checked``: parameters are checked as a reasoning deployment does, before the judge sees them.
    """
    line = orjson.loads(raw)
    custom_id, body = line["custom_id"], line["body"]
    if fault in ERRORS:
        return _failed(custom_id, *ERRORS[fault], shape)
    if fault == "request_timeout":
        late = dead_line(custom_id, "request_timeout", "The request could not be answered in time.", shape)
        return Answered(error=(late,), succeeded=False, executed=False, good=False)
    if checked and (refused := unsupported(body)) is not None:
        return _failed(custom_id, 400, refused, shape)
    try:
        completion = judge.answer(body)
    except LineError as failure:
        return _failed(custom_id, failure.status, failure.body, shape)
    completion = spoil(completion, fault, body)
    text = response_line(custom_id, 200, completion_body(completion, shape, created), shape)
    if fault == "surrogate":
        text = text.replace(SURROGATE_MARK.encode(), rb"\ud83d")
    return _with_line_fault(custom_id, text, fault, shape)


def _failed(custom_id: str, status: int, body: Any, shape: Shape) -> Answered:
    line = response_line(custom_id, status, body, shape)
    return Answered(error=(line,), succeeded=False, executed=False, good=False)


def _with_line_fault(custom_id: str, text: bytes, fault: str | None, shape: Shape) -> Answered:
    good = fault is None or fault in USABLE
    if fault == "dropped":
        return Answered(good=False)
    if fault == "duplicate":
        return Answered(output=(text, text))
    if fault == "duplicate_error":
        return Answered(output=(text,), error=(response_line(custom_id, *ERRORS["server_error"], shape),))
    if fault == "unknown_id":
        stray = text.replace(orjson.dumps(custom_id), orjson.dumps(f"stray-{custom_id}"), 1)
        return Answered(output=(text, stray))
    if fault == "malformed_line":
        return Answered(output=(text[: len(text) // 2] + b"\n",), good=False)
    return Answered(output=(text,), good=good)


def spoil(completion: Completion, fault: str | None, body: Mapping[str, Any]) -> Completion:
    """The completion after a fault of its content; the completion itself when the fault is another one."""
    if fault in CONTENT and completion.content is not None:
        return replace(completion, content=CONTENT[fault](completion.content), raw=None)
    if fault in COMPLETION:
        return replace(COMPLETION[fault](completion, token_limit(body)), raw=None)
    return completion


def _verdict(content: str) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {"score": 7, "reason": content}
    return value if isinstance(value, dict) else {"score": 7, "reason": content}


def _changed(content: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> str:
    value = _verdict(content)
    return orjson.dumps(value | change(value)).decode()


def _out_of_range(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"preference": "C"} if "preference" in value else {"score": 11}


def _wrong_type(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"preference": 1} if "preference" in value else {"score": str(value.get("score"))}


CONTENT: Mapping[str | None, Callable[[str], str]] = {
    "invalid_json": lambda text: text.rstrip().rstrip("}") + " ...",
    "fenced": lambda text: f"```json\n{text}\n```",
    "prose": lambda text: f"Here is the evaluation.\n\n{text}\n\nThat is all.",
    "out_of_range": lambda text: _changed(text, _out_of_range),
    "string_score": lambda text: _changed(text, _wrong_type),
    "u2028": lambda text: _changed(
        text, lambda value: {"reason": f"{value.get('reason')}\u2028second line\u0085third"}
    ),
    "surrogate": lambda text: _changed(text, lambda value: {"reason": f"{value.get('reason')} {SURROGATE_MARK}"}),
}


def _cut(completion: Completion, limit: int | None) -> Completion:
    content = completion.content or ""
    return replace(
        completion, content=content[: len(content) // 2], finish_reason="length", usage=_used_up(completion, limit)
    )


def _eaten(completion: Completion, limit: int | None) -> Completion:
    usage = _used_up(completion, limit)
    if usage is not None:
        usage = replace(usage, reasoning_tokens=usage.completion_tokens)
    return replace(completion, content="", finish_reason="length", usage=usage)


def _used_up(completion: Completion, limit: int | None) -> Usage | None:
    if completion.usage is None or limit is None:
        return completion.usage
    return replace(completion.usage, completion_tokens=limit)


COMPLETION: Mapping[str | None, Callable[[Completion, int | None], Completion]] = {
    "truncated": _cut,
    "truncated_empty": _eaten,
    "empty": lambda completion, _: replace(completion, content=""),
    "refusal": lambda completion, _: replace(completion, content=None, refusal="This request cannot be answered."),
    "content_filter_output": lambda completion, _: replace(completion, content=None, finish_reason="content_filter"),
    "no_usage": lambda completion, _: replace(completion, usage=None),
    "other_model": lambda completion, _: replace(completion, model=f"{completion.model}-other"),
}

_SAFE = {name: {"filtered": False, "severity": "safe"} for name in ("hate", "self_harm", "sexual", "violence")}


def _error(http: int, code: str, message: str, param: str | None = None, **more: Any) -> tuple[int, dict[str, Any]]:
    return http, {"error": {"message": message, "type": kind_of(http), "param": param, "code": code} | more}


ERRORS: Mapping[str | None, tuple[int, Mapping[str, Any]]] = {
    "content_filter_input": _error(
        400,
        "content_filter",
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "prompt",
        type=None,
        status=400,
        innererror={
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": _SAFE
            | {
                "violence": {"filtered": True, "severity": "medium"},
                "jailbreak": {"filtered": False, "detected": False},
            },
        },
    ),
    "rate_limited": _error(429, "429", "Rate limit is exceeded. Try again later."),
    "server_error": _error(500, "internal_error", "The server had an error while processing the request."),
    "rejected": _error(
        400,
        "unsupported_parameter",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_tokens",
    ),
    "account": _error(
        429,
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
        type="insufficient_quota",
    ),
    "output_limit": _error(
        400,
        "invalid_value",
        "Could not finish the message because max_tokens or model output limit was reached.",
        "max_completion_tokens",
    ),
    "status_zero": (0, {}),
}
"""Faults that end a line in an HTTP error: status and body for the error file."""


def unsupported(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The error body a chat deployment answers a bad request with; None when it would be carried out."""
    if not isinstance(body.get("messages"), list) or not body["messages"]:
        return _error(400, "missing_required_parameter", "Missing required parameter: 'messages'.", "messages")[1]
    if not REASONING_MODEL.match(str(body.get("model"))):
        return None
    if "max_tokens" in body:
        return dict(ERRORS["rejected"][1])
    for name in SAMPLING:
        if name in body:
            message = f"Unsupported parameter: '{name}' is not supported with this model."
            return _error(400, "unsupported_parameter", message, name)[1]
    return None


def completion_body(completion: Completion, shape: Shape, created: int) -> Any:
    """A chat completion as the API shows it; Azure adds what its content filter found."""
    if completion.raw is not None:
        return orjson.Fragment(completion.raw)
    filtered = completion.finish_reason == "content_filter"
    message = {"role": "assistant", "content": completion.content, "refusal": completion.refusal}
    choice: dict[str, Any] = {
        "index": 0,
        "finish_reason": completion.finish_reason,
        "logprobs": None,
        "message": message,
    }
    body: dict[str, Any] = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": created,
        "model": completion.model,
        "choices": [choice],
        "system_fingerprint": completion.system_fingerprint,
    }
    if shape == "azure":
        violence = {"filtered": True, "severity": "medium"} if filtered else _SAFE["violence"]
        choice["content_filter_results"] = _SAFE | {"violence": violence}
        body["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": _SAFE}]
    if completion.usage is not None:
        body["usage"] = usage_body(completion.usage)
    return body


def usage_body(usage: Usage) -> dict[str, Any]:
    """Token counts as the API shows them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": (usage.prompt_tokens or 0) + (usage.completion_tokens or 0),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0},
    }


def response_line(custom_id: str, status: int, body: Any, shape: Shape) -> bytes:
    """One line with a response, whatever its status; Azure's lines have no ``id``."""
    response = {"body": body, "request_id": str(uuid.uuid4()), "status_code": status}
    return _line(custom_id, response, None, shape)


def dead_line(custom_id: str, code: str, message: str, shape: Shape) -> bytes:
    """One line of the error file for a request that got no response at all."""
    return _line(custom_id, None, {"code": code, "message": message}, shape)


def _line(custom_id: str, response: Mapping[str, Any] | None, error: Mapping[str, Any] | None, shape: Shape) -> bytes:
    head = {"id": f"batch_req_{uuid.uuid4().hex}"} if shape == "openai" else {}
    return orjson.dumps({**head, "custom_id": custom_id, "response": response, "error": error}) + b"\n"
