"""Rows of one data file: JSONL, JSON array, CSV or Parquet, by suffix.

JSONL, CSV and Parquet are streamed; a JSON array is read whole and decoded element by element.
A bad line stops the reading with an ``InputError`` that names file and line: no row is skipped.
Integers of any size stay integers; strings keep lone surrogates (``core.lines.clean_text`` mends them).
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import orjson

from iwb_batch.core.lines import reason, split_lines
from iwb_batch.core.row import Row
from iwb_batch.core.words import counted
from iwb_batch.errors import InputError

CHUNK = 1 << 20
PARQUET_ROWS = 256
CSV_FIELD_LIMIT = 2**31 - 1
BOM = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
LARGEST_EXACT = 2**63


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file's bytes, streamed. InputError: the file cannot be read."""
    with open_bytes(path) as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def read_rows(
    path: Path, *, name: str | None = None, subset: str | None = None, allow_nan: bool = False
) -> Iterator[Row]:
    """Stream the rows of a file; ``name`` is how messages call it (default: its name without folder).

    ``allow_nan``: NaN and Infinity in JSON are floats instead of faults, for files of numbers.

    InputError: unknown suffix, missing or unreadable file, a bad line, or no row at all.
    """
    label = name or path.name
    reader = _READERS.get(path.suffix.lower())
    if path.is_dir():
        raise InputError(f"{label or path}: is a folder, not a file", hint="name one file in it")
    if reader is None:
        raise InputError.at(
            label, f"files ending in '{path.suffix}' cannot be read", hint=f"use one of {', '.join(DATA_SUFFIXES)}"
        )
    if allow_nan and reader is _json_rows:
        reader = partial(_json_rows, constant=float)
    empty = True
    for values, unit, number in reader(path, label):
        empty = False
        yield Row(values, f"{label} {unit} {number}", number, path.name, subset)
    if empty:
        raise InputError.at(label, "holds no rows", hint="check that this is the right file, written to its end")


