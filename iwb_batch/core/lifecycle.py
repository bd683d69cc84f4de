"""Rules of life: which outcomes may be sent again, when a batch has ended, what a refusal means.

The numbers are the contract's budgets. run.db holds them as rows (table ``policy``), so that the
view ``request_status`` and this module cannot disagree: there is one statement of the rule.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from iwb_batch.model import Outcome

INFRASTRUCTURE_RESUBMITS = 10
"""Further attempts after the first for transient, missing, expired and not_run, all four together."""

TOKEN_LIMIT_CAP = 32_000
"""A truncated answer is asked for again with twice the token limit, up to this or the user's value."""

GONE_AFTER_POLLS = 3
"""A batch id answered 404 this many polls in a row is gone."""

LOOKS_BEFORE_MISSING = 3
"""Passes in a row that must find the same lack in a batch's files before what is not there is taken for missing."""

LISTINGS_BEFORE_CREATE = 2
"""Complete listings without a lost batch before it may be created again."""

REFUSALS_BEFORE_HALVING = 3
SMALLEST_QUOTA = 30_000
"""Enqueued tokens of the smallest deployment seen in the wild; a file below it is not what fills a queue."""

BACK_OFF_FIRST = 5.0
BACK_OFF_LAST = 900.0

SYSTEMATIC_SHARE = 0.9
SYSTEMATIC_LINES = 3

ENDED_STATUSES = frozenset({"completed", "failed", "expired", "cancelled"})
RUNNING_STATUSES = frozenset({"in_progress", "finalizing"})
GONE = "gone"
"""Our word for a batch the provider no longer knows."""

MAYBE_PAID = "maybe_paid"
SPLIT = "split"

_BUDGET_OF = {
    Outcome.INVALID_JSON: "quality",
    Outcome.INVALID_SCHEMA: "quality",
    Outcome.EMPTY: "quality",
    Outcome.REFUSED: "quality",
    Outcome.TRUNCATED: "quality",
    Outcome.FILTERED: "filtered",
    Outcome.REJECTED: "none",
    Outcome.TRANSIENT: "infrastructure",
    Outcome.MISSING: "infrastructure",
    Outcome.EXPIRED: "infrastructure",
    Outcome.NOT_RUN: "infrastructure",
    Outcome.CANCELLED: "by_hand",
    Outcome.ACCOUNT: "by_hand",
}


def policy(max_resubmits: int, resubmit_filtered: int) -> list[tuple[str, str, int | None]]:
    """Rows of table ``policy``: (outcome, budget, further attempts allowed; None: never by itself)."""
    allowed: Mapping[str, int | None] = {
        "quality": max_resubmits,
        "filtered": resubmit_filtered,
        "none": 0,
        "infrastructure": INFRASTRUCTURE_RESUBMITS,
        "by_hand": None,
    }
    return [(outcome.value, budget, allowed[budget]) for outcome, budget in _BUDGET_OF.items()]


def next_token_limit(last_outcome: str | None, last_limit: int | None, asked: int) -> int:
    """Token limit of the next attempt: doubled after a truncation, otherwise as it was.

    ``asked`` is the user's ``--max-completion-tokens``; the cap is ``max(32,000, asked)``.
    """
    if last_limit is None:
        return asked
    if last_outcome != Outcome.TRUNCATED:
        return last_limit
    return min(last_limit * 2, max(TOKEN_LIMIT_CAP, asked))


def back_off(refusals: int) -> float:
    """Seconds to wait after the n-th refusal for enqueued tokens: 5, 10, 20 ... capped."""
    return min(BACK_OFF_FIRST * math.pow(2, max(refusals - 1, 0)), BACK_OFF_LAST)


def has_ended(status: str) -> bool:
    """True for the four final words, whatever their case. Unknown words are still running."""
    return status.strip().lower() in ENDED_STATUSES


def is_running(status: str) -> bool:
    """True for the words that say a batch has begun to run, also where no time of its beginning is given."""
    return status.strip().lower() in RUNNING_STATUSES


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """How a batch ended, as far as its lines need it: lower-cased status, counts, what was held."""

    status: str
    began: bool
    claimed: int | None
    """Lines the provider's request_counts claim (completed + failed); None when it gives no counts."""
    held: int
    """Lines its files hold; once they are read, the attempts that got one of them."""


