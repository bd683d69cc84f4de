"""Section ``build``: request files from items and responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path

import orjson

from tests.bench import ours
from tests.bench.bench import Bench, Section, Target
from tests.bench.data import LARGE, SMALL, TINY, Data, Shape, lines_of, write_items
from tests.bench.measure import Run, Table, Variant, WrongOutput, in_turns, once

SHAPES = {shape.name: shape for shape in (LARGE, SMALL, TINY)}
COMMAND = "ours: iwb-batch submit"
COUNTED = "ours: rendering, tokens counted"
RENDERED = "ours: rendering only"
NAIVE = "naive script"
NAIVE_RENDERED = "naive, rendering only"
ORJSON = "orjson, the full line"
FLOOR = "floor: write ready lines"


def submit(data: Data, runs: Path, *more: str) -> dict[str, object]:
    """Arguments of ``ours.command`` for a run of these data, answered by files."""
    options = [*data.options, "--run", "bench", "--provider", "files", "--yes", *more]
    return {"arguments": ["--runs-dir", str(runs), "submit", *options], "codes": [0]}


def _inputs(data: Data, folder: Path) -> dict[str, object]:
    return {"items": str(data.items), "responses": str(data.responses), "out": str(folder / "out.jsonl")}


def same_requests(found: list[Path], expected: Path) -> None:
    """Raise WrongOutput unless both hold the same requests in the same order, whatever the run is called."""
    lines = zip_longest(lines_of(*found), lines_of(expected), fillvalue=b"null")
    for number, (one, other) in enumerate(lines, start=1):
        mine, theirs = orjson.loads(one), orjson.loads(other)
        for record in filter(None, (mine, theirs)):
            record["custom_id"] = record["custom_id"].partition("-")[2]
        if mine != theirs:
            raise WrongOutput(f"line {number}: {ours.dump(mine)} instead of {ours.dump(theirs)}")


def _same(expected: Path, found: Callable[[Path], list[Path]], folder: Path, _run: Run) -> None:
    same_requests(found(folder), expected)


def _variants(data: Data, expected: Path) -> list[Variant]:
    given = partial(_inputs, data)
    same = partial(_same, expected, lambda folder: [folder / "out.jsonl"])
    of_run = partial(_same, expected, lambda folder: ours.request_files(folder / "runs" / "bench"))
    base, own = "tests.bench.baselines", "tests.bench.ours"
    return [
        Variant(COMMAND, f"{own}:command", lambda folder: submit(data, folder / "runs"), of_run),
        Variant(COUNTED, f"{own}:render", lambda folder: {**given(folder), "count": True}, same),
        Variant(RENDERED, f"{own}:render", lambda folder: {**given(folder), "count": False}, same),
        Variant(NAIVE, f"{base}:naive_requests", lambda folder: {**given(folder), "reading": True}, same),
        Variant(NAIVE_RENDERED, f"{base}:naive_requests", lambda folder: {**given(folder), "reading": False}, same),
        Variant(ORJSON, f"{base}:orjson_requests", given, same),
        Variant(
            FLOOR,
            f"{base}:preformed_requests",
            lambda folder: {"lines": str(expected), "out": str(folder / "out.jsonl")},
            same,
        ),
    ]


def _expected(data: Data, place: Path) -> Path:
    """The lines every variant has to make, in UTF-8 and without spaces, written by the naive script."""
    naive = Variant("expected", "tests.bench.baselines:naive_requests", lambda f: {**_inputs(data, f), "reading": True})
    once(naive, place / "expected")
    target = place / "expected.jsonl"
    with target.open("wb") as out:
        for line in lines_of(place / "expected" / "out.jsonl"):
            out.write(json.dumps(json.loads(line), ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return target


def table_of(bench: Bench, shape: Shape) -> Table:
    """All variants on data of one shape."""
    place = bench.place(f"build-{shape.name}")
    data = write_items(place / "data", shape, bench.sizes.requests, bench.sizes.seed)
    expected = _expected(data, place)
    n_bytes = expected.stat().st_size / data.requests
    title = f"build, {shape.name}: {data.requests:,} lines of {n_bytes / 1000:.1f} KB"
    table = Table(f"build {shape.name}", title, "lines", data.requests, NAIVE, bench.cpu)
    bench.say(title)
    in_turns(table, _variants(data, expected), bench.sizes.repeat, place)
    bench.done([place])
    return table


def section(bench: Bench) -> Section:
    """Every shape asked for."""
    found = Section("build")
    for name in bench.sizes.shapes:
        table = table_of(bench, SHAPES[name])
        found.tables.append(table)
        found.targets += _targets(table, name)
    return found


def _targets(table: Table, name: str) -> list[Target]:
    naive, full, floor = (5.0, 1.6, 0.55) if name == "large" else (3.5, 1.2, None)
    targets = [
        Target(f"build {name}: rendering, times the naive script's", naive, table.speedup(RENDERED, NAIVE_RENDERED)),
        Target(f"build {name}: rendering, times orjson's full line", full, table.speedup(RENDERED, ORJSON)),
    ]
    if floor is not None:
        measured = table.speedup(RENDERED, FLOOR)
        targets.append(Target(f"build {name}: rendering, share of writing ready lines", floor, measured))
    whole = table.speedup(COMMAND, NAIVE, whole=True)
    return [*targets, Target(f"build {name}: whole submit with run.db, times the naive script", naive, whole)]
