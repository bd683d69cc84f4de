"""Running the lines of one batch through the judge into a journal, from which its two files are made.

Lines run in a shuffled order, so the lines done when a batch stops early are no prefix of the input and
the output is in no particular order. Only the lines at the judge are in memory.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from iwb_batch.emulator.answers import Answered, Shape, answer_line, dead_line
from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.journal import Journal
from iwb_batch.emulator.judge import Interrupted, Judge
from iwb_batch.emulator.ledger import Ledger
from iwb_batch.emulator.validation import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What an execution needs to know of its batch."""

    source: Path
    journal: Path
    share: float
    """Share of the lines that run."""
    shape: Shape
    created: int
    seed: str
    every_line: str | None = None
    """A request fault that hits every line."""
    checked: bool = True
    """Whether parameters are checked as a reasoning deployment does."""

    def record(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self) | {"source": self.source.name, "journal": self.journal.name}

    @classmethod
    def restored(cls, value: Mapping[str, Any], source: Path, journal: Path) -> Order:
        """From plain data."""
        return cls(**dict(value) | {"source": source, "journal": journal})


class Execution:
    """The lines of one batch, being run; in line by ``run``, or one by one by whoever takes them.

    Lines that the journal holds already are not run again.
    """

    def __init__(self, order: Order, spans: Sequence[Span], judge: Judge, faults: FaultPlan, ledger: Ledger) -> None:
        self.order = order
        self.journal = Journal(order.journal)
        self.broken: str | None = None
        """Why the lines cannot go on."""
        self._spans = spans
        self._judge = judge
        self._faults = faults
        self._ledger = ledger
        shuffled = list(spans)
        # A seeded shuffle for tests that must repeat; nothing here is a secret.
        random.Random(order.seed).shuffle(shuffled)  # noqa: S311
        due = shuffled[: round(order.share * len(shuffled))]
        self._todo = deque(span for span in due if span.number not in self.journal.numbers)
        self._running = 0
        self._stopped = False
        self._interrupted = False
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether every line due has been answered, or none will begin any more and none is at the judge."""
        with self._lock:
            return not self._running and (self._stopped or not self._todo)

    @property
    def running(self) -> int:
        """Lines at the judge."""
        return self._running

    def run(self) -> None:
        """Run the lines that are due, one after the other."""
        with self._open() as source:
            while (span := self.take()) is not None:
                self.answer(span, source)

    def take(self) -> Span | None:
        """The next line to run, for ``answer``; None when there is none."""
        with self._lock:
            if self._stopped or self._interrupted or not self._todo:
                return None
            self._running += 1
            return self._todo.popleft()

    def answer(self, span: Span, source: BinaryIO | None = None) -> None:
        """Ask the judge for one line that was taken, and keep its answer."""
        settled = False
        try:
            answered = self._answered(span, source)
            with self._lock:
                self._keep(span, answered)
            settled = True
        except Interrupted:
            self.interrupt()
            with self._lock:
                self._todo.appendleft(span)
            settled = True
        except OSError as error:
            self._break(f"The answers cannot be kept: {error.strerror}.")
            settled = True
        finally:
            if not settled:
                self._break("The judge broke down.")
            with self._lock:
                self._running -= 1

    def stop(self) -> None:
        """Begin no further line, ever. Those that never ran count as not done."""
        with self._lock:
            self._stopped = True

    def interrupt(self) -> None:
        """Begin no further line in this process; the batch is not done by it."""
        with self._lock:
            self._interrupted = True

    def split(self, output: Path, error: Path, dead: tuple[str, str] | None) -> None:
        """Write both files; ``dead`` is code and message of an error line for each line that did not run."""
        self.journal.split(output, error)
        if dead is not None:
            with error.open("ab") as stream:
                for span in self._spans:
                    if span.number not in self.journal.numbers:
                        stream.write(dead_line(span.custom_id, *dead, self.order.shape))

    def _break(self, why: str) -> None:
        with self._lock:
            self.broken = why
            self._stopped = True

    def _open(self) -> BinaryIO:
        return self.order.source.open("rb")

    def _answered(self, span: Span, source: BinaryIO | None) -> Answered:
        if source is None:
            with self._open() as opened:
                raw = _read(opened, span)
        else:
            raw = _read(source, span)
        fault = self.order.every_line
        if fault is None:
            planned = self._faults.request_fault(span.custom_id, span.number)
            fault = planned.fault if planned else None
        order = self.order
        return answer_line(raw, self._judge, fault, order.shape, order.created, checked=order.checked)

    def _keep(self, span: Span, answered: Answered) -> None:
        output, error = b"".join(answered.output), b"".join(answered.error)
        self.journal.add(span.number, output, error, succeeded=answered.succeeded)
        if answered.executed:
            self._ledger.executed(span.custom_id)
        if answered.good:
            self._ledger.delivered(span.custom_id)


def _read(source: BinaryIO, span: Span) -> bytes:
    source.seek(span.offset)
    return source.read(span.length)
