"""Opening run.db: pragmas, schema version, transactions, and SQLite's errors in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from iwb_batch import schemas
from iwb_batch.errors import DamagedRun, InputError, IwbError, RunError, UsageError

T = TypeVar("T")

SCHEMA_VERSION = 1
"""Version of schemas/run.sql. Raise it together with a step in ``MIGRATIONS``."""

MIGRATIONS: tuple[tuple[int, str, str], ...] = ()
"""Steps from older versions: (version reached, name, SQL). schemas/run.sql is always the whole present schema."""

BUSY_SECONDS = 30.0

PAGE_BYTES = 16_384
"""Of a new run file. Most rows are texts of a few kilobytes: in SQLite's own 4,096 they take a tenth more space
and a third more time to write."""

_STORAGE_HINT = "Free some space (the run folder, and the folder TMPDIR names), then run the same command again."


def _explain(path: Path, error: sqlite3.Error) -> IwbError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return RunError(
            f"{path}: another program holds the database ({text})",
            hint="Close viewers that write to it, or wait, then run the same command again; nothing was half-written.",
        )
    if "full" in text or "disk I/O" in text:
        return RunError(f"{path}: the disk refused a write ({text})", hint=_STORAGE_HINT)
    if "readonly" in text or "unable to open" in text:
        return RunError(f"{path}: cannot be written ({text})", hint="Check the permissions of the run folder.")
    if "malformed" in text or "not a database" in text:
        return DamagedRun(
            f"{path}: not a readable SQLite file ({text})", hint="Restore it from a copy; raw/ holds all answers."
        )
    if "no such table" in text or "no such column" in text:
        return DamagedRun(
            f"{path}: not made by this version of iwb-batch ({text})",
            hint="Use the version that made the run: `iwb-batch query RUN 'select versions from run'` names it.",
        )
    return RunError(f"{path}: {text}", hint="Run `iwb-batch doctor RUN` to see which rule does not hold.")


def _no_other_files(action: int, *_: object) -> int:
    return sqlite3.SQLITE_DENY if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH) else sqlite3.SQLITE_OK


def _bad_sql(error: Exception) -> UsageError:
    return UsageError(
        f"SQL: {error}", hint="One read-only statement; docs/audit.md lists tables and views with their columns."
    )


class Database:
    """One connection to a run file. Rows are ``sqlite3.Row``."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection
        self._connection.row_factory = sqlite3.Row
        self._depth = 0
        self._once: dict[str, tuple[int, Any]] = {}

    def close(self) -> None:
        """Close the connection; folds the write-ahead log into the file when we are the last."""
        self._connection.close()

    def once(self, name: str, count: Callable[[Database], T]) -> T:
        """What a count gives, counted again only after this connection has changed something.

        Nobody else changes a run that is worked on; one that is looked at is seen as it was at the first look.
        """
        changes = self._connection.total_changes
        if name not in self._once or self._once[name][0] != changes:
            self._once[name] = (changes, count(self))
        found: T = self._once[name][1]
        return found

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _explain(self.path, error) from error

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Cursor:
        """Run one statement."""
        with self._explained():
            return self._connection.execute(sql, parameters)

    def execute_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run one statement for each row, streamed."""
        with self._explained():
            self._connection.executemany(sql, rows)

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Iterator[sqlite3.Row]:
        """Stream the rows of a query."""
        with self._explained():
            yield from self._connection.execute(sql, parameters)

    def row(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> sqlite3.Row | None:
        """The first row, or None."""
        found: sqlite3.Row | None = self.execute(sql, parameters).fetchone()
        return found

    def value(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    def users_query(self, sql: str) -> tuple[list[str], Iterator[sqlite3.Row]]:
        """A user's SQL: (column names, rows). Other files cannot be attached. UsageError: the SQL is wrong."""
        self._connection.set_authorizer(_no_other_files)
        try:
            cursor = self._connection.execute(sql)
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _bad_sql(error) from error
        return [d[0] for d in cursor.description or ()], self._users_rows(cursor)

    def _users_rows(self, cursor: sqlite3.Cursor) -> Iterator[sqlite3.Row]:
        try:
            yield from cursor
        except sqlite3.Error as error:
            raise _bad_sql(error) from error

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """For what may as well be left undone: give up at once where another program holds the file."""
        self.execute("PRAGMA busy_timeout = 100")
        try:
            yield
        finally:
            self.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. Nested use joins the outer transaction."""
        if self._depth:
            yield
            return
        self.execute("BEGIN IMMEDIATE")
        self._depth = 1
        try:
            yield
            self.execute("COMMIT")
        finally:
            # Reached without a commit on any error, Ctrl-C included: a half-made step must not be committed later.
            self._depth = 0
            if self._connection.in_transaction:
                self._once.clear()  # what was counted of a step that is taken back
                with self._explained():
                    self._connection.rollback()


@contextmanager
def _closed_on_error(database: Database) -> Iterator[Database]:
    """A database that stays open unless opening it fails half-way: an open connection may hold a lock."""
    with ExitStack() as stack:
        stack.callback(database.close)
        yield database
        stack.pop_all()


def create(path: Path) -> Database:
    """Create an empty run file with the present schema, for its owner only (SQLite's side files inherit that)."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise RunError(f"{path}: cannot be created ({error.strerror})", hint=_STORAGE_HINT) from error
    with _closed_on_error(_connect(path, f"{path.absolute().as_uri()}?mode=rwc")) as database:
        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        _set_journal(database)
        with database.transaction():
            for statement in statements(schemas.read_text("run.sql")):
                database.execute(statement)
            database.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        return database


def open_for_writing(path: Path) -> Database:
    """Open an existing run file, bringing an older schema up to date first."""
    _require(path)
    with _closed_on_error(_connect(path, f"{path.absolute().as_uri()}?mode=rw")) as database:
        _set_journal(database)
        migrate(database, MIGRATIONS, SCHEMA_VERSION)
        return database


def open_read_only(path: Path) -> Database:
    """Open an existing run file without being able to change it."""
    _require(path)
    database = _connect_read_only(path)
    version = int(database.value("PRAGMA user_version") or 0)
    if version != SCHEMA_VERSION:
        database.close()
        raise DamagedRun(_version_message(path, version, SCHEMA_VERSION), hint=_version_hint(version, SCHEMA_VERSION))
    return database


def migrate(database: Database, steps: Iterable[tuple[int, str, str]], target: int) -> None:
    """Apply the steps the file has not seen, each in one transaction with its version number."""
    version = int(database.value("PRAGMA user_version") or 0)
    if version == target:
        return
    if version == 0 or version > target:
        raise DamagedRun(_version_message(database.path, version, target), hint=_version_hint(version, target))
    for reached, name, sql in steps:
        if reached <= version:
            continue
        with database.transaction():
            for statement in statements(sql):
                database.execute(statement)
            database.execute(
                "INSERT INTO event (at, kind, detail) VALUES (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 'migrated', ?)",
                (f"{name}: schema version {reached}",),
            )
            database.execute(f"PRAGMA user_version = {reached:d}")


def statements(script: str) -> Iterator[str]:
    """Split an SQL script into statements; trigger bodies stay whole."""
    pending = ""
    for line in script.split("\n"):
        pending += line + "\n"
        if line.rstrip().endswith(";") and sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip() and not all(part.strip().startswith("--") or not part.strip() for part in pending.split("\n")):
        yield pending


def _require(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: no such run file", hint="`iwb-batch runs` lists the runs in the runs folder.")


def _connect(path: Path, uri: str) -> Database:
    try:
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    return Database(path, connection)


def _connect_read_only(path: Path) -> Database:
    uri = path.absolute().as_uri()
    try:
        return _connect(path, f"{uri}?mode=ro")
    except RunError:
        # A write-ahead-log file in a folder that cannot be written: readable when no log is beside it.
        if path.with_name(path.name + "-wal").exists():
            raise
        return _connect(path, f"{uri}?immutable=1")


def _set_journal(database: Database) -> None:
    """Write-ahead log for readers during a write; on file systems without it the rollback journal."""
    if not _takes_wal(database):
        database.execute("PRAGMA journal_mode = DELETE")
    # Writes are few and each may guard money: a commit must survive a power cut.
    database.execute("PRAGMA synchronous = FULL")


def _takes_wal(database: Database) -> bool:
    """Switch to the write-ahead log; on some network drives the switch succeeds and the first lock fails."""
    try:
        if str(database.value("PRAGMA journal_mode = WAL") or "").lower() != "wal":
            return False
        with database.transaction():
            pass  # the first lock is taken and let go
    except RunError:
        return False
    return True


def _version_message(path: Path, version: int, target: int) -> str:
    if version == 0:
        return f"{path}: not a run file of iwb-batch"
    return f"{path}: schema version {version}, this program reads {target}"


def _version_hint(version: int, target: int) -> str:
    if version == 0:
        return "Name a run of the runs folder; `iwb-batch runs` lists them."
    if version > target:
        return "Install the newer iwb-batch that wrote it."
    return "Run `iwb-batch collect RUN` once: it brings the file up to date."
