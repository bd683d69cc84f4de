"""A process whose children run the small run and kill themselves at a chosen point. Started by the kill sweep.

It loads everything once and forks for each order, so that a kill costs a fork and not a start of Python. An order is
one line of JSON on stdin; the answer is one line on stdout.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from iwb_batch.providers.openai_batch import OpenAIBatch
from tests.faults import sweeping
from tests.faults.harness import World, connection_to

ROOT = Path(__file__).resolve().parents[2]


def die() -> None:
    """Leave at once, as after kill -9: no handler, no flush, no rollback."""
    os.kill(os.getpid(), signal.SIGKILL)


class AtBoundary:
    """Kills at the ``nth`` passing of the boundary ``name``."""

    def __init__(self, name: str, nth: int) -> None:
        self._name = name
        self._left = nth

    def __call__(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                die()


@contextmanager
def killing_at(kind: str, nth: int, root: Path) -> Iterator[None]:
    """Kills before the ``nth`` SQL statement or file operation."""
    if kind == "sql":
        with sweeping.failing_sql(nth, "", at_hit=die):
            yield
    else:
        with sweeping.failing_files(root, nth, 0, at_hit=die):
            yield


def run(order: dict[str, Any]) -> None:
    """What a forked child does: the two commands, until it kills itself or is through."""
    adapter = OpenAIBatch(connection_to(order["url"]), read_retries=0)
    world = World(Path(order["root"]), adapter=adapter)
    world.clock.wall = order["now"]
    death: AbstractContextManager[None] = nullcontext()
    if order["kind"] == "boundary":
        world.boundary = AtBoundary(order["name"], order["nth"])
    else:
        death = killing_at(order["kind"], order["nth"], world.runs_dir)
    with death:
        world.attempt()


def serve() -> None:
    with tempfile.TemporaryDirectory() as folder, World(Path(folder)) as world:
        world.attempt()  # loads every library, so that a fork has nothing left to load
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run(json.loads(line))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.write(json.dumps({"killed": killed, "status": status}) + "\n")
        sys.stdout.flush()


class Nursery:
    """The parent's end: gives orders to the process that forks."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.dying"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            cwd=ROOT,
        )

    def order(self, **order: Any) -> bool:
        """Run one child; True when it was killed, False when it came to its end first."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer["killed"] or answer["status"] == 0, answer
        return bool(answer["killed"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


if __name__ == "__main__":
    serve()
