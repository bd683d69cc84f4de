"""Plots as PNG and SVG: breakdowns with their intervals, and the scores given.

Text in the SVG is drawn as outlines, so it looks alike without any font installed. The same numbers
give the same bytes with the same versions of matplotlib and fonts.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iwb_batch.core.rubric_numbers import RubricReport
from iwb_batch.core.run_facts import Estimate, GroupRow
from iwb_batch.errors import UsageError
from iwb_batch.report import protocols
from iwb_batch.report.display import clipped, visible
from iwb_batch.report.protocols import AnyReport
from iwb_batch.report.run_tables import title
from iwb_batch.report.tables import label_text, n_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROWS = 60
"""Rows of one plot; a longer breakdown goes on in a further one."""
LABEL_COLUMNS = 44
SCORES = (1.0, 10.0)
_COLOUR, _DARK = "#4c86c6", "#17324d"


@dataclass(frozen=True, slots=True)
class PlotRow:
    """One bar: its label, how much it rests on, and the number."""

    label: str
    over: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of bars; ``scale`` is where the axis begins and ends. ``name`` is the file name without suffix."""

    name: str
    title: str
    axis: str
    scale: tuple[float, float]
    rows: tuple[PlotRow, ...]


@dataclass(frozen=True, slots=True)
class DrawnFile:
    """A file to write into the folder of plots."""

    name: str
    content: bytes


def report_plots(report: AnyReport) -> list[Plot]:
    """Breakdowns by label with their intervals, and for rubrics the histogram of scores."""
    head, by = title(report.facts), protocols.groups(report)
    if not isinstance(report, RubricReport):
        shares = {name: [_percent(row) for row in rows] for name, rows in by.items()}
        return list(_breakdowns(head, shares, "accuracy, %, 95 % interval", (0.0, 100.0)))
    counts = tuple(PlotRow(str(value), "", Estimate(float(n))) for value, n in report.histogram)
    most = float(max((n for _, n in report.histogram), default=0) or 1)
    return [
        *_breakdowns(head, by, "mean item score, 95 % interval", SCORES),
        Plot("scores-given", f"{head}\nScores given", "requests", (0.0, most * 1.05), counts),
    ]


def _percent(row: GroupRow) -> GroupRow:
    score, low, high = (
        None if v is None else v * 100 for v in (row.estimate.score, row.estimate.low, row.estimate.high)
    )
    return GroupRow(row.label, row.n_items, row.n_complete, Estimate(score, low, high))


def _breakdowns(
    head: str, by: Mapping[str, Sequence[GroupRow]], axis: str, scale: tuple[float, float]
) -> Iterator[Plot]:
    for name, group in by.items():
        rows = [PlotRow(label_text(r.label), n_of(r.n_complete, r.n_items), r.estimate) for r in group]
        for number, start in enumerate(range(0, len(rows), ROWS), start=1):
            suffix = "" if number == 1 else f"-{number}"
            yield Plot(f"by-{name}{suffix}", f"{head}\nBy {name}", axis, scale, tuple(rows[start : start + ROWS]))


def draw(plots: Iterable[Plot]) -> Iterator[DrawnFile]:
    """PNG and SVG of each plot; then ``labels.txt`` when some label had to be shown by number.

    UsageError: matplotlib is not installed.
    """
    matplotlib = _matplotlib()
    from iwb_batch.report import fonts

    numbers: dict[str, int] = {}
    settings = {
        **matplotlib.rcParamsDefault,
        "backend": "agg",
        "font.family": list(fonts.families()),
        "text.parse_math": False,
        "svg.hashsalt": "iwb-batch",
        "svg.fonttype": "path",
    }
    with matplotlib.rc_context(settings):
        for plot in plots:
            labels = [_drawable(row.label, numbers) for row in plot.rows]
            figure = _figure(plot, labels, _drawable(plot.title.split("\n", 1)[0], numbers))
            yield DrawnFile(f"{plot.name}.png", _saved(figure, "png", {"Software": "iwb-batch"}))
            yield DrawnFile(f"{plot.name}.svg", _saved(figure, "svg", {"Date": None, "Creator": "iwb-batch"}))
    if numbers:
        lines = [f"[{number}] {visible(label)}\n" for label, number in numbers.items()]
        yield DrawnFile("labels.txt", "".join(lines).encode("utf-8"))


def _matplotlib() -> Any:
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise UsageError(
            f"--plots needs the package {error.name}", hint="Install it with: pip install 'iwb-batch[plots]'"
        ) from error
    return mpl


def _drawable(label: str, numbers: dict[str, int]) -> str:
    """The label, or its number where no font has it."""
    from iwb_batch.report import fonts

    shown = clipped(visible(label), LABEL_COLUMNS * 2)
    if fonts.can_draw(shown):
        return shown
    return f"[{numbers.setdefault(label, len(numbers) + 1)}]"


def _figure(plot: Plot, labels: Sequence[str], head: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.5 + 0.3 * len(plot.rows)), dpi=150, layout="constrained")
    axes = figure.subplots()
    places = range(len(plot.rows))
    values = [row.estimate.score for row in plot.rows]
    origin = plot.scale[0]
    lengths = [0.0 if value is None else value - origin for value in values]
    axes.barh(places, lengths, left=origin, height=0.62, color=_COLOUR)
    for place, row in zip(places, plot.rows, strict=True):
        if row.estimate.low is not None and row.estimate.high is not None:
            axes.plot([row.estimate.low, row.estimate.high], [place, place], color=_DARK, linewidth=1.6, marker="|")
    axes.set_yticks(places, [_tick(label, row) for label, row in zip(labels, plot.rows, strict=True)])
    axes.set_xlim(*plot.scale)
    if plot.scale == SCORES:
        axes.set_xticks(range(1, 11))
    axes.set_ylim(len(plot.rows) - 0.4, -0.6)
    axes.set_xlabel(plot.axis)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#d5dae0", linewidth=0.6)
    axes.set_axisbelow(True)
    figure.suptitle(f"{head}\n{plot.title.split(chr(10), 1)[1]}", fontsize=11)
    return figure


def _tick(label: str, row: PlotRow) -> str:
    shown = clipped(label, LABEL_COLUMNS)
    return f"{shown}  ({row.over})" if row.over else shown


def _saved(figure: Figure, form: str, metadata: Mapping[str, Any]) -> bytes:
    target = io.BytesIO()
    figure.savefig(target, format=form, metadata=dict(metadata))
    return target.getvalue()
