"""Fail the N-th of something in a small complete run, go on to the end, and check: the body of every sweep."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from iwb_batch.emulator.app import running
from iwb_batch.emulator.faults import HttpFault
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.session import no_boundary
from tests.faults.harness import Crash, Scores, World, plan
from tests.faults.invariants import check_invariants, unaccounted

if TYPE_CHECKING:
    from tests.faults.dying import Nursery

HTTP_FAULTS: dict[str, HttpFault] = {
    "reply lost after commit": HttpFault(fault="lost_reply"),
    "reset before commit": HttpFault(fault="reset_before"),
    "500 html": HttpFault(fault="status", status=500, html=True),
    "502 html after commit": HttpFault(fault="status", status=502, html=True, commit=True),
    "429": HttpFault(fault="status", status=429, retry_after=2),
    "429 for ten minutes": HttpFault(fault="status", status=429, retry_after=600),
    "malformed JSON with 200": HttpFault(fault="bad_json"),
    "empty body with 200": HttpFault(fault="empty_body"),
    "web page with 200": HttpFault(fault="html"),
    "short download": HttpFault(fault="short_download"),
    "short without a length": HttpFault(fault="silent_short"),
    "401": HttpFault(fault="unauthorized"),
    "409": HttpFault(fault="status", status=409),
}


@dataclass
class Figures:
    """What a sweep came to: runs, what was injected how often, and the totals that must be zero."""

    runs: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    lost: int = 0

    def hit(self, kind: str) -> None:
        """Count one run that was disturbed and came to the right end."""
        self.runs += 1
        self.injected[kind] += 1

    def as_json(self) -> str:
        return json.dumps({name: getattr(self, name) for name in ("runs", "injected", "repeated", "lost")})

    def __str__(self) -> str:
        kinds = "\n".join(f"  {kind:<60} {n:>6}" for kind, n in sorted(self.injected.items()))
        total = sum(self.injected.values())
        return (
            f"{self.runs} schedules, {total} faults injected:\n{kinds}\n"
            f"  repeated executions {self.repeated}, lost outcomes {self.lost}"
        )


def verdict(world: World, expected: Scores) -> None:
    """After a disturbance: same scores, all rules hold, nothing repeated, nothing lost, a further run is idle."""
    assert world.finish() == 0
    check_invariants(world)
    assert world.scores() == expected
    assert unaccounted(world) == []
    posts = world.posts("/batches"), world.posts("/files")
    before = world.rows("SELECT * FROM attempt_log")
    assert world.finish() == 0
    assert (world.posts("/batches"), world.posts("/files")) == posts
    assert world.rows("SELECT * FROM attempt_log") == before


def fail_http(root: Path, fault: HttpFault, nth: int, expected: Scores) -> bool:
    """Break the ``nth`` HTTP call; False when the run makes fewer calls."""
    faults = plan(http=[replace(fault, nth=(nth,))])
    with World(root, faults=faults) as world:
        verdict(world, expected)
        return faults._counts["call", 0] >= nth


# --- file operations ---------------------------------------------------------------------------------


class FileFaults:
    """Counts the file operations of the run folder and lets the ``nth`` fail with ``number`` (an errno)."""

    def __init__(self, root: Path, nth: int, number: int, at_hit: Callable[[], None]) -> None:
        self.at_hit = at_hit
        self.root = str(root)
        self.nth = nth
        self.number = number
        self.count = 0
        self.hit: str | None = None

    def step(self, what: str, path: str | os.PathLike[str]) -> None:
        """Count one operation on a path below the root."""
        if not os.fspath(path).startswith(self.root):
            return
        self.count += 1
        if self.count == self.nth:
            self.hit = what
            self.at_hit()
            raise OSError(self.number, os.strerror(self.number), os.fspath(path))


class _Handle:
    """A file whose writes can fail, as on a full disk."""

    def __init__(self, inner: Any, path: str, faults: FileFaults) -> None:
        self._inner = inner
        self._path = path
        self._faults = faults
        self._error: OSError | None = None

    def write(self, data: bytes) -> int:
        self._fail_at("write")
        written: int = self._inner.write(data)
        return written

    def flush(self) -> None:
        self._fail_at("flush")
        self._inner.flush()

    def close(self) -> None:
        failed_before = self._error
        self._inner.close()
        if failed_before is not None:
            self._error = None
            raise failed_before
        self._faults.step("close", self._path)

    def _fail_at(self, what: str) -> None:
        """Closing after a failed write fails too: the buffer cannot be written either."""
        try:
            self._faults.step(what, self._path)
        except OSError as error:
            self._error = error
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()


class _Os:
    """The module ``os`` as the run folder sees it."""

    def __init__(self, faults: FileFaults) -> None:
        self._faults = faults
        self._paths: dict[int, str] = {}

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        self._faults.step("open", path)
        handle = os.open(path, flags, mode)
        self._paths[handle] = os.fspath(path)
        return handle

    def fsync(self, handle: int) -> None:
        self._faults.step("fsync", self._paths.get(handle, ""))
        os.fsync(handle)

    def fdopen(self, handle: int, mode: str, **more: Any) -> Any:
        inner = os.fdopen(handle, mode, **more)
        return _Handle(inner, self._paths[handle], self._faults) if mode == "wb" else inner

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextmanager
def failing_files(
    root: Path, nth: int, number: int, *, at_hit: Callable[[], None] = lambda: None
) -> Iterator[FileFaults]:
    """While the block runs, the ``nth`` file operation below ``root`` fails; ``at_hit`` is called first."""
    faults = FileFaults(root, nth, number, at_hit)

    def counted(name: str) -> Any:
        original = getattr(Path, name)

        def operation(self: Path, *args: Any, **more: Any) -> Any:
            faults.step(name, self)
            return original(self, *args, **more)

        return operation

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folders, "os", _Os(faults))
        for name in ("replace", "rename", "mkdir", "unlink", "open"):
            patch.setattr(Path, name, counted(name))
        yield faults


FILE_FAULTS = {"no space": errno.ENOSPC, "input/output error": errno.EIO, "read-only": errno.EROFS}


def fail_file(root: Path, number: int, nth: int, expected: Scores) -> str | None:
    """Let the ``nth`` file operation fail; which it was, None when there are fewer."""
    with World(root) as world:
        with failing_files(world.runs_dir, nth, number) as faults:
            world.attempt()
        verdict(world, expected)
        return faults.hit


# --- SQL ---------------------------------------------------------------------------------------------


class SqlFaults:
    """Counts SQL statements and lets the ``nth`` fail with SQLite's own words."""

    def __init__(self, nth: int, message: str, at_hit: Callable[[], None]) -> None:
        self.at_hit = at_hit
        self.nth = nth
        self.message = message
        self.count = 0
        self.hit: str | None = None

    def step(self, sql: str) -> None:
        self.count += 1
        if self.count == self.nth:
            self.hit = sql
            self.at_hit()
            raise sqlite3.OperationalError(self.message)


