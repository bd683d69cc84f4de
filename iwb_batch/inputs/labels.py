"""Reading labels that people gave: scores of items or criteria, or preferences between the texts of pairs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from iwb_batch.core.row import Row
from iwb_batch.errors import InputError
from iwb_batch.inputs.indexes import usable_index
from iwb_batch.inputs.rows import read_rows

LOWEST, HIGHEST = 1, 10
_SCORES = "columns index, score and, for single criteria, criterion"
_PREFERENCES = "columns row and preferred"


class ScoreLabel(NamedTuple):
    """A human score of an item, or of one criterion (its name, or its number from 0 as text)."""

    item_index: int
    criterion: str | None
    score: float
    where: str


class PreferenceLabel(NamedTuple):
    """The text of a pair that a person preferred; ``row`` counts pairs from 0."""

    row: int
    preferred: Literal["chosen", "rejected"]
    where: str


def read_labels(path: Path) -> list[ScoreLabel] | list[PreferenceLabel]:
    """Labels of one kind, in the order of the file (JSONL, JSON array, CSV or Parquet).

    InputError names the line: unreadable, wrong columns, a value out of range, or a thing labelled twice.
    """
    rows = read_rows(path)
    first = next(rows)
    pairs = "preferred" in first.values
    if pairs:
        return [_preference(row, seen) for row, seen in _watched(first, rows, "row")]
    return [_score(row, seen) for row, seen in _watched(first, rows, "index")]


class _Seen:
    """Where each thing was labelled first."""

    def __init__(self) -> None:
        self._first: dict[Hashable, str] = {}

    def once(self, key: Hashable, row: Row) -> None:
        """InputError when ``key`` has been labelled before."""
        before = self._first.setdefault(key, row.where)
        if before != row.where:
            raise InputError.at(
                row.where, f"labels the same thing as {before}", hint="keep one label for each, or average them first"
            )


def _watched(first: Row, rows: Iterator[Row], key: str) -> Iterator[tuple[Row, _Seen]]:
    if key not in first.values:
        keys = ", ".join(list(first.values)[:10]) or "none"
        raise InputError.at(
            first.where, f"no '{key}'; its columns are: {keys}", hint=f"use {_SCORES}, or {_PREFERENCES}"
        )
    seen = _Seen()
    yield first, seen
    for row in rows:
        yield row, seen


def _score(row: Row, seen: _Seen) -> ScoreLabel:
    index, criterion = _index(row, "index"), _criterion(row)
    value = _number(row.values.get("score"))
    if value is None or not LOWEST <= value <= HIGHEST:
        shown = ascii(row.values.get("score"))[:40]
        raise InputError.at(
            row.where, f"score {shown} is not a number from {LOWEST} to {HIGHEST}", hint=f"use {_SCORES}"
        )
    seen.once((index, criterion), row)
    return ScoreLabel(index, criterion, value, row.where)


def _preference(row: Row, seen: _Seen) -> PreferenceLabel:
    index, preferred = _index(row, "row"), row.values.get("preferred")
    if preferred not in ("chosen", "rejected"):
        shown = ascii(preferred)[:40]
        raise InputError.at(row.where, f"preferred {shown} is neither chosen nor rejected", hint=f"use {_PREFERENCES}")
    seen.once(index, row)
    return PreferenceLabel(index, "chosen" if preferred == "chosen" else "rejected", row.where)


def _index(row: Row, column: str) -> int:
    index = usable_index(row.values.get(column))
    if index is None:
        shown = ascii(row.values.get(column))[:40]
        raise InputError.at(
            row.where, f"{column} {shown} is not a whole number from 0 up", hint="write it as in the data"
        )
    return index


def _criterion(row: Row) -> str | None:
    value = row.values.get("criterion")
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError.at(
            row.where, f"criterion {ascii(value)[:40]} is no name", hint="its name, or its number from 0"
        )
    return str(value)


def _number(value: object) -> float | None:
    """A finite number, also as plain decimal text (CSV); None for anything else."""
    if isinstance(value, str):
        digits = value.strip().removeprefix("+").replace(".", "", 1)
        value = float(value) if digits.isascii() and digits.isdigit() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
