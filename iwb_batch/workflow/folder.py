"""The run folder: names, permissions, the lock, files that are whole or absent."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from iwb_batch.errors import InputError, IwbError, LockHeld, RunError, UsageError

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_WINDOWS_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{i}" for i in range(1, 10)), *(f"lpt{i}" for i in range(1, 10))}
)
_STAGING = ".staging-"
_STALE_SECONDS = 24 * 3600


def is_safe_name(name: str) -> bool:
    """True for a run name that is safe as a folder name."""
    return (
        _SAFE.fullmatch(name) is not None
        and not name.isdigit()
        and not name.endswith(".")
        and name.split(".", maxsplit=1)[0].lower() not in _WINDOWS_DEVICES
    )


def check_name(name: str) -> str:
    """Return a run name that is safe as a folder name; UsageError otherwise."""
    if not is_safe_name(name):
        raise UsageError(
            f"--run {name!r}: not a safe run name",
            hint="Use letters, digits, '.', '_' and '-', starting with a letter or digit, not digits alone.",
        )
    return name


def derived_name(*parts: str | None, plan_sha256: str) -> str:
    """Default run name: the parts with unsafe characters replaced, then 8 hex digits of the plan hash."""
    words = [re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-.") for part in parts if part]
    stem = "-".join(word for word in words if word)[:100] or "run"
    name = f"{stem}-{plan_sha256[:8]}"
    return check_name(name if name.split(".", maxsplit=1)[0].lower() not in _WINDOWS_DEVICES else f"run-{name}")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run."""

    path: Path

    @property
    def database(self) -> Path:
        """run.db."""
        return self.path / "run.db"

    @property
    def lock_file(self) -> Path:
        """run.lock."""
        return self.path / "run.lock"

    @property
    def requests(self) -> Path:
        """Folder of request files."""
        return self.path / "requests"

    @property
    def raw(self) -> Path:
        """Folder of downloaded files."""
        return self.path / "raw"

    @property
    def report(self) -> Path:
        """Folder of what ``report`` writes."""
        return self.path / "report"

    def make(self) -> None:
        """Create the folder and its parts, for the owner only."""
        with explained(self.path):
            for folder in (self.path, self.requests, self.raw, self.report):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an operating-system error into one line that names the folder and the way out."""
    try:
        yield
    except OSError as error:
        raise _os_error(path, error) from error


def _os_error(path: Path, error: OSError) -> IwbError:
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(
            f"no space left in {path}",
            hint="Free some space (TMPDIR counts too), then run the same command again; nothing is lost.",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return RunError(f"{path}: not permitted ({error.strerror})", hint="Check the folder's owner and permissions.")
    return RunError(f"{path}: {error.strerror or error}", hint="Run the same command again when that is mended.")


@contextmanager
def staging(parent: Path) -> Iterator[RunFolder]:
    """A folder that becomes a run by ``adopt_staging`` or disappears.

    Those that a killed process left behind go too, once they are a day old: nothing was ever sent from them.
    """
    folder = RunFolder(parent / f"{_STAGING}{secrets.token_hex(6)}")
    try:
        folder.make()
        _remove_stale(parent, folder.path.stat().st_mtime - _STALE_SECONDS)
        yield folder
    finally:
        if folder.path.exists():
            shutil.rmtree(folder.path, ignore_errors=True)


def _remove_stale(parent: Path, before: float) -> None:
    for path in parent.glob(f"{_STAGING}*"):
        if path.is_dir() and path.stat().st_mtime < before:
            shutil.rmtree(path, ignore_errors=True)


def adopt_staging(folder: RunFolder, target: RunFolder) -> None:
    """Rename a staged run into place; RunError when the name was taken meanwhile."""
    if target.path.exists():
        raise RunError(f"{target.path}: exists already", hint="Run the same command again.")
    with explained(target.path):
        sync_folder(folder.path)
        folder.path.rename(target.path)
        sync_folder(target.path.parent)


def find_run(runs_dir: Path, name: str) -> RunFolder:
    """The folder of a named run; InputError when there is none."""
    folder = RunFolder(runs_dir / check_name(name))
    if not folder.database.is_file():
        raise InputError(
            f"{folder.path}: no such run", hint="`iwb-batch runs` lists the runs; --runs-dir names their folder."
        )
    return folder


def run_folders(runs_dir: Path) -> list[RunFolder]:
    """Every run folder, by name."""
    if not runs_dir.is_dir():
        return []
    paths = sorted(path for path in runs_dir.iterdir() if not path.name.startswith("."))
    return [RunFolder(path) for path in paths if _holds_a_run(path)]


def _holds_a_run(path: Path) -> bool:
    try:
        return (path / "run.db").is_file()
    except PermissionError:  # somebody else's: run folders are closed to all others
        return False


@contextmanager
def locked(folder: RunFolder) -> Iterator[None]:
    """Hold the run's operating-system lock. A dead holder's lock is free; the pid inside is only for the message."""
    with (
        explained(folder.path),
        os.fdopen(os.open(folder.lock_file, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as handle,
    ):
        if not _try_lock(handle):
            holder = handle.read(32).decode("ascii", "replace").strip() or "unknown"
            raise LockHeld(
                f"{folder.path}: process {holder} works on this run",
                hint="Wait until it ends; `iwb-batch status` can be used meanwhile.",
            )
        handle.seek(0)
        handle.truncate()
        handle.write(str(os.getpid()).encode("ascii"))
        yield


if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _try_lock(handle: BinaryIO) -> bool:
        # Locked far beyond the content, so that the pid stays readable for the other process.
        handle.seek(1 << 30)
        try:
            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            handle.seek(0)
        return True

else:
    import fcntl

    def _try_lock(handle: BinaryIO) -> bool:
        try:
            fcntl.flock(handle.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def sync_folder(path: Path) -> None:
    """Make a rename in this folder survive a power cut, where the platform can."""
    if sys.platform == "win32":  # pragma: no cover
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class WholeFile:
    """A file that appears under its name only when it is complete and on disk.

    Use as a context manager; ``write`` hashes and counts; ``commit`` puts it into place.
    Left without ``commit``, nothing remains.
    """

    def __init__(self, target: Path) -> None:
        self.target = target
        self._partial = target.with_name(target.name + ".partial")
        self._hash = hashlib.sha256()
        self.n_bytes = 0

    def __enter__(self) -> WholeFile:
        with explained(self.target.parent):
            self._handle = os.fdopen(os.open(self._partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
        return self

    def write(self, data: bytes, /) -> int:
        """Append bytes."""
        with explained(self.target.parent):
            self._handle.write(data)
        self._hash.update(data)
        self.n_bytes += len(data)
        return len(data)

    def commit(self) -> str:
        """Flush to disk and rename into place; returns the sha256 as hex."""
        with explained(self.target.parent):
            self._handle.flush()
            os.fsync(self._handle.fileno())
            self._handle.close()
            self._partial.replace(self.target)
            sync_folder(self.target.parent)
        return self._hash.hexdigest()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            # On a full disk closing fails too, since it writes what is left; the first error says why.
            with explained(self.target.parent) if kind is None else suppress(OSError):
                self._handle.close()
        finally:
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)
