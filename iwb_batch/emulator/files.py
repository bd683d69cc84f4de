"""The files of the emulated resource: uploads and outputs, on disk, with status, expiry and quota."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from iwb_batch.emulator.faults import HttpFault, first
from iwb_batch.emulator.http import ApiError, HttpReply
from iwb_batch.emulator.listing import Listing
from iwb_batch.emulator.multipart import Form
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.state import State

MIN_EXPIRY, MAX_EXPIRY = 3_600, 2_592_000
"""Seconds; the range of the reference. The guide's lower bound of 14 days is not enforced by the real service."""

INPUT, OUTPUT = "batch", "batch_output"


@dataclass(slots=True)
class StoredFile:
    """A file: its bytes are at ``path``, times are Unix seconds."""

    key: str
    number: int
    """Place among all files ever made."""
    filename: str
    purpose: str
    path: Path
    n_bytes: int
    created_at: float
    visible_from: int
    expires_at: float | None = None
    polls_left: int | None = 0
    """GETs until it is processed; None: never."""
    error_details: str | None = None
    short_reads: int | None = 0
    """Downloads that get only ``short_bytes`` bytes; None: all of them."""
    short_bytes: int = 0

    @property
    def status(self) -> str:
        """``pending``, ``processed`` or ``error``."""
        if self.polls_left != 0:
            return "pending"
        return "error" if self.error_details else "processed"

    def record(self) -> dict[str, Any]:
        """As plain data, without what only a running service needs."""
        value = asdict(self) | {"path": self.path.name}
        del value["visible_from"]
        return value

    @classmethod
    def restored(cls, value: Mapping[str, Any], state: State) -> StoredFile:
        """From plain data; every listing shows it."""
        fields = {name: item for name, item in value.items() if name != "kind"}
        return cls(**fields | {"path": state.content(value["path"]), "visible_from": 0})

    def shown(self) -> dict[str, Any]:
        """The file object as the API shows it."""
        return {
            "object": "file",
            "id": self.key,
            "bytes": self.n_bytes,
            "created_at": int(self.created_at),
            "filename": self.filename,
            "purpose": self.purpose,
            "status": self.status,
            "status_details": self.error_details if self.status == "error" else None,
            "expires_at": None if self.expires_at is None else int(self.expires_at),
        }


