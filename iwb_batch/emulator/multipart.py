"""Reading an upload: form fields in memory, the file straight to disk, block by block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from iwb_batch.emulator.http import ApiError


@dataclass(slots=True)
class Form:
    """An upload as read: text fields, and the file's name and size. The file's bytes are at the target path."""

    fields: dict[str, str] = field(default_factory=dict)
    filename: str | None = None
    n_bytes: int = 0


class _Reader:
    """Callbacks of the multipart parser: one part at a time."""

    def __init__(self, target: BinaryIO) -> None:
        self.form = Form()
        self.ended = False
        self._target = target
        self._header = bytearray()
        self._value = bytearray()
        self._disposition = b""
        self._name = ""
        self._is_file = False
        self._text = bytearray()

    def part_begin(self) -> None:
        self._disposition, self._name, self._is_file = b"", "", False
        self._text.clear()

    def header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = bytes(self._value)
        self._header.clear()
        self._value.clear()

    def headers_finished(self) -> None:
        from python_multipart.multipart import parse_options_header

        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._is_file = b"filename" in options and self._name == "file"
        if self._is_file:
            self.form.filename = options[b"filename"].decode("utf-8", "replace")

    def part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._target.write(memoryview(data)[start:end])
            self.form.n_bytes += end - start
        else:
            self._text += data[start:end]

    def part_end(self) -> None:
        if not self._is_file:
            self.form.fields[self._name] = self._text.decode("utf-8", "replace")

    def end(self) -> None:
        self.ended = True


def read_form(content_type: str, blocks: Iterable[bytes], target: Path) -> Form:
    """Parse a multipart body, writing its ``file`` part to ``target``; raises ApiError 400 when it is malformed."""
    from python_multipart.exceptions import MultipartParseError
    from python_multipart.multipart import MultipartParser, parse_options_header

    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise ApiError.of(400, "invalid_request", "An upload is sent as multipart/form-data.")
    with target.open("wb") as stream:
        reader = _Reader(stream)
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": reader.part_begin,
                "on_header_field": reader.header_field,
                "on_header_value": reader.header_value,
                "on_header_end": reader.header_end,
                "on_headers_finished": reader.headers_finished,
                "on_part_data": reader.part_data,
                "on_part_end": reader.part_end,
                "on_end": reader.end,
            },
        )
        try:
            for block in blocks:
                parser.write(block)
        except MultipartParseError as error:
            raise ApiError.of(400, "invalid_request", f"The multipart body cannot be read: {error}") from error
    if not reader.ended:
        raise ApiError.of(400, "invalid_request", "The multipart body ends before its closing boundary.")
    return reader.form
