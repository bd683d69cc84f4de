"""Counts kept in run.db: they are what counting gives, they are used, and nothing that changes leaves one standing."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from iwb_batch.store import database as db
from iwb_batch.store import kept, views
from iwb_batch.workflow.folder import RunFolder
from tests.auditing.support import PAIRS, RUN, TEXTS, tamper, values
from tests.cli.support import Cli
from tests.test_startup import HEAVY

HOLDING = "SELECT name FROM kept_count ORDER BY name"

CHANGES = {
    "another attempt": "INSERT INTO attempt (request_id, attempt, custom_id, request_file_id, line,"
    " token_limit, n_tokens) SELECT max(request_id), 9, 'one-more', 1, 99, 1, 1 FROM request",
    "another reading": "INSERT INTO reading (attempt_id, at, outcome)"
    " SELECT min(attempt_id), '', 'missing' FROM reading",
    "another request": "INSERT INTO request (item_index, criterion_index, criterion)"
    " SELECT min(item_index), 9, 'x' FROM item",
    "a reading changed": "UPDATE reading SET outcome = 'empty'"
    " WHERE reading_id = (SELECT max(reading_id) FROM reading)",
    "a reading deleted": "DELETE FROM reading WHERE reading_id = (SELECT min(reading_id) FROM reading)",
    "a request released": "UPDATE request SET released = 9",
    "a price learned": "UPDATE run SET price_input = 7.5",
    "a policy changed": "UPDATE policy SET allowed = 0",
    "a policy added": "INSERT INTO policy VALUES ('new', 'new', 1)",
    "a count itself": "UPDATE kept SET value = 1 WHERE name = 'retried_requests'",
    "a file made online": "UPDATE request_file SET online = 1",
}


@pytest.mark.parametrize("name", [RUN, PAIRS, TEXTS])
def test_a_command_that_worked_on_a_run_leaves_its_counts(cli: Cli, name: str) -> None:
    with closing(db.open_read_only(RunFolder(cli.runs / name).database)) as database:
        assert len(list(database.rows(HOLDING))) > 5
        assert kept.wrong(database) == []
        counted = {
            row["status"]: row["n"]
            for row in cli.query("select status, count(*) as n from request_status group by 1", name)
        }
        assert {word: n for word, n in views.status_counts(database).items() if n} == counted


def test_what_is_kept_is_shown_and_checked(cli: Cli, run: Path) -> None:
    forged = "UPDATE kept SET value = json_set(value, '$.scored', 4711) WHERE name = 'status_counts'"
    tamper(run, forged, without_triggers=True)
    assert cli("status", RUN, "--json").json()["scored"] == 4711
    done = cli("doctor", RUN, "--json")
    assert done.code == 1
    assert set(done.broken) == {"kept_counts_hold"}


ODD = ("{}", "null", "5", "[]", "[[1,2]]", '"x"', '{"scored":"many"}', "[[null,null,[],{}]]", "[[[],[],1,1,1,1,1]]")


@pytest.mark.parametrize("value", ODD)
def test_a_kept_value_of_any_shape_harms_nobody(cli: Cli, run: Path, value: str) -> None:
    shown = cli("status", RUN, "--json").json()
    for (name,) in values(run, "SELECT name FROM kept"):
        tamper(run, f"UPDATE kept SET value = '{value}' WHERE name = '{name}'", without_triggers=True)
    for words in (("status", RUN, "--json"), ("report", RUN), ("runs",), ("export", RUN, "--out", run / "out.zip")):
        assert cli(*words).code in (0, 4), words
    assert cli("status", RUN, "--json").json().keys() == shown.keys()
    done = cli("doctor", RUN, "--json")
    assert done.code == 1
    assert set(done.broken) == {"kept_counts_hold"}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_no_count_outlives_a_change(run: Path, change: str) -> None:
    assert values(run, HOLDING)
    tamper(run, change)
    assert values(run, HOLDING) == []


def test_counts_are_kept_again_by_the_next_command_that_works_on_the_run(cli: Cli, run: Path) -> None:
    tamper(run, "UPDATE run SET price_input = 7.5")
    before = cli("status", RUN, "--json").json()
    assert values(run, HOLDING) == [], "a look writes nothing"
    assert cli("reparse", RUN).code == 0
    assert values(run, HOLDING)
    assert cli("status", RUN, "--json").json() == before


def test_a_count_too_long_to_keep_is_counted_afresh(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "LARGEST", 20)
    tamper(run, "DELETE FROM kept")
    with closing(db.open_for_writing(RunFolder(run).database)) as database:
        kept.keep(database)
        names = {row[0] for row in database.rows(HOLDING)}
        assert "retried_requests" in names
        assert "status_counts" not in names
        assert views.status_counts(database) == {"scored": 14, "open": 0, "failed": 1}


def test_where_nothing_can_be_written_only_the_next_look_takes_longer(run: Path) -> None:
    tamper(run, "DELETE FROM kept")
    with closing(db.open_read_only(RunFolder(run).database)) as database:
        kept.keep(database)
    assert values(run, HOLDING) == []


LOOK = """
import json, sys
from iwb_batch.cli import run
code = run(sys.argv[2:])
print(json.dumps([code, [name for name in sys.argv[1].split(",") if name in sys.modules]]), file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["status", "runs"])
def test_a_look_loads_nothing_heavy(run: Path, command: str) -> None:
    modules = [*HEAVY, "orjson", "iwb_batch.workflow.judging", "iwb_batch.providers.base"]
    words = [sys.executable, "-c", LOOK, ",".join(modules), "--runs-dir", str(run.parent), command]
    done = subprocess.run(words, capture_output=True, check=True, encoding="utf-8", timeout=60)
    assert PAIRS in done.stdout, "the newest of them"
    assert json.loads(done.stderr) == [0, []]


def test_a_run_of_a_version_without_them_is_told_apart(cli: Cli, run: Path) -> None:
    tamper(run, "DROP VIEW kept_count")
    done = cli("status", RUN)
    assert done.code == 1
    assert "not made by this version of iwb-batch (no such table: kept_count)" in done.err
    assert "select versions from run" in done.err


def test_what_was_counted_in_a_step_that_is_taken_back_is_counted_again(run: Path) -> None:
    def taken_back(database: db.Database) -> None:
        with database.transaction():
            for table in ("judgement", "answer_text", "reading"):
                database.execute(f"DELETE FROM {table}")
            assert database.once("statuses", views.count_statuses)["scored"] == 0
            raise ZeroDivisionError

    with closing(db.open_for_writing(RunFolder(run).database)) as database:
        with pytest.raises(ZeroDivisionError):
            taken_back(database)
        assert database.once("statuses", views.count_statuses)["scored"] == 14


def test_one_look_counts_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tamper(run, "DELETE FROM kept")
    asked = []
    rows = db.Database.rows

    def counting(self: db.Database, sql: str, *parameters: object) -> object:
        asked.append(sql)
        return rows(self, sql, *parameters)  # type: ignore[arg-type]

    monkeypatch.setattr(db.Database, "rows", counting)
    with closing(db.open_read_only(RunFolder(run).database)) as database:
        first = (views.outcome_counts(database), views.models(database), views.tokens(database))
        assert (views.outcome_counts(database), views.models(database), views.tokens(database)) == first
    assert sum("FROM attempt_log" in sql for sql in asked) == 1
