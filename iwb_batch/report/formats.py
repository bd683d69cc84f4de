"""Documents as plain text, Markdown, CSV and JSON. The same document gives the same bytes."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Literal

from iwb_batch.report.display import clipped, padded, visible, whole, width
from iwb_batch.report.tables import Cell, Document, Number, Table

Format = Literal["table", "markdown", "csv", "json"]
_LABEL_COLUMNS = 72
_FORMULA_STARTS = "=+-@＝＋－＠"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]|~$#])")


def render(
    form: Format,
    *,
    document: Callable[[], Document],
    flat: Callable[[], Table],
    shape: Callable[[], Mapping[str, Any]],
) -> str:
    """Text of a report in one of the four formats; only what the format needs is built."""
    if form == "json":
        return to_json(shape())
    if form == "csv":
        return to_csv(flat())
    return to_markdown(document()) if form == "markdown" else to_table(document())


def to_table(document: Document) -> str:
    """Plain text, aligned by the columns a terminal uses."""
    title = visible(document.title)
    lines = [title, "=" * width(title)]
    name_width = max((width(visible(name)) for name, _ in document.facts), default=0)
    lines += [f"{padded(visible(name), name_width)}  {visible(value)}" for name, value in document.facts]
    for table in document.tables:
        lines += ["", *_text_table(table)]
    if document.notes:
        lines += ["", "Notes", "-----", *(f"- {visible(note)}" for note in document.notes)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _text_table(table: Table) -> list[str]:
    shown = [[clipped(visible(_text(cell)), _LABEL_COLUMNS) for cell in row] for row in table.rows]
    numeric = [_is_numeric(table, place) for place in range(len(table.columns))]
    widths = [
        max(width(name), *(width(row[place]) for row in shown)) if shown else width(name)
        for place, name in enumerate(table.columns)
    ]
    head = [
        padded(name, columns, right=right) for name, columns, right in zip(table.columns, widths, numeric, strict=True)
    ]
    lines = [visible(table.title), "  ".join(head), "  ".join("-" * columns for columns in widths)]
    for row in shown:
        cells = [padded(cell, columns, right=right) for cell, columns, right in zip(row, widths, numeric, strict=True)]
        lines.append("  ".join(cells))
    if table.caption:
        lines.append(visible(table.caption))
    return lines


def _text(cell: Cell) -> str:
    return cell.text() if isinstance(cell, Number) else cell


def _is_numeric(table: Table, place: int) -> bool:
    return any(isinstance(row[place], Number) for row in table.rows)


def to_markdown(document: Document) -> str:
    """GitHub-flavoured Markdown; every text from data is escaped for Markdown and HTML."""
    lines = [f"# {_markdown(document.title)}", ""]
    lines += [f"- {_markdown(name)}: {_markdown(value)}" for name, value in document.facts]
    for table in document.tables:
        lines += ["", f"## {_markdown(table.title)}", ""]
        lines.append(_markdown_row(table.columns))
        numeric = [_is_numeric(table, place) for place in range(len(table.columns))]
        lines.append("|" + "|".join(" ---: " if right else " --- " for right in numeric) + "|")
        lines += [_markdown_row(tuple(_text(cell) for cell in row)) for row in table.rows]
        if table.caption:
            lines += ["", _markdown(table.caption)]
    if document.notes:
        lines += ["", "## Notes", "", *(f"- {_markdown(note)}" for note in document.notes)]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", html.escape(visible(text), quote=True).replace("&#x27;", "&apos;"))


def _markdown_row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(_markdown(cell) for cell in cells) + " |"


def to_csv(table: Table) -> str:
    """One table as CSV; numbers in full precision (shares 0..1), texts made harmless for spreadsheets."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([neutralised(name) for name in table.columns])
    writer.writerows([_csv_cell(cell) for cell in row] for row in table.rows)
    return out.getvalue()


def _csv_cell(cell: Cell) -> str | int | float:
    if isinstance(cell, str):
        return neutralised(cell)
    if cell.value is None:
        return ""
    return int(cell.value) if cell.style == "count" else float(cell.value)


def neutralised(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula.

    White space, control and zero-width characters before the sign do not hide it.
    """
    text = whole(text)
    for character in text:
        if character in _FORMULA_STARTS:
            return f"'{text}"
        if not (character.isspace() or unicodedata.category(character) in ("Cc", "Cf")):
            break
    return f"'{text}" if text.startswith(("\t", "\r", "\n")) else text


def to_json(shape: Mapping[str, Any]) -> str:
    """JSON, UTF-8, two blanks of indent; NaN and infinity are refused, lone surrogates become U+FFFD."""
    return whole(json.dumps(shape, ensure_ascii=False, allow_nan=False, indent=2)) + "\n"
