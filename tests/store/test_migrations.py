"""Run files of other versions: brought up to date step by step, each step whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from iwb_batch.errors import DamagedRun, RunError
from iwb_batch.store import database as db
from iwb_batch.store.database import Database

NEXT = db.SCHEMA_VERSION + 1
AFTER = NEXT + 1
ADD = (NEXT, "a remark for each item", "CREATE TABLE remark (item_index INTEGER PRIMARY KEY, text TEXT) STRICT;\n")
FILL = (AFTER, "a first remark", "INSERT INTO remark VALUES (0, 'kept');\nINSERT INTO remark VALUES (1, 'too');\n")
BROKEN = (
    AFTER,
    "a step that fails",
    "INSERT INTO remark VALUES (0, 'kept');\nINSERT INTO remark VALUES (0, 'twice');\n",
)


@pytest.fixture
def run_file(tmp_path: Path) -> Iterator[Database]:
    with db.create(tmp_path / "run.db") as database:
        yield database


def version(database: Database) -> int:
    return int(database.value("PRAGMA user_version"))


def events(database: Database) -> list[str]:
    return [row[0] for row in database.rows("SELECT detail FROM event WHERE kind = 'migrated' ORDER BY event_id")]


def test_a_new_file_needs_no_step(run_file: Database) -> None:
    assert version(run_file) == db.SCHEMA_VERSION
    db.migrate(run_file, [ADD], db.SCHEMA_VERSION)
    assert (version(run_file), events(run_file)) == (db.SCHEMA_VERSION, [])


def test_steps_are_applied_in_order_and_once(run_file: Database) -> None:
    db.migrate(run_file, [ADD, FILL], AFTER)
    db.migrate(run_file, [ADD, FILL], AFTER)
    assert version(run_file) == AFTER
    assert [row[0] for row in run_file.rows("SELECT text FROM remark ORDER BY item_index")] == ["kept", "too"]
    assert events(run_file) == [f"{name}: schema version {reached}" for reached, name, _ in (ADD, FILL)]


def test_a_file_halfway_takes_only_the_steps_it_lacks(run_file: Database) -> None:
    db.migrate(run_file, [ADD], NEXT)
    db.migrate(run_file, [ADD, FILL], AFTER)
    assert (version(run_file), len(events(run_file))) == (AFTER, 2)


def test_a_step_that_fails_leaves_the_file_as_the_step_before_left_it(run_file: Database) -> None:
    with pytest.raises(RunError):
        db.migrate(run_file, [ADD, BROKEN], AFTER)
    assert version(run_file) == NEXT
    assert run_file.value("SELECT count(*) FROM remark") == 0
    db.migrate(run_file, [ADD, FILL], AFTER)
    assert version(run_file) == AFTER


@pytest.mark.parametrize("strange", [0, AFTER], ids=["no version", "a newer version"])
def test_a_file_of_no_known_version_is_refused_and_left_alone(run_file: Database, strange: int) -> None:
    run_file.execute(f"PRAGMA user_version = {strange:d}")
    with pytest.raises(DamagedRun) as refused:
        db.migrate(run_file, [ADD], NEXT)
    assert refused.value.hint
    assert version(run_file) == strange
    assert run_file.value("SELECT count(*) FROM sqlite_master WHERE name = 'remark'") == 0