@contextmanager
def failing_sql(nth: int, message: str, *, at_hit: Callable[[], None] = lambda: None) -> Iterator[SqlFaults]:
    """While the block runs, the ``nth`` statement of any run.db fails; ``at_hit`` is called first."""
    faults = SqlFaults(nth, message, at_hit)

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            faults.step(sql)
            return super().execute(sql, parameters)

        def executemany(self, sql: str, rows: Any, /) -> sqlite3.Cursor:
            faults.step(sql)
            return super().executemany(sql, rows)

    connect = sqlite3.connect
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, factory=Connection, **more))
        yield faults


SQL_FAULTS = {"full": "database or disk is full", "locked": "database is locked", "I/O": "disk I/O error"}


def fail_sql(root: Path, message: str, nth: int, expected: Scores) -> str | None:
    """Let the ``nth`` SQL statement fail; its text, None when there are fewer."""
    with World(root) as world:
        with failing_sql(nth, message) as faults:
            world.attempt()
        verdict(world, expected)
        return faults.hit


# --- a write-ahead log that is lost ---------------------------------------------------------------------


def lose_log(root: Path, expected: Scores, name: str, nth: int) -> bool:
    """Die at the ``nth`` passing of a boundary and go on with what run.db holds without its write-ahead log.

    So is a run.db copied alone, or one on a mount that keeps the file and not what stands beside it. Returns whether
    the log held anything.
    """
    with World(root) as world:
        left, held = nth, 0

        def boundary(passed: str) -> None:
            nonlocal left, held
            left -= passed == name
            if left == 0 and passed == name:
                log = world.folder.database.with_name("run.db-wal")
                held = log.stat().st_size if log.is_file() else 0
                if world.folder.path.is_dir():
                    beside = shutil.ignore_patterns("run.db-wal", "run.db-shm")
                    shutil.copytree(world.folder.path, root / "copy", ignore=beside)
                raise Crash(name)

        world.boundary = boundary
        with pytest.raises(Crash):
            world.attempt()
        world.boundary = no_boundary
        if (root / "copy").is_dir():
            shutil.rmtree(world.folder.path)
            (root / "copy").rename(world.folder.path)
        verdict(world, expected)
        return held > 0


# --- kill -9 -----------------------------------------------------------------------------------------


def boundaries(root: Path) -> list[tuple[str, int]]:
    """(name, n-th passing) of every boundary the undisturbed run passes, in order."""
    passed: list[tuple[str, int]] = []
    seen: Counter[str] = Counter()

    def note(name: str) -> None:
        seen[name] += 1
        passed.append((name, seen[name]))

    with World(root) as world:
        world.boundary = note
        world.attempt()
    return passed


def kill(nursery: Nursery, root: Path, expected: Scores, *, kind: str, nth: int, name: str = "") -> bool:
    """Let a child process die by SIGKILL, then go on in this one; False when it came to its end first."""
    with World(root) as world, running(world.service) as url:
        killed = nursery.order(url=url, root=str(root), now=world.clock.wall, kind=kind, name=name, nth=nth)
        world.clock.sleep(10)
        if killed:
            check_invariants(world)
        verdict(world, expected)
        return killed
