"""Where a run stands, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from iwb_batch.report.formats import to_json, to_table
from iwb_batch.report.tables import REHEARSAL, Document, Number, Table, count

RunState = Literal["planned", "running", "stopped", "halted", "complete", "incomplete"]


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One batch; ``about`` is what the user should know about it (ambiguous, refused, expires soon)."""

    batch_id: int
    state: str
    remote_status: str | None
    n_requests: int
    remote_batch_id: str | None = None
    about: str = ""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Sums over ``attempt_log``, strays left out."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class StatusData:
    """Where a run stands.

    Requests: ``planned = scored + open + failed``; ``outcomes`` counts attempts, ``failures`` failed
    requests by last outcome. ``cost_usd`` is ``None`` when any part is unknown. ``eta_seconds`` is
    an estimate or ``None``. ``messages`` are next steps, one sentence each.
    """

    run: str
    state: RunState
    planned: int
    scored: int
    n_open: int
    failed: int
    outcomes: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    batches: Sequence[BatchLine] = ()
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    eta_seconds: float | None = None
    rehearsal: bool = False
    messages: Sequence[str] = ()


def render(status: StatusData, *, as_json: bool = False) -> str:
    """The status as text, or in its JSON shape."""
    return to_json(shape(status)) if as_json else to_table(document(status))


def document(status: StatusData) -> Document:
    """The status as titled tables."""
    mark = REHEARSAL if status.rehearsal else ""
    return Document(
        f"{mark}{status.run}: {status.state}", tuple(_facts(status)), tuple(_tables(status)), tuple(status.messages)
    )


def _facts(status: StatusData) -> Iterable[tuple[str, str]]:
    yield (
        "requests",
        f"{status.scored} of {status.planned} scored, {status.n_open} open, {status.failed} failed",
    )
    used = status.tokens
    yield (
        "tokens",
        f"{used.prompt} prompt ({used.cached} cached), {used.completion} completion ({used.reasoning} reasoning)",
    )
    cost = Number(status.cost_usd, "usd").text()
    idle = "" if status.outcomes else ", nothing is answered yet"
    yield "cost", (cost if status.cost_usd is None else f"{cost} USD") + idle
    if status.eta_seconds is not None:
        yield "about to finish in", _duration(status.eta_seconds)


def _duration(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def _tables(status: StatusData) -> Iterable[Table]:
    if status.failures:
        yield Table(
            "Failed requests by last outcome",
            ("outcome", "requests"),
            tuple((name, count(n)) for name, n in sorted(status.failures.items())),
        )
    if status.outcomes:
        yield Table(
            "Attempts by outcome",
            ("outcome", "attempts"),
            tuple((name, count(n)) for name, n in sorted(status.outcomes.items())),
        )
    if status.batches:
        yield Table(
            "Batches",
            ("batch", "state", "provider says", "requests", "provider's id", "about"),
            tuple(
                (
                    count(batch.batch_id),
                    batch.state,
                    batch.remote_status or "-",
                    count(batch.n_requests),
                    batch.remote_batch_id or "-",
                    batch.about,
                )
                for batch in status.batches
            ),
        )


def shape(status: StatusData) -> dict[str, Any]:
    """The status in its JSON shape, see ``schemas/status.schema.json``."""
    return {
        "run": status.run,
        "state": status.state,
        "planned": status.planned,
        "scored": status.scored,
        "open": status.n_open,
        "failed": status.failed,
        "outcomes": dict(sorted(status.outcomes.items())),
        "batches": [
            {
                "batch_id": batch.batch_id,
                "state": batch.state,
                "remote_status": batch.remote_status,
                "n_requests": batch.n_requests,
                "remote_batch_id": batch.remote_batch_id,
                "about": batch.about,
            }
            for batch in status.batches
        ],
        "tokens": {
            "prompt": status.tokens.prompt,
            "cached": status.tokens.cached,
            "completion": status.tokens.completion,
            "reasoning": status.tokens.reasoning,
        },
        "cost_usd": status.cost_usd,
        "failures": dict(sorted(status.failures.items())),
        "eta_seconds": status.eta_seconds,
        "rehearsal": status.rehearsal,
        "messages": list(status.messages),
    }
