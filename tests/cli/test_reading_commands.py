"""``status``, ``report``, ``query``, ``show``, ``runs``: they only read, whatever state a run is in."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from pathlib import Path

import pytest

from tests.cli.support import (
    CRITERIA,
    Cli,
    Emulation,
    Inputs,
    Resource,
    Scripted,
    check_schema,
    inputs,
    item,
    jsonl,
    own_score,
    verdict,
)


@pytest.fixture
def judged(cli: Cli, two: Inputs, emulate: Emulation) -> Cli:
    """A finished run named ``mine``."""
    emulate(judge=Scripted(own_score))
    assert cli.submit(two, "--run", "mine").code == 0
    assert cli.collect().code == 0
    return cli


def content(folder: Path) -> dict[str, str]:
    """Hash of every file of a run that is neither SQLite's own nor a copy of a report."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-wal", "-shm")) and path.parent.name != "report"
    }


def test_reading_changes_nothing(judged: Cli) -> None:
    before = content(judged.folder)
    commands = [
        *(["status"], ["status", "--json"], ["report"], ["report", "--format", "json"], ["report", "--format", "csv"]),
        *(["report", "--format", "markdown"], ["query", "select * from score"], ["show", "0"], ["show", "0", "--json"]),
        *(["runs"], ["runs", "--json"]),
    ]
    for command in commands:
        done = judged(*command)
        assert done.code == 0, (command, done.err)
        assert done.err == ""
        assert done.out.endswith("\n")
        assert not done.out.endswith("\n\n")
    assert content(judged.folder) == before


def test_the_run_folder_keeps_what_report_prints(judged: Cli) -> None:
    kept = judged.folder / "report"
    for form, name in {"table": "txt", "markdown": "md", "csv": "csv", "json": "json"}.items():
        printed = judged("report", "--format", form)
        assert printed.code == 0, printed.err
        assert (kept / f"report.{name}").read_text(encoding="utf-8") == printed.out
    assert judged("report", "--compat", "--format", "json").out == (kept / "compat.json").read_text(encoding="utf-8")
    assert {path.stat().st_mode & 0o777 for path in kept.iterdir()} == {0o600}


def test_a_run_that_cannot_keep_its_report_is_reported_all_the_same(judged: Cli) -> None:
    kept = judged.folder / "report"
    kept.rmdir()
    kept.write_bytes(b"in the way")
    done = judged("report")
    assert (done.code, "Overall" in done.out) == (0, True)
    assert done.err.startswith("note: no copy in the run folder: ")


STATES: dict[str, tuple[dict[str, object], list[str], int, str]] = {
    "planned": ({"pending_polls": 9}, [], 3, "running"),
    "running": ({"polls_per_stage": 9}, [], 3, "running"),
    "complete": ({}, ["collect"], 0, "complete"),
    "incomplete": ({"faults": {"requests": [{"fault": "rejected", "nth": [1]}]}}, ["collect"], 4, "incomplete"),
    "halted": ({"faults": {"batches": [{"fault": "all_errored", "kind": "rejected"}]}}, ["collect"], 4, "halted"),
    "stopped": ({"pending_polls": 9}, ["cancel"], 3, "stopped"),
}


@pytest.mark.parametrize(("settings", "then", "code", "state"), STATES.values(), ids=STATES.keys())
def test_every_state_can_be_read(
    cli: Cli,
    two: Inputs,
    emulate: Emulation,
    settings: dict[str, object],
    then: list[str],
    code: int,
    state: str,
) -> None:
    emulate(**settings)  # type: ignore[arg-type]
    assert cli.submit(two).code in (0, 3)
    for name in then:
        cli(name, *(["--yes"] if name == "cancel" else ["--wait", "0"]))
    status = cli("status", "--json")
    assert status.code == 0
    check_schema(status.json(), "status.schema.json")
    assert status.json()["state"] == state
    assert cli("status").code == 0
    report = cli("report", "--format", "json")
    assert report.code == code
    check_schema(report.json(), "report-rubric.schema.json")
    for form in ("table", "markdown", "csv"):
        done = cli("report", "--format", form)
        assert done.code == code
        assert done.out
    assert cli("query", "select 1 as one").code == 0
    assert cli("show", "0").code == 0
    assert [entry["state"] for entry in cli("runs", "--json").json()] == [state]


