"""Small clients and data for the emulator's tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from openai import AzureOpenAI, OpenAI

from iwb_batch.emulator.http import HttpReply, HttpRequest
from iwb_batch.emulator.service import Service

KEY = "test-key"
PROMPT = 'Rate the answer. Return JSON {"score": 1, "reason": "..."}'
TEXTS = ("एक छोटी कविता", "一首短诗", "a short poem")


def line(number: int, *, attempt: int = 1, body: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One request line as an object."""
    message = {"role": "user", "content": f"{TEXTS[number % 3]} {number}\n{PROMPT}"}
    full = {"model": "gpt-5.4", "messages": [message], "max_completion_tokens": 8000} | dict(body or {})
    custom_id = f"0123456789-i{number}-c0-r1-a{attempt}"
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": full} | more


def jsonl(*lines: Any) -> bytes:
    """Lines as the bytes of a request file."""
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in lines)


def request_file(n: int, *, attempt: int = 1) -> bytes:
    """A request file of ``n`` lines."""
    return jsonl(*(line(number, attempt=attempt) for number in range(n)))


def ids(n: int, *, attempt: int = 1) -> set[str]:
    """The custom_ids of ``request_file(n)``."""
    return {line(number, attempt=attempt)["custom_id"] for number in range(n)}


def rows(data: bytes) -> list[dict[str, Any]]:
    """The objects of a downloaded file."""
    return [json.loads(text) for text in data.split(b"\n") if text]


def by_id(data: bytes) -> dict[str, dict[str, Any]]:
    """The objects of a downloaded file by custom_id."""
    return {row["custom_id"]: row for row in rows(data)}


def content(row: Mapping[str, Any]) -> Any:
    """The message content of an output row."""
    return row["response"]["body"]["choices"][0]["message"]["content"]


class Direct:
    """Calls ``Service.handle`` without HTTP in between."""

    def __init__(self, service: Service, prefix: str = "/openai/v1", key: str | None = KEY) -> None:
        self.service = service
        self._prefix = prefix
        self._headers = {} if key is None else {"api-key": key}

    def call(self, method: str, path: str, body: Any = None, **query: str) -> HttpReply:
        raw = b"" if body is None else json.dumps(body).encode()
        return self.service.handle(HttpRequest(method, self._prefix + path, query, self._headers, raw))

    def upload(self, data: bytes, name: str = "requests.jsonl", **fields: str) -> HttpReply:
        parts = {"purpose": "batch"} | fields
        text = "".join(
            f'--edge\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n' for key, value in parts.items()
        )
        head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        whole = (text + head).encode() + data + b"\r\n--edge--\r\n"
        blocks = [whole[start : start + 7000] for start in range(0, len(whole), 7000)]
        headers = {**self._headers, "content-type": "multipart/form-data; boundary=edge"}
        return self.service.handle(HttpRequest("POST", f"{self._prefix}/files", {}, headers, blocks))

    def file(self, data: bytes, name: str = "requests.jsonl", **fields: str) -> str:
        """Upload and wait until the file is processed; its id."""
        file_id = str(self.upload(data, name, **fields).json()["id"])
        while self.call("GET", f"/files/{file_id}").json()["status"] == "pending":
            pass
        return file_id

    def create(self, file_id: str, **more: Any) -> HttpReply:
        body = {"input_file_id": file_id, "endpoint": "/chat/completions", "completion_window": "24h"} | more
        return self.call("POST", "/batches", body)

    def submit(self, data: bytes, **more: Any) -> str:
        """Upload and create; the batch's id."""
        return str(self.create(self.file(data), **more).json()["id"])

    def poll(self, batch_id: str) -> dict[str, Any]:
        value: dict[str, Any] = self.call("GET", f"/batches/{batch_id}").json()
        return value

    def finish(self, batch_id: str) -> dict[str, Any]:
        """Poll to the end."""
        for _ in range(50):
            value = self.poll(batch_id)
            if value["status"].lower() in ("completed", "failed", "expired", "cancelled"):
                return value
        raise AssertionError(value["status"])

    def run(self, data: bytes) -> tuple[dict[str, Any], bytes, bytes]:
        """A whole batch: its last state, the bytes of its output and of its error file."""
        batch = self.finish(self.submit(data))
        return batch, self.content(batch["output_file_id"]), self.content(batch["error_file_id"])

    def content(self, file_id: str | None) -> bytes:
        return self.call("GET", f"/files/{file_id}/content").read() if file_id else b""


@contextmanager
def sdk(url: str, surface: str, key: str = KEY) -> Iterator[OpenAI]:
    """The real SDK on one surface, without retries of its own."""
    if surface == "classic":
        client: OpenAI = AzureOpenAI(azure_endpoint=url, api_key=key, api_version="2025-04-01-preview", max_retries=0)
    else:
        base = f"{url}/openai/v1/" if surface == "v1" else f"{url}/v1"
        client = OpenAI(base_url=base, api_key=key, max_retries=0)
    with client:
        yield client
