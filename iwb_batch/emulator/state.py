"""What an emulated resource keeps on disk: contents of files and, where asked, a record of each file and batch.

A record is one small JSON file put into place whole (a new file, then a rename): a process that is killed leaves the
old record or the new one, never half of one.
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from iwb_batch.errors import IwbError, UsageError

FORMAT = 1
MARKER, LOCK = "emulator.json", "lock"
NEW = ".new"
"""Ending of a record that is not in place yet."""


class State:
    """The folder of one resource. With ``keep`` a later one finds everything again, and only one works on it at a time.

    Raises UsageError for a folder that holds something else, IwbError where it cannot be used.
    """

    def __init__(self, folder: Path, *, keep: bool = False) -> None:
        self._keep = keep
        self._contents = folder / "contents" if keep else folder
        self._records = folder / "records"
        self._saved: dict[str, bytes] = {}
        self._lock: BinaryIO | None = None
        try:
            if keep:
                self._claim(folder)
                self._records.mkdir(exist_ok=True)
            self._contents.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self.close()
            raise IwbError(f"{folder}: cannot be used ({error.strerror})", hint="choose another --state") from error

    def new_path(self) -> Path:
        """A fresh path for contents."""
        return self._contents / f"{uuid.uuid4().hex}.jsonl"

    def content(self, name: str) -> Path:
        """The path of contents by the name kept in a record."""
        return self._contents / name

    def save(self, kind: str, key: str, value: Mapping[str, Any]) -> None:
        """Keep the record of a thing; nothing is written when it is as it was."""
        if not self._keep:
            return
        data = orjson.dumps({"kind": kind} | dict(value))
        if self._saved.get(key) != data:
            put(self._records / f"{key}.json", data)
            self._saved[key] = data

    def remove(self, key: str) -> None:
        """Forget a record."""
        if self._keep:
            self._saved.pop(key, None)
            (self._records / f"{key}.json").unlink(missing_ok=True)

    def load(self, kind: str) -> Iterator[dict[str, Any]]:
        """The records of one kind, in no order; raises IwbError for one that cannot be read."""
        for path in sorted(self._records.glob("*.json")) if self._keep else ():
            try:
                value = orjson.loads(path.read_bytes())
            except (OSError, orjson.JSONDecodeError) as error:
                raise damaged(path, str(error)) from error
            if value["kind"] == kind:
                yield value

    def check_content(self, name: str, n_bytes: int) -> None:
        """Raise IwbError unless the contents of a file are there, whole."""
        path = self.content(name)
        if not path.is_file() or path.stat().st_size != n_bytes:
            raise damaged(path, f"a record says it has {n_bytes} bytes")

    def sweep(self, used: set[Path]) -> None:
        """Remove contents no record names: uploads broken off, files deleted while a batch read them."""
        if self._keep:
            for path in {*self._contents.iterdir(), *self._records.glob(f"*{NEW}")} - used:
                path.unlink()

    @staticmethod
    def discard(path: Path) -> None:
        """Remove contents; where the platform refuses because they are being read, the next start does it."""
        with suppress(OSError):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let the next one in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _claim(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        marker = folder / MARKER
        if not marker.is_file() and {path.name for path in folder.iterdir()} - {LOCK, MARKER + NEW}:
            raise UsageError(f"{folder}: not a state folder of the emulator", hint="give --state a new or empty folder")
        self._lock = (folder / LOCK).open("ab")
        if not try_lock(self._lock):
            self.close()
            raise IwbError(f"{folder}: another emulator works on this folder", hint="end it, or choose another --state")
        if not marker.is_file():
            put(marker, orjson.dumps({"format": FORMAT}))
        if marker.read_bytes() != orjson.dumps({"format": FORMAT}):
            self.close()
            raise IwbError(f"{folder}: written by another version of the emulator", hint="choose another --state")


def put(path: Path, data: bytes) -> None:
    """Write a file so that it is the old one or the new one at every moment."""
    new = path.with_name(path.name + NEW)
    with new.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)


def damaged(path: Path, why: str) -> IwbError:
    """The error for a state folder that cannot be gone on with."""
    return IwbError(f"{path}: damaged: {why}", hint="choose another --state; what the runs have collected is not lost")


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def try_lock(handle: BinaryIO) -> bool:
        """Take the operating system's lock on an open file; False when somebody else has it."""
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def try_lock(handle: BinaryIO) -> bool:
        """Take the operating system's lock on an open file; False when somebody else has it."""
        try:
            fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
