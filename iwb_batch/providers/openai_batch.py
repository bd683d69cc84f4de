"""The provider adapter for Azure OpenAI (classic and v1 surface), OpenAI, and servers that speak its Batch API.

Importing this module is cheap; the SDK is loaded when an adapter is built. Replies are read as plain JSON, not as the
SDK's models: those let a web page through as text and leave types unchecked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from iwb_batch.errors import RunError
from iwb_batch.providers.base import ByteSink, CallFailed, ChatReply, Rejected, RemoteBatch, RemoteFile, Unavailable
from iwb_batch.providers.connection import Connection
from iwb_batch.providers.openai_client import TokenProvider, WireHeaders, sdk_client
from iwb_batch.providers.openai_errors import (
    Reply,
    is_page,
    json_object,
    provider_messages,
    translated,
    unreadable,
)

_CHUNK = 1 << 16
_PAGE = 100
T = TypeVar("T")


class OpenAIBatch:
    """A ``BatchProvider`` over the openai SDK; close it after use, or use it as a context manager.

    ``token_provider`` replaces the default Azure credential with Entra ID. ``read_retries`` counts the SDK's own
    retries of reads; a POST is never retried. Timeouts in seconds. ``network`` is a transport of the SDK's HTTP
    library in place of sockets.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        token_provider: TokenProvider | None = None,
        read_retries: int = 2,
        read_timeout: float = 60.0,
        post_timeout: float = 600.0,
        network: Any = None,
    ) -> None:
        """Load the SDK and build its clients; nothing is sent."""
        self._connection = connection
        self._wire = WireHeaders(connection, token_provider)
        build = partial(sdk_client, connection, self._wire, network=network)
        self._reads = build(repeatable=True, retries=read_retries, timeout=read_timeout)
        self._once = build(repeatable=False, retries=0, timeout=post_timeout)

    @property
    def host(self) -> str:
        """Host name of the resource: file and batch ids belong to it."""
        return self._connection.host

    def close(self) -> None:
        """Close the connections."""
        self._reads.close()
        self._once.close()

    def __enter__(self) -> Self:
        """The adapter itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()

    def upload(self, path: Path, filename: str, *, expires_after: int) -> RemoteFile:
        """Upload a request file, streamed from disk; ``expires_after`` in seconds from creation. One POST."""
        action = f"uploading {filename}"
        try:
            handle = path.open("rb")
        except OSError as error:
            raise RunError(
                f"request file {path.name} cannot be read: {error.strerror}", hint="nothing was sent; restore the file"
            ) from None
        with handle:
            call = partial(
                self._once.files.with_raw_response.create,
                file=(filename, handle),
                purpose="batch",
                # As extra body: the keyword is younger than the oldest supported SDK.
                extra_body={"expires_after": {"anchor": "created_at", "seconds": expires_after}},
            )
            return self._object(action, call, remote_file, post=True)

    def file(self, file_id: str) -> RemoteFile:
        """The file's present state; 404 is Rejected with status 404."""
        action = f"reading file {_checked(file_id)}"
        return self._object(action, partial(self._reads.files.with_raw_response.retrieve, file_id), remote_file)

    def files(self) -> Iterator[RemoteFile]:
        """Every file with purpose ``batch``; raises Unavailable when the listing breaks off."""
        fetch = partial(self._reads.files.with_raw_response.list, purpose="batch")
        for value in self._listing("listing the files", fetch):
            if value.get("purpose") in (None, "", "batch"):
                yield remote_file(value)

    def create(self, input_file_id: str, metadata: Mapping[str, str]) -> RemoteBatch:
        """Create a batch with a window of 24 hours over an uploaded file. One POST."""
        endpoint: Any = self._connection.batch_endpoint  # Azure's is not among the SDK's literals
        call = partial(
            self._once.batches.with_raw_response.create,
            input_file_id=input_file_id,
            endpoint=endpoint,
            completion_window="24h",
            metadata=dict(metadata),
        )
        return self._object("creating the batch", call, remote_batch, post=True)

    def batch(self, batch_id: str) -> RemoteBatch:
        """The batch's present state; 404 is Rejected with status 404."""
        action = f"reading batch {_checked(batch_id)}"
        return self._object(action, partial(self._reads.batches.with_raw_response.retrieve, batch_id), remote_batch)

    def batches(self) -> Iterator[RemoteBatch]:
        """Every batch, newest first; raises Unavailable when the listing breaks off."""
        fetch = partial(self._reads.batches.with_raw_response.list, limit=_PAGE)
        for value in self._listing("listing the batches", fetch):
            yield remote_batch(value)

    def chat(self, body: Mapping[str, Any]) -> ChatReply:
        """Make one chat request now. One POST; the model in ``body`` is the deployment."""
        call = partial(self._once.chat.completions.with_raw_response.create, **body)
        return ChatReply(200, self._object("asking online", call, dict, post=True))

    def cancel(self, batch_id: str) -> RemoteBatch:
        """Ask for cancellation; 409 (nothing left to cancel) is Rejected with status 409. One POST."""
        action = f"cancelling batch {_checked(batch_id)}"
        call = partial(self._once.batches.with_raw_response.cancel, batch_id)
        try:
            return self._object(action, call, remote_batch, post=True)
        except CallFailed as error:
            if error.status == 409:
                raise Rejected(error.message, status=409, errors=error.errors) from None
            raise

    def download(self, file_id: str, target: ByteSink) -> int:
        """Stream the file's bytes into ``target``; returns their number, 0 for an empty file.

        A body shorter than its Content-Length, or cut between chunks, is Unavailable; what came stays in ``target``.
        Errors of ``target`` itself pass as they are.
        """
        written = 0
        with closing(self._chunks(_checked(file_id))) as chunks:
            for chunk in chunks:
                target.write(chunk)
                written += len(chunk)
        return written

    def delete_file(self, file_id: str) -> bool:
        """Delete a file; False when it was gone already. Safe to repeat, so a lost reply is Unavailable."""
        action = f"deleting file {_checked(file_id)}"
        try:
            reply = self._call(action, partial(self._once.files.with_raw_response.delete, file_id))
        except Rejected as error:
            if error.status == 404:
                return False
            raise
        if reply.content.strip() and json_object(reply, action, post=False).get("deleted") is False:
            raise Unavailable(f"{action}: the provider did not delete it")
        return True

    def _call(self, action: str, call: Callable[[], Reply], *, post: bool = False) -> Reply:
        self._wire.authorize()
        with translated(action, post=post, secrets=self._wire.secrets):
            return call()

    def _object(
        self, action: str, call: Callable[[], Reply], read: Callable[[Mapping[str, Any]], T], *, post: bool = False
    ) -> T:
        """Make a call whose reply is one object with an id."""
        value = json_object(self._call(action, call, post=post), action, post=post)
        if _word(value.get("id")) is None:
            errors = provider_messages(value, self._wire.secrets)
            raise unreadable(action, "the reply holds no id", post=post, errors=errors)
        return read(value)

    def _listing(self, action: str, fetch: Callable[..., Reply]) -> Iterator[Mapping[str, Any]]:
        """Every object of a listing once; a listing is never taken as complete unless it says or shows so."""
        seen: set[str] = set()
        after: dict[str, str] = {}
        while True:
            body = json_object(self._call(action, partial(fetch, **after)), action, post=False)
            items = _items(body, action)
            fresh = [value for value in items if value["id"] not in seen]
            seen.update(value["id"] for value in fresh)
            yield from fresh
            cursor = _next_cursor(body, items, seen, action, grew=bool(fresh))
            if cursor is None:
                return
            seen.add(cursor)
            after = {"after": cursor}

    def _chunks(self, file_id: str) -> Generator[bytes, None, None]:
        action = f"downloading file {file_id}"
        self._wire.authorize()
        with (
            translated(action, post=False, secrets=self._wire.secrets),
            self._reads.files.with_streaming_response.content(file_id) as reply,
        ):
            if is_page(reply.headers.get("content-type", "")):
                raise unreadable(action, "a web page came instead of the file", post=False)
            yield from reply.iter_bytes(_CHUNK)


