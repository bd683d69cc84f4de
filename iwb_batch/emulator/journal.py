"""The answers of one running batch, in the order they came, in one file that is only ever added to.

An answer is one head (``<line number> <1 when it succeeded> <bytes for the output> <bytes for the error file>``) and
the bytes themselves, written in one go before it is counted. What a kill cut off in the middle is cut away by the next
reader, so a line is either answered, with everything its answer holds, or not asked yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

HEAD = re.compile(rb"([0-9]{1,12}) ([01]) ([0-9]{1,15}) ([0-9]{1,15})\n")
LONGEST_HEAD = 64
BLOCK = 1 << 20


class Entry(NamedTuple):
    """The head of one answer."""

    number: int
    succeeded: bool
    output: int
    error: int


class Journal:
    """Open for adding; ``numbers`` are the lines answered so far, also by an earlier process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.numbers: set[int] = set()
        self.completed = 0
        self.failed = 0
        end = 0
        if path.exists():
            with path.open("rb") as stream:
                size = path.stat().st_size
                for entry in entries(stream, size):
                    stream.seek(entry.output + entry.error, 1)
                    end = stream.tell()
                    self._count(entry)
        self._stream: BinaryIO = path.open("ab")
        self._stream.truncate(end)

    def add(self, number: int, output: bytes, error: bytes, *, succeeded: bool) -> None:
        """Keep one answer, then count it. Not locked."""
        head = b"%d %d %d %d\n" % (number, succeeded, len(output), len(error))
        self._stream.write(head + output + error)
        self._stream.flush()
        self._count(Entry(number, succeeded, len(output), len(error)))

    def split(self, output: Path, error: Path) -> None:
        """Write the two files of the batch from the answers."""
        with self.path.open("rb") as stream, output.open("wb") as good, error.open("wb") as bad:
            for entry in entries(stream, self.path.stat().st_size):
                copy(stream, good, entry.output)
                copy(stream, bad, entry.error)

    def close(self) -> None:
        """Close the file. What could not be written before cannot be now either, and was never counted."""
        with suppress(OSError):
            self._stream.close()

    def _count(self, entry: Entry) -> None:
        self.numbers.add(entry.number)
        self.completed += entry.succeeded
        self.failed += not entry.succeeded


def entries(stream: BinaryIO, size: int) -> Iterator[Entry]:
    """Each whole answer of a journal of ``size`` bytes; the caller moves the stream over its bytes."""
    while found := HEAD.fullmatch(stream.readline(LONGEST_HEAD)):
        number, succeeded, output, error = map(int, found.groups())
        if stream.tell() + output + error > size:
            return
        yield Entry(number, bool(succeeded), output, error)


def copy(source: BinaryIO, target: BinaryIO, n_bytes: int) -> None:
    """Copy the next ``n_bytes`` bytes."""
    while n_bytes > 0 and (block := source.read(min(BLOCK, n_bytes))):
        target.write(block)
        n_bytes -= len(block)
