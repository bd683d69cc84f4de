"""The error of one line: where the dialects put it, and what its code and text mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iwb_batch.core.lines import clean_text

MESSAGE_LIMIT = 2_000
"""Characters of the provider's words that are kept."""

CODE_LIMIT = 200

EXPIRED = frozenset({"batchexpired"})
CANCELLED = frozenset({"batchcancelled", "batchcanceled"})
TIMED_OUT = frozenset({"requesttimeout"})
FILTERED = frozenset({"contentfilter", "contentpolicyviolation", "responsibleaipolicyviolation"})
NO_FUNDS = frozenset(
    {
        "accountdeactivated",
        "accountoverdue",
        "billinghardlimitreached",
        "billinglimitreached",
        "billingnotactive",
        "insufficientbalance",
        "insufficientfunds",
        "insufficientquota",
        "paymentrequired",
        "quotaexceeded",
    }
)

_NO_FUNDS_TEXT = ("exceeded your current quota", "insufficient balance", "insufficient funds", "credit balance")
_OUTPUT_LIMIT_CODES = frozenset({"outputlimitreached", "maxtokensreached", "lengthlimitreached"})


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error as found in a line; ``words`` are its codes without case, dashes and underscores."""

    code: str | None = None
    message: str | None = None
    words: frozenset[str] = frozenset()
    raw: Mapping[str, Any] | None = None

    def has(self, words: frozenset[str]) -> bool:
        """Whether one of the error's codes is among these words."""
        return not self.words.isdisjoint(words)


_NO_ERROR = ProviderError()


def find(body: object, top: object) -> ProviderError:
    """Find the error of a line.

    Azure and OpenAI nest it in ``response.body.error`` and leave the top-level ``error`` null; requests that
    never ran carry it at the top; vLLM puts an object around it or sends plain text.
    """
    inner = body.get("error") if isinstance(body, dict) else body
    if inner is None and top is None:
        return _NO_ERROR
    for candidate in (inner, top):
        error = _read(candidate)
        if error is not None:
            return error
    return _NO_ERROR


def http_status(value: object, error: ProviderError) -> int | None:
    """The status of a line: its status code, else a code of the error that is an HTTP error status."""
    status = _integer(value)
    if status is None and error.code is not None and len(error.code) == 3:
        status = _integer(error.code)
        return status if status is not None and 400 <= status <= 599 else None
    return status if status is not None and 0 <= status <= 999 else None


def says_output_limit(error: ProviderError) -> bool:
    """Whether a refusal means that the answer ran into the output limit, not that the limit asked for is bad."""
    if error.has(_OUTPUT_LIMIT_CODES):
        return True
    text = (error.message or "").lower()
    about_output = any(
        word in text for word in ("output limit", "output token limit", "max_tokens", "completion_tokens")
    )
    unfinished = "could not finish" in text or "before the message was complete" in text
    return about_output and "limit" in text and ("reached" in text or unfinished) and "rate limit" not in text


def says_no_funds(error: ProviderError) -> bool:
    """Whether the account has run out of money or quota; a plain rate limit has other codes and words."""
    if error.has(NO_FUNDS):
        return True
    named = any(not word.isdigit() for word in error.words)
    return not named and any(words in (error.message or "").lower() for words in _NO_FUNDS_TEXT)


def _read(value: object) -> ProviderError | None:
    if isinstance(value, str):
        text = clean_text(value)[0].strip()
        return ProviderError(message=text[:MESSAGE_LIMIT]) if text else None
    if not isinstance(value, dict):
        return None
    nested = value.get("error")
    if isinstance(nested, dict | str) and nested:
        return _read_once(nested)
    return _read_once(value) if value else None


def _read_once(value: Mapping[str, Any] | str) -> ProviderError:
    if isinstance(value, str):
        return ProviderError(message=clean_text(value)[0][:MESSAGE_LIMIT])
    inner = value.get("innererror")
    codes = [_code(value.get("code")), _code(value.get("type"))]
    inner_code = _code(inner.get("code")) if isinstance(inner, dict) else None
    message = value.get("message")
    return ProviderError(
        code=next((code for code in codes if code), None),
        message=clean_text(message)[0][:MESSAGE_LIMIT] if isinstance(message, str) else None,
        words=frozenset(_bare(code) for code in (*codes, inner_code) if code),
        raw=value,
    )


def _code(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    if isinstance(value, int) and abs(value) >= 10**CODE_DIGITS:
        return None
    return clean_text(str(value))[0].strip()[:CODE_LIMIT] or None


CODE_DIGITS = 18
"""Digits of a numeric code; longer numbers are no codes."""


def _bare(code: str) -> str:
    return "".join(character for character in code.lower() if character.isalnum())


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and len(value) <= 3 and value.isascii() and value.isdigit():
        return int(value)
    return None
