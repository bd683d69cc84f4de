"""What every report says about its run besides the scores, and the shapes numbers come in.

Plain data: the store fills it, the report prints it, nothing here computes more than a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NEVER_RAN = frozenset({"not_run", "cancelled", "expired"})
"""Outcomes of attempts that nobody answered; no provider bills them."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One class of the view ``usage``: ``good | resubmitted | wasted | unknown``. ``None`` is unknown, never 0."""

    usage_class: str
    attempts: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The head of a report.

    ``n_planned / n_scored / n_open / n_failed`` count requests by ``request_status``; ``outcomes``
    counts attempts by outcome, ``failures`` failed requests by their last outcome;
    ``changed_requests`` counts scored requests whose answer came from an attempt that differed from
    the first one (a larger token limit); ``retried_requests`` those given a fresh budget by hand;
    ``models`` counts answers by the model the provider named. ``notes`` are about the inputs.
    """

    run: str
    benchmark: str
    model: str
    judge: str
    rehearsal: bool
    prompt_sha256: str
    n_planned: int = 0
    n_scored: int = 0
    n_open: int = 0
    n_failed: int = 0
    repeats: int = 1
    outcomes: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    usage: Sequence[UsageRow] = ()
    changed_requests: int = 0
    retried_requests: int = 0
    models: Mapping[str, int] = field(default_factory=dict)
    price_source: str | None = None
    notes: Sequence[str] = ()

    @property
    def cost_usd(self) -> float | None:
        """Cost of the whole run; ``None`` as soon as the cost of one attempt is unknown, 0 while none was answered."""
        if NEVER_RAN.issuperset(self.outcomes):
            return 0.0
        costs = [row.cost_usd for row in self.usage if row.attempts]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if costs and len(known) == len(costs) else None

    @property
    def known_cost_usd(self) -> float:
        """The part of the cost that is known."""
        return sum(row.cost_usd for row in self.usage if row.cost_usd is not None)

    @property
    def changed_share(self) -> float | None:
        """Share of the scored requests whose answer needed a changed request."""
        return self.changed_requests / self.n_scored if self.n_scored else None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval.

    ``method`` is ``bootstrap``, ``t`` (few clusters), ``wilson`` or ``None`` (fewer than two
    clusters, so no interval); ``n_clusters`` is how many clusters carry the mean.
    """

    score: float | None = None
    low: float | None = None
    high: float | None = None
    method: str | None = None
    n_clusters: int = 0

    @property
    def mark(self) -> str:
        """What a reader has to know about the interval, in a word or two."""
        if self.score is None:
            return ""
        if self.method is None:
            return "no interval: fewer than 2 clusters"
        if self.method == "wilson":
            return "Wilson" if self.n_clusters >= 30 else "Wilson, few clusters"
        return "few clusters" if self.method == "t" else ""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One row of a breakdown. ``label`` is ``None`` for items whose data lack it."""

    label: str | None
    n_items: int
    n_complete: int
    estimate: Estimate
