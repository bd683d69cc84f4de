"""Counts in words: 1 request, 2 requests."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """The number with what is counted; ``many`` where the plural is not ``one`` with an s ("index", "item is")."""
    return f"{n} {one if n == 1 else many or one + 's'}"
