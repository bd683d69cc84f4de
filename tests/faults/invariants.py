"""What must hold for a run between any two commands, whatever happened before; checked from outside the product.

The rules are plain SQL over run.db, the files of the run folder read again, and the emulator's own books.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from iwb_batch.store import kept
from tests.faults.harness import Scores, World


def undisturbed(root: Path, **world: Any) -> tuple[Scores, World]:
    """Scores of the run without any fault but its request faults; the closed world, for its figures."""
    with World(root, **world) as reference:
        assert reference.finish() == 0
        assert reference.errors == []
        check_invariants(reference)
        return reference.scores(), reference


def check_invariants(world: World, *, paid_once: bool = True) -> None:
    """Assert everything that holds between any two commands, whatever happened before."""
    broken = list(violations(world, paid_once=paid_once))
    assert not broken, "\n".join(broken)


def violations(world: World, *, paid_once: bool = True) -> Iterator[str]:
    """One line for each rule that does not hold."""
    if not world.folder.database.is_file():
        if world.service.batches_created:
            yield f"{len(world.service.batches_created)} batches exist and no run knows of them"
        return
    with world.reading() as database:
        generates = world.value("SELECT protocol FROM run") == "generate"
        for rule, sql in RULES.items():
            if generates and rule == OF_VERDICTS:
                continue
            found = world.rows(sql)
            if found:
                yield f"{rule}: {found[:3]}"
        by_view = {"scored": 0, "open": 0, "failed": 0}
        by_view |= dict(world.rows("SELECT status, count(*) FROM request_status GROUP BY status"))
        if world.counts() != by_view:
            yield f"counts {world.counts()} are not those of the view: {by_view}"
        yield from (f"kept count {name} is not what counting gives" for name in kept.wrong(database))
        yield from _files_as_hashed(world)
        yield from _raw_lines_as_stored(world)
        yield from _remote_batches(world)
    if paid_once and world.service.paid_twice():
        yield f"paid twice: {world.service.paid_twice()}"


OF_VERDICTS = "each judgement belongs to a valid reading, each valid reading has one"
"""A generated text is an answer as it is: there is no verdict in it."""

RULES: Mapping[str, str] = {
    "the file is sound": "SELECT * FROM pragma_integrity_check WHERE integrity_check <> 'ok'",
    "foreign keys hold": "SELECT * FROM pragma_foreign_key_check",
    "each planned request has exactly one status": (
        "SELECT q.request_id, count(s.request_id) FROM request q LEFT JOIN request_status s USING (request_id)"
        " GROUP BY 1 HAVING count(s.request_id) <> 1"
    ),
    "scored + open + failed = planned": (
        "SELECT 1 WHERE (SELECT count(*) FROM request) <> (SELECT count(*) FROM request_status"
        " WHERE status IN ('scored', 'open', 'failed'))"
    ),
    "a collected batch has no open attempt": (
        "SELECT a.custom_id FROM attempt_reading a JOIN batch b USING (request_file_id)"
        " WHERE b.state = 'collected' AND a.outcome IS NULL"
    ),
    "an attempt with an outcome is in a collected or split file": (
        "SELECT a.custom_id, a.outcome FROM attempt_reading a WHERE a.outcome IS NOT NULL"
        " AND (SELECT provider FROM run) <> 'files' AND NOT EXISTS"  # answers given by hand are read at once
        " (SELECT 1 FROM batch b WHERE b.request_file_id = a.request_file_id AND (b.state = 'collected'"
        "  OR (b.state = 'dropped' AND a.outcome = 'not_run' AND a.detail = 'split')))"
    ),
    "a request has at most one open attempt": (
        "SELECT request_id, count(*) FROM attempt_reading WHERE outcome IS NULL GROUP BY 1 HAVING count(*) > 1"
    ),
    "a scored request has no open attempt": (
        "SELECT a.custom_id FROM attempt_reading a JOIN request_status s USING (request_id)"
        " WHERE s.status = 'scored' AND a.outcome IS NULL"
    ),
    "each answer line belongs to an attempt and was read": (
        "SELECT l.raw_line_id FROM raw_line l LEFT JOIN attempt a USING (custom_id) WHERE l.kind = 'answer' AND"
        " NOT EXISTS (SELECT 1 FROM reading r WHERE r.raw_line_id = l.raw_line_id AND r.attempt_id = a.attempt_id)"
    ),
    "an attempt has at most one answer line": (
        "SELECT custom_id, count(*) FROM raw_line WHERE kind = 'answer' GROUP BY 1 HAVING count(*) > 1"
    ),
    OF_VERDICTS: (
        "SELECT coalesce(r.reading_id, j.reading_id) FROM reading r FULL JOIN judgement j USING (reading_id)"
        " WHERE (r.outcome = 'valid') IS NOT (j.reading_id IS NOT NULL)"
    ),
    "a file has at most one live batch": (
        "SELECT request_file_id FROM batch WHERE state <> 'dropped' GROUP BY 1 HAVING count(*) > 1"
    ),
    "a batch with a remote id has been created": (
        "SELECT batch_id FROM batch WHERE (remote_batch_id IS NOT NULL) <> (submitted_at IS NOT NULL)"
    ),
    "what was sent and what is to be sent have files": (
        "SELECT a.custom_id FROM attempt a LEFT JOIN batch b USING (request_file_id) WHERE b.batch_id IS NULL"
    ),
}


def _files_as_hashed(world: World) -> Iterator[str]:
    for folder, table in ((world.folder.requests, "request_file"), (world.folder.raw, "raw_file")):
        for name, sha256 in world.rows(f"SELECT name, sha256 FROM {table}"):
            path = folder / name
            if not path.is_file():
                yield f"{table} {name} is missing"
            elif hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
                yield f"{table} {name} is not what was hashed"
    for name, n_requests in world.rows("SELECT name, n_requests FROM request_file"):
        lines = (world.folder.requests / name).read_bytes().split(b"\n")[:-1]
        sent = [json.loads(line)["custom_id"] for line in lines]
        sql = "SELECT custom_id FROM attempt JOIN request_file USING (request_file_id) WHERE name = ? ORDER BY line"
        if len(sent) != n_requests or sent != [row[0] for row in world.rows(sql, name)]:
            yield f"{name} does not hold the attempts planned for it"


def _raw_lines_as_stored(world: World) -> Iterator[str]:
    for raw_file_id, name in world.rows("SELECT raw_file_id, name FROM raw_file"):
        stored = world.rows("SELECT line, text FROM raw_line WHERE raw_file_id = ? ORDER BY line", raw_file_id)
        lines = (world.folder.raw / name).read_bytes().split(b"\n")
        there = [
            (number, line.removesuffix(b"\r").decode("utf-8", "replace"))
            for number, line in enumerate(lines, 1)
            if line.strip()
        ]
        if stored != there:
            yield f"{name}: {len(stored)} lines stored, {len(there)} in the file"


def _remote_batches(world: World) -> Iterator[str]:
    """Each remote batch is known to the run, or is the one whose reply was lost."""
    known = {row[0] for row in world.rows("SELECT remote_batch_id FROM batch WHERE remote_batch_id IS NOT NULL")}
    waiting = {
        row[0]
        for row in world.rows(
            "SELECT name FROM batch JOIN request_file USING (request_file_id) WHERE state = 'creating'"
        )
    }
    run_id = world.value("SELECT run_id FROM run")
    ours = {key: batch for key, batch in world.remote().items() if batch.metadata.get("iwb_run") == run_id}
    lost = [batch.metadata["iwb_file"] for key, batch in ours.items() if key not in known]
    if len(lost) != len(set(lost)) or not set(lost) <= waiting:
        yield f"remote batches no intent accounts for: {lost}, waiting: {sorted(waiting)}"


def remote_batches(world: World) -> list[Any]:
    """The batches at the emulated resource, oldest first."""
    return list(world.remote().values())


def n_lines(batch: Any) -> int:
    """Requests of a remote batch."""
    return int(batch.source.path.read_bytes().count(b"\n"))


def unaccounted(world: World) -> list[str]:
    """custom_ids that ran at the provider and have no outcome in a finished run, or a good answer and no verdict."""
    read = dict(world.rows("SELECT custom_id, outcome FROM attempt_reading"))
    lost = [name for name in world.service.executions if read.get(name) is None]
    return lost + [name for name in world.service.delivered_good if read.get(name) != "valid"]
