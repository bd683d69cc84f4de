"""Chain of thought: where the thoughts of a text end and its answer begins.

One function serves every path (rubric, pairs, reward scores), so all see the same answer.
``think`` and ``thinking`` are the same tag here: models write both.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Literal

Mode = Literal["auto", "exact", "required", "off"]

UNCLOSED = "unclosed"
DAMAGED_TAG = "damaged_tag"
ORPHAN_CLOSE = "orphan_close"
MULTIPLE_CLOSE = "multiple_close"
NO_CLOSING_TAG = "no_closing_tag"
FURTHER_OPEN = "further_open"

_EXACT_MARK = "</think>\n\n"
_OPENING = re.compile(r"<think(?:ing)?[^\S\n]*>", re.IGNORECASE)
_CLOSING = re.compile(r"</think(?:ing)?\s*>", re.IGNORECASE)
_CLOSING_DAMAGED = re.compile(r"</think(?:ing)?(?![\w-])(?!\s*>)", re.IGNORECASE)
_AT_START = re.compile(r"[\s\u200b\ufeff]*<think(?:ing)?(?![\w-])(?P<whole>[^\S\n]*>)?", re.IGNORECASE)
_SPACE = re.compile(r"\s*")
_TICKS = re.compile(r"`+")
_FENCE = re.compile(r"^ {0,3}(`{3,})([^`\n]*)$", re.MULTILINE)
_NOT_EMPTY = re.compile(r"[^\s\u200b\ufeff]")


@dataclass(frozen=True, slots=True)
class Stripped:
    """A text cut in two: ``reasoning + answer`` is the text; without an answer ``reasoning`` is all of it."""

    reasoning: str
    answer: str | None
    flags: tuple[str, ...] = ()


def strip(text: str, mode: Mode) -> Stripped:
    """Cut the chain of thought off.

    ``auto``: an opening tag at the start (any case; ``<think`` without its ``>`` counts, flagged ``damaged_tag``)
    ends at the first closing tag that is not inside back-ticks. Without one, the first such closing tag is an
    orphan: cut there, flagged ``orphan_close``. White space right after the tag goes with the thoughts. The rest
    is untouched; more tags in it are flagged ``multiple_close`` / ``further_open``. Opened anywhere and never
    closed: no answer, flagged ``unclosed``.
    ``exact``: through the first ``</think>`` followed by two newlines, else unchanged: the rule of the original
    benchmark. ``required``: as ``auto``, but no closing tag is no answer, flagged ``no_closing_tag``.
    ``off``: the text is the answer.
    """
    if mode == "off":
        return Stripped("", text)
    if mode == "exact":
        return _strip_exact(text)
    tags = closing_tags(text)
    flags: list[str] = []
    opening = _AT_START.match(text)
    if (opening and not opening["whole"]) or _CLOSING_DAMAGED.search(text):
        flags.append(DAMAGED_TAG)
    if tags:
        return _cut(text, tags[0][1], opened=opening is not None, flags=flags)
    if opening or _opened_later(text):
        flags.append(UNCLOSED)
    if mode == "required":
        flags.append(NO_CLOSING_TAG)
    if {UNCLOSED, NO_CLOSING_TAG} & set(flags):
        return Stripped(text, None, tuple(flags))
    return Stripped("", text, tuple(flags))


def cut_after(text: str, end: int) -> int:
    """Where the answer begins when a closing tag ends at ``end``: behind the white space that follows it."""
    found = _SPACE.match(text, end)
    return found.end() if found else end


def opens(text: str) -> bool:
    """Whether the text starts with an opening tag, whole or damaged."""
    return _AT_START.match(text) is not None


def closing_tags(text: str) -> list[tuple[int, int]]:
    """Start and end of every closing tag that is not inside back-ticks, in order (offsets in code points)."""
    tags = [found.span() for found in _CLOSING.finditer(text)]
    if not tags or "`" not in text:
        return tags
    quoted = _quoted_spans(text)
    return [tag for tag in tags if not _inside(tag[0], quoted)]


def is_empty(text: str) -> bool:
    """True when there is nothing but white space, U+200B and U+FEFF."""
    return _NOT_EMPTY.search(text) is None


def _strip_exact(text: str) -> Stripped:
    flags = (MULTIPLE_CLOSE,) if len(_CLOSING.findall(text)) > 1 else ()
    at = text.find(_EXACT_MARK)
    if at < 0:
        return Stripped("", text, flags)
    end = at + len(_EXACT_MARK)
    return Stripped(text[:end], text[end:], flags)


def _cut(text: str, end: int, *, opened: bool, flags: list[str]) -> Stripped:
    end = cut_after(text, end)
    if not opened:
        flags.append(ORPHAN_CLOSE)
    if len(_CLOSING.findall(text)) > 1:
        flags.append(MULTIPLE_CLOSE)
    if _OPENING.search(text, end):
        flags.append(FURTHER_OPEN)
    return Stripped(text[:end], text[end:], tuple(flags))


def _opened_later(text: str) -> bool:
    """Whether a whole opening tag outside back-ticks stands somewhere in the text."""
    tags = [found.start() for found in _OPENING.finditer(text)]
    if not tags or "`" not in text:
        return bool(tags)
    quoted = _quoted_spans(text)
    return any(not _inside(tag, quoted) for tag in tags)


def _inside(position: int, spans: list[tuple[int, int]]) -> bool:
    at = bisect_right(spans, (position, position)) - 1
    return at >= 0 and position < spans[at][1]


def _quoted_spans(text: str) -> list[tuple[int, int]]:
    """What is inside back-ticks: fenced blocks that end, and code spans within one line; sorted, disjoint.

    A span never runs over the end of a line: one stray back-tick in the thoughts must not swallow the tag
    that ends them.
    """
    spans: list[tuple[int, int]] = []
    at = 0
    for start, end in _fences(text):
        spans.extend(_code_spans(text, at, start))
        spans.append((start, end))
        at = end
    spans.extend(_code_spans(text, at, len(text)))
    return spans


def _fences(text: str) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    opened: re.Match[str] | None = None
    for mark in _FENCE.finditer(text):
        if opened is None:
            opened = mark
        elif len(mark[1]) >= len(opened[1]) and not mark[2].strip():
            found.append((opened.start(), mark.end()))
            opened = None
    return found


def _code_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    waiting: dict[int, int] = {}
    line_end = start
    for ticks in _TICKS.finditer(text, start, end):
        if ticks.start() >= line_end:
            waiting = {}
            newline = text.find("\n", ticks.start(), end)
            line_end = end if newline < 0 else newline
        length = ticks.end() - ticks.start()
        if length in waiting:
            spans.append((waiting[length], ticks.end()))
            waiting = {}
        else:
            waiting[length] = ticks.start()
    return spans
