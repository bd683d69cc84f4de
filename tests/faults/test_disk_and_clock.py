"""Disk, database and clock: full, read-only, locked, on a network drive, set back, asleep."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.emulator.faults import FaultPlan, HttpFault
from iwb_batch.errors import DamagedRun, IwbError, RunError
from iwb_batch.store import database as db
from iwb_batch.workflow.folder import WholeFile
from iwb_batch.workflow.settings import Waiting
from tests.faults.conftest import Build
from tests.faults.harness import GRACE, START, Scores, plan
from tests.faults.invariants import check_invariants
from tests.faults.sweeping import failing_files, failing_sql

LOST = HttpFault(fault="lost_reply", method="POST", path="^/batches$", nth=(1,))


def test_a_clock_set_back_by_a_year_delays_a_lost_create_by_the_grace_period_only(build: Build) -> None:
    fault = HttpFault(fault="reset_before", method="POST", path="^/batches$", nth=(1,))
    world = build(faults=FaultPlan(http=[fault]), n_items=1)
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    world.submit()
    world.clock.jump(-365 * 86_400)
    for _ in range(4):
        world.collect(wait=0.0)
    assert world.posts("/batches") == 1, "the grace period has not passed by any clock"
    started = world.clock.monotonic()
    assert world.collect(watch=True) == 0
    assert world.clock.monotonic() - started < 10 * GRACE
    check_invariants(world)


def test_a_clock_set_back_does_not_keep_a_back_off_for_a_year(build: Build) -> None:
    fault = HttpFault(fault="status", status=429, retry_after=300, method="POST", path="^/batches$", nth=(1,))
    world = build(faults=FaultPlan(http=[fault]), n_items=1)
    world.waiting = Waiting(wait=0.0, grace=GRACE)
    world.submit()
    assert world.posts("/batches") == 1
    world.clock.jump(-365 * 86_400)
    assert world.collect(watch=True) == 0
    assert world.clock.now() < START - 364 * 86_400
    check_invariants(world)


@pytest.mark.parametrize("jump", [-86_400.0, -3.0, 86_400.0], ids=["a day back", "three seconds back", "a day ahead"])
@pytest.mark.parametrize("name", ["create_intent", "upload_answered", "create_answered", "ended", "collected"])
def test_a_clock_that_jumps_between_two_commands(build: Build, expected: Scores, name: str, jump: float) -> None:
    world = build()
    assert world.crash(name)
    world.clock.jump(jump)
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)


def test_a_laptop_that_slept_for_a_week_in_the_middle(build: Build, expected: Scores) -> None:
    """The wall clock goes on, the monotonic one stands still; the first call afterwards finds a dead connection."""
    world = build(faults=plan(http=[HttpFault(fault="reset_before", nth=(20, 21))]))
    calls = 0
    handle = world.service.handle

    def sleepy(request: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 20:
            world.clock.jump(7 * 86_400)
        return handle(request)

    world.service.handle = sleepy  # type: ignore[method-assign]
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)


# --- database ----------------------------------------------------------------------------------------


def test_a_reader_with_an_open_transaction_holds_up_nothing(build: Build, expected: Scores) -> None:
    world = build()
    world.submit()
    reader = sqlite3.connect(f"{world.folder.database.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    reader.execute("BEGIN")
    before = reader.execute("SELECT count(*) FROM event").fetchone()
    assert world.finish() == 0
    assert reader.execute("SELECT count(*) FROM event").fetchone() == before
    reader.close()
    assert world.scores() == expected
    check_invariants(world)


def test_a_writer_is_waited_for(build: Build, expected: Scores) -> None:
    """Another program holds the write lock for a moment while the run works."""
    world = build()
    world.submit()
    other = sqlite3.connect(world.folder.database, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    release.start()
    try:
        assert world.finish() == 0
    finally:
        release.join()
        other.close()
    assert world.errors == []
    assert world.scores() == expected


def test_a_writer_that_never_lets_go_is_named_and_nothing_is_half_written(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = build()
    world.submit()
    monkeypatch.setattr(db, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(world.folder.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RunError, match="another program holds the database") as held:
        world.collect()
    assert "nothing was half-written" in str(held.value.hint)
    other.execute("ROLLBACK")
    other.close()
    assert world.finish() == 0
    check_invariants(world)


def test_the_rollback_journal_is_used_where_the_first_lock_of_the_write_ahead_log_fails(
    build: Build, expected: Scores
) -> None:
    """A network drive: the switch succeeds, the first statement that needs shared memory does not."""
    connect = sqlite3.connect

    class NetworkDrive(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            if sql.startswith("BEGIN") and super().execute("PRAGMA journal_mode").fetchone()[0] == "wal":
                message = "disk I/O error"
                raise sqlite3.OperationalError(message)
            return super().execute(sql, parameters)

    world = build()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, factory=NetworkDrive, **more))
        assert world.finish() == 0
        assert world.errors == []
    assert world.value("PRAGMA journal_mode") == "delete"
    assert world.scores() == expected
    check_invariants(world)


def test_opening_that_fails_half_way_leaves_no_lock_behind(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is kept, and with it everything it refers to; the connection must be closed all the same."""
    world = build()
    world.submit()
    monkeypatch.setattr(db, "BUSY_SECONDS", 0.05)
    kept = []
    for nth in range(1, 12):
        with failing_sql(nth, "disk I/O error"):
            try:
                db.open_for_writing(world.folder.database).close()
            except RunError as error:
                kept.append(error)
        with db.open_for_writing(world.folder.database) as database, database.transaction():
            database.execute("UPDATE run SET standing_reason = NULL")
    assert kept


