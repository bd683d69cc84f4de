"""Section ``ingest``: result files into judgements."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from tests.bench import judge, ours
from tests.bench.bench import Bench, Section, Target
from tests.bench.building import SHAPES, submit
from tests.bench.data import SMALL, Shape, write_items
from tests.bench.measure import Run, Table, Variant, WrongOutput, in_turns, once

COMMAND = "ours: iwb-batch collect"
TYPICAL = "typical script"
NAIVE = "naive script"
FLOOR = "floor: parse only"

OURS_SQL = "SELECT item_index, criterion_index, score, reason FROM score ORDER BY 1, 2"
THEIRS_SQL = (
    "SELECT item_index, criterion_index, score, explanation FROM scores WHERE score IS NOT NULL {} ORDER BY 1, 2"
)


def submitted(data_folder: Path, place: Path, shape: Shape, requests: int, seed: int) -> tuple[Path, Path, int]:
    """A folder of runs with one submitted run, a result file for it, and its number of lines."""
    data = write_items(data_folder, shape, requests, seed)
    variant = Variant(
        "submit", "tests.bench.ours:command", lambda _: submit(data, place / "runs", "--max-resubmits", "0")
    )
    once(variant, place / "submit")
    answers = place / "answers.jsonl"
    written = judge.write_answers(ours.request_files(place / "runs" / "bench"), answers, shape, seed + 1)
    return place / "runs", answers, written.lines


def collect(runs: Path, answers: Path) -> dict[str, Any]:
    """Arguments of ``ours.command``: take a result file; some requests end without a judgement."""
    return {
        "arguments": ["--runs-dir", str(runs), "collect", "bench", "--from", str(answers), "--yes"],
        "codes": [0, 4],
    }


def rows_of(database: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


class Comparison:
    """The judgements of every variant have to be those of the first one looked at, as far as it went."""

    def __init__(self) -> None:
        self._expected: dict[tuple[int, int], tuple[Any, ...]] = {}

    def check(self, rows: list[tuple[Any, ...]], *, partial: bool = False) -> None:
        """Raise WrongOutput where rows differ."""
        found = {row[:2]: row[2:] for row in rows}
        if not found:
            raise WrongOutput("no judgement")
        if not self._expected:
            self._expected = found
        differing = [key for key, row in found.items() if self._expected.get(key) != row]
        if differing or (len(found) != len(self._expected) and not partial):
            raise WrongOutput(f"{len(found)} judgements instead of {len(self._expected)}; differing: {differing[:5]}")

    def ours(self, folder: Path, _run: Run) -> None:
        """A run's judgements."""
        self.check(rows_of(folder / "runs" / "bench" / "run.db", OURS_SQL))

    def typical(self, folder: Path, _run: Run) -> None:
        """The typical script's."""
        self.check(rows_of(folder / "scores.db", THEIRS_SQL.format("")))

    def naive(self, folder: Path, _run: Run) -> None:
        """The naive script's, of the first lines."""
        self.check(rows_of(folder / "scores.db", THEIRS_SQL.format("")), partial=True)


def _variants(runs: Path, answers: Path, lines: int) -> list[Variant]:
    same = Comparison()

    def copied(folder: Path) -> dict[str, Any]:
        shutil.copytree(runs, folder / "runs")
        return collect(folder / "runs", answers)

    def into(folder: Path) -> dict[str, Any]:
        return {"answers": str(answers), "database": str(folder / "scores.db")}

    base = "tests.bench.baselines"
    return [
        Variant(COMMAND, "tests.bench.ours:command", copied, same.ours),
        Variant(TYPICAL, f"{base}:typical_ingest", into, same.typical),
        Variant(
            NAIVE,
            f"{base}:naive_ingest",
            lambda folder: {**into(folder), "lines": lines},
            same.naive,
            units=lines,
        ),
        Variant(FLOOR, f"{base}:parse_only", lambda _: {"answers": str(answers)}),
    ]


def section(bench: Bench) -> Section:
    """One table."""
    sizes, place = bench.sizes, bench.place("ingest")
    shape = SHAPES[sizes.shapes[0]] if sizes.shapes == ("tiny",) else SMALL
    runs, answers, lines = submitted(place / "data", place, shape, sizes.requests, sizes.seed)
    title = f"ingest: {lines:,} lines of {answers.stat().st_size / lines / 1000:.1f} KB"
    table = Table("ingest", title, "lines", lines, TYPICAL, bench.cpu)
    bench.say(title)
    in_turns(table, _variants(runs, answers, min(lines, sizes.naive_lines)), sizes.repeat, place)
    bench.done([place])
    targets = [
        Target("ingest: collect into run.db, times the typical script", 4.0, table.speedup(COMMAND, TYPICAL)),
        Target("ingest: collect into run.db, share of parsing only", 0.25, table.speedup(COMMAND, FLOOR)),
    ]
    return Section("ingest", [table], targets)
