"""What a variant runs in: ``python -m tests.bench.child TARGET ARGUMENTS REPORT``.

TARGET names a function that gets everything ready and returns what is to be timed. The process tells its own peak
memory: the usage a parent sees of a child begins with the parent's own.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path


def peak_kib() -> int | None:
    """Peak resident memory of this process in KiB, None where the system does not tell."""
    try:
        with Path("/proc/self/status").open(encoding="ascii", errors="replace") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), None)
    except OSError:
        return None


def main() -> None:
    """Prepare, time, report."""
    target, arguments, report = sys.argv[1:]
    module, _, name = target.partition(":")
    work = getattr(importlib.import_module(module), name)(**json.loads(arguments))
    started, used = time.perf_counter(), time.process_time()
    value = work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    told = {"work": seconds, "work_cpu": cpu, "peak_kib": peak_kib(), "value": value}
    Path(report).write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
