"""Section ``report``: numbers of a large run, beside pandas over the same scores."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from tests.bench.bench import Bench, Section, Target
from tests.bench.growing import run_of
from tests.bench.measure import Run, Table, Variant, WrongOutput, in_turns

REPORT = "ours: iwb-batch report --format json"
COMPARE = "ours: iwb-batch compare"
STATUS = "ours: iwb-batch status --json"
ON_RUN = "pandas over run.db's view score"
ON_FLAT = "pandas over one flat table"


def flat_table(run: Path, target: Path) -> Path:
    """The scores alone, as a script would keep them: one table, no index."""
    connection = sqlite3.connect(target)
    try:
        connection.execute("ATTACH ? AS run", (str(run / "run.db"),))
        connection.execute(
            "CREATE TABLE score AS SELECT item_index, domain, language, criterion_index, score FROM run.score"
        )
        connection.commit()
    finally:
        connection.close()
    return target


def second_run(runs: Path) -> None:
    """Beside ``bench`` a run of another model on the same items, its scores shifted for two thirds of them."""
    other = runs / "bench-other"
    shutil.copytree(runs / "bench", other, dirs_exist_ok=True)
    connection = sqlite3.connect(other / "run.db")
    try:
        connection.execute("UPDATE run SET name = 'bench-other', model_name = 'other-model', run_id = 'fedcba9876'")
        connection.execute("UPDATE judgement SET score = min(10, max(1, score + reading_id % 3 - 1))")
        connection.commit()
    finally:
        connection.close()


class Figures:
    """What the report said, and what pandas has to say too."""

    def __init__(self) -> None:
        self._report: dict[str, Any] = {}

    def report(self, folder: Path, _run: Run) -> None:
        """Keep ours."""
        self._report = json.loads((folder / "stdout").read_text(encoding="utf-8"))

    def pandas(self, _folder: Path, run: Run) -> None:
        """Compare theirs with ours."""
        ours = {
            "overall": self._report["overall"]["score"],
            **{name: self._group(name) for name in ("domain", "language")},
            "histogram": {score: n for score, n in self._report["histogram"].items() if n},
        }
        if not same(ours, run.value):
            raise WrongOutput(f"the report says {ours}, pandas {run.value}")

    def _group(self, name: str) -> dict[str, float]:
        """Scores by label; a label without a complete item has none."""
        rows = self._report["by"][name]
        return {row["label"]: row["score"] for row in rows if row["score"] is not None}


def same(one: Any, other: Any) -> bool:
    """Equal, numbers up to rounding errors."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def _told(folder: Path, _run: Run) -> None:
    json.loads((folder / "stdout").read_text(encoding="utf-8"))


def _command(runs: Path, *words: str) -> dict[str, Any]:
    return {"arguments": ["--runs-dir", str(runs), *words], "codes": [0, 4]}


def _variants(runs: Path, flat: Path, figures: Figures) -> list[Variant]:
    own, pandas = "tests.bench.ours:command", "tests.bench.baselines:pandas_report"
    compared = ("compare", "bench", "bench-other", "--format", "json")
    return [
        Variant(REPORT, own, lambda _: _command(runs, "report", "bench", "--format", "json"), figures.report),
        Variant(ON_RUN, pandas, lambda _: {"database": str(runs / "bench" / "run.db")}, figures.pandas),
        Variant(ON_FLAT, pandas, lambda _: {"database": str(flat)}, figures.pandas),
        Variant(STATUS, own, lambda _: _command(runs, "status", "bench", "--json"), _told),
        Variant(COMPARE, own, lambda _: _command(runs, *compared), _told),
    ]


def section(bench: Bench) -> Section:
    """One table over one run, compared with a second."""
    runs, place = run_of(bench, bench.sizes.scores), bench.place("report")
    flat = flat_table(runs / "bench", place / "flat.db")
    second_run(runs)
    connection = sqlite3.connect(flat)
    (scores,) = connection.execute("SELECT count(*) FROM score").fetchone()
    connection.close()
    n_bytes = (runs / "bench" / "run.db").stat().st_size
    title = f"report: {scores:,} scores, run.db of {n_bytes / 1e6:,.0f} MB"
    bench.say(title)
    table = Table("report", title, "scores", scores, ON_FLAT, bench.cpu, costs=True)
    in_turns(table, _variants(runs, flat, Figures()), bench.sizes.repeat, place)
    bench.done([place, runs / "bench-other"])
    cost = {name: table.speedup(name, REPORT, whole=True) for name in (ON_RUN, ON_FLAT)}
    targets = [
        Target("report: time of pandas over the same run.db", 0.8, cost[ON_RUN], at_most=True),
        Target("report: time of pandas over one flat table", 0.8, cost[ON_FLAT], at_most=True),
        Target("report: peak memory", 50.0, table.peak(REPORT), "MiB", at_most=True),
    ]
    return Section("report", [table], targets)
