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
    jsonl,
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


def wide(row: dict[str, Any], keys: int) -> dict[str, Any]:
    """A row with many more keys than anybody needs, the wanted ones last."""
    return {**{f"note {number}": [number, None, "x"] for number in range(keys)}, **row}


def test_a_response_row_with_thousands_of_keys_is_a_row_like_any_other(
    cli: Cli, tmp_path: Path, resource: Resource
) -> None:
    given = inputs(tmp_path / "in", 21)
    rows = responses(21)
    rows[20] = wide(rows[20], 2_500)
    jsonl(given.answers, rows)
    done = cli.submit(given)
    assert done.code == 0, done.err
    assert cli.collect().code == 0
    assert cli("report", "--format", "json").json()["n_complete"] == 21


def test_the_run_file_takes_no_score_off_the_scale(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    path = cli.folder / "run.db"
    before = stored(path, "SELECT * FROM judgement")
    for wrong in ("11", "0", "7.5", "'nine'"):
        with pytest.raises(sqlite3.IntegrityError):
            change(path, f"UPDATE judgement SET score = {wrong}")
    assert stored(path, "SELECT * FROM judgement") == before
    assert stored(path, "SELECT DISTINCT typeof(score) FROM judgement") == [("integer",)]


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
