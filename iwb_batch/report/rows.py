"""Rows of a query as a table, CSV, JSON or JSON lines. Text from data is made harmless for its place."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from iwb_batch.report.display import clipped, padded, visible, whole, width
from iwb_batch.report.formats import neutralised

CELL_COLUMNS = 80
_NUMBERS = (int, float)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Aligned plain text; long cells are clipped, NULL is shown as such."""
    held = list(rows)
    cells = [[clipped(visible(_text(value)), CELL_COLUMNS) for value in row] for row in held]
    widths = [max([width(name), *(width(row[place]) for row in cells)]) for place, name in enumerate(columns)]
    right = [bool(held) and all(value is None or isinstance(value, _NUMBERS) for value in (r[p] for r in held))
             for p in range(len(columns))]  # fmt: skip
    yield "  ".join(padded(name, n, right=r) for name, n, r in zip(columns, widths, right, strict=True)).rstrip()
    yield "  ".join("-" * n for n in widths)
    for row in cells:
        yield "  ".join(padded(cell, n, right=r) for cell, n, r in zip(row, widths, right, strict=True)).rstrip()


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    return value.hex() if isinstance(value, bytes) else str(value)


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """CSV records; text that a spreadsheet would run as a formula is neutralised, numbers stay numbers."""
    yield _csv(columns)
    for row in rows:
        yield _csv([neutralised(whole(value)) if isinstance(value, str) else _plain(value) for value in row])


def _csv(values: Sequence[Any]) -> str:
    target = io.StringIO()
    # The writer quotes a cell for the line breaks its own terminator has, so that must have both.
    csv.writer(target, lineterminator="\r\n").writerow(values)
    return target.getvalue().removesuffix("\r\n")


def json_lines(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One JSON object a line."""
    for row in rows:
        yield json.dumps(dict(zip(columns, map(_plain, row), strict=True)), ensure_ascii=False)


def json_array(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """One JSON array of objects, streamed."""
    yield "["
    before: str | None = None
    for line in json_lines(columns, rows):
        if before is not None:
            yield before + ","
        before = "  " + line
    if before is not None:
        yield before
    yield "]"


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    return value.hex() if isinstance(value, bytes) else value
