"""Sending one small file to a provider outside any run: upload, wait, delete, and failures as checks."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from iwb_batch.errors import IwbError
from iwb_batch.providers.base import Ambiguous, BatchProvider, CallFailed, RemoteFile
from iwb_batch.report.checks import Check
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.session import words

FIRST_PAUSE, LAST_PAUSE = 0.5, 5.0


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of an upload: the check, and the file where there is one to delete."""

    check: Check
    file: RemoteFile | None = None


class Held:
    """Where a small download goes: into memory."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, data: bytes, /) -> int:
        """Append bytes."""
        self.content += data
        return len(data)


def remote_trouble(name: str, error: CallFailed, host: str) -> Check:
    """A failed call as a broken check, with the provider's words and what to do."""
    said = words(error.errors, error.message)
    return Check(name, "broken", f"{host}: {said}", _next_step(error))


def _next_step(error: CallFailed) -> str:
    if error.status is None:
        return "Check the network, a proxy, and the endpoint's spelling."
    if error.status in (401, 403):
        return "Check the key (or the role Cognitive Services OpenAI User for Entra ID) and that it is this resource's."
    if error.status == 404:
        return "Check the endpoint's spelling and --api-version: nothing answers at this address."
    if "quotaexceeded" in error.codes:
        return "Delete old input files at the provider; `iwb-batch collect --delete-remote` deletes a run's own."
    if error.status == 429 or error.status >= 500:
        return "The provider is busy or broken: run doctor again in some minutes."
    return "The provider's words say what it did not take."


def upload_and_wait(provider: BatchProvider, path: Path, *, expires_after: int, wait: float, clock: Clock) -> Sent:
    """Upload a file under a fresh name and wait, at most ``wait`` seconds, until the provider has processed it."""
    name = f"iwb-doctor-{secrets.token_hex(6)}.jsonl"
    try:
        file = provider.upload(path, name, expires_after=expires_after)
    except Ambiguous as error:
        return Sent(remote_trouble("upload of a file", error, provider.host), _find(provider, name))
    except CallFailed as error:
        return Sent(remote_trouble("upload of a file", error, provider.host))
    expires_at = file.expires_at
    try:
        file = _processed(provider, file, wait, clock)
    except CallFailed as error:
        return Sent(remote_trouble("upload of a file", error, provider.host), file)
    if file.status in (None, "processed", "uploaded"):
        return Sent(Check("upload of a file", "ok", f"taken and processed ({path.stat().st_size} bytes)"), file)
    check = Check(
        "upload of a file",
        "broken",
        f"the file's status is {file.status} after {wait:.0f} s{f': {d}' if (d := file.status_details) else ''}",
        "Run doctor again; when it stays so, the resource has trouble with files: see its status page.",
    )
    return Sent(
        check, RemoteFile(file.file_id, file.status, file.n_bytes, file.filename, file.expires_at or expires_at)
    )


def _find(provider: BatchProvider, name: str) -> RemoteFile | None:
    """A file whose upload was not answered, by its name; None where it is not listed."""
    try:
        return next((file for file in provider.files() if file.filename == name), None)
    except CallFailed:
        return None


def _processed(provider: BatchProvider, file: RemoteFile, wait: float, clock: Clock) -> RemoteFile:
    deadline = clock.monotonic() + wait
    pause = FIRST_PAUSE
    while True:
        try:
            file = provider.file(file.file_id)
        except CallFailed as error:
            # Right after an upload the file may not be known yet.
            if error.status != 404 or clock.monotonic() >= deadline:
                raise
        else:
            if file.status not in ("pending", "running") or clock.monotonic() >= deadline:
                return file
        clock.sleep(min(pause, max(deadline - clock.monotonic(), 0.0)))
        pause = min(pause * 2, LAST_PAUSE)


def delete_remote_file(provider: BatchProvider, file_id: str) -> Check:
    """Delete a file that was sent for a check."""
    try:
        provider.delete_file(file_id)
    except (CallFailed, IwbError) as error:
        return Check(
            "deletion of the file",
            "warn",
            f"{file_id}: {error}",
            "Delete it by hand; it counts against the file quota.",
        )
    return Check("deletion of the file", "ok", "nothing is left at the provider")
