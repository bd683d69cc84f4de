"""Checks of one run, offline: run.db's rules, the files beside it, and every answer read again.

Used by ``doctor RUN`` on a run folder and by ``export --verify`` on an unpacked bundle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from iwb_batch import __version__
from iwb_batch.benchmarks import item_sha256
from iwb_batch.core.lines import split_lines
from iwb_batch.core.words import counted
from iwb_batch.errors import IwbError
from iwb_batch.report.checks import Check
from iwb_batch.store import checks as rules
from iwb_batch.store import evidence, kept, plan, views
from iwb_batch.store.database import Database
from iwb_batch.store.evidence import StoredFile
from iwb_batch.workflow import looking, reparse
from iwb_batch.workflow.folder import RunFolder, explained
from iwb_batch.workflow.settings import sha256_text

CHUNK = 1 << 20
SHOWN = 3
"""Places named in one message."""

FROM_COPY = "Restore it from a copy or from an evidence bundle; run.db keeps the sha256 it must have."


def run_checks(folder: RunFolder) -> list[Check]:
    """Every check of a run folder, in order. Takes no lock, makes no call, changes nothing.

    InputError: there is no run.db. A run.db that cannot be opened is a broken check.
    """
    found: list[Check] = []
    try:
        with looking.reading(folder) as database:
            rules.hold_still(database)
            found.append(Check("run.db opens", "ok", f"run {views.run(database).name}"))
            if _add(found, _sound, database) and _add(found, _schema, database):
                for check in (_invariants, _inputs, _answers, _standing):
                    _add(found, check, database)
                _add(found, lambda run: _files(folder, run), database)
    except IwbError as error:
        if not folder.database.is_file():
            raise
        found.append(Check("run.db opens", "broken", error.message, error.hint))
    return found


def _add(found: list[Check], check: Callable[[Database], Iterator[Check]], database: Database) -> bool:
    """Add what one group of checks finds; False when something in it is broken. An error is a broken check."""
    before = len(found)
    try:
        found += check(database)
    except IwbError as error:
        found.append(Check("checks end early", "broken", error.message, error.hint))
    return all(check.status != "broken" for check in found[before:])


def _sound(database: Database) -> Iterator[Check]:
    damaged = database_errors(database)
    yield _listed("integrity_check", "SQLite finds the file sound", damaged, "Restore run.db from a copy.")
    if not damaged:
        dangling = rules.foreign_key_errors(database)
        yield _listed(
            "foreign_key_check", "every row refers to one that exists", dangling, "Restore run.db from a copy."
        )


def database_errors(database: Database) -> list[str]:
    """What SQLite's own check says; an error of the check itself is one more line."""
    try:
        return rules.integrity_errors(database)
    except IwbError as error:
        return [error.message]


def _schema(database: Database) -> Iterator[Check]:
    yield _listed(
        "schema",
        "tables, views and triggers are those of schemas/run.sql",
        rules.schema_differences(database),
        "Use the iwb-batch that wrote the run (column versions of table run); a changed view cannot be trusted.",
    )


def _listed(name: str, rule: str, places: list[str], next_step: str) -> Check:
    if not places:
        return Check(name, "ok", rule, count=0)
    shown = ", ".join(places[:SHOWN]) + (f" and {len(places) - SHOWN} more" if len(places) > SHOWN else "")
    return Check(name, "broken", f"does not hold: {rule}: {shown}", next_step, len(places))


def _invariants(database: Database) -> Iterator[Check]:
    for invariant in rules.INVARIANTS:
        found = rules.find(database, invariant)
        if found.count == 0:
            yield Check(invariant.name, "ok", invariant.rule, count=0)
            continue
        yield Check(
            invariant.name,
            invariant.severity,
            f"does not hold in {counted(found.count, 'place')}: {invariant.rule}; first: {found.first}",
            invariant.next_step,
            found.count,
        )
    yield _listed(
        "kept_counts_hold",
        "the counts kept in run.db are what counting gives",
        kept.wrong(database),
        "Restore run.db from a copy: what `status` shows was changed by hand.",
    )


def _inputs(database: Database) -> Iterator[Check]:
    """Items and responses still hash to what the run was planned with."""
    run = views.run(database)
    for name, places, whole, wanted in (
        ("items_as_planned", *_item_hashes(database), run.data_sha256),
        ("responses_as_planned", *_response_hashes(database), run.responses_sha256),
    ):
        if not places and whole != wanted:
            places.append("the rows, as a whole")
        what = name.split("_", maxsplit=1)[0]
        yield _listed(
            name,
            f"the {what} are those the run was planned with",
            places,
            "Restore run.db from a copy: what was judged is not what run.db shows.",
        )


def _item_hashes(database: Database) -> tuple[list[str], str]:
    changed, whole = [], hashlib.sha256()
    for row, stored in evidence.item_hashes(database):
        if item_sha256(plan.item_of(row)) != stored:
            changed.append(f"item {row['item_index']}")
        whole.update(_entry(row["item_index"], stored))
    return changed, whole.hexdigest()


def _response_hashes(database: Database) -> tuple[list[str], str]:
    changed, whole = [], hashlib.sha256()
    for index, reasoning, answer, stored in evidence.responses(database):
        if sha256_text(f"{reasoning}\0{answer!r}") != stored:
            changed.append(f"response {index}")
        whole.update(_entry(index, stored))
    return changed, whole.hexdigest()


def _entry(index: int, sha256: str) -> bytes:
    return f"{index} {sha256}\n".encode()


