"""What the emulator counted: which lines ran, which good answers it wrote, what ran once too often."""

from __future__ import annotations

import re
import threading
from collections import Counter

ATTEMPT_SUFFIX = re.compile(r"-a\d+$")


def request_key(custom_id: str) -> str:
    """The request behind an attempt: the custom_id without its ``-a<attempt>`` ending."""
    return ATTEMPT_SUFFIX.sub("", custom_id)


class Ledger:
    """Counters over the life of one service; safe to call from several threads."""

    def __init__(self) -> None:
        self.executions: Counter[str] = Counter()
        self.delivered_good: set[str] = set()
        self.batches_created: list[str] = []
        self._good_requests: set[str] = set()
        self._again: set[str] = set()
        self._lock = threading.Lock()

    def executed(self, custom_id: str) -> None:
        """A line was answered by the judge, so it would be billed."""
        with self._lock:
            self.executions[custom_id] += 1
            if self.executions[custom_id] > 1 or request_key(custom_id) in self._good_requests:
                self._again.add(custom_id)

    def delivered(self, custom_id: str) -> None:
        """An answer a careful reader can use was written into an output file."""
        with self._lock:
            self.delivered_good.add(custom_id)
            self._good_requests.add(request_key(custom_id))

    def paid_twice(self) -> list[str]:
        """custom_ids that ran more than once, or after a good answer to the same request had been written."""
        with self._lock:
            return sorted(self._again)