def outcome_without_line(end: BatchEnd) -> tuple[Outcome, str | None]:
    """Outcome and detail of attempts that have no line in either file of an ended batch."""
    if end.status == GONE:
        return Outcome.MISSING, GONE
    if (end.claimed or 0) > end.held or end.status == "completed":
        return Outcome.MISSING, MAYBE_PAID
    if end.status == "expired":
        return Outcome.EXPIRED, None
    if end.status == "cancelled":
        return Outcome.CANCELLED, None
    return Outcome.NOT_RUN, None


def is_whole(end: BatchEnd, *, has_files: bool, expected: int) -> bool:
    """True when the files hold all the provider claims, so that the batch can be collected.

    A batch that ran and names no file and no counts says nothing yet: its file ids may come after its status.
    """
    if end.status == GONE:
        return True
    if not has_files and (end.status == "completed" or (end.claimed is None and end.began)):
        return False
    return end.held >= min(end.claimed or 0, expected)


class Refusal(StrEnum):
    """What a refused batch means for its file."""

    QUEUE_FULL = "queue_full"
    FILE_PENDING = "file_pending"
    FILE_UNUSABLE = "file_unusable"
    OTHER = "other"


_QUEUE_CODES = frozenset({"token_limit_exceeded", "enqueued_token_limit_exceeded"})
_FILE_CODES = frozenset({"input_file_not_found", "file_not_found", "invalid_input_file_id"})

_LOST_WORDS = ("cannot find", "cannot be found", "could not be found", "not found", "no such file")


def refusal(errors: Iterable[tuple[str | None, str]]) -> Refusal:
    """Read (code, message) pairs of a refused create or of a batch that failed validation."""
    for code, message in errors:
        word, text = (code or "").lower(), message.lower()
        if word in _QUEUE_CODES or "enqueued token" in text or "token_limit_exceeded" in text:
            return Refusal.QUEUE_FULL
        if "'pending' state" in text or "still pending" in text:
            return Refusal.FILE_PENDING
        if (
            word in _FILE_CODES
            or any(code in text for code in _FILE_CODES)
            or ("file" in text and any(words in text for words in _LOST_WORDS))
        ):
            return Refusal.FILE_UNUSABLE
    return Refusal.OTHER


_LIMIT = re.compile(r"limit(?:\s+(?:of|is))?\s*[:=]?\s*([0-9][0-9,_.]*)\s*([kmb])?\b", re.IGNORECASE | re.ASCII)
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}


def limit_named(message: str) -> int | None:
    """The enqueued-token limit a refusal names ("configured limit of 30K"), None if it names none."""
    found = _LIMIT.search(message)
    if found is None:
        return None
    digits, unit = found.group(1).rstrip(".,_"), (found.group(2) or "").lower()
    try:
        value = float(digits.replace(",", "").replace("_", ""))
    except ValueError:
        return None
    return int(value * _SCALE[unit]) or None


def in_our_count(limit: int, *, counted: int, estimated: int) -> int:
    """A provider's limit in the tokens we count, where it counted ``counted`` for what we took for ``estimated``.

    Only where it counts more than we do: a limit is never taken for a larger one.
    """
    return limit if counted <= estimated or estimated <= 0 else max(limit * estimated // counted, 1)


def learned_limit(named: int | None, known: int | None, *, in_flight: int, n_tokens: int, refusals: int) -> int | None:
    """The enqueued-token limit to assume after the n-th refusal of a file; None while waiting alone may help.

    ``named`` is the limit the refusal names, ``known`` the one assumed so far, ``in_flight`` what else of ours is
    in the queue, all in the tokens we count. A named limit below our sum explains the refusal. Otherwise the provider
    counts more than we estimate, or somebody else fills the queue: with tokens of ours in flight the sum was too
    much; with none, the file is halved after three refusals, unless it is far below the limit: then its size is not
    the reason.
    """
    total = in_flight + n_tokens
    if named is not None and total > named:
        found: int | None = named
    elif in_flight > 0:
        found = total - 1
    elif refusals >= REFUSALS_BEFORE_HALVING and n_tokens > (SMALLEST_QUOTA if named is None else named // 8):
        found = n_tokens // 2
    else:
        found = named
    if found is None or (known is not None and found >= known):
        return None
    return max(found, 1)


def systematic(lines: Mapping[tuple[str, str], int], total: int) -> tuple[str, str, int] | None:
    """Find a systematic failure: (outcome, code, lines) when one code ends >= 90 % of a batch.

    ``lines`` counts lines by (outcome, error code) for outcomes rejected and filtered.
    """
    for (outcome, code), n in sorted(lines.items(), key=lambda entry: -entry[1]):
        if n >= SYSTEMATIC_LINES and n >= SYSTEMATIC_SHARE * total:
            return outcome, code, n
    return None
