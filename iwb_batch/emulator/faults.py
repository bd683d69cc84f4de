"""Planned faults: which requests, batches and HTTP calls go wrong, and how.

A plan is read from a JSON file (``schemas/faults.schema.json``) or built in Python. Chance is drawn from
a checksum of the seed and the thing's own name, so it does not depend on the order of calls.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson

from iwb_batch import schemas
from iwb_batch.emulator.ledger import request_key
from iwb_batch.errors import InputError

FORMAT = "see docs/emulator.md for the format"

OBJECT_FAULTS = frozenset({"list_lag", "file_pending", "file_error"})
"""HTTP faults that change what a POST creates instead of breaking the call."""

ENDINGS = frozenset({"failed", "failed_midway", "expired", "cancelled"})
"""Batch faults that decide how a batch ends; the first one that hits counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which things a fault hits. All given conditions must hold."""

    fault: str
    match: str | None = None
    """Regular expression searched in the custom_id (requests) or the file name (batches)."""
    nth: tuple[int, ...] = ()
    """1-based: the line in its request file, the create call, or the matching HTTP call."""
    probability: float = 1.0
    times: int | None = None
    """At most so often: for requests counted for each request over its attempts, else altogether."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFault(Choice):
    """A fault of one line. ``fault`` names it; see docs/emulator.md."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFault(Choice):
    """A fault of a whole batch; which fields count depends on ``fault``."""

    code: str = "invalid_request"
    message: str | None = None
    line: int | None = None
    param: str | None = None
    when: str = "batch"
    """``failed``: fail the batch later (``batch``) or refuse the create call (``create``)."""
    share: float = 0.5
    """Share of lines that are done, or of bytes that are there."""
    lines: bool = True
    """``expired``, ``cancelled``: the lines not done get a line in the error file."""
    polls: int = 1
    reads: int | None = 1
    """Reads until the file is whole or its id appears; None: never."""
    word: str = "preparing"
    kind: str = "server_error"
    total: int = 0
    completed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFault(Choice):
    """A fault of an HTTP call. ``path`` is searched in the path behind the prefix: ``/files``, ``/batches/ID``."""

    method: str | None = None
    path: str = ""
    status: int = 503
    retry_after: float | None = None
    html: bool = False
    commit: bool = False
    """``status``: the call is carried out before it is answered with the error."""
    listings: int = 1
    polls: int | None = None
    """``file_pending``: processed at this GET of the file; None: never."""
    details: str = "The file could not be read."


AnyFault = TypeVar("AnyFault", RequestFault, BatchFault, HttpFault)


@dataclass(slots=True)
class FaultPlan:
    """All faults of one service, with the counts of what they hit so far. Safe to use from several threads."""

    requests: Sequence[RequestFault] = ()
    batches: Sequence[BatchFault] = ()
    http: Sequence[HttpFault] = ()
    seed: int = 0
    _counts: Counter[tuple[object, ...]] = field(default_factory=Counter, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def load(cls, path: Path, *, seed: int | None = None) -> FaultPlan:
        """Read a plan from a JSON file; ``seed`` beats the file's. Raises InputError naming the wrong place."""
        try:
            value = orjson.loads(path.read_bytes())
        except OSError as error:
            raise InputError(f"{path.name}: cannot be read ({error.strerror})", hint="check --faults") from error
        except orjson.JSONDecodeError as error:
            raise InputError.at(f"{path.name} line {error.lineno}", f"not JSON: {error.msg}") from error
        return cls.of(value, where=path.name, seed=seed)

    @classmethod
    def of(cls, value: Any, *, where: str = "faults", seed: int | None = None) -> FaultPlan:
        """Build a plan from the JSON value of a fault file, checked against its schema."""
        _check(value, where)
        return cls(
            requests=[RequestFault(**_fields(entry)) for entry in value.get("requests", ())],
            batches=[BatchFault(**_fields(entry)) for entry in value.get("batches", ())],
            http=[HttpFault(**_fields(entry)) for entry in value.get("http", ())],
            seed=value.get("seed", 0) if seed is None else seed,
        )

    def request_fault(self, custom_id: str, line: int) -> RequestFault | None:
        """The first fault that hits this line, or None."""
        for number, fault in enumerate(self.requests):
            if self._chosen(fault, ("r", number), custom_id, line) and self._take(
                fault, ("r", number, request_key(custom_id))
            ):
                return fault
        return None

    def batch_faults(self, filename: str) -> list[BatchFault]:
        """Every fault that hits the batch created now over the file of this name."""
        with self._lock:
            self._counts["created",] += 1
            nth = self._counts["created",]
        return [
            fault
            for number, fault in enumerate(self.batches)
            if self._chosen(fault, ("b", number), f"{filename}", nth) and self._take(fault, ("b", number))
        ]

    def http_faults(self, method: str, path: str) -> list[HttpFault]:
        """Every fault that hits this call; ``path`` without the surface's prefix."""
        found = []
        for number, fault in enumerate(self.http):
            if fault.method not in (None, method) or not re.search(fault.path, path):
                continue
            with self._lock:
                self._counts["call", number] += 1
                nth = self._counts["call", number]
            name = f"{method} {path} {nth}"
            if self._chosen(fault, ("h", number), name, nth) and self._take(fault, ("h", number)):
                found.append(fault)
        return found

    def _chosen(self, fault: Choice, where: tuple[str, int], name: str, nth: int) -> bool:
        if fault.match is not None and not re.search(fault.match, name):
            return False
        if fault.nth and nth not in fault.nth:
            return False
        return fault.probability >= 1 or self._draw(where, f"{name}#{nth}") < fault.probability

    def _draw(self, where: tuple[str, int], name: str) -> float:
        digest = hashlib.sha256(f"{self.seed}/{where[0]}{where[1]}/{name}".encode()).digest()
        return int.from_bytes(digest[:8]) / 2**64

    def _take(self, fault: Choice, counter: tuple[object, ...]) -> bool:
        with self._lock:
            if fault.times is not None and self._counts["hit", *counter] >= fault.times:
                return False
            self._counts["hit", *counter] += 1
            return True


def first(faults: Iterable[AnyFault], *names: str) -> AnyFault | None:
    """The first of the faults that has one of the names."""
    return next((fault for fault in faults if fault.fault in names), None)


def _fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if name == "nth" else value for name, value in entry.items()}


def _check(value: Any, where: str) -> None:
    import jsonschema

    validator = jsonschema.Draft202012Validator(schemas.load("faults.schema.json"))
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if error is not None:
        raise InputError.at(f"{where} {error.json_path}", error.message, hint=FORMAT)
    for group in ("requests", "batches", "http"):
        for number, entry in enumerate(value.get(group, ())):
            for name in ("match", "path"):
                _check_pattern(entry.get(name), f"{where} $.{group}[{number}].{name}")


def _check_pattern(pattern: str | None, place: str) -> None:
    try:
        re.compile(pattern or "")
    except re.error as error:
        raise InputError.at(place, f"not a regular expression: {error}", hint=FORMAT) from error
