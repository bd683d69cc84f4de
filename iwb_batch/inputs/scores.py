"""Scores of a reward model for the two texts of each pair: a file with one row for each pair.

A row names its pair by ``row`` (0-based, over all data files in order) or by ``prompt_id``, ``chosen_model``
and ``rejected_model``; ``prompt_id`` alone repeats. ``chosen`` and ``rejected`` are the two scores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from iwb_batch.core.row import Row
from iwb_batch.errors import InputError
from iwb_batch.inputs.indexes import usable_index
from iwb_batch.inputs.rows import read_rows

SHOWN = 5
NAME_KEYS = ("prompt_id", "chosen_model", "rejected_model")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NO_NUMBER = {"", "nan", "none", "null", "na", "n/a", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}

PairName = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PairKey:
    """What a score file can name a pair by. ``name`` is None where the data lack a part of it."""

    row: int
    name: PairName | None


@dataclass(frozen=True, slots=True)
class PairScore:
    """The two scores of one pair; None where a score is missing or no finite number. ``line`` is 1-based."""

    row: int
    chosen: float | None
    rejected: float | None
    line: int

    @property
    def valid(self) -> bool:
        """True when both scores are finite numbers."""
        return self.chosen is not None and self.rejected is not None


@dataclass(frozen=True, slots=True)
class ScoreFile:
    """The scores of a file by row of the data, and the rows it says nothing about."""

    scores: Mapping[int, PairScore]
    missing: tuple[int, ...]

    @property
    def invalid(self) -> tuple[PairScore, ...]:
        """Scores that are missing or no finite number, by row."""
        return tuple(score for _, score in sorted(self.scores.items()) if not score.valid)


def read_scores(path: Path, pairs: Sequence[PairKey]) -> ScoreFile:
    """Read and join a score file (JSONL, JSON array, CSV or Parquet).

    The first row decides whether pairs are named by ``row`` or by ``prompt_id`` and models. InputError
    names line and pair: a key or column is missing, a score is text or a list, an unknown or repeated pair,
    a name that fits several pairs, or a ``prompt_id`` or model that is not that of the row named.
    """
    join: Callable[[Row], int] | None = None
    found: dict[int, PairScore] = {}
    twice: list[str] = []
    unknown: list[str] = []
    by_row = {pair.row: pair for pair in pairs}
    for row in read_rows(path, allow_nan=True):
        if join is None:
            join = _by_row(by_row) if "row" in row.values else _by_name(pairs, row)
        number = join(row)
        score = PairScore(number, _score(row, "chosen"), _score(row, "rejected"), row.number)
        if number < 0 or number not in by_row:
            unknown.append(f"{_called(row)} (line {row.number})")
        elif number in found:
            twice.append(f"{_called(row)} (lines {found[number].line} and {row.number})")
        else:
            found[number] = score
    faults = [*_fault("is in the file twice", twice), *_fault("is not in the data", unknown)]
    if faults:
        raise InputError.at(
            path.name, "; ".join(faults), hint="Check that the file belongs to these data files, named in this order."
        )
    return ScoreFile(found, tuple(row for row in by_row if row not in found))


def _fault(what: str, places: Sequence[str]) -> Iterator[str]:
    if places:
        more = f" and {len(places) - SHOWN} more" if len(places) > SHOWN else ""
        yield f"{what}: {', '.join(places[:SHOWN])}{more}"


def _by_row(by_row: Mapping[int, PairKey]) -> Callable[[Row], int]:
    def join(row: Row) -> int:
        number = usable_index(_value(row, "row"))
        if number is None:
            what = f"row {_shown(row.values['row'])} is not a whole number from 0 up"
            raise InputError.at(row.where, what, hint='write it as an integer, for example "row": 7')
        pair = by_row.get(number)
        if pair is not None and pair.name is not None:
            _check_names(row, number, pair.name)
        return number

    return join


def _check_names(row: Row, number: int, name: PairName) -> None:
    """Names beside a row number must be those of that row: a file for other data, or sorted anew, shows here."""
    for key, expected in zip(NAME_KEYS, name, strict=True):
        value = row.values.get(key)
        if value not in (None, "", expected):
            what = f"{key} {_shown(value)} is not that of row {number} of the data, {_shown(expected)}"
            raise InputError.at(row.where, what, hint="Name the data files in the order the scores were made with.")


def _by_name(pairs: Sequence[PairKey], first: Row) -> Callable[[Row], int]:
    if "prompt_id" not in first.values:
        keys = ", ".join(list(first.values)[:10]) or "none"
        raise InputError.at(
            first.where, f"no 'row' and no 'prompt_id'; its keys are: {keys}", hint="each row names its pair by one"
        )
    numbers: dict[PairName, list[int]] = {}
    for pair in pairs:
        if pair.name is not None:
            numbers.setdefault(pair.name, []).append(pair.row)

    def join(row: Row) -> int:
        prompt_id, chosen, rejected = (str(_value(row, key)) for key in NAME_KEYS)
        rows = numbers.get((prompt_id, chosen, rejected), [])
        if len(rows) > 1:
            listed = ", ".join(map(str, rows[:SHOWN]))
            what = f"prompt_id {_shown(prompt_id)} with these models is in the data {len(rows)} times (rows {listed})"
            raise InputError.at(row.where, what, hint="name pairs by 'row', their 0-based position over all data files")
        return rows[0] if rows else -1

    return join


def _called(row: Row) -> str:
    if "row" in row.values:
        return f"row {row.values['row']}"
    return f"prompt_id {_shown(row.values['prompt_id'])}"


def _value(row: Row, key: str) -> object:
    if key not in row.values:
        keys = ", ".join(list(row.values)[:10]) or "none"
        raise InputError.at(row.where, f"no '{key}'; its keys are: {keys}", hint=f"each row needs '{key}'")
    return row.values[key]


def _score(row: Row, key: str) -> float | None:
    """The score, None for a missing, NaN or infinite one. InputError: it is no number at all."""
    value = _value(row, key)
    if isinstance(value, str):
        value = _parsed(value.strip())
    elif isinstance(value, Decimal):
        value = float(value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        what = f"{key} {_shown(row.values[key])} is not a number"
        raise InputError.at(row.where, what, hint='write a number, for example "chosen": 0.73; missing ones are null')
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def _parsed(text: str) -> object:
    """The number a text of a CSV cell stands for, None for none; the text itself when it is something else."""
    if text.casefold() in _NO_NUMBER:
        return None
    if _WHOLE.fullmatch(text) and len(text) < 400:
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _shown(value: object) -> str:
    text = "null" if value is None else ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."
