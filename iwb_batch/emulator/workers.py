"""The threads that judge lines in the background: one fixed number of them for all batches together."""

from __future__ import annotations

import threading
from collections import deque

from iwb_batch.emulator.execution import Execution
from iwb_batch.emulator.validation import Span


class Workers:
    """Takes lines from the oldest execution that has any; at most ``concurrency`` lines are at the judge at once."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._queue: deque[Execution] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def add(self, execution: Execution) -> None:
        """Begin with its lines when those of the earlier executions are taken."""
        with self._changed:
            self._queue.append(execution)
            while len(self._threads) < self._concurrency:
                self._hire()
            self._changed.notify_all()

    def close(self) -> None:
        """Take no further line, and wait for those at the judge."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def _hire(self) -> None:
        # A daemon: who leaves a second time must not wait for a slow model.
        thread = threading.Thread(target=self._work, name="iwb-emulator-line", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        try:
            while (turn := self._next()) is not None:
                execution, span = turn
                execution.answer(span)
        finally:
            with self._changed:
                if not self._closed:
                    # The judge broke down in a way nobody planned for: that batch has ended, the others go on.
                    self._threads.remove(threading.current_thread())
                    self._hire()

    def _next(self) -> tuple[Execution, Span] | None:
        with self._changed:
            while not self._closed:
                while self._queue:
                    span = self._queue[0].take()
                    if span is not None:
                        return self._queue[0], span
                    self._queue.popleft()
                self._changed.wait()
            return None
