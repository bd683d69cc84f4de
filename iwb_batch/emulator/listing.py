"""Pages of a listing: newest first, ``limit`` and ``after``, ``has_more``; new entries may lag behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from iwb_batch.emulator.http import ApiError


class Listed(Protocol):
    """What a listing needs of an entry."""

    @property
    def key(self) -> str:
        """The entry's id."""

    @property
    def visible_from(self) -> int:
        """Number of the first listing that shows the entry."""


Entry = TypeVar("Entry", bound=Listed)


class Listing:
    """Counts listings: one begins with each first page, so an entry hidden on page 1 stays hidden to the end."""

    def __init__(self, default_limit: int, max_limit: int) -> None:
        self.number = 0
        self._default = default_limit
        self._most = max_limit

    def hidden_for(self, listings: int) -> int:
        """The first listing that shows an entry made now and hidden for ``listings`` of them."""
        return self.number + listings + 1

    def page(
        self, entries: Sequence[Entry], query: Mapping[str, str], show: Callable[[Entry], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """One page over ``entries`` (oldest first); raises ApiError 400 for a bad ``limit`` or ``after``."""
        after = query.get("after")
        if not after:
            self.number += 1
        seen = [entry for entry in entries if entry.visible_from <= self.number]
        if query.get("order", "desc") != "asc":
            seen.reverse()
        if after:
            seen = seen[_position(seen, after) + 1 :]
        chosen = seen[: self._limit(query)]
        return {
            "object": "list",
            "data": [show(entry) for entry in chosen],
            "first_id": chosen[0].key if chosen else None,
            "last_id": chosen[-1].key if chosen else None,
            "has_more": len(seen) > len(chosen),
        }

    def _limit(self, query: Mapping[str, str]) -> int:
        text = query.get("limit") or str(self._default)
        if not text.isascii() or not text.isdigit() or int(text) == 0:
            raise ApiError.of(400, "invalid_value", f"Invalid value for 'limit': {text!r}.", param="limit")
        return min(int(text), self._most)


def _position(entries: Sequence[Listed], after: str) -> int:
    for number, entry in enumerate(entries):
        if entry.key == after:
            return number
    raise ApiError.of(400, "invalid_value", f"No entry with the id {after!r} to continue after.", param="after")
