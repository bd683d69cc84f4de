"""Tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.bench.bench import Section, Target
from tests.bench.measure import Table


def figure(value: float | None, unit: str = "") -> str:
    """A number with three digits that mean something; a dash for none."""
    if value is None:
        return "-"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}{unit}"


def aligned(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The first column to the left, the others to the right."""
    whole = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in whole) for column in range(len(header))]
    return [
        "  ".join(
            cell.ljust(width) if n == 0 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in whole
    ]


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:,.3f}"


def ratio(table: Table, name: str, *, whole: bool) -> float | None:
    """A row against the base of its table."""
    faster = table.speedup(name, table.base, whole=whole)
    return 1 / faster if faster and table.costs else faster


def table_lines(table: Table) -> list[str]:
    """One table: work and process in seconds, rate, ratio to the base, peak memory."""
    runs = max((len(found) for found in table.runs.values()), default=0)
    rows = []
    for name in table.names:
        cost, size = table.cost(name), table.sizes[name]
        rate = None if cost is None else 1 / max(cost, 1e-9)
        rows.append(
            [
                name + (f" ({size:,})" if size != table.units else ""),
                _seconds(table.seconds(name)),
                _seconds(table.seconds(name, cpu=True)),
                figure(rate),
                figure(ratio(table, name, whole=False)),
                _seconds(table.seconds(name, whole=True)),
                figure(ratio(table, name, whole=True)),
                figure(table.peak(name)),
            ]
        )
    header = ["variant", "work s", "cpu s", f"{table.unit}/s", "x", "process s", "x", "peak MiB"]
    by = "processor time" if table.cpu else "the clock"
    x = f"time taken, times that of {table.base}" if table.costs else f"speed, times that of {table.base}"
    title = f"{table.title}; median of {runs}; x: {x}, by {by}"
    return ["", title, *aligned(header, rows), *table.notes]


def target_lines(targets: Sequence[Target]) -> list[str]:
    """The table of targets."""
    rows = []
    for target in targets:
        bound = f"{'<=' if target.at_most else '>='} {target.bound:g} {target.unit}"
        reached = {True: "yes", False: "no", None: "not measured"}[target.reached]
        rows.append([target.what, bound, figure(target.measured, f" {target.unit}"), reached])
    return ["", "Targets", *aligned(["what", "target", "measured", "reached"], rows)]


def section_lines(section: Section) -> list[str]:
    """Everything one section found."""
    return [*(line for table in section.tables for line in table_lines(table)), *section.notes]
