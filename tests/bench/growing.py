"""Section ``growth``: what a request costs, and how much memory is taken, as their number grows."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import judge, ours
from tests.bench.bench import Bench, Section, Target
from tests.bench.building import submit
from tests.bench.data import TINY, Data, lines_of, write_items
from tests.bench.ingesting import collect
from tests.bench.measure import Table, Variant, WrongOutput, once

DISK = 18_000
"""Bytes on disk for each request while both steps are measured: some 14,000, and room to spare."""


@dataclass
class Tables:
    """Both steps, a row for each size."""

    submit: Table
    collect: Table


def name_of(requests: int) -> str:
    """How a row is called."""
    return f"{requests:,} requests"


def whole_items(requests: int) -> int:
    """Five requests for each item."""
    return max(1, requests // 5) * 5


def _turns(bench: Bench, requests: int) -> int:
    most = 1 if requests > 200_000 else 3 if requests > 20_000 else bench.sizes.repeat
    return min(bench.sizes.repeat, most)


def _check_submit(requests: int, runs: Path) -> None:
    found = sum(1 for _ in lines_of(*ours.request_files(runs / "bench")))
    if found != requests:
        raise WrongOutput(f"{found} lines instead of {requests}")


def _check_collect(expected: judge.Written, runs: Path) -> None:
    connection = sqlite3.connect(runs / "bench" / "run.db")
    try:
        (found,) = connection.execute("SELECT count(*) FROM judgement").fetchone()
    finally:
        connection.close()
    if found != expected.valid:
        raise WrongOutput(f"{found} judgements instead of {expected.valid}")


def _turn(bench: Bench, data: Data, place: Path, tables: Tables) -> None:
    """One submit and one collect; the run stays until the next turn replaces it."""
    shutil.rmtree(place, ignore_errors=True)
    runs, answers, name = place / "runs", place / "answers.jsonl", name_of(data.requests)

    def built(_: Path) -> dict[str, Any]:
        return submit(data, runs, "--max-resubmits", "0")

    tables.submit.runs[name].append(once(Variant("submit", "tests.bench.ours:command", built), place / "submit"))
    _check_submit(data.requests, runs)
    written = judge.write_answers(ours.request_files(runs / "bench"), answers, TINY, bench.sizes.seed)
    taken = Variant("collect", "tests.bench.ours:command", lambda _: collect(runs, answers))
    tables.collect.runs[name].append(once(taken, place / "collect"))
    _check_collect(written, runs)
    answers.unlink()
    bench.grown[data.requests] = runs


def grow(bench: Bench, requests: int, tables: Tables, turns: int) -> None:
    """All turns of one size."""
    place = bench.place(f"growth-{requests}")
    data = write_items(place / "data", TINY, requests, bench.sizes.seed)
    for turn in range(turns):
        bench.say(f"growth: {name_of(requests)}, turn {turn + 1} of {turns}")
        _turn(bench, data, place / "turn", tables)


def empty_tables(bench: Bench, sizes: list[int]) -> Tables:
    """Tables without runs."""
    base = name_of(sizes[0])
    made = Tables(
        Table("growth submit", "growth, submit", "requests", sizes[0], base, bench.cpu, costs=True),
        Table("growth collect", "growth, collect", "requests", sizes[0], base, bench.cpu, costs=True),
    )
    for size in sizes:
        made.submit.add(name_of(size), size)
        made.collect.add(name_of(size), size)
    return made


def run_of(bench: Bench, requests: int) -> Path:
    """The folder of runs with a collected run of so many requests, ``bench``; made where no section has made it."""
    requests = whole_items(requests)
    if requests not in bench.grown:
        grow(bench, requests, empty_tables(bench, [requests]), 1)
    return bench.grown[requests]


def section(bench: Bench) -> Section:
    """Every size there is room for."""
    sizes = sorted({whole_items(size) for size in bench.sizes.growth})
    found, tables = Section("growth"), empty_tables(bench, sizes)
    found.tables += [tables.submit, tables.collect]
    for size in sizes:
        free, needed = shutil.disk_usage(bench.folder).free, size * DISK
        if free < needed:
            found.notes.append(f"{name_of(size)}: not measured, {needed / 1e9:.0f} GB needed, {free / 1e9:.0f} GB free")
        else:
            grow(bench, size, tables, _turns(bench, size))
    found.targets += _targets(tables.submit, "submit", sizes, 1.2, 200.0)
    found.targets += _targets(tables.collect, "collect", sizes, 1.05, 100.0)
    return found


def _targets(table: Table, step: str, sizes: list[int], factor: float, most: float) -> list[Target]:
    targets, small = [], table.peak(name_of(sizes[0]))
    for size in sizes[1:]:
        cost, peak = table.speedup(name_of(size), name_of(sizes[0])), table.peak(name_of(size))
        times = None if peak is None or small is None else peak / small
        label = f"{step} {size:,}"
        against = f"times that at {sizes[0]:,}"
        targets += [
            Target(f"{label}: cost of a request, {against}", 1.3, None if cost is None else 1 / cost, at_most=True),
            Target(f"{label}: peak memory, {against}", factor, times, at_most=True),
            Target(f"{label}: peak memory", most, peak, "MiB", at_most=True),
        ]
    return targets
