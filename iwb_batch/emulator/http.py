"""HTTP as plain data: what the service is handed and what it gives back.

A reply's body is bytes or a file on disk, so that a download of any size is streamed. ``cut`` tells the
front how to break the connection on purpose.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson

BLOCK = 1 << 18


class Cut(StrEnum):
    """How a connection ends before its reply is whole."""

    RESET = "reset"
    """Closed without one byte of a reply."""
    SHORT = "short"
    """The full ``Content-Length`` is announced, about half of the body is sent."""
    SILENT = "silent"
    """No length is announced and about half of the body is sent: the reader cannot tell."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One call. ``headers`` have lower-case names; ``body`` is bytes, or blocks read once as they arrive."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterable[bytes] = b""

    def blocks(self) -> Iterator[bytes]:
        """The body as it arrives."""
        if isinstance(self.body, bytes):
            yield self.body
        else:
            yield from self.body

    def text(self) -> bytes:
        """The whole body; for the small JSON ones."""
        return b"".join(self.blocks())


@dataclass(slots=True)
class HttpReply:
    """One reply. ``length`` limits how many bytes of a file are sent; ``cut`` breaks the connection."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | Path = b""
    length: int | None = None
    cut: Cut | None = None

    @property
    def size(self) -> int:
        """Bytes of the body when it is sent whole."""
        if isinstance(self.body, bytes):
            return len(self.body)
        return self.body.stat().st_size if self.length is None else self.length

    def blocks(self, limit: int | None = None) -> Iterator[bytes]:
        """The body in blocks, at most ``limit`` bytes of it."""
        left = self.size if limit is None else min(limit, self.size)
        if isinstance(self.body, bytes):
            yield self.body[:left]
            return
        with self.body.open("rb") as stream:
            while left > 0 and (block := stream.read(min(BLOCK, left))):
                left -= len(block)
                yield block

    def read(self) -> bytes:
        """The whole body as bytes; for callers without HTTP in between."""
        return b"".join(self.blocks())

    def json(self) -> Any:
        """The body read as JSON."""
        return orjson.loads(self.read())


class ApiError(Exception):
    """A call the service refuses: HTTP status and JSON body, ready to be sent."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status
        self.body = body
        self.headers = dict(headers or {})

    @classmethod
    def of(cls, status: int, code: str, message: str, *, param: str | None = None) -> ApiError:
        """The usual shape, under the key ``error``."""
        return cls(status, {"error": {"code": code, "message": message, "param": param, "type": kind_of(status)}})

    @classmethod
    def listed(cls, *errors: Mapping[str, Any]) -> ApiError:
        """The shape of a refused create: a list under the key ``errors``."""
        return cls(400, {"errors": {"object": "list", "data": [dict(error) for error in errors]}})

    def reply(self) -> HttpReply:
        """The refusal as a reply."""
        reply = json_reply(self.body, self.status)
        reply.headers.update(self.headers)
        return reply


def kind_of(status: int) -> str:
    """The ``type`` word that goes with an HTTP status in an error body."""
    if status == 429:
        return "requests"
    return "server_error" if status >= 500 else "invalid_request_error"


def json_reply(value: Any, status: int = 200) -> HttpReply:
    """A JSON reply (an object, or JSON text as a fragment) with fresh request ids in the headers."""
    request_id = str(uuid.uuid4())
    headers = {"content-type": "application/json", "apim-request-id": request_id, "x-request-id": request_id}
    return HttpReply(status, headers, orjson.dumps(value))


def html_reply(status: int) -> HttpReply:
    """A page of HTML, as a gateway in front of the service sends it."""
    page = b"<html><head><title>gateway</title></head><body>The gateway could not serve this.</body></html>"
    return HttpReply(status, {"content-type": "text/html"}, page)
