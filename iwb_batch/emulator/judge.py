"""Who answers the lines: a protocol, and the rehearsal judge that needs no model.

The rehearsal judge draws its answer from a sha256 of the request body: the same request always gets the
same answer, the scores look plausible, and every reason says that nothing was judged.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal, Protocol

import orjson

from iwb_batch.model import Usage

MODEL = "iwb-rehearsal"
FINGERPRINT = "fp_iwb_rehearsal"
REASON = (
    "Rehearsal answer: this value comes from a checksum of the request. No text was read and nothing was judged, "
    "so it says nothing about the quality of the response."
)
TEXT = "Rehearsal text number {number}: this stands where a model's answer to the query would be."

SCORE_WEIGHTS = (1, 2, 4, 7, 13, 20, 23, 18, 9, 3)
"""Weights of the scores 1 to 10; they add up to 100."""

TAIL = 800
"""Characters at the end of the prompt searched first: prompts state the answer's form last."""

Wanted = Literal["score", "preference", "text"]


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a judge. ``raw`` is a whole chat completion, JSON text on one line, to be passed on as it is."""

    content: str | None
    finish_reason: str = "stop"
    refusal: str | None = None
    model: str = MODEL
    usage: Usage | None = None
    system_fingerprint: str | None = FINGERPRINT
    raw: bytes | None = None


class Interrupted(Exception):
    """The judge was told to stop before it had an answer: the line stays as if it had never been asked."""


class LineError(Exception):
    """The judge has no answer but an HTTP error: status and JSON body (a mapping, or JSON text as a fragment)."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body


class Judge(Protocol):
    """Answers the body of one chat request."""

    def answer(self, body: Mapping[str, Any]) -> Completion:
        """The completion for a body; raises LineError when the line ends in an HTTP error.

        A judge that can be stopped has a method ``stop`` and raises Interrupted after it.
        """


class Rehearsal:
    """The default judge: deterministic, offline, and honest about both."""

    def answer(self, body: Mapping[str, Any]) -> Completion:
        """Draw an answer from the body's checksum; the token limit cuts it as a real one would."""
        raw = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        digest = hashlib.sha256(raw).digest()
        prompt = max(8, sum(len(text.encode("utf-8", "replace")) for text in texts(body)) // 4)
        return limited(_content(wanted(body), digest), digest, prompt, token_limit(body))


def _content(kind: Wanted, digest: bytes) -> str:
    if kind == "score":
        edges = list(accumulate(SCORE_WEIGHTS))
        value: dict[str, Any] = {"score": 1 + bisect_right(edges, int.from_bytes(digest[:4]) % edges[-1])}
    elif kind == "preference":
        value = {"preference": "AB"[digest[0] % 2]}
    else:
        return TEXT.format(number=int.from_bytes(digest[:4]))
    return orjson.dumps(value | {"reason": REASON}).decode()


def limited(content: str, digest: bytes, prompt_tokens: int, limit: int | None) -> Completion:
    """The completion with plausible token counts, cut where the token limit is reached."""
    reasoning = 64 * (1 + digest[4] % 8)
    visible = max(1, len(content) // 4)
    finish = "stop"
    if limit is not None and reasoning + visible > limit:
        finish = "length"
        reasoning = min(reasoning, limit)
        visible = limit - reasoning
        content = content[: visible * 4]
    usage = Usage(
        prompt_tokens=prompt_tokens,
        cached_tokens=prompt_tokens // 256 * 128 or prompt_tokens // 2,
        completion_tokens=reasoning + visible,
        reasoning_tokens=reasoning,
    )
    return Completion(content, finish, usage=usage)


def token_limit(body: Mapping[str, Any]) -> int | None:
    """The body's limit on output tokens, under either of its two names."""
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def texts(body: Mapping[str, Any]) -> list[str]:
    """The text of every message, in order; parts of a message are taken one by one."""
    found: list[str] = []
    messages = body.get("messages")
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            found.extend(
                part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)
            )
    return found


def wanted(body: Mapping[str, Any]) -> Wanted:
    """What the request asks for: told by ``response_format``, else by the keys its prompt names.

    The end of the prompt is searched first and the last key named there counts, since a response under
    judgement may contain either word.
    """
    named = _properties(body)
    if "preference" in named:
        return "preference"
    if "score" in named:
        return "score"
    found = texts(body)
    whole = "\n".join(found)
    for part in (whole[-TAIL:], found[0] if found else "", whole):
        score, preference = part.rfind('"score"'), part.rfind('"preference"')
        if score != preference:
            return "score" if score > preference else "preference"
    return "text"


def _properties(body: Mapping[str, Any]) -> Mapping[str, Any]:
    value: Any = body
    for key in ("response_format", "json_schema", "schema", "properties"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
