"""Text as a terminal shows it: what must be escaped, and how many columns it takes."""

from __future__ import annotations

import unicodedata

_JOINERS = "\u200c\u200d"
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def whole(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 file can hold, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def visible(text: str) -> str:
    """Show what would move the cursor, colour the screen or turn the direction of text as an escape.

    Zero-width joiners stay: Devanagari and emoji need them.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in whole(text))


def _shown(character: str) -> str:
    category = unicodedata.category(character)
    if character in _JOINERS or category not in ("Cc", "Cf", "Zl", "Zp"):
        return character
    if character in _NAMED:
        return _NAMED[character]
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def width(text: str) -> int:
    """Columns the text takes in a terminal.

    Wide and full-width characters take two, combining marks and joiners none, and what a
    zero-width joiner or a skin tone adds to an emoji stays inside its two columns.
    """
    if text.isascii():
        return len(text)
    columns, joined = 0, False
    for character in text:
        if not joined or unicodedata.category(character) in ("Mn", "Me"):
            columns += _columns(character)
        joined = character == "\u200d"
        if character == "\ufe0f":
            columns += 1
    return columns


def _columns(character: str) -> int:
    if "\U0001f3fb" <= character <= "\U0001f3ff":
        return 0
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def clipped(text: str, columns: int) -> str:
    """Cut the text to ``columns`` and say so with an ellipsis."""
    if width(text) <= columns:
        return text
    kept = text[:columns]
    while width(kept) > columns - 1:
        kept = kept[:-1]
    return kept.rstrip("\u200d") + "…"


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Fill the text with blanks to ``columns``."""
    blanks = " " * max(0, columns - width(text))
    return blanks + text if right else text + blanks
