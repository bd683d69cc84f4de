"""Indexes join responses to items: what counts as one, and whether two files agree on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from iwb_batch.core.words import counted
from iwb_batch.errors import InputError

LARGEST_INDEX = 2**63 - 1
SHOWN = 5
_EXACT = re.compile(r"0|[1-9][0-9]*")


def usable_index(value: object) -> int | None:
    """The index a value stands for: an integer from 0 up, or its exact ASCII text; None for anything else.

    ``True``, 1.0, "007", "+1", "٠" and integers beyond 64 bits are no indexes.
    """
    if isinstance(value, str) and len(value) <= 19 and _EXACT.fullmatch(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST_INDEX:
        return value
    return None


@dataclass(frozen=True, slots=True)
class IndexSummary:
    """What a checked file came to: responses used, responses outside the selection, items without one."""

    n_used: int
    n_skipped: int
    missing: tuple[int, ...]


class IndexCheck:
    """Watches the indexes of a responses file go by and says at the end what does not fit.

    Memory: one integer pair for each index.
    """

    def __init__(self, file: str, known: Collection[int], selected: Collection[int] | None = None) -> None:
        """Start a file: ``known`` are the indexes of the whole subset, ``selected`` those left (default: all)."""
        self._file = file
        self._known = known
        self._selected = known if selected is None else selected
        self._lines: dict[int, int] = {}
        self._twice: dict[int, list[int]] = {}
        self._unknown: list[tuple[int, int]] = []
        self._used = 0
        self._skipped = 0

    def add(self, index: int, line: int) -> bool:
        """Note one response. True when it is the first for an item of the selection, so to be judged."""
        first = self._lines.setdefault(index, line)
        if first != line:
            self._twice.setdefault(index, [first]).append(line)
            return False
        if index not in self._known:
            self._unknown.append((index, line))
            return False
        if index not in self._selected:
            self._skipped += 1
            return False
        self._used += 1
        return True

    def finish(self, *, allow_missing: bool = False) -> IndexSummary:
        """Sum up. InputError names duplicate, unknown and (unless allowed) missing indexes, all in one line."""
        missing = tuple(sorted(i for i in self._selected if i not in self._lines))
        faults = [*self._duplicate_faults(), *self._unknown_faults()]
        if missing and (faults or not allow_missing):
            faults.append(f"{counted(len(missing), 'item')} without a response: {_first(missing)}")
        serious = bool(self._twice or self._unknown)
        if serious or (missing and not allow_missing):
            sizes = f"{counted(len(self._lines), 'index', 'indexes')} for {counted(len(self._selected), 'item')}"
            raise InputError.at(
                self._file,
                f"{'; '.join(faults)} ({sizes})",
                hint=self._hint(serious=serious),
            )
        return IndexSummary(self._used, self._skipped, missing)

    def _duplicate_faults(self) -> list[str]:
        if not self._twice:
            return []
        twice = sorted(self._twice)
        often = "twice" if all(len(lines) == 2 for lines in self._twice.values()) else "more than once"
        lines = "; ".join(f"{' and '.join(map(str, self._twice[i]))}" for i in twice[:SHOWN])
        return [f"{counted(len(twice), 'index occurs', 'indexes occur')} {often}: {_first(twice)} (lines {lines})"]

    def _unknown_faults(self) -> list[str]:
        if not self._unknown:
            return []
        indexes = [index for index, _ in self._unknown]
        lines = ", ".join(str(line) for _, line in self._unknown[:SHOWN])
        return [f"{counted(len(indexes), 'index is', 'indexes are')} not in the data: {_first(indexes)} (line {lines})"]

    def _hint(self, *, serious: bool) -> str:
        if serious:
            return "check that this file belongs to this data set and subset; nothing was sent"
        return "add the missing responses, or pass --allow-missing to go on without these items"


def _first(indexes: Sequence[int]) -> str:
    shown = ", ".join(str(i) for i in indexes[:SHOWN])
    return shown if len(indexes) <= SHOWN else f"{shown} and {len(indexes) - SHOWN} more"
