"""The emulated resource without a socket: a transport under the real SDK's HTTP client.

The SDK builds, signs and reads every call as it would over a network; only the wire is left out. Broken connections
become the errors the HTTP library raises for them, so tests that need thousands of runs stay honest and fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from iwb_batch.emulator.http import Cut, HttpReply, HttpRequest
from iwb_batch.emulator.service import Service


class InProcess:
    """A transport for the HTTP client of any supported SDK (``httpx`` or ``httpx2``); hands calls to ``service``."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing to close: the service belongs to whoever made it."""

    def handle_request(self, request: Any) -> Any:
        """One call: a request of the HTTP library in, a response of the same library out."""
        library = import_module(type(request).__module__.partition(".")[0])
        reply = self._service.handle(
            HttpRequest(
                method=request.method,
                path=request.url.path,
                query=dict(request.url.params),
                headers=dict(request.headers),
                body=iter(request.stream),
            )
        )
        if reply.cut is Cut.RESET:
            message = "Server disconnected without sending a response."
            raise library.RemoteProtocolError(message, request=request)
        headers = dict(reply.headers)
        if reply.cut is not Cut.SILENT:
            headers["content-length"] = str(reply.size)
        return library.Response(reply.status, headers=headers, stream=_stream(library, reply), request=request)


def _stream(library: ModuleType, reply: HttpReply) -> Any:
    """The body as a stream of the library; a cut one ends halfway, with an error where its length was announced."""
    base: type = library.SyncByteStream

    class Body(base):  # type: ignore[misc]  # the library is known only at run time
        def __iter__(self) -> Iterator[bytes]:
            yield from reply.blocks(None if reply.cut is None else max(1, reply.size // 2))
            if reply.cut is Cut.SHORT:
                message = "peer closed connection without sending complete message body"
                raise library.RemoteProtocolError(message)

    return Body()
