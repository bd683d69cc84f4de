"""Lines of JSON as they arrive: cut on ``\\n`` bytes only, read one by one, never raising for one bad line.

Text-based line splitting also cuts at U+2028, U+0085 and others, which are legal inside JSON strings;
so bytes are split here, and nothing else in the package splits lines of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

BOM = b"\xef\xbb\xbf"
REPLACEMENT = "\ufffd"
ENVELOPE = ("custom_id", "response")
"""Keys of a result line that say whose answer it is and what it is."""


@dataclass(frozen=True, slots=True)
class UnreadableLine:
    """A line that is no JSON object; ``why`` says it in a few words."""

    why: str


def split_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut a stream of byte chunks into lines, without their ``\\n`` and without one ``\\r`` before it.

    A last line without ``\\n`` is a line; an empty rest is none. Blank lines are yielded.
    Memory: one chunk plus the longest line.
    """
    rest: list[bytes] = []
    for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest).removesuffix(b"\r")
            rest = [others.pop()]
            for line in others:
                yield line.removesuffix(b"\r")
    if any(rest):
        yield b"".join(rest).removesuffix(b"\r")


def parse_object(line: bytes) -> dict[str, Any] | UnreadableLine:
    """Read one line as a JSON object; see :func:`parse_noting`."""
    parsed = parse_noting(line)
    return parsed if isinstance(parsed, UnreadableLine) else parsed[0]


def parse_noting(line: bytes) -> tuple[dict[str, Any], bool] | UnreadableLine:
    """Read one line as a JSON object and tell whether lone surrogates had to be replaced in it.

    Never raises. A byte order mark in front is accepted. Lone surrogates, legal as JSON escapes but in no
    Unicode text, become U+FFFD in every string, so the object can be stored. NaN and Infinity are refused.
    A line whose envelope has a key twice is unreadable: nobody can say which of the two is meant. Other keys are
    the provider's affair and keep their last value.
    """
    line = line.removeprefix(BOM)
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _parse_slowly(line)
    if not isinstance(value, dict):
        return _no_object(value)
    return _repeats(line) or (value, False)


def _repeats(line: bytes) -> UnreadableLine | None:
    """Why a line that is a JSON object says an envelope's key twice, None when it does not.

    Counting bytes is cheap and mostly enough; keys of inner objects are told apart by reading the line once more.
    """
    if line.count(b'"response"') < 2 and line.count(b'"custom_id"') < 2:
        return None
    keys: list[str] = []

    def keep(pairs: list[tuple[str, Any]]) -> None:
        keys[:] = [key for key, _ in pairs]  # the outermost object is the last to end

    try:
        json.loads(line, object_pairs_hook=keep, parse_int=str)
    except RecursionError as error:
        return UnreadableLine(f"not readable: {reason(error)}")
    twice = next((key for key in ENVELOPE if keys.count(key) > 1), None)
    return None if twice is None else UnreadableLine(f"'{twice}' occurs twice")


def clean_text(text: str) -> tuple[str, bool]:
    """Replace lone surrogates by U+FFFD; returns the text and whether anything changed."""
    if text.isascii():
        return text, False
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # UTF-16 joins two escapes that form a pair before the lonely ones are replaced.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), True
    return text, False


def clean_value(value: Any) -> tuple[Any, bool]:
    """Apply :func:`clean_text` to every string of a JSON value, keys included.

    Raises RecursionError for a value nested deeper than the interpreter allows.
    """
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        entries = [clean_value(entry) for entry in value]
        return [entry for entry, _ in entries], any(changed for _, changed in entries)
    if isinstance(value, dict):
        pairs = [(clean_text(key), clean_value(entry)) for key, entry in value.items()]
        return {key[0]: entry[0] for key, entry in pairs}, any(key[1] or entry[1] for key, entry in pairs)
    return value, False


def _parse_slowly(line: bytes) -> tuple[dict[str, Any], bool] | UnreadableLine:
    """Read what orjson refuses: lone surrogates and very large numbers are legal JSON."""
    try:
        value, changed = clean_value(json.loads(line.decode("utf-8"), parse_constant=_refuse_constant))
    except UnicodeDecodeError as error:
        return UnreadableLine(f"not UTF-8 at byte {error.start + 1}")
    except json.JSONDecodeError as error:
        return UnreadableLine(f"not JSON: {error.msg} (character {error.pos + 1})" if line.strip() else "empty line")
    except RecursionError as error:
        return UnreadableLine(f"not readable: {reason(error)}")
    except ValueError as error:
        return UnreadableLine(f"not JSON: {reason(error)}")
    if not isinstance(value, dict):
        return _no_object(value)
    return _repeats(line) or (value, changed)


def reason(error: Exception) -> str:
    """Why JSON text has no value here, in a few words: Python's own name a setting of Python for a long number."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "a number with more than 4,300 digits" if "set_int_max_str_digits" in str(error) else str(error)


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is no JSON number"
    raise ValueError(message)


def _no_object(value: object) -> UnreadableLine:
    return UnreadableLine(f"JSON, but {describe(value)} instead of an object")


def describe(value: object) -> str:
    """Name the JSON kind of a value with its article, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    kinds: dict[type, str] = {str: "a string", list: "an array", dict: "an object"}
    return kinds.get(type(value), "something else")
