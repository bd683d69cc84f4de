"""Small charts as numbers: where a bar begins and ends, in units of a drawing 100 wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iwb_batch.core.compare_numbers import Comparison
from iwb_batch.core.rubric_numbers import RubricReport
from iwb_batch.core.run_facts import Estimate
from iwb_batch.report import protocols
from iwb_batch.report.protocols import AnyReport


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar from ``start`` over ``length``, with the interval ``low`` .. ``high`` when there is one; 0 .. 100."""

    start: float
    length: float
    low: float | None = None
    high: float | None = None


Chart = Sequence[Bar | None]
"""One bar for each row of a table; ``None`` where there is no number."""


def _place(value: float, scale: tuple[float, float]) -> float:
    low, high = scale
    return round(min(100.0, max(0.0, (value - low) / (high - low) * 100)), 2)


def bar(estimate: Estimate, scale: tuple[float, float], zero: float) -> Bar | None:
    """The bar of an estimate, drawn from ``zero``."""
    if estimate.score is None:
        return None
    at, origin = _place(estimate.score, scale), _place(zero, scale)
    start, length = min(at, origin), round(abs(at - origin), 2)
    if estimate.low is None or estimate.high is None:
        return Bar(start, length)
    return Bar(start, length, _place(estimate.low, scale), _place(estimate.high, scale))


SCORES, SHARES = (1.0, 10.0), (0.0, 1.0)


def report_charts(report: AnyReport) -> dict[str, Chart]:
    """Charts by table title for the report of a run."""
    scale = SCORES if protocols.style(report) == "score" else SHARES
    drawn: dict[str, Chart] = {
        f"By {name}": [bar(row.estimate, scale, scale[0]) for row in rows]
        for name, rows in protocols.groups(report).items()
        if rows
    }
    return drawn | _rubric_charts(report) if isinstance(report, RubricReport) else drawn


def _rubric_charts(report: RubricReport) -> dict[str, Chart]:
    most = max((n for _, n in report.histogram), default=0)
    spread = _spread([row.difference for row in report.variants])
    return {
        "Scores given": [Bar(0.0, _place(n, (0, most))) if n else None for _, n in report.histogram],
        "Variants: paired differences on the same prompts": [
            bar(row.difference, (-spread, spread), 0.0) for row in report.variants
        ],
    }


def comparison_charts(comparison: Comparison, *, board: str, paired: str) -> dict[str, Chart]:
    """Charts for the tables titled ``board`` and ``paired``."""
    scale = SHARES if comparison.scale == "share" else SCORES
    spread = _spread([pair.difference for pair in comparison.pairs])
    return {
        board: [bar(row.common, scale, scale[0]) for row in comparison.leaderboard],
        paired: [bar(pair.difference, (-spread, spread), 0.0) for pair in comparison.pairs],
    }


def _spread(estimates: Sequence[Estimate]) -> float:
    """The largest distance from zero that has to be drawn."""
    ends = [abs(v) for e in estimates for v in (e.score, e.low, e.high) if v is not None]
    return max(ends, default=0.0) or 1.0
