"""The HTTP front of the service: an ASGI application on uvicorn, with connections that can be broken.

A connection fault has to reach below ASGI: the protocol class keeps each connection's transport, found again
by the client's address.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Any

import anyio.from_thread
import anyio.to_thread
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from iwb_batch.emulator.http import Cut, HttpReply, HttpRequest
from iwb_batch.emulator.service import Service
from iwb_batch.errors import IwbError

START_SECONDS = 30.0
Connections = dict[tuple[str, int], asyncio.Transport]


class Front:
    """The ASGI application: hands each call to the service in a worker thread and sends what it gives back."""

    def __init__(self, service: Service, connections: Connections) -> None:
        self._service = service
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One HTTP call."""
        request = Request(scope, receive)
        stream = request.stream()
        try:
            reply = await anyio.to_thread.run_sync(self._handle, request, stream)
            if reply.cut is not None:
                await self._break(request, reply, receive)
                return
            async for _ in stream:
                pass
        except ClientDisconnect:
            return
        await response(reply)(scope, receive, send)

    def _handle(self, request: Request, stream: AsyncIterator[bytes]) -> HttpReply:
        def blocks() -> Iterator[bytes]:
            while block := anyio.from_thread.run(anext, stream, b""):
                yield block

        call = HttpRequest(
            method=request.method,
            path=request.url.path,
            query=dict(request.query_params),
            headers=dict(request.headers),
            body=blocks(),
        )
        return self._service.handle(call)

    async def _break(self, request: Request, reply: HttpReply, receive: Receive) -> None:
        transport = self._connections.get((request.client.host, request.client.port)) if request.client else None
        if transport is not None:
            if reply.cut is not Cut.RESET:
                await send_part(transport, reply)
            # Closing flushes what was written; a reset must not wait for the rest of an upload.
            (transport.abort if reply.cut is Cut.RESET else transport.close)()
        while (await receive())["type"] != "http.disconnect":
            pass


def response(reply: HttpReply) -> Response:
    """The reply as a Starlette response; a file is streamed."""
    if isinstance(reply.body, bytes):
        return Response(reply.body, reply.status, reply.headers)
    headers = {**reply.headers, "content-length": str(reply.size)}
    return StreamingResponse(reply.blocks(), reply.status, headers)


async def send_part(transport: asyncio.Transport, reply: HttpReply) -> None:
    """Write the head and about half of the body straight to the connection."""
    part = max(1, reply.size // 2)
    head = [f"HTTP/1.1 {reply.status} {HTTPStatus(reply.status).phrase}"]
    head += [f"{name}: {value}" for name, value in reply.headers.items()]
    if reply.cut is Cut.SHORT:
        head.append(f"content-length: {reply.size}")
    transport.write("\r\n".join([*head, "connection: close", "", ""]).encode("latin-1"))
    for block in reply.blocks(part):
        transport.write(block)
        while transport.get_write_buffer_size() > 1 << 20:
            await asyncio.sleep(0.001)


def protocol(connections: Connections) -> type[asyncio.Protocol]:
    """uvicorn's HTTP protocol, remembering each connection's transport in ``connections``."""

    class Remembered(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if self.client is not None:
                connections[self.client] = transport

        def connection_lost(self, exc: Exception | None) -> None:
            if self.client is not None:
                connections.pop(self.client, None)
            super().connection_lost(exc)

    return Remembered


class _Server(uvicorn.Server):
    """uvicorn's server, stopping as soon as it is asked to."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.01)


def _server(service: Service) -> _Server:
    connections: Connections = {}
    config: dict[str, Any] = {
        "lifespan": "off",
        "ws": "none",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": 2,
    }
    front = Front(service, connections)
    return _Server(uvicorn.Config(front, http=protocol(connections), **config))


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; raises IwbError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise IwbError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="choose another --port or --host"
        ) from error
    return listener


def address(listener: socket.socket) -> str:
    """The base URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.contextmanager
def running(service: Service, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Serve in a thread while the block runs; yields the base URL, by default on a free port."""
    listener = bind(host, port)
    url = address(listener)
    server = _server(service)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="iwb-emulator", daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + START_SECONDS
        while not server.started:
            if time.monotonic() > deadline or not thread.is_alive():
                raise IwbError("the emulator did not start", hint="see the messages above")
            time.sleep(0.005)
        yield url
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
        listener.close()


def serve(service: Service, listener: socket.socket) -> None:
    """Serve on a socket of ``bind`` until interrupted (Ctrl-C), then close the socket."""
    try:
        _server(service).run(sockets=[listener])
    finally:
        listener.close()
