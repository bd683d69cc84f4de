"""Top-level JSON objects in a text that is not JSON as a whole. Nested ones are never taken for a verdict."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iwb_batch.core.lines import reason

_BRACKET = re.compile(r"[{}\[\]]")
_BRACKET_OR_STRING = re.compile(r'[{}\[\]]|"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
UNREADABLE_LIMIT = 1_000
"""Brackets without a readable value that are looked at; a text with more of them is none that holds a verdict."""

_DEPTH = {"{": 1, "[": 1, "}": -1, "]": -1}

UNREADABLE = (ValueError, RecursionError)
"""What reading a JSON value may raise: bad JSON, a number with too many digits, too deep a nesting."""


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value read out of a text: where it ends, and whether it holds raw control characters."""

    value: Any
    end: int
    controls: bool


@dataclass(frozen=True, slots=True)
class Found:
    """A top-level object and its place in the text (code points)."""

    value: dict[str, Any]
    start: int
    end: int
    controls: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """The top-level objects of a text in order; ``broken`` says why one that was meant as a verdict is none."""

    objects: tuple[Found, ...]
    broken: str | None


def scan(text: str, read_at: Callable[[str, int], Value], *, watch: Sequence[str]) -> Scan:
    """Find the objects that stand in no other bracket.

    ``read_at(text, start)`` reads one value or raises one of ``UNREADABLE``. A bracket that opens no readable
    value is followed to its end, and what is inside does not count. When it has a key of ``watch``, or is an
    object that never ends, it was meant as a verdict and ``broken`` is set: a verdict quoted from elsewhere must
    not win because the judge's own is damaged or cut off.
    """
    found: list[Found] = []
    broken: str | None = None
    at = unreadable = 0
    while mark := _BRACKET.search(text, at):
        if mark[0] in "}]":
            at = mark.end()
            continue
        try:
            read = read_at(text, mark.start())
        except UNREADABLE as error:
            at, closed = _group_end(text, mark.start())
            unreadable += 1
            if unreadable > UNREADABLE_LIMIT:
                return Scan((), f"more than {UNREADABLE_LIMIT} brackets that are no JSON")
            if broken is None and _was_meant(text[mark.start() : at], watch, closed=closed):
                broken = why(error)
            continue
        if isinstance(read.value, dict):
            found.append(Found(read.value, mark.start(), read.end, read.controls))
        at = read.end
    return Scan(tuple(found), broken)


def why(error: Exception) -> str:
    """Say in a few words why a text could not be read as JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} (character {error.pos + 1})"
    return reason(error)


def _was_meant(group: str, watch: Sequence[str], *, closed: bool) -> bool:
    if group.startswith("{") and not closed:
        return True
    bare = "".join(group.split())
    quotes = ('"', "'", "") if group.startswith("{") else ('"', "'")
    return any(f"{key}{quote}:" in bare for key in watch for quote in quotes)


def _group_end(text: str, start: int) -> tuple[int, bool]:
    """End of the bracket that opens at ``start``, strings skipped, and whether it closes at all."""
    depth = 0
    for mark in _BRACKET_OR_STRING.finditer(text, start):
        depth += _DEPTH.get(mark[0], 0)
        if depth == 0:
            return mark.end(), True
    return len(text), False
