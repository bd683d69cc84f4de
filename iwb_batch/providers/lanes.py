"""Several resources behind one port: deployments of one model, each with its own credentials and quota.

Remote ids carry the lane they belong to (``west/batch_1``), and so does the name of a request file
(``0003-west.jsonl``): whoever holds an id knows whom to ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from iwb_batch.errors import UsageError
from iwb_batch.providers.base import BatchProvider, ByteSink, CallFailed, ChatReply, RemoteBatch, RemoteFile

T = TypeVar("T")

_LANE_OF = re.compile(r"^iwb-[0-9a-f]+-\d{4,}-(.+)\.jsonl$")


class Lanes:
    """A ``BatchProvider`` over one provider for each lane, in the order the user named them."""

    def __init__(self, lanes: Mapping[str, BatchProvider]) -> None:
        self._lanes = dict(lanes)

    @property
    def host(self) -> str:
        """Lanes with the hosts of their resources."""
        return " ".join(_shown(lane, provider) for lane, provider in self._lanes.items())

    def upload(self, path: Path, filename: str, *, expires_after: int) -> RemoteFile:
        """Upload to the lane the request file was written for."""
        found = _LANE_OF.search(filename)
        lane = found.group(1) if found else ""
        if lane not in self._lanes:
            raise UsageError(f"{filename}: written for a lane that is not named", hint="Name the lanes of the run.")
        with self._named(lane):
            return _file(lane, self._lanes[lane].upload(path, filename, expires_after=expires_after))

    def file(self, file_id: str) -> RemoteFile:
        """The file's present state."""
        return self._of(file_id, lambda lane, provider, own: _file(lane, provider.file(own)))

    def files(self) -> Iterator[RemoteFile]:
        """The files of every lane."""
        for lane, provider in self._lanes.items():
            with self._named(lane):
                for found in provider.files():
                    yield _file(lane, found)

    def create(self, input_file_id: str, metadata: Mapping[str, str]) -> RemoteBatch:
        """Create a batch where its file lies."""
        return self._of(input_file_id, lambda lane, provider, own: _batch(lane, provider.create(own, metadata)))

    def batch(self, batch_id: str) -> RemoteBatch:
        """The batch's present state."""
        return self._of(batch_id, lambda lane, provider, own: _batch(lane, provider.batch(own)))

    def batches(self) -> Iterator[RemoteBatch]:
        """The batches of every lane."""
        for lane, provider in self._lanes.items():
            with self._named(lane):
                for found in provider.batches():
                    yield _batch(lane, found)

    def cancel(self, batch_id: str) -> RemoteBatch:
        """Ask for cancellation."""
        return self._of(batch_id, lambda lane, provider, own: _batch(lane, provider.cancel(own)))

    def download(self, file_id: str, target: ByteSink) -> int:
        """Stream the file's bytes into ``target``."""
        return self._of(file_id, lambda _lane, provider, own: provider.download(own, target))

    def delete_file(self, file_id: str) -> bool:
        """Delete a file."""
        return self._of(file_id, lambda _lane, provider, own: provider.delete_file(own))

    def chat(self, body: Mapping[str, Any]) -> ChatReply:
        """Ask the first lane."""
        lane = next(iter(self._lanes))
        with self._named(lane):
            return self._lanes[lane].chat(body)

    def _of(self, remote_id: str, call: Callable[[str, BatchProvider, str], T]) -> T:
        lane, _, own = remote_id.partition("/")
        if lane not in self._lanes:
            raise UsageError(f"{remote_id}: its lane is not one of {', '.join(self._lanes)}", hint="Write LANE/ID.")
        with self._named(lane):
            return call(lane, self._lanes[lane], own)

    @contextmanager
    def _named(self, lane: str) -> Iterator[None]:
        """A call that fails says in which lane: the others may be well."""
        try:
            yield
        except CallFailed as error:
            error.host = _shown(lane, self._lanes[lane])
            raise


def _shown(lane: str, provider: BatchProvider) -> str:
    return f"{lane}={provider.host}"


def _file(lane: str, found: RemoteFile) -> RemoteFile:
    return replace(found, file_id=f"{lane}/{found.file_id}")


def _batch(lane: str, found: RemoteBatch) -> RemoteBatch:
    return replace(
        found,
        batch_id=f"{lane}/{found.batch_id}",
        input_file_id=_own(lane, found.input_file_id),
        output_file_id=_own(lane, found.output_file_id),
        error_file_id=_own(lane, found.error_file_id),
    )


def _own(lane: str, file_id: str | None) -> str | None:
    return None if file_id is None else f"{lane}/{file_id}"
