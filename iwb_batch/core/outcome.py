"""What one output or error line says about its attempt, in the OpenAI, Azure and vLLM shapes.

Rules are tried in order and the first that fits decides. Whatever a line holds, and in whatever type,
it gets exactly one outcome; nothing here raises. Fields that carry a model's reasoning are never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from iwb_batch.core import error_words, filters
from iwb_batch.core.lines import REPLACEMENT, clean_text
from iwb_batch.core.reasoning import is_empty
from iwb_batch.core.verdict import SURROGATE, InvalidVerdict
from iwb_batch.model import Judgement, Outcome, Reading, Usage

CUT = "cut"
"""Note of a judgement whose answer ran into the token limit after its JSON was complete."""

OK = 200
LARGEST_COUNT = 10**12
"""Tokens of one answer; a larger count is none. The sum over millions of answers has to fit into 64 bits."""

Judge = Callable[[str], Judgement | InvalidVerdict]
"""Reads a message content as a verdict and turns it into a judgement."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the rules came to."""

    outcome: Outcome
    detail: str | None = None
    message: str | None = None
    judgement: Judgement | None = None


def read_record(record: Mapping[str, Any], judge: Judge, *, surrogates: bool = False) -> Reading:
    """Read one parsed line.

    ``judge`` is called at most once, with the message content. ``surrogates``: lone surrogates were replaced
    when the line was parsed; noted on a judgement whose content shows the replacement.
    """
    response = _dict(record.get("response"))
    body = _dict(response.get("body"))
    error = error_words.find(response.get("body"), record.get("error"))
    status = error_words.http_status(response.get("status_code"), error)
    choices = body.get("choices")
    choice = _dict(choices[0]) if isinstance(choices, list) and choices else {}
    message = _dict(choice.get("message"))
    content, refusal = _content(message.get("content"))
    finish_reason = _text(choice.get("finish_reason"))
    early = _by_code(error) or (None if status == OK else _by_status(status, error))
    if early is Outcome.FILTERED:
        found = _Found(early, filters.fired(error.raw, body))
    elif early is not None:
        found = _Found(early)
    elif finish_reason is not None and finish_reason.lower() == "content_filter":
        found = _Found(Outcome.FILTERED, filters.fired(choice, body))
    elif content is None or is_empty(content):
        found = _without_content(_refusal(message) or refusal, cut=_is_cut(finish_reason))
    else:
        found = _with_content(content, judge, cut=_is_cut(finish_reason), surrogates=surrogates)
    return Reading(
        outcome=found.outcome,
        detail=found.detail,
        http_status=status,
        finish_reason=finish_reason,
        error_code=error.code,
        message=found.message or error.message,
        content=content,
        usage=_usage(_dict(body.get("usage"))),
        model=_text(body.get("model")),
        system_fingerprint=_text(body.get("system_fingerprint")),
        judgement=found.judgement,
    )


def _by_code(error: error_words.ProviderError) -> Outcome | None:
    """Outcomes that the provider's code names, whatever the status."""
    if not error.words:
        return None
    if error.has(error_words.EXPIRED):
        return Outcome.EXPIRED
    if error.has(error_words.CANCELLED):
        return Outcome.CANCELLED
    if error.has(error_words.TIMED_OUT):
        return Outcome.TRANSIENT
    return Outcome.FILTERED if error.has(error_words.FILTERED) else None


def _by_status(status: int | None, error: error_words.ProviderError) -> Outcome:
    """Outcome of a line that is not 200 and whose code named none."""
    if status == 400 and error_words.says_output_limit(error):
        return Outcome.TRUNCATED
    if status in {401, 402, 403} or error_words.says_no_funds(error):
        return Outcome.ACCOUNT
    if status is None or status in {0, 408, 409, 429} or 500 <= status <= 599:
        return Outcome.TRANSIENT
    return Outcome.REJECTED


def _without_content(refusal: str | None, *, cut: bool) -> _Found:
    if refusal is not None:
        return _Found(Outcome.REFUSED, message=refusal[: error_words.MESSAGE_LIMIT])
    return _Found(Outcome.TRUNCATED if cut else Outcome.EMPTY)


def _with_content(content: str, judge: Judge, *, cut: bool, surrogates: bool) -> _Found:
    verdict = judge(content)
    if isinstance(verdict, InvalidVerdict):
        return _Found(Outcome.TRUNCATED if cut else verdict.outcome, verdict.detail)
    notes = verdict.notes
    if surrogates and REPLACEMENT in content and SURROGATE not in notes:
        notes = (SURROGATE, *notes)
    if cut:
        notes = (*notes, CUT)
    return _Found(Outcome.VALID, judgement=verdict if notes is verdict.notes else replace(verdict, notes=notes))


def _is_cut(finish_reason: str | None) -> bool:
    return finish_reason is not None and finish_reason.lower() == "length"


def _refusal(message: Mapping[str, Any]) -> str | None:
    said = _text(message.get("refusal"))
    return None if said is None or is_empty(said) else said


def _content(value: object) -> tuple[str | None, str | None]:
    """Text and refusal of a message content: a string, or a list of parts whose texts are joined."""
    if not isinstance(value, list):
        return _text(value), None
    parts = [_dict(part) for part in value]
    texts = [_text(part.get("text")) for part in parts if part.get("type") == "text"]
    said = [_refusal(part) for part in parts if part.get("type") == "refusal"]
    known = [text for text in texts if text is not None]
    return "".join(known) if known else None, "\n".join(filter(None, said)) or None


def _usage(counts: Mapping[str, Any]) -> Usage:
    prompt, completion = _dict(counts.get("prompt_tokens_details")), _dict(counts.get("completion_tokens_details"))
    return Usage(
        _count(counts.get("prompt_tokens")),
        _count(prompt.get("cached_tokens")),
        _count(counts.get("completion_tokens")),
        _count(completion.get("reasoning_tokens")),
    )


def _count(value: object) -> int | None:
    """A token count; None for anything that is no whole number from 0 to ``LARGEST_COUNT``."""
    return value if type(value) is int and 0 <= value <= LARGEST_COUNT else None


def _text(value: object) -> str | None:
    return clean_text(value)[0] if isinstance(value, str) else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
