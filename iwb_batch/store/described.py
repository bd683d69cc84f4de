"""What tables, views and columns of run.db mean: read off the comments of schemas/run.sql."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from iwb_batch import schemas

_HEAD = re.compile(r"CREATE (TABLE|VIEW) (\w+)")
_COLUMN = re.compile(r"  (\w+) (?:TEXT|INTEGER|REAL|BLOB)\b")
_VIEW_SOURCES = ("item", "request", "attempt", "reading", "answer_text", "judgement")
"""Tables the views show columns of; where two have a column of one name, the first one's remark counts."""
_REMARK = re.compile(r"\s--\s*(.+)$")


@dataclass(slots=True)
class Described:
    """One table or view: what it is, and the columns that have a remark."""

    name: str
    kind: str
    description: str
    columns: dict[str, str] = field(default_factory=dict)


def described() -> Mapping[str, Described]:
    """Every table and view by name, in the order of the schema."""
    return {found.name: found for found in _walk(schemas.read_text("run.sql"))}


def column_words() -> Mapping[str, str]:
    """What the columns of views mean: the remark of the table they come from."""
    tables = described()
    return {name: words for table in reversed(_VIEW_SOURCES) for name, words in tables[table].columns.items()}


def _walk(script: str) -> Iterator[Described]:
    remarks: list[str] = []
    current: Described | None = None
    column = ""
    for line in script.split("\n"):
        head = _HEAD.match(line)
        if head is not None:
            current = Described(head[2], head[1].lower(), " ".join(remarks))
            column = ""
        elif current is not None and current.kind == "table":
            column = _read_column(line, current, column)
        remarks = [*remarks, line.removeprefix("--").strip()] if line.startswith("-- ") else []
        if current is not None and line.rstrip().endswith(";"):
            yield current
            current = None


def _read_column(line: str, table: Described, column: str) -> str:
    """Note the remark of a line for the column it belongs to; returns the column it is in."""
    started = _COLUMN.match(line)
    name = started[1] if started is not None else column
    remark = _REMARK.search(line)
    if name and remark is not None:
        table.columns[name] = f"{table.columns[name]} {remark[1]}" if name in table.columns else remark[1]
    return name