def remote_file(value: Mapping[str, Any]) -> RemoteFile:
    """A file object of the API, with its types made sure; ``value`` has an id."""
    status = _word(value.get("status"))
    details = value.get("status_details")
    return RemoteFile(
        file_id=str(value["id"]),
        status=status.lower() if status else None,
        n_bytes=_count(value.get("bytes")),
        filename=_word(value.get("filename")),
        expires_at=_moment(value.get("expires_at")),
        status_details=(_word(details) or json.dumps(details, ensure_ascii=False)) if details else None,
    )


def remote_batch(value: Mapping[str, Any]) -> RemoteBatch:
    """A batch object of the API, with its types made sure; ``value`` has an id. A missing status is ``""``."""
    counts = value.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    errors = value.get("errors")
    return RemoteBatch(
        batch_id=str(value["id"]),
        status=_word(value.get("status")) or "",
        input_file_id=_word(value.get("input_file_id")),
        output_file_id=_word(value.get("output_file_id")),
        error_file_id=_word(value.get("error_file_id")),
        metadata={k: v if isinstance(v, str) else json.dumps(v) for k, v in metadata.items() if v is not None},
        errors=provider_messages({"errors": errors}) if errors else (),
        total=_count(counts.get("total")),
        completed=_count(counts.get("completed")),
        failed=_count(counts.get("failed")),
        began=bool(value.get("in_progress_at")),
        created_at=_moment(value.get("created_at")),
    )


def _items(body: Mapping[str, Any], action: str) -> list[Mapping[str, Any]]:
    """The objects of one page; Unavailable when it is no page or one object has no id."""
    items = body.get("data", ...)
    if items is None:
        return []
    if not isinstance(items, list) or not all(isinstance(v, dict) and _word(v.get("id")) for v in items):
        raise unreadable(action, "the listing cannot be read", post=False, errors=provider_messages(body))
    return items


def _next_cursor(
    body: Mapping[str, Any], items: list[Mapping[str, Any]], seen: set[str], action: str, *, grew: bool
) -> str | None:
    """Where the next page begins, None at the end; Unavailable when the listing runs in a circle.

    Without ``has_more`` the end is a page that brings nothing new. With it, such a page ends nothing: the server
    either filters after paging and names the next place in ``last_id``, or repeats itself.
    """
    more = body.get("has_more")
    if more is False:
        return None
    if grew:
        return str(items[-1]["id"])
    if more is None:
        return None
    last = _word(body.get("last_id"))
    if not items and last is not None and last not in seen:
        return last
    raise Unavailable(f"{action}: the listing says there is more and brings nothing new", status=200)


def _checked(remote_id: str) -> str:
    """The id, when it can stand in a path."""
    if remote_id.strip() in {"", ".", ".."}:
        raise Rejected(f"{remote_id!r} is not an id of the provider", status=404)
    return remote_id


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _count(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None


def _moment(value: object) -> float | None:
    """Unix seconds from a number, its text, or an ISO 8601 text (UTC where it names no zone)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return float(str(value)) if str(value).isascii() and str(value).isdigit() else None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