def test_a_copy_of_the_folder_without_its_side_files_is_whole(build: Build, expected: Scores, tmp_path: Path) -> None:
    """After each command the write-ahead log is folded into run.db, so copying the one file is enough."""
    world = build()
    assert world.finish() == 0
    assert not world.folder.database.with_name("run.db-wal").exists()
    copy = tmp_path / "run.db"
    shutil.copy(world.folder.database, copy)
    with db.open_read_only(copy) as database:
        assert database.value("SELECT count(*) FROM score") == len(expected)


def test_a_damaged_run_file_is_said_to_be_damaged(build: Build) -> None:
    world = build()
    world.submit()
    whole = world.folder.database.read_bytes()
    world.folder.database.write_bytes(b"not a database at all" + whole[21:])
    with pytest.raises(DamagedRun, match="not a readable SQLite file"):
        world.collect()


# --- disk --------------------------------------------------------------------------------------------


def test_a_disk_that_is_full_for_good_is_said_once_and_costs_nothing(build: Build, expected: Scores) -> None:
    world = build()
    world.submit()

    with failing_files(world.runs_dir, 0, 28) as faults:
        original = faults.step

        def full(what: str, path: Any) -> None:
            if what in ("write", "flush"):
                raise OSError(28, "No space left on device", os.fspath(path))
            original(what, path)

        faults.step = full  # type: ignore[method-assign]
        for _ in range(3):
            with pytest.raises(RunError, match=r"no space left in .*raw") as error:
                world.collect(watch=True)
            assert "TMPDIR counts too" in str(error.value.hint)
    assert world.outcomes() == {}
    assert list(world.folder.raw.iterdir()) == []
    assert world.finish() == 0
    assert world.scores() == expected
    check_invariants(world)


def test_a_full_database_names_the_folder_and_the_temporary_folder(build: Build) -> None:
    world = build()
    world.submit()
    with (
        failing_sql(40, "database or disk is full"),
        pytest.raises(RunError, match="the disk refused a write") as error,
    ):
        world.collect(watch=True)
    assert "TMPDIR" in str(error.value.hint)
    assert world.finish() == 0
    check_invariants(world)


def test_a_read_only_runs_folder_is_refused_before_anything_is_sent(build: Build) -> None:
    world = build()
    with failing_files(world.runs_dir, 1, 30), pytest.raises(RunError, match="not permitted"):
        world.submit()
    assert world.service.calls == []


def test_a_request_file_that_was_changed_is_not_sent(build: Build) -> None:
    world = build()
    assert world.crash("request_file_planned", 2)
    path = world.folder.requests / "0001.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"gpt-5.4", b"gpt-5.5"))
    with pytest.raises(DamagedRun, match=r"0001.jsonl: missing or changed"):
        world.submit()
    assert (world.posts("/files"), world.posts("/batches")) == (0, 0)
    path.write_bytes(whole)
    assert world.finish() == 0
    check_invariants(world)


def test_a_raw_file_is_on_disk_before_the_database_knows_of_it(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Power-loss ordering: file synced, then renamed, then its folder synced, and only then the transaction."""
    order: list[str] = []
    fsync, replace, execute = os.fsync, Path.replace, db.Database.execute

    def noted_execute(self: db.Database, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        if "INTO raw_file" in sql or "INTO batch (" in sql:
            order.append("row of raw_file" if "raw_file" in sql else "row of batch")
        return execute(self, sql, parameters)

    def noted_replace(self: Path, target: Any) -> Path:
        order.append(f"rename in {Path(target).parent.name}")
        return replace(self, target)

    def noted_fsync(handle: int) -> None:
        order.append("sync of a folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "sync")  # noqa: PTH112
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    monkeypatch.setattr(db.Database, "execute", noted_execute)
    world = build(n_items=1, faults=FaultPlan())
    assert world.finish() == 0
    whole = ["sync", "rename in requests", "sync of a folder", "row of batch"]
    start = order.index("sync", order.index("sync of a folder") + 2) if order[0] != "sync" else 0
    assert order[start : start + 4] == whole
    raw = order[order.index("rename in raw") - 1 :]
    assert raw[:3] == ["sync", "rename in raw", "sync of a folder"]
    assert raw.index("row of raw_file") > raw.index("sync of a folder")


def test_a_whole_file_leaves_nothing_when_closing_fails(tmp_path: Path) -> None:
    target = tmp_path / "0001.jsonl"

    def write() -> None:
        with WholeFile(target) as whole:
            whole.write(b"{}\n")
            whole.commit()

    with failing_files(tmp_path, 2, 28), pytest.raises(IwbError, match="no space left"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_every_error_of_the_file_system_is_one_of_ours(build: Build) -> None:
    """Raw OSErrors would show as a traceback; the sweep over all operations asserts the same for each N."""
    world = build()
    with failing_files(world.runs_dir, 12, 5):
        assert world.attempt() is None
    assert isinstance(world.errors[0], RunError)
    assert world.finish() == 0
