"""A judge that asks a real OpenAI-compatible endpoint: it makes a Batch API of a local model server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai
import orjson

from iwb_batch.emulator.judge import Completion, LineError

RETRIES = 5
TIMEOUT_SECONDS = 600.0


class Upstream:
    """Sends each line to ``<url>/chat/completions`` and passes the answer on as it is.

    429 and 5xx are tried again by the SDK, which honours Retry-After; what still fails becomes an error line.
    """

    def __init__(self, url: str, key: str | None = None, *, retries: int = RETRIES) -> None:
        self._client = openai.OpenAI(base_url=url, api_key=key or "none", max_retries=retries, timeout=TIMEOUT_SECONDS)

    def answer(self, body: Mapping[str, Any]) -> Completion:
        """The endpoint's own chat completion, in ``raw``."""
        try:
            reply = self._client.chat.completions.with_raw_response.create(
                model=body.get("model", ""),
                messages=body["messages"],
                extra_body={name: value for name, value in body.items() if name not in ("model", "messages")},
            )
        except openai.APIStatusError as error:
            raise LineError(error.status_code, {"error": _details(error.body, error.message)}) from error
        except openai.APIConnectionError as error:
            raise LineError(503, {"error": _details(None, f"the upstream endpoint did not answer: {error}")}) from error
        return _completion(reply.text)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _details(body: object, message: str) -> Mapping[str, Any]:
    if isinstance(body, Mapping):
        return body
    return {"message": message, "type": "upstream_error", "param": None, "code": None}


def _completion(text: str) -> Completion:
    """The reply as it came; raises LineError 502 when it is not a chat completion."""
    try:
        raw = orjson.loads(text)
        choice = raw["choices"][0]
        message = choice["message"]
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError) as error:
        raise LineError(502, {"error": _details(None, "the upstream endpoint sent no chat completion")}) from error
    return Completion(
        content=message.get("content"),
        finish_reason=choice.get("finish_reason") or "stop",
        refusal=message.get("refusal"),
        model=raw.get("model") or "",
        system_fingerprint=raw.get("system_fingerprint"),
        raw=raw,
    )