def test_status_counts_agree_with_the_run(judged: Cli) -> None:
    status = judged("status", "--json").json()
    assert {name: status[name] for name in ("run", "state", "planned", "scored", "open", "failed")} == {
        "run": "mine",
        "state": "complete",
        "planned": 10,
        "scored": 10,
        "open": 0,
        "failed": 0,
    }
    assert status["outcomes"] == {"valid": 10}
    assert [batch["n_requests"] for batch in status["batches"]] == [10]
    assert status["tokens"] == {"prompt": 1000, "cached": 0, "completion": 200, "reasoning": 50}
    assert status["cost_usd"] == pytest.approx((1000 * 1.25 + 200 * 7.5) / 1e6)


def test_report_csv_and_markdown_hold_the_overall_score(judged: Cli) -> None:
    assert judged("report", "--format", "json").json()["overall"]["score"] == 1.5
    rows = list(csv.DictReader(io.StringIO(judged("report", "--format", "csv").out)))
    assert any("1.5" in row.values() for row in rows)
    assert "1.50" in judged("report", "--format", "markdown").out
    assert "1.50" in judged("report").out


def test_the_same_run_gives_the_same_bytes(judged: Cli) -> None:
    for form in ("table", "markdown", "csv", "json"):
        assert judged("report", "--format", form).out == judged("report", "--format", form).out


def test_one_argument_of_query_is_the_sql(judged: Cli) -> None:
    sql = "select criterion, score from score where item_index = 1 order by criterion_index"
    expected = [{"criterion": name, "score": 2} for name in CRITERIA]
    assert judged("query", sql, "--format", "json").json() == expected
    assert judged("query", "mine", sql, "--format", "json").json() == expected


def test_query_writes_four_formats(judged: Cli) -> None:
    sql = "select criterion, score, null as empty from score where item_index = 0 limit 2"
    table = judged("query", sql).out.split("\n")
    assert table[0].split() == ["criterion", "score", "empty"]
    assert table[2].split() == ["Clarity", "1", "NULL"]
    assert judged("query", sql, "--format", "csv").out.split("\n")[1] == "Clarity,1,"
    lines = judged("query", sql, "--format", "jsonl").out.strip().split("\n")
    assert json.loads(lines[0]) == {"criterion": "Clarity", "score": 1, "empty": None}
    assert len(judged("query", sql, "--format", "json").json()) == 2
    assert judged("query", "select 1 where 0", "--format", "json").json() == []


WRITES = {
    "update": "update judgement set score = 10",
    "delete": "delete from judgement",
    "insert": "insert into event (at, kind) values ('x', 'y')",
    "drop": "drop table judgement",
    "create": "create table x (y)",
    "pragma": "pragma user_version = 7",
    "vacuum": "vacuum into 'copy.db'",
    "attach": "attach 'other.db' as other",
    "writable schema": "pragma writable_schema = 1; delete from sqlite_schema",
    "two statements": "select 1; delete from judgement",
    "with": "with x as (select 1) delete from judgement",
}


