"""``export --format parquet|dataset``: judgements for other programs, and a folder that ``load_dataset`` opens."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iwb_batch.errors import RunError
from iwb_batch.report.display import whole
from iwb_batch.report.formats import to_markdown
from iwb_batch.report.tables import REHEARSAL, Document, Table, count, n_of
from iwb_batch.store import exports, views
from iwb_batch.store.database import Database
from iwb_batch.store.exports import ExportTable
from iwb_batch.store.facts import run_facts
from iwb_batch.workflow import looking
from iwb_batch.workflow.folder import RunFolder, WholeFile, explained

ROWS = 5_000
"""Rows held in memory at once, and of one row group."""


def write_parquet(folder: RunFolder, target: Path) -> int:
    """Write the judgements as one Parquet file, whole or not at all; returns how many. RunError: none."""
    with looking.reading(folder) as database:
        _check(views.run(database))
        with WholeFile(target) as file:
            n = _write_table(exports.judgements(database), file)
            file.commit()
    return n


def write_dataset(folder: RunFolder, target: Path) -> dict[str, int]:
    """Write a data set folder: a card and one Parquet file for each table; returns rows by table.

    RunError: the target exists, or the run has no judgements.
    """
    if target.exists():
        raise RunError(f"{target}: exists already", hint="Name a folder that does not exist yet with --out.")
    with looking.reading(folder) as database, explained(target.parent):
        _check(views.run(database))
        target.parent.mkdir(parents=True, exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=".export-", dir=target.parent))
        try:
            counts = _fill(database, staged)
            staged.rename(target)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    return counts


def _check(run: views.Run) -> None:
    if run.protocol == "generate":
        raise RunError(
            f"run {run.name} has no judgements: its answers are generated texts", hint="Export a run that was judged."
        )


def _fill(database: Database, folder: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table in exports.tables(database):
        with WholeFile(folder / f"{table.name}.parquet") as file:
            counts[table.name] = _write_table(table, file)
            file.commit()
    with WholeFile(folder / "README.md") as file:
        file.write(whole(_card(database, counts)).encode("utf-8"))
        file.commit()
    return counts


class _Sink(io.RawIOBase):
    """A whole file as the stream that Parquet is written to."""

    def __init__(self, target: WholeFile) -> None:
        self._target = target

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._target.write(bytes(data))

    def tell(self) -> int:
        return self._target.n_bytes


def _write_table(table: ExportTable, target: WholeFile) -> int:
    """Stream a table into a Parquet file; returns its rows. Texts are exactly those of run.db."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    types = {"integer": pa.int64(), "number": pa.float64(), "text": pa.string()}
    schema = pa.schema([pa.field(name, types[kind]) for name, kind in table.columns])
    n = 0
    with pq.ParquetWriter(_Sink(target), schema, compression="zstd") as writer:
        for rows in _batches(table.rows):
            columns = list(zip(*rows, strict=True))
            writer.write_table(
                pa.table([pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema)
            )
            n += len(rows)
    return n


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    held: list[tuple[Any, ...]] = []
    for row in rows:
        held.append(row)
        if len(held) == ROWS:
            yield held
            held = []
    if held:
        yield held


_ABOUT = {
    "judgements": "one row for each valid verdict, with the labels of its item and the judge's reason",
    "item_scores": "one row for each item; score is empty unless every planned verdict is there",
    "attempts": "every request sent, with its outcome, tokens and the answer as it came",
}
_FAILED = "A request that failed has no row among the judgements; it is in attempts with its outcome, and is no score."


def _card(database: Database, counts: dict[str, int]) -> str:
    """The README that names the tables to ``load_dataset`` and says what they are."""
    run, facts = views.run(database), run_facts(database)
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: test\n    path: {name}.parquet\n"
        + ("  default: true\n" if name == "judgements" else "")
        for name in counts
    )
    settings = (
        ("run", run.name),
        ("benchmark", run.benchmark),
        ("model", run.model_name),
        ("judge", run.judge),
        ("models that answered", ", ".join(sorted(facts.models)) or "none"),
        ("requests scored", n_of(facts.n_scored, facts.n_planned)),
        ("prompt sha256", run.prompt_sha256),
        ("data sha256", run.data_sha256),
        ("responses sha256", run.responses_sha256),
    )
    tables = Table(
        "Tables",
        ("table", "rows", "what"),
        tuple((name, count(n), _ABOUT[name]) for name, n in counts.items()),
        _FAILED,
    )
    mark = REHEARSAL if facts.rehearsal else ""
    return f"---\nconfigs:\n{configs}---\n\n" + to_markdown(
        Document(f"{mark}judgements of {run.name}", settings, (tables,))
    )
