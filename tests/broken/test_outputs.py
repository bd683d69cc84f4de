"""What a command writes never lands on the files a run consists of, and says nothing of what is not there."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.cli.support import Cli, Emulation, Inputs, Resource

WRITERS = {
    "export csv": ["export", "--format", "csv", "--out"],
    "export bundle": ["export", "--out"],
    "export parquet": ["export", "--format", "parquet", "--out"],
    "report page": ["report", "--html"],
    "report plots": ["report", "--plots"],
}


def content(folder: Path) -> dict[str, str]:
    """sha256 of every file of a run but its log and lock."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("run.db-wal", "run.db-shm")]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("place", ["run.db", "run.db-wal", "run.lock", "requests/0001.jsonl", "raw/x.jsonl"])
@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS.keys())
def test_a_file_of_a_run_is_never_written_over(
    cli: Cli, two: Inputs, resource: Resource, writer: list[str], place: str
) -> None:
    assert cli.submit(two).code == 0
    before = content(cli.folder)
    cli(*writer, cli.folder / place).refused(2, "belongs to the run", cli.folder.name)
    assert content(cli.folder) == before


def test_other_places_in_a_run_folder_are_free(cli: Cli, two: Inputs, resource: Resource, tmp_path: Path) -> None:
    assert cli.submit(two).code == 0
    assert cli("export", "--format", "csv", "--out", cli.folder / "report" / "mine.csv").code == 0
    assert cli("export", "--format", "csv", "--out", tmp_path / "run.db.csv").code == 0


def test_a_run_without_answers_is_compared_as_neither_rehearsal_nor_real(
    cli: Cli, two: Inputs, resource: Resource
) -> None:
    assert cli.submit(two, "--run", "rehearsed").code == 0
    assert cli.collect().code == 0
    assert cli.submit(two, "--run", "waiting").code == 0
    done = cli("compare", "rehearsed", "waiting")
    assert done.code == 0, done.err
    assert done.out.startswith("REHEARSAL")


MANY = re.compile(
    r"\b1 (requests|answers|items|pairs|batches|verdicts|files|request files|lines|checks|warnings|scores)\b"
)


def test_no_message_speaks_of_1_requests(cli: Cli, tmp_path: Path, emulate: Emulation) -> None:
    """One pair in one order: every count is 1 at some time."""
    emulate(faults={"batches": [{"fault": "all_errored", "kind": "rejected", "times": 1}]})
    side = {"score": 1, "model": "m", "completion_tokens": 9, "prompt_tokens": 5}
    pair = {"prompt": "a poem", "prompt_id": "p", "tag": "t", "chosen": {"response": "a", **side}}
    data = tmp_path / "pairs_en.json"
    data.write_text(json.dumps([{**pair, "rejected": {"response": "b", **side}}]), encoding="utf-8")
    given = [
        "--benchmark",
        "writing-preference-bench",
        "--dataset",
        str(data),
        "--orders",
        "chosen-first",
        "--wait",
        "0",
    ]
    said: list[str] = []
    commands = [
        ["submit", *given, "--run", "one"],
        ["collect", "--wait", "0"],
        ["status"],
        ["report"],
        ["collect", "--retry", "all", "--yes", "--watch", "--poll-interval", "0.02", "--wait", "0"],
        ["status"],
        ["report", "--format", "markdown"],
        ["report", "--format", "csv"],
        ["doctor", "one"],
        ["reparse"],
        ["show", "0"],
        ["submit", *given, "--run", "one"],
        ["cancel", "--yes"],
        ["collect", "--delete-remote", "--yes"],
        ["export", "--format", "csv", "--out", str(tmp_path / "out.csv")],
        ["submit", *given, "--run", "by-hand", "--provider", "files"],
        ["collect", "by-hand"],
        ["collect", "by-hand", "--close"],
        ["cancel", "by-hand", "--yes"],
    ]
    for command in commands:
        done = cli(*command)
        assert "unexpected" not in done.err
        said += [*done.out.split("\n"), *done.err.split("\n")]
    assert "1 request in 1 request file" in "\n".join(said)
    assert [line for line in said if MANY.search(line)] == []
