"""A small chat endpoint on ``http.server``: what it is asked is counted, what it answers is scripted."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT = 30.0
"""Seconds after which a test that hangs fails."""


@dataclass
class Answer:
    """What a call is answered with; status 0 closes the connection without a reply."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    """One call: its place among all calls, its place among the calls with the same prompt, what was sent."""

    call: int
    turn: int
    body: dict[str, Any]
    headers: dict[str, str]
    path: str

    @property
    def prompt(self) -> str:
        """The text of the last message."""
        return str(self.body["messages"][-1]["content"])


Script = Callable[[Asked], Answer]


def completion(text: str = '{"score": 7, "reason": "ठीक है"}', model: str = "open-judge") -> bytes:
    """A chat completion in the bytes a server might send."""
    message = {"role": "assistant", "content": text}
    value = {
        "id": "chatcmpl-1",
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }
    return json.dumps(value, ensure_ascii=False).encode()


def fine(_: Asked) -> Answer:
    """The same good answer to everything."""
    return Answer(completion())


class Endpoint:
    """Counts calls and how many are in flight; ``script`` answers them."""

    def __init__(self, script: Script = fine) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.changed = threading.Condition()
        self.url = ""

    @property
    def turns(self) -> Counter[str]:
        """How often each prompt came."""
        return Counter(asked.prompt for asked in self.asked)

    def wait_until(self, true: Callable[[], bool]) -> None:
        """Wait for something that calls change."""
        with self.changed:
            assert self.changed.wait_for(true, WAIT)

    def answer(self, path: str, headers: dict[str, str], raw: bytes) -> Answer:
        """Count one call and answer it."""
        body = json.loads(raw)
        with self.changed:
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            asked = Asked(len(self.asked) + 1, 1, body, headers, path)
            asked.turn = 1 + self.turns[asked.prompt]
            self.asked.append(asked)
            self.changed.notify_all()
        try:
            return self.script(asked)
        finally:
            with self.changed:
                self.in_flight -= 1
                self.changed.notify_all()


def handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    """The handler class that hands calls to ``endpoint``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = endpoint.answer(self.path, headers, raw)
            if answer.status == 0:
                self.close_connection = True
                return
            # Whoever asked may have been killed meanwhile.
            with suppress(ConnectionError):
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def answering(script: Script = fine) -> Iterator[Endpoint]:
    """An endpoint on a free port; its ``url`` ends in ``/v1``."""
    endpoint = Endpoint(script)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(endpoint)) as server:
        server.daemon_threads = True
        server.block_on_close = False
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join(WAIT)
