"""Section ``curator``: bespokelabs-curator on the same items and answers, in an environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from tests.bench import judge, ours
from tests.bench.bench import Bench, Section, Target
from tests.bench.building import submit
from tests.bench.data import LARGE, TINY, Data, lines_of, write_items
from tests.bench.ingesting import OURS_SQL, collect, rows_of
from tests.bench.measure import Run, Table, Variant, WrongOutput, in_turns, once

COMMAND_BUILD, RENDERED = "ours: iwb-batch submit", "ours: rendering only"
COMMAND_INGEST = "ours: iwb-batch collect"
CURATOR = "bespokelabs-curator"
TURNS = 3
LOOKUP = "from importlib.metadata import version; print(version('bespokelabs-curator'))"


def version_of(python: str | None) -> str | None:
    """Which version an interpreter has; None: none."""
    if python is None:
        return None
    try:
        done = subprocess.run([python, "-c", LOOKUP], capture_output=True, encoding="utf-8", check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _messages(paths: list[Path]) -> list[Any]:
    return [orjson.loads(line)["body"]["messages"] for line in lines_of(*paths)]


def _same_messages(expected: Path, folder: Path, _run: Run) -> None:
    if _messages([folder / "out.jsonl"]) != _messages(ours.request_files(expected)):
        raise WrongOutput("other messages than ours")


def _same_scores(expected: dict[str, int], folder: Path, _run: Run) -> None:
    rows = (json.loads(line) for line in lines_of(folder / "out.jsonl"))
    if {row["name"]: row["score"] for row in rows} != expected:
        raise WrongOutput("other scores than ours")


def _build(bench: Bench, python: str, data: Data, run: Path, table: Table, place: Path) -> None:
    def into(folder: Path) -> dict[str, Any]:
        return {"items": str(data.items), "responses": str(data.responses), "out": str(folder / "out.jsonl")}

    variants = [
        Variant(COMMAND_BUILD, "tests.bench.ours:command", lambda folder: submit(data, folder / "runs")),
        Variant(RENDERED, "tests.bench.ours:render", lambda folder: {**into(folder), "count": False}),
        Variant(CURATOR, "tests.bench.curator:build", into, partial(_same_messages, run), python=python),
    ]
    in_turns(table, variants, min(TURNS, bench.sizes.repeat), place)


def _ingest(bench: Bench, python: str, data: Data, runs: Path, answers: Path, table: Table, place: Path) -> None:
    def copied(folder: Path) -> dict[str, Any]:
        shutil.copytree(runs, folder / "runs")
        return collect(folder / "runs", answers)

    def into(folder: Path) -> dict[str, Any]:
        given = {"items": str(data.items), "responses": str(data.responses), "answers": str(answers)}
        return {**given, "out": str(folder / "out.jsonl")}

    once(Variant("expected", "tests.bench.ours:command", copied), place / "expected")
    rows = rows_of(place / "expected" / "runs" / "bench" / "run.db", OURS_SQL)
    same = partial(_same_scores, {f"i{item}-c{criterion}": score for item, criterion, score, _ in rows})
    variants = [
        Variant(COMMAND_INGEST, "tests.bench.ours:command", copied),
        Variant(CURATOR, "tests.bench.curator:ingest", into, same, python=python),
    ]
    in_turns(table, variants, min(TURNS, bench.sizes.repeat), place)


def section(bench: Bench) -> Section:
    """Two tables, or a note why there are none."""
    version, python = version_of(bench.curator), bench.curator
    bounds = ((RENDERED, "build: rendering", 20.0), (COMMAND_BUILD, "build: whole submit", 20.0))
    if version is None or python is None:
        why = (
            "--curator names no interpreter"
            if python is None
            else f"{CURATOR} is not installed for {Path(python).name}"
        )
        targets = [Target(f"{what}, times {CURATOR}", bound, None) for _, what, bound in bounds]
        targets.append(Target(f"ingest: collect, times {CURATOR}", 150.0, None))
        return Section("curator", [], targets, ["", f"{CURATOR}: not measured: {why}"])
    place, sizes = bench.place("curator"), bench.sizes
    shape = TINY if sizes.shapes == ("tiny",) else LARGE
    data = write_items(place / "data", shape, sizes.curator_lines, sizes.seed)
    made = Variant("submit", "tests.bench.ours:command", lambda _: submit(data, place / "runs", "--max-resubmits", "0"))
    once(made, place / "submit")
    answers, run = place / "answers.jsonl", place / "runs" / "bench"
    judge.write_answers(ours.request_files(run), answers, shape, sizes.seed)
    tables = [
        Table("curator build", f"build beside {CURATOR} {version}", "lines", data.requests, CURATOR, bench.cpu),
        Table("curator ingest", f"ingest beside {CURATOR} {version}", "lines", data.requests, CURATOR, bench.cpu),
    ]
    bench.say(f"{CURATOR} {version}: {data.requests:,} lines")
    _build(bench, python, data, run, tables[0], place / "build")
    _ingest(bench, python, data, place / "runs", answers, tables[1], place / "ingest")
    bench.done([place])
    targets = [Target(f"{what}, times {CURATOR}", n, tables[0].speedup(name, CURATOR)) for name, what, n in bounds]
    ingested = tables[1].speedup(COMMAND_INGEST, CURATOR)
    return Section("curator", tables, [*targets, Target(f"ingest: collect, times {CURATOR}", 150.0, ingested)])
