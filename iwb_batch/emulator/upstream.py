"""A judge that asks a real OpenAI-compatible endpoint: it makes a Batch API of a local model server.

Bodies go there and come back as they are. Only the HTTP client of the SDK is used, not the SDK itself: it would add
what it finds in the environment, and read the answer into objects of its own.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

import openai
import orjson

from iwb_batch.emulator.judge import Completion, Interrupted, LineError
from iwb_batch.emulator.target import TOKEN_PARAMETERS, Target

TRIES = 8
"""Calls for one line before its last error stands; the waits between them add up to about two minutes."""

FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0
"""Seconds before the second call, doubled each time up to the longest, where the endpoint names no time."""

LONGEST_ASKED = 900.0
"""Seconds waited at most where the endpoint names a time."""

CONNECT_SECONDS, ANSWER_SECONDS = 10.0, 1800.0
"""A small machine may think long about one answer."""

PASSING = frozenset({408, 409, 429})
"""Statuses that are tried again, besides 5xx."""

BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Reply:
    """What one call came to: status, JSON for the line, and the wait the endpoint asks for in seconds."""

    status: int
    body: Any
    completion: Completion | None = None
    wait: float | None = None

    @property
    def passing(self) -> bool:
        """Whether another call may do better."""
        return self.completion is None and (self.status in PASSING or self.status >= 500)


class Upstream:
    """Sends each body to ``<url>/chat/completions`` and passes the answer on as it is.

    ``model`` replaces the model named in the body; ``token_parameter`` is the name under which the endpoint reads the
    limit of output tokens. What fails for the moment is tried again, ``tries`` calls in all; every other error is the
    line's own. ``sleep`` takes seconds, ``chance`` gives 0 to 1 and spreads the waits,
    ``clock`` gives Unix seconds. Raises UsageError for an address that cannot be used.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        model: str | None = None,
        token_parameter: str | None = None,
        tries: int = TRIES,
        sleep: Callable[[float], object] | None = None,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        target = Target.of(url, has_key=key is not None)
        self._url = target.chat
        self._model = model
        self._token_parameter = token_parameter
        self._secret = key
        self._tries = tries
        self._stopped = threading.Event()
        self._sleep = sleep or self._stopped.wait
        self._chance = chance
        self._clock = clock
        library = http_library()
        self._failures: tuple[type[Exception], ...] = (library.RequestError,)
        self._client: Any = openai.DefaultHttpxClient(
            timeout=library.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            follow_redirects=False,
            # A proxy named in the environment must not see what is meant for this machine.
            trust_env=not target.loopback,
        )
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    def answer(self, body: Mapping[str, Any]) -> Completion:
        """The endpoint's own chat completion, in ``raw``; raises LineError, or Interrupted after ``stop``."""
        if body.get("stream"):
            raise LineError(400, details("A line of a batch cannot ask for a stream."))
        content = orjson.dumps(self._sent(body))
        for turn in range(1, self._tries + 1):
            if self._stopped.is_set():
                raise Interrupted
            reply = self._ask(content)
            if reply.completion is not None:
                return reply.completion
            if not reply.passing or turn == self._tries:
                break
            self._sleep(self._back_off(turn) if reply.wait is None else min(reply.wait, LONGEST_ASKED))
        raise LineError(reply.status, reply.body)

    def stop(self) -> None:
        """End every wait; what was waiting is as if it had never been asked."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections."""
        self._stopped.set()
        self._client.close()

    def _sent(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        sent = dict(body) if self._model is None else {**body, "model": self._model}
        if self._token_parameter is not None:
            limits = [sent.pop(name) for name in TOKEN_PARAMETERS if name in sent]
            if limits:
                sent[self._token_parameter] = limits[-1]
        return sent

    def _back_off(self, turn: int) -> float:
        longest: float = min(FIRST_WAIT * 2 ** (turn - 1), LONGEST_WAIT)
        return longest * (0.5 + self._chance() / 2)

    def _ask(self, content: bytes) -> Reply:
        try:
            response = self._client.post(self._url, content=content, headers=self._headers)
        except self._failures as error:
            why = self._without_secret(str(error).encode()).decode() or type(error).__name__
            return Reply(503, details(f"The upstream endpoint did not answer: {why}"))
        raw: bytes = response.content
        status: int = response.status_code
        if status != 200:
            return Reply(status, self._error_body(raw), wait=asked_wait(response.headers, self._clock()))
        completion = read_completion(raw)
        return Reply(200 if completion else 502, details("The upstream endpoint sent no chat completion."), completion)

    def _error_body(self, raw: bytes) -> Any:
        """The endpoint's own words as they are where they are a JSON object, else as a message."""
        shown = self._without_secret(raw)
        if isinstance(strict_json(shown), dict):
            return orjson.Fragment(one_line(shown))
        return details(shown.decode("utf-8", "replace").strip()[:500] or "The upstream endpoint gave no reason.")

    def _without_secret(self, raw: bytes) -> bytes:
        return raw.replace(self._secret.encode(), b"***") if self._secret else raw


def http_library() -> ModuleType:
    """The HTTP library under the installed SDK: ``httpx`` or its successor ``httpx2``."""
    roots = (kind.__module__.partition(".")[0] for kind in openai.DefaultHttpxClient.__mro__)
    return import_module(next(root for root in roots if root.startswith("httpx")))


def details(message: str) -> dict[str, Any]:
    """An error body in the usual shape."""
    return {"error": {"message": message, "type": "upstream_error", "param": None, "code": None}}


def one_line(raw: bytes) -> bytes:
    """JSON text as it is, on one line: outside of strings a line break is white space, inside none is allowed."""
    return raw.removeprefix(BOM).strip().replace(b"\r", b" ").replace(b"\n", b" ")


def strict_json(raw: bytes) -> Any:
    """The value of UTF-8 JSON text, without NaN and Infinity; None when it is not that."""
    try:
        return json.loads(raw.removeprefix(BOM).decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def read_completion(raw: bytes) -> Completion | None:
    """The chat completion as it came; None when the text is something else."""
    value = strict_json(raw)
    choices = value.get("choices") if isinstance(value, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(value, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    return Completion(
        content=message.get("content"),
        finish_reason=choice.get("finish_reason") or "stop",
        refusal=message.get("refusal"),
        model=value.get("model") or "",
        system_fingerprint=value.get("system_fingerprint"),
        raw=one_line(raw),
    )


def asked_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by ``retry-after-ms`` or ``retry-after`` (seconds or a date); None without a usable one."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(0.0, seconds)
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now)
    except (TypeError, ValueError):
        return None
