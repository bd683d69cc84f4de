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

    Wide and full-width characters take two, combining marks and joiners none. Whatever a
    zero-width joiner, a skin tone or a variation selector adds to an emoji stays inside its two columns.
    """
    if text.isascii():
        return len(text)
    columns = last = 0
    joined = False
    for character in text:
        if character == "\ufe0f":
            columns += 1 if last == 1 else 0
            last = 0
        elif not (joined and _is_symbol(character)) and (own := _columns(character)):
            columns += own
            last = own
        joined = character == "\u200d"
    return columns


def _is_symbol(character: str) -> bool:
    return unicodedata.category(character) == "So"


def _columns(character: str) -> int:
    if "\U0001f3fb" <= character <= "\U0001f3ff" or unicodedata.category(character) in ("Mn", "Me", "Cf"):
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
