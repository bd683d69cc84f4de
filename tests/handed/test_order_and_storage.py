"""What must not matter (the order of lines, the shape of rows) and what the run file guarantees by itself."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iwb_batch.store import database as db
from tests.cli.support import (
    Cli,
    Done,
    Emulation,
    Inputs,
    Resource,
    Scripted,
    inputs,
    item,
    jsonl,
    own_score,
    responses,
    stored,
    verdict,
)
from tests.handed.support import change
from tests.handed.wire import scored

OUTPUTS = (
    *(["report", "--format", form] for form in ("table", "markdown", "csv", "json")),
    *(["export", "--format", form] for form in ("csv", "jsonl")),
)


def answer_lines(cli: Cli) -> list[bytes]:
    """A good answer to each request of the only run, its score by its place."""
    return [
        json.dumps({"custom_id": line["custom_id"], **scored(1 + place % 10)}).encode() + b"\n"
        for place, line in enumerate(cli.lines())
    ]


def test_the_order_of_answer_lines_changes_no_byte_of_any_report(
    cli: Cli, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = cli("submit", *inputs(tmp_path / "in", 4).options, "--provider", "files", "--run", "mine", "--yes")
    assert done.code == 0, done.err
    lines = answer_lines(cli)
    seen: set[tuple[str, ...]] = set()
    for seed in range(6):
        copy = Cli(tmp_path / f"runs-{seed}", capsys)
        shutil.copytree(cli.folder, copy.runs / "mine")
        Random(seed).shuffle(lines)
        half = len(lines) // (1 + seed % 3)
        parts = [tmp_path / f"{seed}-a.jsonl", tmp_path / f"{seed}-b.jsonl"]
        parts[0].write_bytes(b"".join(lines[:half]))
        parts[1].write_bytes(b"".join(lines[half:]) or lines[0])
        collected = copy("collect", "--from", *parts)
        assert collected.code == 0, collected.err
        seen.add(tuple(copy(*command).out for command in OUTPUTS))
    assert len(seen) == 1
    assert '"score": 5.5' in next(iter(seen))[3]


def test_a_step_of_storing_that_fails_leaves_all_or_nothing(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    """Five of ten judgements could be written and the sixth not: then none is, and the next command stores all ten."""
    resource = emulate(judge=Scripted(own_score))
    assert cli.submit(two, "--run", "mine").code == 0
    path = cli.folder / "run.db"
    stop = (
        "CREATE TRIGGER stop BEFORE INSERT ON judgement WHEN (SELECT count(*) FROM judgement) >= 5"
        " BEGIN SELECT RAISE(ABORT, 'no more today'); END"
    )
    change(path, stop)
    cli("collect", "--wait", "0").refused(1, "run.db", "no more today", hint="doctor")
    assert stored(path, "SELECT (SELECT count(*) FROM judgement), (SELECT count(*) FROM reading)") == [(0, 0)]
    assert stored(path, "SELECT state FROM batch") == [("ended",)]
    status = cli("status", "--json").json()
    assert (status["scored"], status["open"], status["state"]) == (0, 10, "running")
    change(path, "DROP TRIGGER stop")
    assert cli("collect", "--wait", "0").code == 0
    assert cli("status", "--json").json()["scored"] == 10
    assert stored(path, "SELECT count(*) FROM raw_line WHERE kind = 'answer'") == [(10,)]
    assert len(resource.service.batches_created) == 1
    assert cli("doctor", "mine").code == 0


def wide(row: dict[str, Any], keys: int) -> dict[str, Any]:
    """A row with many more keys than anybody needs, the wanted ones last."""
    return {**{f"note {number}": [number, None, "x"] for number in range(keys)}, **row}


@pytest.mark.parametrize("where", ["responses", "items"])
def test_one_row_with_thousands_of_keys_is_a_row_like_any_other(
    cli: Cli, tmp_path: Path, resource: Resource, where: str
) -> None:
    given = inputs(tmp_path / "in", 21)
    rows: dict[str, list[dict[str, Any]]] = {"responses": responses(21), "items": [item(n) for n in range(21)]}
    rows[where][20] = wide(rows[where][20], 2_500)
    jsonl(given.answers, rows["responses"])
    jsonl(given.data, rows["items"])
    done = cli.submit(given)
    assert done.code == 0, done.err
    assert cli.collect().code == 0
    assert cli("report", "--format", "json").json()["n_complete"] == 21


def test_scores_are_integers_between_1_and_10_and_sort_as_numbers(cli: Cli, tmp_path: Path, emulate: Emulation) -> None:
    """Scores 10, none and 9: as text 9 would be the largest and 10 the first."""
    said = {"#0#": verdict(10), "#1#": "no verdict", "#2#": verdict(9)}
    emulate(judge=Scripted(lambda prompt: next(answer for mark, answer in said.items() if mark in prompt)))
    assert cli.submit(inputs(tmp_path / "in", 3), "--max-resubmits", "0").code == 0
    assert cli.collect().code == 4
    (found,) = cli.query(
        "select max(score) as largest, min(score) as least, avg(score) as mean, count(*) as n from score"
    )
    assert found == {"largest": 10, "least": 9, "mean": 9.5, "n": 10}
    ordered = cli.query("select distinct score from score order by score")
    assert [row["score"] for row in ordered] == [9, 10]
    assert cli.query("select score from item_score order by score desc nulls last") == [
        {"score": 10.0},
        {"score": 9.0},
        {"score": None},
    ]
    path = cli.folder / "run.db"
    assert stored(path, "SELECT DISTINCT typeof(score) FROM judgement") == [("integer",)]
    for wrong in ("11", "0", "7.5", "'nine'"):
        with pytest.raises(sqlite3.IntegrityError):
            change(path, f"UPDATE judgement SET score = {wrong}")


NUL = "before\0after"


def read_json(done: Done) -> str:
    text: str = done.json()[0]["answer"]
    return text


def read_csv(done: Done) -> str:
    return next(csv.DictReader(io.StringIO(done.out)))["answer"]


@pytest.mark.parametrize(("form", "read"), [("json", read_json), ("csv", read_csv)])
def test_text_behind_a_nul_is_in_every_output(
    cli: Cli, two: Inputs, emulate: Emulation, form: str, read: Callable[[Done], str]
) -> None:
    emulate(judge=Scripted(lambda _: verdict(6, NUL)))
    jsonl(two.answers, [{"index": 0, "response": NUL}, responses(2)[1]])
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    assert read(cli("query", "select answer from response where item_index = 0", "--format", form)) == NUL
    assert sum(NUL in line["body"]["messages"][-1]["content"] for line in cli.lines()) == 5
    shown = cli("show", "0").out
    assert "before" in shown
    assert "after" in shown
    assert "\0" not in shown
    exported = [json.loads(line) for line in cli("export", "--format", "jsonl").out.split("\n") if line]
    assert {row["reason"] for row in exported} == {NUL}


def commits(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> int:
    """Transactions that a whole ``collect`` makes."""
    made = 0
    execute = db.Database.execute

    def counted(self: db.Database, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        nonlocal made
        made += sql == "COMMIT"
        return execute(self, sql, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(db.Database, "execute", counted)
        assert cli("collect", "--wait", "0").code == 0
    return made


def test_a_slow_disk_is_paid_for_once_a_file_and_not_once_a_line(
    cli: Cli, tmp_path: Path, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    for n in (1, 30):
        assert cli.submit(inputs(tmp_path / f"in{n}", n), "--run", f"of{n}").code == 0
        made.append(commits(cli, monkeypatch))
    assert made[0] == made[1] > 0
