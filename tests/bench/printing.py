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


def header_of(unit: str) -> list[str]:
    """Columns of a table."""
    return ["variant", "work s", "cpu s", f"{unit}/s", "x", "process s", "x", "peak MiB"]


TARGET_HEADER = ["what", "target", "measured", "reached"]


def by(*, cpu: bool) -> str:
    """What ratios are of."""
    return "processor time" if cpu else "time by the clock"


def x_of(table: Table) -> str:
    """What the ratios of a table say."""
    return f"time taken, times that of {table.base}" if table.costs else f"speed, times that of {table.base}"


def table_rows(table: Table) -> list[list[str]]:
    """Seconds of the work by the clock and of processors, rate, ratio; of the process, ratio; peak memory."""
    rows = []
    for name in table.names:
        cost, size = table.cost(name), table.sizes[name]
        rows.append(
            [
                name + (f" ({size:,})" if size not in (0, table.units) and f"{size:,} " not in name else ""),
                _seconds(table.seconds(name)),
                _seconds(table.seconds(name, cpu=True)),
                figure(None if cost is None else 1 / max(cost, 1e-9)),
                figure(ratio(table, name, whole=False)),
                _seconds(table.seconds(name, whole=True)),
                figure(ratio(table, name, whole=True)),
                figure(table.peak(name)),
            ]
        )
    return rows


def table_lines(table: Table) -> list[str]:
    """One table with its title."""
    runs = max((len(found) for found in table.runs.values()), default=0)
    title = f"{table.title}; median of {runs}; x: {x_of(table)}; {by(cpu=table.cpu)}"
    return ["", title, *aligned(header_of(table.unit), table_rows(table)), *table.notes]


def target_rows(targets: Sequence[Target]) -> list[list[str]]:
    """Bound and figure of each target."""
    rows = []
    for target in targets:
        bound = f"{'<=' if target.at_most else '>='} {target.bound:g} {target.unit}"
        reached = {True: "yes", False: "no", None: "not measured"}[target.reached]
        rows.append([target.what, bound, figure(target.measured, f" {target.unit}"), reached])
    return rows


def target_lines(targets: Sequence[Target]) -> list[str]:
    """The table of targets."""
    return ["", "Targets", *aligned(TARGET_HEADER, target_rows(targets))]


def section_lines(section: Section) -> list[str]:
    """Everything one section found."""
    return [*(line for table in section.tables for line in table_lines(table)), *section.notes]
