"""The vocabulary: one word for each thing, used alike in code, schema, CLI and docs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NewType

CustomId = NewType("CustomId", str)

PairOrder = Literal["chosen-first", "rejected-first"]
PAIR_ORDERS: tuple[PairOrder, PairOrder] = ("chosen-first", "rejected-first")

PairSide = Literal["chosen", "rejected"]
PAIR_SIDES: tuple[PairSide, PairSide] = ("chosen", "rejected")


class Outcome(StrEnum):
    """What came of one attempt. Exactly one for each attempt and reading."""

    VALID = "valid"
    INVALID_JSON = "invalid_json"
    INVALID_SCHEMA = "invalid_schema"
    EMPTY = "empty"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    FILTERED = "filtered"
    REJECTED = "rejected"
    TRANSIENT = "transient"
    MISSING = "missing"
    EXPIRED = "expired"
    NOT_RUN = "not_run"
    CANCELLED = "cancelled"
    ACCOUNT = "account"


class BatchState(StrEnum):
    """Our own state of a batch; the provider's status is kept beside it, verbatim."""

    PLANNED = "planned"
    UPLOADING = "uploading"
    UPLOADED = "uploaded"
    CREATING = "creating"
    SUBMITTED = "submitted"
    ENDED = "ended"
    COLLECTED = "collected"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Criterion:
    """One rubric entry: its name, and the entry as JSON text in the data's key order."""

    name: str
    json: str


@dataclass(frozen=True, slots=True)
class Item:
    """One benchmark row.

    ``cluster`` is a sha256 over what renderings of one prompt share; ``extra`` holds what a
    protocol needs beyond the query (for pairs: the two texts), as JSON-ready values.
    """

    index: int
    item_id: str
    query: str
    cluster: str
    domain: str | None = None
    subdomain: str | None = None
    language: str | None = None
    variant: str | None = None
    tag: str | None = None
    criteria: tuple[Criterion, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Response:
    """One model's answer to an item.

    The text of the file is ``reasoning + (answer or "")``; ``answer`` is what the judge sees,
    ``None`` when the chain of thought never ended. ``flags`` name what was noticed.
    """

    index: int
    reasoning: str
    answer: str | None
    flags: tuple[str, ...] = ()
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """The smallest thing judged: (item, criterion, repeat), (pair, order, repeat) or (pair, side, repeat)."""

    item_index: int
    repeat: int
    criterion_index: int | None = None
    criterion: str | None = None
    pair_order: PairOrder | None = None
    side: PairSide | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A validated verdict: a score (1..10) or a preference, with the judge's reason."""

    reason: str
    score: int | None = None
    preferred: Literal["chosen", "rejected"] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts the provider returned for one answer; ``None`` is unknown, never 0."""

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one attempt came to, as read from a raw line or from the end of its batch."""

    outcome: Outcome
    detail: str | None = None
    http_status: int | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    message: str | None = None
    content: str | None = None
    usage: Usage = Usage()
    model: str | None = None
    system_fingerprint: str | None = None
    judgement: Judgement | None = None
