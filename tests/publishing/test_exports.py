"""``export --format parquet|dataset``: the same rows, for other programs."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from iwb_batch.workflow import tabular
from tests.cli.support import Cli, stored
from tests.publishing.support import FORMULA, HOSTILE, N


def table(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def test_parquet_holds_the_judgements_as_they_are(cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "j.parquet"
    done = cli("export", "first", "--format", "parquet", "--out", target)
    assert done.code == 0, done.err
    assert "59 judgements" in done.out
    found = table(target)
    kept = stored(cli.runs / "first" / "run.db", "SELECT * FROM score ORDER BY item_index, criterion_index, repeat")
    assert [tuple(row.values()) for row in found] == kept
    assert {row["reason"][:1] for row in found} == {"<", "="}


def test_number_columns_are_numbers(cli: Cli, tmp_path: Path) -> None:
    assert cli("export", "first", "--format", "parquet", "--out", tmp_path / "j.parquet").code == 0
    types = {field.name: str(field.type) for field in pq.read_schema(tmp_path / "j.parquet")}
    assert types["score"] == types["item_index"] == types["criterion_index"] == types["repeat"] == "int64"
    assert types["reason"] == types["variant"] == "string"


def test_the_same_run_gives_the_same_file(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert cli("export", "first", "--format", "parquet", "--out", tmp_path / name).code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_many_row_groups_lose_nothing(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "ROWS", 7)
    assert cli("export", "first", "--format", "parquet", "--out", tmp_path / "j.parquet").code == 0
    assert pq.ParquetFile(tmp_path / "j.parquet").num_row_groups == 9
    assert len(table(tmp_path / "j.parquet")) == 59


def test_csv_is_safe_for_spreadsheets_where_parquet_is_exact(cli: Cli, tmp_path: Path) -> None:
    done = cli("export", "first", "--format", "csv")
    reasons = [row["reason"] for row in csv.DictReader(io.StringIO(done.out))]
    assert f"'{FORMULA}" in reasons
    assert FORMULA not in reasons
    assert cli("export", "first", "--format", "parquet", "--out", tmp_path / "j.parquet").code == 0
    assert FORMULA in [row["reason"] for row in table(tmp_path / "j.parquet")]


def test_load_dataset_opens_the_folder(cli: Cli, tmp_path: Path) -> None:
    import datasets  # type: ignore[import-untyped]

    target = tmp_path / "made" / "data"
    done = cli("export", "first", "--format", "dataset", "--out", target)
    assert done.code == 0, done.err
    expected = {"judgements": 59, "item_scores": N, "attempts": 62}
    for name, n in expected.items():
        found = datasets.load_dataset(str(target), name, split="test", cache_dir=str(tmp_path / "cache"))
        assert found.num_rows == n
    default = datasets.load_dataset(str(target), split="test", cache_dir=str(tmp_path / "cache"))
    assert default.column_names[:2] == ["item_id", "item_index"]
    assert any(HOSTILE in reason for reason in default["reason"])


def test_the_card_says_what_is_there(cli: Cli, tmp_path: Path) -> None:
    assert cli("export", "rehearsal", "--format", "dataset", "--out", tmp_path / "d").code == 0
    card = (tmp_path / "d" / "README.md").read_text(encoding="utf-8")
    assert "# REHEARSAL" in card
    assert "60 of 60" in card
    assert {path.name for path in tmp_path.iterdir()} == {"d"}


def test_an_existing_folder_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    cli("export", "first", "--format", "dataset", "--out", tmp_path / "mine").refused(1, "exists already", hint="--out")
    assert (tmp_path / "mine").read_bytes() == b"mine"


@pytest.mark.parametrize(("run", "n"), [("pairs", 18), ("sides", 18)])
def test_pairs_are_exported_too(cli: Cli, tmp_path: Path, run: str, n: int) -> None:
    assert cli("export", run, "--format", "dataset", "--out", tmp_path / run).code == 0
    assert len(table(tmp_path / run / "judgements.parquet")) == n