@pytest.mark.parametrize("sql", WRITES.values(), ids=WRITES.keys())
def test_sql_that_writes_is_refused(judged: Cli, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    before = content(judged.folder)
    done = judged("query", sql)
    done.refused(2, "SQL: ", hint="read-only")
    assert done.out == ""
    assert content(judged.folder) == before
    assert os.listdir(elsewhere) == []  # noqa: PTH208


@pytest.mark.parametrize("sql", ["select", "select x from nothing", "", "select '", "select 'a' 'b' ; ;;"])
def test_wrong_sql_is_a_usage_error(judged: Cli, sql: str) -> None:
    done = judged("query", sql)
    assert done.code == 2, (done.out, done.err)
    assert done.hint


def test_too_many_arguments_of_query_ask_for_quotes(judged: Cli) -> None:
    judged("query", "mine", "select", "1").refused(2, "too many arguments", hint="quotes")


def test_show_tells_everything_about_an_item(judged: Cli) -> None:
    text = judged("show", "1").out
    assert "Write a letter to a landlord" in text
    assert "Dear Mr Rao" in text
    for name in CRITERIA:
        assert name in text
    assert "A fair text." in text
    found = judged("show", "mine", "1", "--json").json()
    assert found["item_index"] == 1
    assert [request["criterion"] for request in found["requests"]] == list(CRITERIA)
    assert found["requests"][0]["attempt_log"][0]["score"] == 2
    assert found["requests"][0]["messages"][1]["content"].count("Dear Mr Rao") == 1
    assert [
        request["criterion_index"] for request in judged("show", "1", "--json", "--criterion", "3").json()["requests"]
    ] == [3]


def test_show_of_an_index_that_is_not_there_says_how_to_list_them(judged: Cli) -> None:
    judged("show", "77").refused(1, "index 77: the run has no such item", hint="select item_index")


@pytest.mark.parametrize("index", ["one", "١", "1.0"])
def test_show_takes_an_index_in_ascii_digits(judged: Cli, index: str) -> None:
    assert judged("show", index).code == 2


def test_a_run_that_does_not_exist_says_how_to_list_them(cli: Cli) -> None:
    for command in (
        ["status", "nowhere"],
        ["report", "nowhere"],
        ["collect", "nowhere"],
        ["query", "nowhere", "select 1"],
    ):
        cli(*command).refused(1, "nowhere: no such run", hint="iwb-batch runs")


def test_without_a_run_the_way_to_make_one_is_named(cli: Cli) -> None:
    for command in (["status"], ["report"], ["collect"], ["show", "0"], ["query", "select 1"]):
        cli(*command).refused(1, "no runs", hint="submit")


def test_the_newest_run_is_the_default_and_runs_lists_it_first(cli: Cli, two: Inputs, resource: Resource) -> None:
    for name in ("zzz", "aaa", "mmm"):
        assert cli.submit(two, "--run", name, "--model-name", name).code == 0
    os.utime(cli.runs / "zzz" / "run.db")
    assert cli("status", "--json").json()["run"] == "mmm"
    assert [entry["run"] for entry in cli("runs", "--json").json()] == ["mmm", "aaa", "zzz"]
    assert cli("runs").out.split("\n")[2].split()[0] == "mmm"


HOSTILE = "\x1b[2J\x07\u202eevil\r\n🙂 अच्छा"


def test_text_from_outside_cannot_steer_the_terminal(cli: Cli, tmp_path: Path, emulate: Emulation) -> None:
    emulate(judge=Scripted(lambda _: verdict(5, HOSTILE)))
    row = item(0, domain=HOSTILE, query=f"ask {HOSTILE}")
    given = Inputs(
        jsonl(tmp_path / "items.jsonl", [row]), jsonl(tmp_path / "m.jsonl", [{"index": 0, "response": HOSTILE}])
    )
    assert cli.submit(given).code == 0
    assert cli.collect().code == 0
    for command in (["show", "0"], ["report"], ["status"], ["query", "select reason from judgement"]):
        done = cli(*command)
        assert done.code == 0, done.err
        assert not set(done.out) & set("\x1b\x07\u202e\r"), command
    assert "🙂 अच्छा" in cli("show", "0").out
    assert cli.query("select distinct reason from judgement") == [{"reason": HOSTILE}]


FORMULAS = ['=HYPERLINK("http://example.invalid","x")', "+1+1", "@SUM(1)", "\t=1+1", "\u200b=1+1", "-3 degrees"]


def test_text_in_csv_is_no_formula_and_numbers_stay_numbers(cli: Cli, tmp_path: Path, resource: Resource) -> None:
    given = inputs(tmp_path / "seven", 7)
    jsonl(given.answers, [{"index": n, "response": text} for n, text in enumerate([*FORMULAS, "plain"])])
    assert cli.submit(given).code == 0
    sql = "select item_index, answer, -item_index as less from response order by item_index"
    rows = list(csv.DictReader(io.StringIO(cli("query", sql, "--format", "csv").out)))
    assert [row["answer"] for row in rows] == [*(f"'{text}" for text in FORMULAS), "plain"]
    assert [row["less"] for row in rows] == [str(-n) for n in range(7)]
    assert [row["answer"] for row in cli.query(sql)] == [*FORMULAS, "plain"]


def test_what_is_no_run_is_passed_over(judged: Cli) -> None:
    (judged.runs / ".staging-0123456789ab").mkdir()
    (judged.runs / "notes").mkdir()
    (judged.runs / "notes.txt").write_text("mine", encoding="utf-8")
    (judged.runs / "broken").mkdir()
    (judged.runs / "broken" / "run.db").write_bytes(b"")
    assert [entry["run"] for entry in judged("runs", "--json").json()] == ["mine", "broken"]
    assert "unreadable" in judged("runs").out
    assert judged("status", "--json").json()["run"] == "mine"
    judged("status", "broken").refused(1, "not a run file of iwb-batch", hint="iwb-batch runs")


def test_a_folder_of_somebody_else_is_passed_over(judged: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run folders are closed to all others, so in a shared folder of runs one cannot be looked into."""
    (judged.runs / "theirs").mkdir()
    is_file = Path.is_file

    def closed(path: Path) -> bool:
        if path.parent.name == "theirs":
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", closed)
    assert [run["run"] for run in judged("runs", "--json").json()] == ["mine"]
    assert judged("status").code == 0
