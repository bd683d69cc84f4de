"""Reading the responses of the model under test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iwb_batch.core.lines import clean_text
from iwb_batch.core.row import Row
from iwb_batch.errors import InputError
from iwb_batch.inputs.indexes import usable_index
from iwb_batch.inputs.rows import read_rows


@dataclass(frozen=True, slots=True)
class ResponseRow:
    """One response as the file has it.

    ``flags``: "surrogate" (a lone surrogate became U+FFFD), "nul" (the text holds U+0000, kept).
    ``line`` is the 1-based line, for Parquet and JSON arrays the row.
    """

    index: int
    text: str
    flags: tuple[str, ...]
    line: int


def read_responses(path: Path, *, index_column: str = "index", text_column: str = "response") -> Iterator[ResponseRow]:
    """Stream a responses file (JSONL, JSON array, CSV or Parquet).

    InputError names the line: unreadable, no such column, an index that is no integer from 0 up
    (or its exact ASCII text), a response that is not text. Further columns are ignored.
    """
    for row in read_rows(path):
        index = _index(row, index_column)
        text, mended = clean_text(_text(row, text_column))
        flags = (("surrogate",) if mended else ()) + (("nul",) if "\0" in text else ())
        yield ResponseRow(index, text, flags, row.number)


def _index(row: Row, column: str) -> int:
    value = _value(row, column)
    index = usable_index(value)
    if index is None:
        what = f"{column} {_shown(value)} is not a whole number from 0 up"
        raise InputError.at(row.where, what, hint='write it as an integer, for example "index": 7')
    return index


def _text(row: Row, column: str) -> str:
    value = _value(row, column)
    if not isinstance(value, str):
        what = f"{column} is {_shown(value)}, not text"
        raise InputError.at(row.where, what, hint='use "" for an empty response; --empty-responses decides about those')
    return value


def _value(row: Row, column: str) -> object:
    if column not in row.values:
        keys = ", ".join(list(row.values)[:10]) or "none"
        raise InputError.at(row.where, f"no '{column}'; its keys are: {keys}", hint=f"each row needs '{column}'")
    return row.values[column]


def _shown(value: object) -> str:
    text = "null" if value is None else ascii(value)
    return text if len(text) <= 40 else text[:40] + "..."
