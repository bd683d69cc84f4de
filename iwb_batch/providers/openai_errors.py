"""Puts failures of the SDK and of its HTTP library into the port's three words.

Bodies are read from the reply itself: from openai 3.38 on, ``str(error)`` leaves out the codes of an ``errors`` body.
"""

from __future__ import annotations

import json
import math
import ssl
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from iwb_batch.providers.base import Ambiguous, CallFailed, ProviderMessage, Rejected, Unavailable
from iwb_batch.providers.redaction import redact

_MESSAGE_CHARS = 1000
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")


class Reply(Protocol):
    """What is read of a reply: its headers and its whole body."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Case-insensitive headers."""

    @property
    def content(self) -> bytes:
        """The body, decompressed."""


def transport() -> ModuleType:
    """The HTTP library the installed SDK stands on: ``httpx2`` from openai 3 on, ``httpx`` before."""
    import openai

    roots = (kind.__module__.partition(".")[0] for kind in openai.DefaultHttpxClient.__mro__)
    return import_module(next(root for root in roots if root in {"httpx", "httpx2"}))


@contextmanager
def translated(action: str, *, post: bool, secrets: Iterable[str] = ()) -> Iterator[None]:
    """Raise every failure of the enclosed call as Rejected, Unavailable or Ambiguous.

    ``action`` begins the message (``creating the batch``). ``post`` marks calls that change something at the provider
    and must not be made twice.
    """
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        raise _of_status(action, error.response, post=post, secrets=secrets) from None
    except (openai.APIError, transport().RequestError, ssl.SSLError) as error:
        raise _of_transport(action, error, post=post, secrets=secrets) from None


def unreadable(action: str, why: str, *, post: bool, errors: tuple[ProviderMessage, ...] = ()) -> CallFailed:
    """The error for a reply that says success and cannot be understood."""
    if post:
        return Ambiguous(f"{action}: {why}, so it is unknown whether it happened", status=200, errors=errors)
    return Unavailable(f"{action}: {why}", status=200, errors=errors)


def json_object(reply: Reply, action: str, *, post: bool) -> dict[str, Any]:
    """The JSON object of a successful reply; Unavailable or Ambiguous when there is none."""
    kind = reply.headers.get("content-type", "")
    if is_page(kind):
        raise unreadable(action, "a web page came instead of JSON (a proxy or another server answered)", post=post)
    try:
        value = json.loads(reply.content)
    except (ValueError, RecursionError):
        raise unreadable(action, "the reply is not JSON", post=post) from None
    if not isinstance(value, dict):
        raise unreadable(action, "the reply is not a JSON object", post=post)
    return value


def is_page(content_type: str) -> bool:
    """True for a content type of web pages, which no call of the API answers with."""
    return content_type.strip().lower().startswith("text/html")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the server asks to wait, from ``retry-after-ms`` or ``retry-after`` (seconds or a date)."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return _until(headers.get("retry-after", ""), headers.get("date", ""))


def _until(when: str, now: str) -> float | None:
    """Seconds from the reply's own ``Date`` (this clock where it has none) until an HTTP date."""
    try:
        end = _aware(parsedate_to_datetime(when))
    except (TypeError, ValueError):
        return None
    try:
        start = _aware(parsedate_to_datetime(now))
    except (TypeError, ValueError):
        start = datetime.now(UTC)
    return max(0.0, (end - start).total_seconds())


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def provider_messages(body: object, secrets: Iterable[str] = ()) -> tuple[ProviderMessage, ...]:
    """The errors in a body: ``error`` object or text, ``errors`` list with or without ``data``, bare object, text."""
    found = tuple(_entry(e, secrets) for e in _error_entries(body))
    return tuple(m for m in found if m.code or m.message)


def _error_entries(body: object) -> list[object]:
    if isinstance(body, list):
        return body
    if not isinstance(body, dict):
        return [body] if body else []
    for key in ("error", "errors"):
        inner = body.get(key)
        if isinstance(inner, dict) and isinstance(inner.get("data"), list):
            return list(inner["data"])
        if isinstance(inner, list):
            return inner
        if inner:
            return [inner]
    return [body] if any(body.get(key) for key in ("code", "message", "detail")) else []


def _entry(value: object, secrets: Iterable[str]) -> ProviderMessage:
    if not isinstance(value, dict):
        return ProviderMessage(None, _text(value, secrets))
    message = value.get("message") or value.get("detail") or ""
    line = value.get("line")
    return ProviderMessage(
        code=_text(value["code"], secrets) if value.get("code") not in (None, "") else None,
        message=_text(message, secrets),
        line=line if isinstance(line, int) and not isinstance(line, bool) else None,
        param=_text(value["param"], secrets) if value.get("param") not in (None, "") else None,
    )


def _text(value: object, secrets: Iterable[str]) -> str:
    """One line of text, redacted before it is cut, so that no cut can spare half a secret."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return redact(" ".join(text.split()), secrets)[:_MESSAGE_CHARS]


def _body(response: Any) -> object:
    content: bytes = response.content
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        text = content.decode("utf-8", "replace").strip()
    return None if is_page(response.headers.get("content-type", "")) or text[:1] == "<" else text


def _of_status(action: str, response: Any, *, post: bool, secrets: Iterable[str]) -> CallFailed:
    status: int = response.status_code
    errors = provider_messages(_body(response), secrets)
    shown = "; ".join(": ".join(p for p in (m.code, m.message) if p) for m in errors)
    if 300 <= status < 400:
        shown = "the address leads elsewhere and was not followed"
    message = f"{action}: HTTP {status}" + (f": {shown}" if shown else "")
    wait = retry_after(response.headers)
    if status == 429:
        word: type[CallFailed] = Unavailable
    elif status in {408, 409} or status >= 500:
        word = Ambiguous if post else Unavailable
    else:
        word = Rejected
    return word(message, status=status, errors=errors, retry_after=wait)


def _of_transport(action: str, error: BaseException, *, post: bool, secrets: Iterable[str]) -> CallFailed:
    """No reply. A call that surely never reached the server is Unavailable, also for a POST."""
    chain = list(_causes(error))
    # The names are the same in httpx and httpx2, and older SDKs may carry either.
    never_sent = any(type(e).__name__ in _NOT_SENT for e in chain)
    reason = _text(str(chain[-1]) or type(chain[-1]).__name__, secrets)
    if post and not never_sent:
        return Ambiguous(f"{action}: the reply was lost ({reason})")
    return Unavailable(f"{action}: no reply ({reason})")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its explicit causes down to the HTTP library's own error."""
    names = {"httpx", "httpx2", "openai"}
    current: BaseException | None = error
    while current is not None and type(current).__module__.partition(".")[0] in names | {"ssl"}:
        yield current
        current = current.__cause__
