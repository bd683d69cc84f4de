"""No provider at all: a written request file counts as submitted, answers come by ``collect --from``.

This is how ``vllm run-batch``, llm-d Batch Gateway or AIBrix do the work: they read the request file
and write an output file in the same format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from iwb_batch.providers.base import ByteSink, ChatReply, Rejected, RemoteBatch, RemoteFile

HOST = "files"
WRITTEN = "written"
"""Status of a batch whose answers are awaited; like every unknown word it means: not ended."""


class FilesProvider:
    """The port for request files that somebody else carries to an engine."""

    host = HOST

    def upload(self, path: Path, filename: str, *, expires_after: int) -> RemoteFile:
        """The file is where it should be already."""
        del expires_after
        return RemoteFile(filename, "processed", path.stat().st_size, filename, None)

    def file(self, file_id: str) -> RemoteFile:
        """Always processed."""
        return RemoteFile(file_id, "processed", None, file_id, None)

    def files(self) -> Iterator[RemoteFile]:
        """Nothing is listed: no call can have been lost."""
        return iter(())

    def create(self, input_file_id: str, metadata: Mapping[str, str]) -> RemoteBatch:
        """The batch is the file."""
        return RemoteBatch(f"files:{input_file_id}", WRITTEN, input_file_id, metadata=metadata)

    def batch(self, batch_id: str) -> RemoteBatch:
        """Never ends by itself: the answers given decide."""
        return RemoteBatch(batch_id, WRITTEN, batch_id.removeprefix("files:"))

    def batches(self) -> Iterator[RemoteBatch]:
        """Nothing is listed."""
        return iter(())

    def cancel(self, batch_id: str) -> RemoteBatch:
        """Nobody can be told; answers that come later are still taken."""
        return self.batch(batch_id)

    def download(self, file_id: str, target: ByteSink) -> int:
        """There is nothing to download. Raises Rejected."""
        del target
        raise Rejected(f"{file_id}: answers are given with collect --from", status=404)

    def chat(self, body: Mapping[str, Any]) -> ChatReply:
        """There is nobody to ask. Raises Rejected."""
        del body
        raise Rejected("provider files has no endpoint")

    def delete_file(self, file_id: str) -> bool:
        """Request files are never deleted."""
        del file_id
        return False