def _answers(database: Database) -> Iterator[Check]:
    """Every stored answer reads as its newest reading says."""
    judging = reparse.judging_of(views.run(database))
    if judging is None:
        return
    n_read, places = 0, []
    for answer, difference in reparse.read_again(database, judging):
        n_read += 1
        if difference is not None:
            old, new = difference.outcomes
            what = f"{old} -> {new}" if old != new else ", ".join(difference.names)
            places.append(f"{answer.custom_id} ({what})")
    rule = f"{counted(n_read, 'answer')} read again give the readings and verdicts stored"
    found = _listed("answers_read_again", rule, places, "Restore run.db from a copy: a stored verdict was changed.")
    readers = reparse.readers(database)
    if places and (readers != {__version__} or _other_schema(database, judging.schema_sha256)):
        wrote = " and ".join(sorted(readers))
        found = Check(
            found.name,
            "warn",
            f"{found.message} (the run was read by iwb-batch {wrote}, this is {__version__})",
            "`iwb-batch reparse RUN` adds the present reading beside the stored one.",
            found.count,
        )
    yield found


def _other_schema(database: Database, sha256: str) -> bool:
    return views.run(database).schema_sha256 != sha256


def _standing(database: Database) -> Iterator[Check]:
    counts = views.count_statuses(database)
    in_flight = [b for b in views.batches(database) if b["state"] in ("uploading", "creating", "submitted", "ended")]
    text = f"{counts['scored']} scored + {counts['open']} open + {counts['failed']} failed = {sum(counts.values())}"
    yield Check("requests", "ok", text)
    tail = "; `iwb-batch collect` brings home what they answer" if in_flight else ""
    yield Check("batches in flight", "ok", f"{len(in_flight)}{tail}", count=len(in_flight))


def _files(folder: RunFolder, database: Database) -> Iterator[Check]:
    requests, raw = evidence.request_files(database), evidence.raw_files(database)
    yield _all_files(
        "request files",
        requests,
        lambda f: request_file_error(folder.requests / f.name, f, evidence.custom_ids(database, f.file_id)),
    )
    yield _all_files(
        "raw files", raw, lambda f: raw_file_error(folder.raw / f.name, f, evidence.raw_lines(database, f.file_id))
    )
    yield from _unknown_files(folder, requests, raw)


def _all_files(name: str, files: list[StoredFile], error_of: Callable[[StoredFile], str | None]) -> Check:
    places = [error for error in map(error_of, files) if error is not None]
    return _listed(name, f"{len(files)} {name} have the bytes and lines run.db knows", places, FROM_COPY)


def _unknown_files(folder: RunFolder, requests: list[StoredFile], raw: list[StoredFile]) -> Iterator[Check]:
    strange = [f"requests/{name}" for name in _names(folder.requests) - {f.name for f in requests}]
    lost = [f"raw/{name}" for name in _names(folder.raw) - {f.name for f in raw}]
    places = sorted(lost) + sorted(strange)
    if not places:
        yield Check("files run.db does not know", "ok", "none", count=0)
        return
    yield Check(
        "files run.db does not know",
        "warn",
        f"{', '.join(places[:SHOWN])}{f' and {len(places) - SHOWN} more' if len(places) > SHOWN else ''}",
        "`iwb-batch collect` takes in what was downloaded and not stored yet. If run.db was copied while a command"
        " worked, copy run.db-wal with it: the newest answers are in there."
        if lost
        else "Left by a command that was interrupted; it is written again or may be deleted.",
        len(places),
    )


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


class _Scan:
    """Reads a file once: its lines, and after the last one its sha256 and size."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hash = hashlib.sha256()
        self.n_bytes = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """(1-based number, line) of every line that is not blank."""
        for number, line in enumerate(split_lines(self._chunks()), start=1):
            if line.strip():
                yield number, line

    def _chunks(self) -> Iterator[bytes]:
        with explained(self._path), self._path.open("rb") as source:
            while chunk := source.read(CHUNK):
                self._hash.update(chunk)
                self.n_bytes += len(chunk)
                yield chunk


def request_file_error(path: Path, stored: StoredFile, planned: Iterator[tuple[int, str]]) -> str | None:
    """What is wrong with a request file: bytes, number of lines, or a line that is not its attempt's. None: nothing."""

    def fits(line: bytes, custom_id: str) -> bool:
        return line.startswith(b'{"custom_id":"' + custom_id.encode("utf-8") + b'"')

    return _file_error(path, stored, planned, fits)


def raw_file_error(path: Path, stored: StoredFile, kept: Iterator[tuple[int, str]]) -> str | None:
    """What is wrong with a raw file: bytes, number of lines, or a line run.db holds otherwise. None: nothing."""
    return _file_error(path, stored, kept, lambda line, text: line.decode("utf-8", "replace") == text)


def _file_error(
    path: Path, stored: StoredFile, expected: Iterator[tuple[int, str]], fits: Callable[[bytes, str], bool]
) -> str | None:
    name = f"{path.parent.name}/{path.name}"
    if Path(stored.name).name != stored.name:
        return f"{stored.name!r} is not a plain file name"
    if not path.is_file():
        return f"{name} is missing"
    scan, first, n_lines = _Scan(path), None, 0
    for have, want in zip_longest(scan.lines(), expected):
        n_lines += have is not None
        if first is None and (have is None or want is None or have[0] != want[0] or not fits(have[1], want[1])):
            first = have[0] if have is not None else want[0] if want is not None else None
    faults = []
    if scan.n_bytes != stored.n_bytes:
        faults.append(f"{scan.n_bytes} bytes instead of {stored.n_bytes}")
    if n_lines != stored.n_lines:
        faults.append(f"{counted(n_lines, 'line')} instead of {stored.n_lines}")
    if scan.sha256 != stored.sha256:
        faults.append("another sha256")
    if first is not None:
        faults.append(f"line {first} is not what run.db holds")
    return f"{name}: {', '.join(faults)}" if faults else None
