"""Section ``curator``: bespokelabs-curator on the same items and answers, in an environment of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from functools import partial
from itertools import islice
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


@dataclass(frozen=True)
class Work:
    """All items for ours, the first of them for the slower peer; a run over all of them, submitted, and its answers."""

    python: str
    data: Data
    part: Data
    runs: Path
    answers: Path
    answers_part: Path


def _messages(paths: list[Path], lines: int) -> list[Any]:
    return [orjson.loads(line)["body"]["messages"] for line in islice(lines_of(*paths), lines)]


def _same_messages(work: Work, folder: Path, _run: Run) -> None:
    lines = work.part.requests
    if _messages([folder / "out.jsonl"], lines + 1) != _messages(ours.request_files(work.runs / "bench"), lines):
        raise WrongOutput("other messages than ours")


def _same_scores(expected: dict[str, int], folder: Path, _run: Run) -> None:
    rows = (json.loads(line) for line in lines_of(folder / "out.jsonl"))
    if {row["name"]: row["score"] for row in rows} != expected:
        raise WrongOutput("other scores than ours")


def _prepared(bench: Bench, python: str, place: Path) -> Work:
    sizes = bench.sizes
    shape = TINY if sizes.shapes == ("tiny",) else LARGE
    data = write_items(place / "data", shape, sizes.requests, sizes.seed)
    part = write_items(place / "part", shape, min(sizes.curator_lines, sizes.requests), sizes.seed)
    made = Variant("submit", "tests.bench.ours:command", lambda _: submit(data, place / "runs", "--max-resubmits", "0"))
    once(made, place / "submit")
    work = Work(python, data, part, place / "runs", place / "answers.jsonl", place / "answers_part.jsonl")
    judge.write_answers(ours.request_files(work.runs / "bench"), work.answers, shape, sizes.seed)
    with work.answers_part.open("wb") as out:
        out.writelines(line for line in lines_of(work.answers) if _index(line) < part.requests // 5)
    return work


def _index(line: bytes) -> int:
    return int(orjson.loads(line)["custom_id"].split("-")[1][1:])


def _inputs(data: Data, folder: Path) -> dict[str, Any]:
    return {"items": str(data.items), "responses": str(data.responses), "out": str(folder / "out.jsonl")}


def _build(bench: Bench, work: Work, table: Table, place: Path) -> None:
    variants = [
        Variant(COMMAND_BUILD, "tests.bench.ours:command", lambda folder: submit(work.data, folder / "runs")),
        Variant(RENDERED, "tests.bench.ours:render", lambda folder: {**_inputs(work.data, folder), "count": False}),
        Variant(
            CURATOR,
            "tests.bench.curator:build",
            partial(_inputs, work.part),
            partial(_same_messages, work),
            units=work.part.requests,
            python=work.python,
        ),
    ]
    in_turns(table, variants, min(TURNS, bench.sizes.repeat), place)


def _ingest(bench: Bench, work: Work, table: Table, place: Path) -> None:
    def copied(folder: Path) -> dict[str, Any]:
        shutil.copytree(work.runs, folder / "runs")
        return collect(folder / "runs", work.answers)

    def into(folder: Path) -> dict[str, Any]:
        return {**_inputs(work.part, folder), "answers": str(work.answers_part)}

    once(Variant("expected", "tests.bench.ours:command", copied), place / "expected")
    rows = rows_of(place / "expected" / "runs" / "bench" / "run.db", OURS_SQL)
    expected = {f"i{item}-c{place}": score for item, place, score, _ in rows if item < work.part.requests // 5}
    same, units = partial(_same_scores, expected), work.part.requests
    variants = [
        Variant(COMMAND_INGEST, "tests.bench.ours:command", copied),
        Variant(CURATOR, "tests.bench.curator:ingest", into, same, units=units, python=work.python),
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
    place = bench.place("curator")
    work = _prepared(bench, python, place)
    requests = work.data.requests
    bench.say(f"{CURATOR} {version}: {requests:,} lines, {work.part.requests:,} for it")
    built = Table("curator build", f"build beside {CURATOR} {version}", "lines", requests, CURATOR, bench.cpu)
    _build(bench, work, built, place / "build")
    taken = Table("curator ingest", f"ingest beside {CURATOR} {version}", "lines", requests, CURATOR, bench.cpu)
    _ingest(bench, work, taken, place / "ingest")
    bench.done([place])
    targets = [Target(f"{what}, times {CURATOR}", bound, built.speedup(name, CURATOR)) for name, what, bound in bounds]
    targets.append(Target(f"ingest: collect, times {CURATOR}", 150.0, taken.speedup(COMMAND_INGEST, CURATOR)))
    return Section("curator", [built, taken], targets)
