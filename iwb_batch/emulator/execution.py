"""Running the lines of one batch through the judge into an output file and an error file.

Lines run in a shuffled order, so the lines done when a batch stops early are no prefix of the input and
the output is in no particular order. One line is in memory at a time (``concurrency`` of them in the background).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from iwb_batch.emulator.answers import Answered, Shape, answer_line, dead_line
from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.judge import Judge
from iwb_batch.emulator.ledger import Ledger
from iwb_batch.emulator.validation import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What an execution needs to know of its batch."""

    source: Path
    output: Path
    error: Path
    spans: Sequence[Span]
    share: float
    """Share of the lines that run."""
    shape: Shape
    created: int
    seed: str
    every_line: str | None = None
    """A request fault that hits every line."""


class Execution:
    """The lines of one batch, being run; in line by ``run``, in the background by ``start``."""

    def __init__(self, order: Order, judge: Judge, faults: FaultPlan, ledger: Ledger) -> None:
        self._order = order
        self._judge = judge
        self._faults = faults
        self._ledger = ledger
        spans = list(order.spans)
        # A seeded shuffle for tests that must repeat; nothing here is a secret.
        random.Random(order.seed).shuffle(spans)  # noqa: S311
        self._todo = spans[: round(order.share * len(spans))]
        self._rest = spans[len(self._todo) :]
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.done = False
        self.completed = 0
        self.failed = 0

    def run(self) -> None:
        """Run the lines that are due and write both files."""
        with self._open() as source, self._order.output.open("wb") as output, self._order.error.open("wb") as error:
            for span in self._todo:
                self._write(span, self._answer(source, span), output, error)
        self.done = True

    def start(self, concurrency: int) -> None:
        """Run the lines in a thread of its own, ``concurrency`` of them at a time."""
        self._thread = threading.Thread(target=self._run_many, args=(concurrency,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin no further line. Those that never ran count as not done."""
        self._stop.set()

    def join(self) -> None:
        """Wait for the background thread, where there is one."""
        if self._thread is not None:
            self._thread.join()

    def dead_lines(self, code: str, message: str) -> int:
        """Write an error line for each line that did not run; returns how many."""
        with self._order.error.open("ab") as error:
            for span in self._rest:
                error.write(dead_line(span.custom_id, code, message, self._order.shape))
        return len(self._rest)

    def _run_many(self, concurrency: int) -> None:
        try:
            with (
                self._order.output.open("wb") as output,
                self._order.error.open("wb") as error,
                ThreadPoolExecutor(concurrency) as pool,
            ):
                for _ in pool.map(lambda span: self._one(span, output, error), self._todo):
                    pass
        finally:
            # A batch whose judge broke down ends with the lines it has; it must not run for ever.
            self.done = True

    def _one(self, span: Span, output: BinaryIO, error: BinaryIO) -> None:
        if self._stop.is_set():
            with self._lock:
                self._rest.append(span)
            return
        with self._open() as source:
            answered = self._answer(source, span)
        with self._lock:
            self._write(span, answered, output, error)

    def _open(self) -> BinaryIO:
        return self._order.source.open("rb")

    def _answer(self, source: BinaryIO, span: Span) -> Answered:
        source.seek(span.offset)
        raw = source.read(span.length)
        fault = self._order.every_line
        if fault is None:
            planned = self._faults.request_fault(span.custom_id, span.number)
            fault = planned.fault if planned else None
        return answer_line(raw, self._judge, fault, self._order.shape, self._order.created)

    def _write(self, span: Span, answered: Answered, output: BinaryIO, error: BinaryIO) -> None:
        if answered.executed:
            self._ledger.executed(span.custom_id)
        if answered.good:
            self._ledger.delivered(span.custom_id)
        self.completed += answered.succeeded
        self.failed += not answered.succeeded
        output.writelines(answered.output)
        error.writelines(answered.error)
