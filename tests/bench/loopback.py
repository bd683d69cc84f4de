"""A server on this machine that takes and gives one large file, and does nothing else."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BLOCK = 1 << 20


class Server(ThreadingHTTPServer):
    """Knows the file it gives, and how many bytes were taken with each upload."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.path = path
        self.taken: list[int] = []

    @property
    def address(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    wbufsize = 0
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class calls it so)
        """Say nothing."""

    def do_POST(self) -> None:
        """Take an upload."""
        taken = self._counted() if "Content-Length" in self.headers else self._chunked()
        self.server.taken.append(taken)
        self._object()

    def do_GET(self) -> None:
        """Give the file, or the object that describes it."""
        if not self.path.endswith("/content"):
            self._object()
            return
        self._head("application/octet-stream", self.server.path.stat().st_size)
        with self.server.path.open("rb") as source:
            shutil.copyfileobj(source, self.wfile, BLOCK)

    def _counted(self) -> int:
        length = left = int(self.headers["Content-Length"])
        while left and (block := self.rfile.read(min(left, BLOCK))):
            left -= len(block)
        return length - left

    def _chunked(self) -> int:
        taken = 0
        while size := int(self.rfile.readline(), 16):
            taken += len(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return taken

    def _head(self, kind: str, length: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _object(self) -> None:
        body = {"id": "file-large", "object": "file", "status": "processed", "purpose": "batch", "bytes": 1}
        text = json.dumps({**body, "filename": "bench.jsonl", "created_at": 1_790_000_000}).encode()
        self._head("application/json", len(text))
        self.wfile.write(text)


@contextmanager
def serving(path: Path) -> Iterator[Server]:
    """Serve until the block ends."""
    server = Server(path)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
