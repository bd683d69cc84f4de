"""Reading values of a data row into items, with errors that name place, index and key."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from iwb_batch.core.lines import clean_text
from iwb_batch.core.row import Row
from iwb_batch.errors import InputError


class ItemReader:
    """Reads one row; collects what was noticed in ``notes``."""

    def __init__(self, row: Row, index: int) -> None:
        """Start on a row that is item ``index``."""
        self.row = row
        self.index = index
        self.notes: list[str] = []

    def wrong(self, what: str, *, hint: str | None = None) -> InputError:
        """The error for this row, to be raised."""
        return InputError.at(self.row.where, f"index {self.index}: {what}", hint=hint)

    def note(self, word: str) -> None:
        """Note something once."""
        if word not in self.notes:
            self.notes.append(word)

    def clean(self, text: str) -> str:
        """The text with lone surrogates replaced by U+FFFD, which is noted."""
        cleaned, mended = clean_text(text)
        if mended:
            self.note("surrogate")
        return cleaned

    def text(self, key: str) -> str:
        """A text that must be there and hold more than white space."""
        value = self.row.values.get(key)
        if value is None:
            keys = ", ".join(list(self.row.values)[:12]) or "none"
            raise self.wrong(f"'{key}' is missing; the row has: {keys}", hint=f"each row needs '{key}'")
        if not isinstance(value, str):
            raise self.wrong(f"'{key}' is not text")
        if not value.strip():
            raise self.wrong(f"'{key}' is empty")
        return self.clean(value)

    def label(self, key: str | None) -> str | None:
        """A label that may be missing: missing, null and "" are None, other values become text."""
        value = self.row.values.get(key) if key is not None else None
        if value is None or value == "":
            return None
        if isinstance(value, dict | list):
            raise self.wrong(f"'{key}' is not text")
        return self.clean(str(value))

    def flag(self, key: str) -> bool | None:
        """A boolean, or its text in a CSV file; None when it is missing or something else."""
        value = self.row.values.get(key)
        if isinstance(value, str):
            return {"true": True, "false": False}.get(value.casefold())
        return value if isinstance(value, bool) else None


def digest(parts: list[Any]) -> str:
    """Hex sha256 over JSON-ready values; keys whose value is null do not count (Parquet fills them in)."""
    text = json.dumps(_without_nulls(parts), ensure_ascii=True, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value
