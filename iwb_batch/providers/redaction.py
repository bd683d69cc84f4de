"""Keeps credentials out of text and logs: known secret values, credential headers in any spelling, masked keys.

The openai SDK may configure logging by itself when it is imported (``OPENAI_LOG``), after any filter could have been
put on a handler. So records are cleaned where they are made: that covers every logger, handler and level.
"""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterable
from typing import Any

REDACTED = "<redacted>"
SHORTEST_ANYWHERE = 8
"""Characters from which a secret is redacted inside longer words too."""

_HEADER_VALUE = re.compile(
    r"""(?P<name>(?:api-key|x-api-key|ocp-apim-subscription-key|(?:proxy-)?authorization)(?:["']?\s*[:=]|["']\s*,)\s*)
        (?:b?(?P<quote>["'])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)
           |(?P<bare>(?:(?:bearer|basic)\s+)?[^\s"'<,;)}\]]+))""",
    re.IGNORECASE | re.VERBOSE,
)
_BEARER = re.compile(r"\bbearer\s+(?=\S*\d)[A-Za-z0-9._~+/=-]{3,}", re.IGNORECASE)
_MASKED = re.compile(r"[A-Za-z0-9_-]*\*{3,}[A-Za-z0-9_*-]*")


def redact(text: str, secrets: Iterable[str]) -> str:
    """``text`` without secrets, values of credential headers, bearer tokens and keys masked with asterisks.

    A provider that echoes ``sk-ab****wxyz`` still shows a part of the key, so masked keys go too.
    """
    for secret in sorted({s for s in secrets if s}, key=len, reverse=True):
        if len(secret) >= SHORTEST_ANYWHERE:
            text = text.replace(secret, REDACTED)
        else:  # the key of an emulator: inside other words it is a coincidence, and error codes must stay readable
            text = re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", REDACTED, text)
    text = _HEADER_VALUE.sub(_without_value, text)
    return _MASKED.sub(REDACTED, _BEARER.sub(f"Bearer {REDACTED}", text))


def _without_value(match: re.Match[str]) -> str:
    quote = match["quote"] or ""
    return f"{match['name']}{quote}{REDACTED}{quote}"


class _CleanRecords:
    """A log record factory that redacts message, arguments and traceback of each record it makes."""

    def __init__(self, make: Callable[..., logging.LogRecord], secrets: set[str]) -> None:
        self.make = make
        self.secrets = secrets

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:  # the signature belongs to logging
        record = self.make(*args, **kwargs)
        self._clean_message(record)
        if record.exc_info and record.exc_info[0] is not None:
            shown = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            # Formatters print exc_text where it is set, so the traceback is never formatted again.
            record.exc_text = redact(shown, self.secrets)
        if record.stack_info:
            record.stack_info = redact(record.stack_info, self.secrets)
        return record

    def _clean_message(self, record: logging.LogRecord) -> None:
        try:
            shown = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # Left alone, logging would report the bad format on stderr together with the arguments.
            record.msg, record.args = redact(f"{record.msg} {record.args!r}", self.secrets), None
            return
        cleaned = redact(shown, self.secrets)
        if cleaned != shown:
            record.msg, record.args = cleaned, None


def install(secrets: Iterable[str] = ()) -> None:
    """Redact every log record from now on; a further call adds secrets."""
    current = logging.getLogRecordFactory()
    if isinstance(current, _CleanRecords):
        current.secrets.update(s for s in secrets if s)
        return
    logging.setLogRecordFactory(_CleanRecords(current, {s for s in secrets if s}))
