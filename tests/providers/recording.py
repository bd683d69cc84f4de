"""An HTTP server on loopback that records each request and plays scripted replies, faults of the wire included."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import parse_qs, urlsplit

Fault = Literal["none", "drop-unread", "drop-read", "cut", "stall"]


@dataclass(frozen=True)
class Recorded:
    """One request as it came over the wire; header names in lower case."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    n_bytes: int
    sha256: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def wire_text(self) -> str:
        """Everything of the request but its body."""
        return f"{self.path} {self.query} {self.headers}"


@dataclass(frozen=True)
class Play:
    """One reply. ``drop-unread`` closes before the body is read, ``drop-read`` after, ``cut`` sends half of it,
    ``stall`` answers nothing until the server ends."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    fault: Fault = "none"

    @property
    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    @property
    def content_type(self) -> str:
        return self.headers.get(
            "content-type", "application/octet-stream" if isinstance(self.body, bytes) else "application/json"
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name belongs to http.server
        """Nothing: the record is the log."""

    def _answer(self) -> None:
        play = self.server.owner.next_play()
        if play.fault == "drop-unread":
            self._record(b"", 0, hashlib.sha256())
            self._hang_up()
            return
        self._record(*self._read())
        if play.fault == "stall":
            self.server.owner.ending.wait()
        if play.fault in {"drop-read", "stall"}:
            self._hang_up()
            return
        payload = play.payload
        self.send_response(play.status)
        self.send_header("Content-Type", play.content_type)
        self.send_header("Content-Length", str(len(payload)))
        for name, value in play.headers.items():
            if name != "content-type":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(payload[: len(payload) // 2] if play.fault == "cut" else payload)
        if play.fault == "cut":
            self._hang_up()

    do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - the names belong to http.server

    def _hang_up(self) -> None:
        self.close_connection = True
        with suppress(OSError):  # the client may have gone first
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def _read(self) -> tuple[bytes, int, Any]:
        left = int(self.headers.get("Content-Length") or 0)
        total, digest, kept = left, hashlib.sha256(), bytearray()
        while left:
            chunk = self.rfile.read(min(left, 1 << 16))
            if not chunk:
                break
            left -= len(chunk)
            digest.update(chunk)
            if self.server.owner.keep_bodies:
                kept += chunk
        return bytes(kept), total - left, digest

    def _record(self, body: bytes, n_bytes: int, digest: Any) -> None:
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.owner.requests.append(
            Recorded(self.command, url.path, parse_qs(url.query), headers, body, n_bytes, digest.hexdigest())
        )


class _Server(ThreadingHTTPServer):
    owner: RecordingServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection the script or the client broke off is no error of the server."""


class RecordingServer:
    """The server; a context manager. An exhausted script answers 501, so that a call too many shows."""

    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        self.keep_bodies = True
        self.ending = threading.Event()
        self._script: deque[Play] = deque()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def play(self, *plays: Play) -> None:
        self._script.extend(plays)

    def next_play(self) -> Play:
        return self._script.popleft() if self._script else Play({"error": {"code": "unscripted"}}, status=501)

    @property
    def posts(self) -> list[Recorded]:
        return [r for r in self.requests if r.method == "POST"]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ending.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port of loopback that is taken, so that no other test gets it, and refuses every connection."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
