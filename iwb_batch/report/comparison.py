"""The comparison of runs as tables, CSV and JSON."""

from __future__ import annotations

from typing import Any

from iwb_batch.core.compare_numbers import ComparedPair, Comparison, LeaderboardRow
from iwb_batch.core.ranking import RankInterval, rank_intervals
from iwb_batch.core.words import counted
from iwb_batch.report.formats import Format
from iwb_batch.report.formats import render as render_format
from iwb_batch.report.run_tables import estimate_shape
from iwb_batch.report.tables import REHEARSAL, Cell, Document, Number, Style, Table, count, estimate_cells, n_of

LEADERBOARD = "Leaderboard"
PAIRED = "Paired comparison: a - b on the items complete in both"


def render(comparison: Comparison, form: Format) -> str:
    """The comparison as text in one of the four formats."""
    return render_format(
        form,
        document=lambda: document(comparison),
        flat=lambda: flat(comparison),
        shape=lambda: shape(comparison),
    )


def document(comparison: Comparison) -> Document:
    """Leaderboard and paired comparisons as titled tables."""
    rehearsal = REHEARSAL if comparison.rehearsal else ""
    style: Style = "percent" if comparison.scale == "share" else "score"
    flags = [f"{pair.a} and {pair.b}: {flag}" for pair in comparison.pairs for flag in pair.flags]
    forced = [f"FORCED, not the same judge: {line}" for line in comparison.forced]
    return Document(
        f"{rehearsal}comparison of {len(comparison.runs)} runs, {comparison.benchmark}",
        tuple((f"run {place}", run) for place, run in enumerate(comparison.runs, start=1)),
        (_leaderboard(comparison, style), _pairs(comparison, style)),
        (*forced, *flags, *comparison.notes),
    )


def _leaderboard(comparison: Comparison, style: Style) -> Table:
    ranks = rank_intervals(comparison)
    return Table(
        LEADERBOARD,
        ("rank", "could be", "run", "model", "mean", "low", "high", "interval", "over", "own mean", "own complete"),
        tuple(_leaderboard_row(row, ranks[row.run], style) for row in comparison.leaderboard),
        "The mean is over the items complete in every run; the own mean over all complete items of the run. "
        "Could be: the ranks that the corrected tests of the run pairs leave open.",
    )


def _leaderboard_row(row: LeaderboardRow, rank: RankInterval, style: Style) -> tuple[Cell, ...]:
    return (
        count(rank.rank),
        str(rank.best) if rank.best == rank.worst else f"{rank.best} to {rank.worst}",
        row.run,
        row.model,
        *estimate_cells(row.common, style),
        counted(row.n_common, "item"),
        Number(row.own.score, style),
        n_of(row.n_complete, row.n_items),
    )


def _pairs(comparison: Comparison, style: Style) -> Table:
    return Table(
        PAIRED,
        (
            "a",
            "b",
            "items",
            "difference",
            "low",
            "high",
            "interval",
            "p",
            "p (Holm)",
            "win / tie / loss",
            "detectable",
            "verdict",
        ),
        tuple(_pair_row(pair, style) for pair in comparison.pairs),
        "Detectable is the true difference that this many clusters would show four times in five.",
    )


def _pair_row(pair: ComparedPair, style: Style) -> tuple[Cell, ...]:
    return (
        pair.a,
        pair.b,
        count(pair.n_common),
        *estimate_cells(pair.difference, style),
        Number(pair.p, "p"),
        Number(pair.p_holm, "p"),
        f"{pair.win} / {pair.tie} / {pair.loss}",
        Number(pair.detectable, style),
        verdict_text(pair),
    )


def verdict_text(pair: ComparedPair) -> str:
    """The verdict with the run's name in the place of a or b."""
    names = {"a is higher": pair.a, "b is higher": pair.b}
    return f"{names[pair.verdict]} is higher" if pair.verdict in names else pair.verdict


def flat(comparison: Comparison) -> Table:
    """The paired comparisons as one table for CSV."""
    columns = (
        "a", "b", "n_common", "n_clusters", "difference", "low", "high", "interval",
        "p", "p_holm", "win", "tie", "loss", "detectable", "verdict",
    )  # fmt: skip
    rows = tuple(
        (
            pair.a,
            pair.b,
            count(pair.n_common),
            count(pair.n_clusters),
            Number(pair.difference.score),
            Number(pair.difference.low),
            Number(pair.difference.high),
            pair.difference.method or "",
            Number(pair.p, "p"),
            Number(pair.p_holm, "p"),
            count(pair.win),
            count(pair.tie),
            count(pair.loss),
            Number(pair.detectable),
            pair.verdict,
        )
        for pair in comparison.pairs
    )
    return Table("comparison", columns, rows)


def shape(comparison: Comparison) -> dict[str, Any]:
    """The comparison in its JSON shape, see ``schemas/compare.schema.json``."""
    ranks = rank_intervals(comparison)
    return {
        "format": 1,
        "runs": list(comparison.runs),
        "benchmark": comparison.benchmark,
        "scale": comparison.scale,
        "rehearsal": comparison.rehearsal,
        "pairs": [_pair_shape(pair) for pair in comparison.pairs],
        "leaderboard": [
            {
                "run": row.run,
                "model": row.model,
                "rank": ranks[row.run].rank,
                "rank_best": ranks[row.run].best,
                "rank_worst": ranks[row.run].worst,
                "n_items": row.n_items,
                "n_complete": row.n_complete,
                "own": estimate_shape(row.own),
                "n_common": row.n_common,
                "common": estimate_shape(row.common),
            }
            for row in comparison.leaderboard
        ],
        "forced": list(comparison.forced),
        "notes": list(comparison.notes),
    }


def _pair_shape(pair: ComparedPair) -> dict[str, Any]:
    return {
        "a": pair.a,
        "b": pair.b,
        "n_common": pair.n_common,
        "difference": pair.difference.score,
        "low": pair.difference.low,
        "high": pair.difference.high,
        "p": pair.p,
        "p_holm": pair.p_holm,
        "win": pair.win,
        "tie": pair.tie,
        "loss": pair.loss,
        "detectable": pair.detectable,
        "verdict": pair.verdict,
        "n_clusters": pair.n_clusters,
        "interval": pair.difference.method,
        "few_clusters": pair.n_clusters < 30,
        "n_matched": pair.n_matched,
        "n_incomplete_a": pair.n_incomplete_a,
        "n_incomplete_b": pair.n_incomplete_b,
        "n_only_a": pair.n_only_a,
        "n_only_b": pair.n_only_b,
        "flags": list(pair.flags),
    }