def open_bytes(path: Path) -> BufferedReader:
    """Open a file for reading bytes. InputError: it is missing, a folder, or may not be read."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"{path.name}: no such file", hint=f"looked for {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path.name}: is a folder, not a file", hint="name one file in it") from None
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror})", hint="check its permissions") from None


_Rows = Iterator[tuple[dict[str, Any], str, int]]
_Constant = Callable[[str], float]


def _json_rows(path: Path, label: str, constant: _Constant | None = None) -> _Rows:
    constant = constant or _refuse_constant
    with open_bytes(path) as source:
        start = source.read(4096)
        if start.startswith(UTF16_MARKS):
            raise InputError.at(label, "is UTF-16, not UTF-8", hint="save the file as UTF-8 and try again")
        source.seek(0)
        if start.removeprefix(BOM).lstrip()[:1] == b"[":
            yield from _array_rows(source.read(), label, constant)
        else:
            yield from _jsonl_rows(source, label, constant)


def _jsonl_rows(source: BinaryIO, label: str, constant: _Constant) -> _Rows:
    chunks = iter(lambda: source.read(CHUNK), b"")
    for number, line in enumerate(split_lines(chunks), start=1):
        content = line.removeprefix(BOM) if number == 1 else line
        if not content.strip():
            continue
        if content.strip() == b"{":
            what = "holds one object written over several lines, not rows"
            raise InputError.at(label, what, hint="write an array of objects, or one object a line")
        where = f"{label} line {number}"
        value = decode_json(content, where, constant)
        if not isinstance(value, dict):
            raise InputError.at(where, f"holds {_kind(value)} instead of a JSON object", hint="one object a line")
        yield value, "line", number


def _array_rows(content: bytes, label: str, constant: _Constant) -> _Rows:
    text = _utf8(content.removeprefix(BOM), label)
    decoder = json.JSONDecoder(parse_constant=constant)
    position, number = text.index("[") + 1, 0
    while True:
        position = _skip_blank(text, position)
        if number == 0 and text[position : position + 1] == "]":
            break
        number += 1
        where = f"{label} row {number}"
        value, position = _decode_element(decoder, text, position, where)
        if not isinstance(value, dict):
            raise InputError.at(where, f"is {_kind(value)} instead of a JSON object", hint="an array of objects")
        yield value, "row", number
        position = _skip_blank(text, position)
        if text[position : position + 1] == "]":
            break
        if text[position : position + 1] != ",":
            raise InputError.at(where, _place(text, position, "the array is cut or a comma is missing after this row"))
        position += 1
    end = _skip_blank(text, position + 1)
    if end < len(text):
        raise InputError.at(label, _place(text, end, "text after the end of the array"))


def _decode_element(decoder: json.JSONDecoder, text: str, position: int, where: str) -> tuple[Any, int]:
    try:
        return decoder.raw_decode(text, position)
    except json.JSONDecodeError as error:
        raise InputError.at(where, f"not JSON: {error.msg} (line {error.lineno})", hint=_JSON_HINT) from None
    except (ValueError, RecursionError) as error:
        raise InputError.at(where, f"not usable JSON: {reason(error)}", hint=_JSON_HINT) from None


def _skip_blank(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _place(text: str, position: int, what: str) -> str:
    return f"{what} (line {text.count(chr(10), 0, position) + 1})"


_JSON_HINT = "mend or remove the row, or write the file again"


def decode_json(content: bytes, where: str, constant: _Constant | None = None) -> Any:
    """One JSON value from UTF-8 bytes, exact integers, lone surrogates kept.

    InputError at ``where``: not UTF-8, not JSON (NaN and Infinity are not, unless ``constant`` takes
    them), or nested beyond reach.
    """
    constant = constant or _refuse_constant
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return _decode_exactly(content, where, constant)
    return _decode_exactly(content, where, constant) if _rounded(value) else value


def _decode_exactly(content: bytes, where: str, constant: _Constant) -> Any:
    text = _utf8(content, where)
    try:
        return json.loads(text, parse_constant=constant)
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} (character {error.colno})"
        raise InputError.at(where, what, hint=_JSON_HINT) from None
    except (ValueError, RecursionError) as error:
        raise InputError.at(where, f"not usable JSON: {reason(error)}", hint=_JSON_HINT) from None


def _rounded(value: object) -> bool:
    """Whether orjson may have turned an integer beyond 64 bits into a float anywhere."""
    pending: list[object] = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, float):
            if abs(current) >= LARGEST_EXACT:
                return True
        elif isinstance(current, dict):
            pending.extend(v for v in current.values() if not isinstance(v, str))
        elif isinstance(current, list):
            pending.extend(v for v in current if not isinstance(v, str))
    return False


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON value")


def _utf8(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"not UTF-8 (byte 0x{content[error.start]:02x} at position {error.start + 1})"
        raise InputError.at(where, what, hint="save the file as UTF-8") from None


def _kind(value: object) -> str:
    kinds: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


def _csv_rows(path: Path, label: str) -> _Rows:
    csv.field_size_limit(CSV_FIELD_LIMIT)
    with open_bytes(path) as source:
        reader = csv.reader(_csv_lines(source, label), strict=True)
        header: list[str] = []
        while True:
            number = reader.line_num + 1
            where = f"{label} line {number}"
            try:
                cells = next(reader, None)
            except csv.Error as error:
                raise InputError.at(where, f"not CSV: {error}", hint="check the quotes of this row") from None
            if cells is None:
                return
            if not cells:
                continue
            if not header:
                header = _csv_header(cells, where)
            elif len(cells) != len(header):
                what = f"{counted(len(cells), 'cell')} instead of {len(header)}"
                raise InputError.at(where, what, hint="quote texts that hold commas or line breaks")
            else:
                yield dict(zip(header, cells, strict=True)), "line", number


def _csv_lines(source: BinaryIO, label: str) -> Iterator[str]:
    for number, line in enumerate(source, start=1):
        if number == 1 and line.startswith(UTF16_MARKS):
            raise InputError.at(label, "is UTF-16, not UTF-8", hint="save the file as UTF-8 and try again")
        yield _utf8(line.removeprefix(BOM) if number == 1 else line, f"{label} line {number}")


def _csv_header(cells: list[str], where: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        what = f"column name occurs twice: {', '.join(twice)}"
        raise InputError.at(where, what, hint="give each column its own name")
    return names


def _parquet_rows(path: Path, label: str) -> _Rows:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    open_bytes(path).close()
    number = 0
    try:
        with pq.ParquetFile(path, pre_buffer=False) as source:
            for batch in source.iter_batches(batch_size=PARQUET_ROWS):
                for values in batch.to_pylist():
                    number += 1
                    yield values, "row", number
    except (pa.ArrowException, OSError) as error:
        where = f"{label} row {number + 1}" if number else label
        reason = " ".join(str(error).split())[:200]
        raise InputError.at(where, f"not readable as Parquet: {reason}", hint="write the file again") from None


_READERS: dict[str, Callable[[Path, str], _Rows]] = {
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
    ".json": _json_rows,
    ".csv": _csv_rows,
    ".parquet": _parquet_rows,
}
DATA_SUFFIXES = tuple(_READERS)
