"""The port to a Batch API: eight verbs, three error words.

An adapter translates and nothing else: it never retries a POST, never sleeps, never decides.
Every failure of a call is one of

* ``Rejected``     it did not happen, and sending the same again will not help (definite 4xx);
* ``Unavailable``  it did not happen or was only a read; the same call may be made again later;
* ``Ambiguous``    it may have happened (lost reply, 5xx or unreadable reply to a POST): look first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ProviderMessage:
    """One error the provider reported: code, message, and for a file its 1-based line."""

    code: str | None
    message: str
    line: int | None = None
    param: str | None = None


class CallFailed(Exception):
    """Base of the three words. ``status`` is the HTTP status, None when no reply came.

    ``host`` names who was called where a provider is several; None: the provider's only host.
    """

    host: str | None = None

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        errors: tuple[ProviderMessage, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.errors = errors
        self.retry_after = retry_after

    @property
    def codes(self) -> frozenset[str]:
        """Lower-cased error codes of the reply."""
        return frozenset(e.code.lower() for e in self.errors if e.code)


class Rejected(CallFailed):
    """It did not happen; the same call will be refused again."""


class Unavailable(CallFailed):
    """Nothing happened; try again later. ``retry_after`` in seconds where the server said so."""


class Ambiguous(CallFailed):
    """It may have happened: the reply to a POST was lost, unreadable or a server error."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file at the provider. ``status`` is lower-cased; ``""`` and null are None."""

    file_id: str
    status: str | None
    n_bytes: int | None
    filename: str | None
    expires_at: float | None
    status_details: str | None = None


@dataclass(frozen=True, slots=True)
class RemoteBatch:
    """A batch at the provider. ``status`` verbatim; ``""`` and null ids are None; counts may be None."""

    batch_id: str
    status: str
    input_file_id: str | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    errors: tuple[ProviderMessage, ...] = ()
    total: int | None = None
    completed: int | None = None
    failed: int | None = None
    began: bool = False
    """True when ``in_progress_at`` is set: the batch started running."""
    created_at: float | None = None
    """Unix seconds, from an integer or an ISO string."""


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What one online request was answered with: HTTP status and JSON body."""

    status: int
    body: Mapping[str, Any]


class ByteSink(Protocol):
    """Where downloaded bytes go."""

    def write(self, data: bytes, /) -> int:
        """Append bytes."""


class BatchProvider(Protocol):
    """What the workflow asks of a provider. Every method may raise the three words."""

    @property
    def host(self) -> str:
        """Host name of the resource: file and batch ids belong to it."""

    def upload(self, path: Path, filename: str, *, expires_after: int) -> RemoteFile:
        """Upload a request file with purpose ``batch``, streamed; ``expires_after`` in seconds. One POST."""

    def file(self, file_id: str) -> RemoteFile:
        """The file's present state."""

    def files(self) -> Iterator[RemoteFile]:
        """Every file with purpose ``batch``; raises Unavailable when the listing breaks off."""

    def create(self, input_file_id: str, metadata: Mapping[str, str]) -> RemoteBatch:
        """Create a batch over an uploaded file. One POST."""

    def batch(self, batch_id: str) -> RemoteBatch:
        """The batch's present state. 404 is Rejected with status 404."""

    def batches(self) -> Iterator[RemoteBatch]:
        """Every batch, newest first as the provider lists them, to the end of the listing."""

    def cancel(self, batch_id: str) -> RemoteBatch:
        """Ask for cancellation; finished work stays and is billed."""

    def download(self, file_id: str, target: ByteSink) -> int:
        """Stream the file's bytes into ``target``; returns the number of bytes written."""

    def delete_file(self, file_id: str) -> bool:
        """Delete a file; False when it was gone already."""

    def chat(self, body: Mapping[str, Any]) -> ChatReply:
        """Make one chat request now; ``body`` as in a request line. One POST."""
