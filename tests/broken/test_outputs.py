"""What a command writes never lands on the files a run consists of, and says nothing of what is not there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.cli.support import Cli, Inputs, Resource

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