class Files:
    """All files of one service. Not locked: the service calls it under its own lock."""

    def __init__(self, state: State, settings: Settings, clock: Callable[[], float]) -> None:
        self._state = state
        self._settings = settings
        self._clock = clock
        self._files: dict[str, StoredFile] = {}
        self._listing = Listing(settings.max_page, settings.max_page)
        self._number = 0

    def __len__(self) -> int:
        return len(self._files)

    def restore(self, published: set[str]) -> None:
        """Take in what an earlier service kept; of output files only those that a batch has ``published``.

        Raises IwbError where contents are missing.
        """
        found = [StoredFile.restored(value, self._state) for value in self._state.load("file")]
        for stored in sorted(found, key=lambda one: one.number):
            self._number = max(self._number, stored.number)
            if self._expired(stored) or (stored.purpose == OUTPUT and stored.key not in published):
                self._state.remove(stored.key)
            else:
                self._state.check_content(stored.path.name, stored.n_bytes)
                self._files[stored.key] = stored

    def paths(self) -> Iterable[Path]:
        """The contents of all files."""
        return (stored.path for stored in self._files.values())

    def new_path(self) -> Path:
        """A fresh path in the state folder."""
        return self._state.new_path()

    def upload(self, form: Form, path: Path, faults: Sequence[HttpFault], *, keeps_expiry: bool) -> StoredFile:
        """Take in an upload already written to ``path``; raises ApiError 400 and leaves the path to the caller."""
        if form.filename is None:
            raise ApiError.of(400, "invalid_request", "The part 'file' is missing.", param="file")
        if form.fields.get("purpose") != INPUT:
            raise ApiError.of(400, "invalid_value", "Only files with the purpose 'batch' are taken.", param="purpose")
        if not form.filename.endswith(".jsonl"):
            message = "Invalid file format for Batch API. Must be .jsonl"
            raise ApiError.of(400, "invalid_file_format", message, param="file")
        if form.n_bytes > self._settings.max_bytes:
            message = f"The file has {form.n_bytes} bytes; the maximum is {self._settings.max_bytes}."
            raise ApiError.of(400, "file_too_large", message, param="file")
        seconds = _expiry(form.fields) if keeps_expiry else None
        self._check_quota(expiring=seconds is not None)
        return self._keep(form, path, faults, seconds)

    def _keep(self, form: Form, path: Path, faults: Sequence[HttpFault], seconds: int | None) -> StoredFile:
        now = self._clock()
        lag, pending, broken = (first(faults, name) for name in ("list_lag", "file_pending", "file_error"))
        stored = StoredFile(
            key=f"file-{uuid.uuid4().hex}",
            number=self._next_number(),
            filename=form.filename or "",
            purpose=INPUT,
            path=path,
            n_bytes=form.n_bytes,
            created_at=now,
            visible_from=self._listing.hidden_for(lag.listings if lag else 0),
            expires_at=None if seconds is None else now + seconds,
            polls_left=pending.polls if pending else self._settings.pending_polls,
            error_details=broken.details if broken else None,
        )
        return self._add(stored)

    def output(self, path: Path, filename: str, *, short_reads: int | None = 0, short_bytes: int = 0) -> StoredFile:
        """Publish a finished output or error file."""
        stored = StoredFile(
            key=f"file-{uuid.uuid4().hex}",
            number=self._next_number(),
            filename=filename,
            purpose=OUTPUT,
            path=path,
            n_bytes=path.stat().st_size,
            created_at=self._clock(),
            visible_from=self._listing.hidden_for(0),
            short_reads=short_reads,
            short_bytes=short_bytes,
        )
        return self._add(stored)

    def get(self, file_id: str) -> StoredFile:
        """The file; raises ApiError 404 when it is unknown, deleted or past its expiry."""
        stored = self._files.get(file_id)
        if stored is None or self._expired(stored):
            raise ApiError.of(404, "404", f"The file '{file_id}' does not exist in this resource.")
        return stored

    def poll(self, file_id: str) -> dict[str, Any]:
        """The file object, after one GET more of the file; raises ApiError 404."""
        stored = self.get(file_id)
        if stored.polls_left:
            stored.polls_left -= 1
            self._save(stored)
        return stored.shown()

    def list(self, query: Mapping[str, str]) -> dict[str, Any]:
        """One page of the listing, by ``purpose`` where it is given."""
        purpose = query.get("purpose")
        entries = [
            stored for stored in self._files.values() if purpose in (None, stored.purpose) and not self._expired(stored)
        ]
        return self._listing.page(entries, query, StoredFile.shown)

    def content(self, file_id: str) -> HttpReply:
        """The file's bytes as a reply, streamed from disk."""
        stored = self.get(file_id)
        length = None
        if stored.short_reads is None or stored.short_reads > 0:
            length = stored.short_bytes
            stored.short_reads = None if stored.short_reads is None else stored.short_reads - 1
            self._save(stored)
        return HttpReply(200, {"content-type": "application/octet-stream"}, stored.path, length)

    def delete(self, file_id: str, *, in_use: bool) -> dict[str, Any]:
        """Forget a file; its bytes stay on disk while a batch is reading them."""
        stored = self.get(file_id)
        del self._files[stored.key]
        self._state.remove(stored.key)
        if not in_use:
            self._state.discard(stored.path)
        return {"object": "file", "id": file_id, "deleted": True}

    def release(self, stored: StoredFile) -> None:
        """A batch has read the file to the end: its bytes go when the file was deleted meanwhile."""
        if stored.key not in self._files:
            self._state.discard(stored.path)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _add(self, stored: StoredFile) -> StoredFile:
        self._save(stored)
        self._files[stored.key] = stored
        return stored

    def _save(self, stored: StoredFile) -> None:
        self._state.save("file", stored.key, stored.record())

    def _expired(self, stored: StoredFile) -> bool:
        return stored.expires_at is not None and stored.expires_at <= self._clock()

    def _check_quota(self, *, expiring: bool) -> None:
        held = sum(
            stored.purpose == INPUT and (stored.expires_at is not None) == expiring and not self._expired(stored)
            for stored in self._files.values()
        )
        most = self._settings.max_files_expiring if expiring else self._settings.max_files
        if held >= most:
            kind = "with" if expiring else "without"
            message = f"The quota for files {kind} expiry is reached. The maximum is {most}."
            raise ApiError.of(400, "quotaExceeded", message)


def _expiry(fields: Mapping[str, str]) -> int | None:
    anchor, seconds = fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]")
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        raise ApiError.of(400, "invalid_value", "The anchor must be 'created_at'.", param="expires_after.anchor")
    if seconds is None or not seconds.isascii() or not seconds.isdigit():
        raise ApiError.of(400, "invalid_value", "A whole number of seconds is needed.", param="expires_after.seconds")
    if not MIN_EXPIRY <= int(seconds) <= MAX_EXPIRY:
        message = f"The seconds must lie between {MIN_EXPIRY} and {MAX_EXPIRY}."
        raise ApiError.of(400, "invalid_value", message, param="expires_after.seconds")
    return int(seconds)
