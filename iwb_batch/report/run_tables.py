"""What every report says about its run: head, failures, usage; as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from iwb_batch.core.run_facts import Estimate, GroupRow, RunFacts
from iwb_batch.core.words import counted
from iwb_batch.report.tables import REHEARSAL, Cell, Number, Style, Table, count, estimate_cells, label_text, n_of


def title(facts: RunFacts) -> str:
    """First line of a report; a rehearsal says so before anything else."""
    return f"{REHEARSAL if facts.rehearsal else ''}{facts.benchmark}, {facts.model}"


def head(facts: RunFacts, coverage: str) -> tuple[tuple[str, str], ...]:
    """Facts under the title. ``coverage`` is n of N in words."""
    models = ", ".join(f"{model} ({counted(n, 'answer')})" for model, n in sorted(facts.models.items()))
    lines = [
        ("run", facts.run),
        ("benchmark", facts.benchmark),
        ("model", facts.model),
        ("judge", f"{facts.judge}; answered by {models}" if models else facts.judge),
        ("prompt", f"sha256 {facts.prompt_sha256}"),
        ("coverage", coverage),
        (
            "requests",
            f"{facts.n_scored} of {facts.n_planned} scored, {facts.n_open} open, {facts.n_failed} failed",
        ),
    ]
    if facts.retried_requests:
        retried = counted(facts.retried_requests, "request was", "requests were")
        lines.append(("retried by hand", f"{retried} given a fresh budget"))
    return tuple(lines)


def group_table(name: str, rows: Sequence[GroupRow], *, items: str, style: Style = "score", caption: str = "") -> Table:
    """A breakdown as a table; ``items`` is what is counted, ``items`` or ``pairs``."""
    unit = " %" if style == "percent" else ""
    return Table(
        f"By {name}",
        (name, f"{items} complete", f"score{unit}", f"low{unit}", f"high{unit}", "interval"),
        tuple(
            (label_text(row.label), n_of(row.n_complete, row.n_items), *estimate_cells(row.estimate, style))
            for row in rows
        ),
        caption,
    )


def outcome_tables(facts: RunFacts) -> Iterable[Table]:
    """Attempts by outcome, and failed requests by their last outcome."""
    if facts.outcomes:
        yield Table("Attempts by outcome", ("outcome", "attempts"), _counts(facts.outcomes))
    if facts.failures:
        yield Table(
            "Failed requests by last outcome",
            ("outcome", "requests"),
            _counts(facts.failures),
            "A failed request has no score and enters no mean.",
        )


def _counts(counts: Mapping[str, int]) -> tuple[tuple[Cell, ...], ...]:
    return tuple((name, count(n)) for name, n in sorted(counts.items()))


def usage_table(facts: RunFacts) -> Table:
    """Tokens and cost by what they bought, with the total last."""
    rows: list[tuple[Cell, ...]] = [
        (
            row.usage_class,
            count(row.attempts),
            count(row.prompt_tokens),
            count(row.cached_tokens),
            count(row.completion_tokens),
            count(row.reasoning_tokens),
            Number(row.cost_usd, "usd"),
        )
        for row in facts.usage
    ]
    totals = tuple(count(_total(facts, name)) for name in _TOKENS)
    rows.append(("total", count(sum(row.attempts for row in facts.usage)), *totals, Number(facts.cost_usd, "usd")))
    caption = f"Prices: {facts.price_source}." if facts.price_source else "Prices are not known."
    if facts.cost_usd is None and facts.known_cost_usd:
        caption += f" Known part of the cost: {Number(facts.known_cost_usd, 'usd').text()} USD."
    columns = ("class", "attempts", "prompt tokens", "cached", "completion tokens", "reasoning", "USD")
    return Table("Tokens and cost", columns, tuple(rows), caption)


_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens")


def _total(facts: RunFacts, name: str) -> int | None:
    known = [value for value in (getattr(row, name) for row in facts.usage) if value is not None]
    return sum(known) if known else None


def facts_shape(facts: RunFacts) -> dict[str, Any]:
    """The head of every report's JSON."""
    return {
        "format": 1,
        "run": facts.run,
        "benchmark": facts.benchmark,
        "model": facts.model,
        "judge": facts.judge,
        "rehearsal": facts.rehearsal,
    }


def run_shape(facts: RunFacts) -> dict[str, Any]:
    """Requests, outcomes, usage and notes for a report's JSON."""
    return {
        "prompt_sha256": facts.prompt_sha256,
        "models": dict(sorted(facts.models.items())),
        "repeats": facts.repeats,
        "requests": {
            "planned": facts.n_planned,
            "scored": facts.n_scored,
            "open": facts.n_open,
            "failed": facts.n_failed,
        },
        "outcomes": dict(sorted(facts.outcomes.items())),
        "failures": dict(sorted(facts.failures.items())),
        "retried_requests": facts.retried_requests,
        "changed_requests": {"n": facts.changed_requests, "share": facts.changed_share},
        "usage": [
            {"class": row.usage_class, "attempts": row.attempts}
            | {name: getattr(row, name) for name in _TOKENS}
            | {"cost_usd": row.cost_usd}
            for row in facts.usage
        ],
        "cost_usd": facts.cost_usd,
        "known_cost_usd": facts.known_cost_usd,
        "price_source": facts.price_source,
    }


def estimate_shape(estimate: Estimate) -> dict[str, Any]:
    """Mean and interval for JSON; a share stays 0..1."""
    return {
        "score": estimate.score,
        "low": estimate.low,
        "high": estimate.high,
        "interval": estimate.method,
        "n_clusters": estimate.n_clusters,
        "few_clusters": estimate.score is not None and estimate.n_clusters < 30,
    }


def group_shape(rows: Sequence[GroupRow]) -> list[dict[str, Any]]:
    """A breakdown for JSON."""
    return [
        {"label": row.label, "n_items": row.n_items, "n_complete": row.n_complete} | estimate_shape(row.estimate)
        for row in rows
    ]


def flat_columns() -> tuple[str, ...]:
    """Columns of the CSV form of a report."""
    return ("by", "label", "n_items", "n_complete", "score", "low", "high", "interval")


def flat_row(by: str, label: str, n_items: int | None, n_complete: int | None, estimate: Estimate) -> tuple[Cell, ...]:
    """One row of the CSV form of a report."""
    ends = (Number(estimate.score), Number(estimate.low), Number(estimate.high))
    return (by, label, count(n_items), count(n_complete), *ends, estimate.method or "")


def flat_groups(groups: Mapping[str, Sequence[GroupRow]]) -> Iterable[tuple[Cell, ...]]:
    """Breakdowns as rows of the CSV form."""
    for name, rows in groups.items():
        for row in rows:
            yield flat_row(name, label_text(row.label), row.n_items, row.n_complete, row.estimate)
