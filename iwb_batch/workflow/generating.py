"""``generate``: Step A through the same engine; a responses file that ``submit`` takes, once all is in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iwb_batch.errors import InputError, UsageError
from iwb_batch.inputs.rows import file_sha256
from iwb_batch.store import generated
from iwb_batch.store.database import Database
from iwb_batch.workflow import collect, opening, submit
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.folder import RunFolder, WholeFile
from iwb_batch.workflow.opening import Connect
from iwb_batch.workflow.progress import Progress
from iwb_batch.workflow.session import Boundary, no_boundary
from iwb_batch.workflow.submit import Confirm, SubmitRequest


@dataclass(frozen=True, slots=True)
class Generated:
    """What came of one call: the run, the exit code, and how many responses were written (None: not yet)."""

    folder: RunFolder
    code: int
    written: int | None


def generate(
    request: SubmitRequest,
    out: Path,
    *,
    connect: Connect,
    confirm: Confirm,
    clock: Clock,
    progress: Progress,
    boundary: Boundary = no_boundary,
) -> Generated:
    """Send what is not sent, bring home what is there, and write ``out`` when nothing is open any more.

    The same call again continues. Exit code 0: every item has its response; 3: some wait; 4: finished, but
    some items have none (the file holds the others), or stopped before all were in (there is no file yet).
    """
    if not out.parent.is_dir():
        raise InputError(f"{out.parent}: no such folder", hint="--out names a file in a folder that exists.")
    made = submit.submit(request, connect=connect, confirm=confirm, clock=clock, progress=progress, boundary=boundary)
    with opening.working(
        made.folder, connect=connect, waiting=request.waiting, clock=clock, progress=progress, boundary=boundary
    ) as session:
        code = collect.collect(session, collect.ByHand(), confirm)
        if session.counts()["open"]:
            return Generated(made.folder, code, None)
        written = write_responses(session.database, out)
    return Generated(made.folder, code, written)


def write_responses(database: Database, out: Path) -> int:
    """Write the responses by index, whole or not at all; returns how many. UsageError: the file exists and differs."""
    with WholeFile(out.with_name(out.name + ".new")) as whole:
        written = 0
        for line in _lines(database):
            whole.write(line)
            written += 1
        sha256 = whole.commit()
    fresh = whole.target
    if out.exists() and file_sha256(out) != sha256:
        fresh.unlink()
        raise UsageError(f"{out.name}: exists and differs", hint="Move it away, or choose another --out.")
    fresh.replace(out)
    return written


def _lines(database: Database) -> Iterator[bytes]:
    for index, text in generated.responses(database):
        line = json.dumps({"index": index, "response": text}, ensure_ascii=False)
        for mark in ("\u2028", "\u2029", "\u0085"):
            line = line.replace(mark, f"\\u{ord(mark):04x}")
        yield line.encode("utf-8") + b"\n"
