"""The original scorer's table for one run, under its own column names."""

from __future__ import annotations

from collections.abc import Mapping

from iwb_batch.report.formats import Format
from iwb_batch.report.formats import render as render_format
from iwb_batch.report.tables import REHEARSAL, Cell, Document, Number, Table, count

CAPTION = (
    "As the original scorer counts: Overall pools all scores, an item counts however few of its criteria were scored, "
    "a requirement without an item is 0."
)
CompatRow = Mapping[str, str | int | float | None]


def render(row: CompatRow, form: Format, *, rehearsal: bool = False) -> str:
    """The row of ``core.compat.official_row`` as text; JSON and CSV hold one row under the original columns."""
    return render_format(
        form,
        document=lambda: document(row, rehearsal=rehearsal),
        flat=lambda: Table("compat", tuple(row), (tuple(_cell(name, value) for name, value in row.items()),)),
        shape=lambda: row,
    )


def document(row: CompatRow, *, rehearsal: bool = False) -> Document:
    """The row turned on its side, one column a line."""
    mark = REHEARSAL if rehearsal else ""
    rows = tuple((name, _cell(name, value)) for name, value in row.items() if name != "Model")
    table = Table("Columns of the original sheet", ("column", "value"), rows, CAPTION)
    return Document(f"{mark}original scorer's table, {row['Model']}", (), (table,))


def _cell(name: str, value: str | float | None) -> Cell:
    if isinstance(value, str):
        return value
    return count(int(value)) if name == "Count" and value is not None else Number(value)
