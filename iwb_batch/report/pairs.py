"""The report of a pairwise run, and of a reward model on the same pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from iwb_batch.core.pair_numbers import PairReport, RewardReport, SeedRow
from iwb_batch.core.run_facts import Estimate, GroupRow
from iwb_batch.core.words import counted
from iwb_batch.report.formats import Format
from iwb_batch.report.formats import render as render_format
from iwb_batch.report.published import CAVEATS, PUBLISHED
from iwb_batch.report.run_tables import (
    estimate_shape,
    facts_shape,
    flat_columns,
    flat_groups,
    flat_row,
    group_shape,
    group_table,
    head,
    outcome_tables,
    run_shape,
    title,
    usage_table,
)
from iwb_batch.report.tables import Cell, Document, Number, Table, count, estimate_cells, n_of

_LISTED = 20
_NO_VERDICT = "an order without a valid verdict"
INTERVALS = (
    "intervals are 95 %, over clusters of pairs with one prompt text: percentile bootstrap with 10,000 resamples, "
    'below 30 clusters a t interval marked "few clusters", where all clusters are alike (0 or 100 %, say) Wilson'
)


def document(report: PairReport) -> Document:
    """The report as titled tables; shares in per cent."""
    facts = report.facts
    return Document(
        title(facts),
        head(facts, f"{n_of(report.n_judged, report.n_pairs, 'pair')} judged in every planned order"),
        tuple(_tables(report)),
        (*report.notes, *incomplete_note(report.incomplete, _NO_VERDICT), INTERVALS, *CAVEATS),
    )


def _tables(report: PairReport) -> Iterable[Table]:
    yield _accuracy_table(report)
    yield from group_tables(report.by, "Accuracy: mean over pairs of correct / planned verdicts; invalid is wrong.")
    yield from seed_tables(report.facts.model, report.seed_row)
    yield from outcome_tables(report.facts)
    if report.facts.usage:
        yield usage_table(report.facts)


def group_tables(groups: Mapping[str, Sequence[GroupRow]], caption: str) -> Iterable[Table]:
    """One table for each breakdown that has rows; shares in per cent."""
    for name, rows in groups.items():
        if rows:
            yield group_table(name, rows, items="pairs", style="percent", caption=caption)


def _accuracy_table(report: PairReport) -> Table:
    every = counted(report.n_pairs, "pair")
    valid = n_of(report.n_valid, report.n_verdicts, "verdict")
    rows = [
        share_row("Accuracy, invalid is wrong", every, report.accuracy),
        share_row("Accuracy without invalid", valid, report.accuracy_without_invalid),
        *(
            share_row(f"Accuracy, {name}", counted(row.n, "pair"), row.accuracy)
            for name, row in report.by_order.items()
        ),
        share_row("Right in both orders", every, report.both_right),
        share_row("Same choice in both orders", n_of(report.n_consistency, report.n_pairs, "pair"), report.consistency),
        share_row("First text preferred", valid, report.first_position_rate),
        share_row("Mean over domains", _domains(report.by), Estimate(report.macro_mean)),
        share_row("Baseline: longer text", f"{every}, {report.n_longer_equal} equal", Estimate(report.longer_baseline)),
    ]
    return Table(
        "Accuracy (%)",
        ("number", "over", "%", "low", "high", "interval"),
        tuple(rows),
        "The baseline prefers the text with more code points; equal lengths are wrong. Without position bias the first "
        "text is preferred in 50 %.",
    )


def _domains(by: Mapping[str, Sequence[GroupRow]]) -> str:
    return counted(len(by["domain"]), "domain")


def share_row(name: str, over: str, estimate: Estimate) -> tuple[Cell, ...]:
    """A share in per cent, with what it is over and its interval."""
    cells = estimate_cells(estimate, "percent")
    return (name, over, *cells) if estimate.n_clusters else (name, over, *cells[:-1], "")


def seed_tables(model: str, row: SeedRow) -> Iterable[Table]:
    """This run in the layout of the published table, and the published table itself, marked as such."""
    yield Table(
        "This run in the layout of the published table (accuracy, %)",
        ("model", "EN", "ZH", "Avg"),
        ((model, _printed(row.en), _printed(row.zh), _printed(row.avg)),),
        "Avg is the plain mean of the two printed numbers, rounded half up.",
    )
    yield Table(
        "Published, not measured here: arXiv 2510.14616v2, tables 1 and 2 (accuracy, %)",
        ("model", "type", "EN", "ZH", "Avg", "on the dataset card"),
        tuple(
            (row.model, row.kind, _printed(row.en), _printed(row.zh), _printed(row.avg), "yes" if row.on_card else "")
            for row in PUBLISHED
        ),
    )


class _Printed(Number):
    """A number that is already rounded to what is printed."""

    def text(self) -> str:
        """The number with its own digits."""
        return "-" if self.value is None else str(self.value)


def _printed(value: Decimal | None) -> Number:
    return _Printed(value)


def incomplete_note(incomplete: Sequence[str], why: str) -> Iterable[str]:
    """A note that lists the first incomplete pairs; nothing when there is none."""
    if incomplete:
        more = len(incomplete) - _LISTED
        yield f"incomplete, {why}: {', '.join(incomplete[:_LISTED])}{f' and {more} more' if more > 0 else ''}"


def flat(report: PairReport) -> Table:
    """The shares (0..1) as one table for CSV."""
    n = report.n_pairs
    rows = [
        flat_row("accuracy", "", n, report.n_judged, report.accuracy),
        flat_row("accuracy_without_invalid", "", report.n_verdicts, report.n_valid, report.accuracy_without_invalid),
        *(flat_row("order", name, row.n, row.n_valid, row.accuracy) for name, row in report.by_order.items()),
        flat_row("both_right", "", n, report.n_judged, report.both_right),
        flat_row("consistency", "", n, report.n_consistency, report.consistency),
        flat_row("first_position_rate", "", report.n_verdicts, report.n_valid, report.first_position_rate),
        flat_row("macro_mean", "", len(report.by["domain"]), len(report.by["domain"]), Estimate(report.macro_mean)),
        flat_row("longer_baseline", "", n, n, Estimate(report.longer_baseline)),
        *flat_groups(report.by),
    ]
    return Table("report", flat_columns(), tuple(rows))


def shape(report: PairReport) -> dict[str, Any]:
    """The report in its JSON shape, see ``schemas/report-pairs.schema.json``; shares are 0..1."""
    return (
        facts_shape(report.facts)
        | {
            "n_pairs": report.n_pairs,
            "n_judged": report.n_judged,
            "n_verdicts": report.n_verdicts,
            "n_valid": report.n_valid,
            "accuracy": estimate_shape(report.accuracy),
            "accuracy_without_invalid": report.accuracy_without_invalid.score,
            "by_order": {
                name: {"n": row.n, "n_valid": row.n_valid} | estimate_shape(row.accuracy)
                for name, row in report.by_order.items()
            },
            "both_right": report.both_right.score,
            "consistency": report.consistency.score,
            "n_consistency": report.n_consistency,
            "first_position_rate": report.first_position_rate.score,
            "macro_mean": report.macro_mean,
            "longer_baseline": report.longer_baseline,
            "n_longer_equal": report.n_longer_equal,
            "n_equal_texts": report.n_equal_texts,
            "by": {name: group_shape(rows) for name, rows in report.by.items()},
            "intervals": {
                "accuracy_without_invalid": estimate_shape(report.accuracy_without_invalid),
                "both_right": estimate_shape(report.both_right),
                "consistency": estimate_shape(report.consistency),
                "first_position_rate": estimate_shape(report.first_position_rate),
            },
            "published_layout": seed_shape(report.seed_row),
            "incomplete": list(report.incomplete),
        }
        | run_shape(report.facts)
        | {"notes": list(report.notes)}
    )


def seed_shape(row: SeedRow) -> dict[str, float | None]:
    """Per cent as printed, since the layout is one of printed numbers."""
    values = {"en_percent": row.en, "zh_percent": row.zh, "avg_percent": row.avg}
    return {name: None if value is None else float(value) for name, value in values.items()}


def render_reward(report: RewardReport, form: Format, *, model: str) -> str:
    """The accuracy of a reward model as text; ``model`` names what gave the rewards."""
    return render_format(
        form,
        document=lambda: reward_document(report, model),
        flat=lambda: reward_flat(report),
        shape=lambda: reward_shape(report, model),
    )


def reward_document(report: RewardReport, model: str) -> Document:
    """The accuracy of a reward model as titled tables."""
    tables = (*reward_tables(report), *group_tables(report.by, ""), *seed_tables(model, report.seed_row))
    notes = (*incomplete_note(report.incomplete, "without two finite rewards"), INTERVALS, *CAVEATS)
    return Document(f"Reward accuracy, {model}", (("model", model),), tables, notes)


def reward_tables(report: RewardReport) -> tuple[Table, Table]:
    """Accuracy, and pairs by what came of them."""
    rules = {
        "count": "an invalid pair is wrong",
        "drop": "invalid pairs leave N",
        "refuse": "invalid pairs are refused, so there is none",
    }
    every = n_of(report.n_counted, report.n_pairs, "pair")
    rows = [share_row("Accuracy", every, report.accuracy)]
    if report.invalid and report.invalid_policy == "count":
        valid = n_of(report.n_pairs - report.invalid, report.n_pairs, "pair")
        rows.append(share_row("Accuracy without invalid", valid, report.without_invalid))
    rows.append(share_row("Mean over domains", _domains(report.by), Estimate(report.macro_mean)))
    if report.longer_baseline is not None:
        over = f"{counted(report.n_pairs, 'pair')}, {report.n_longer_equal} equal"
        rows.append(share_row("Baseline: longer text", over, Estimate(report.longer_baseline)))
    accuracy = Table(
        "Accuracy (%)",
        ("number", "over", "%", "low", "high", "interval"),
        tuple(rows),
        f"Correct is chosen > rejected, strictly: a tie is not correct; {rules[report.invalid_policy]}.",
    )
    pairs = tuple((name, count(n)) for name, n in tallies(report).items())
    return accuracy, Table("Pairs", ("what", "pairs"), pairs)


def tallies(report: RewardReport) -> dict[str, int]:
    """Pairs by what came of them: correct, wrong, ties, invalid."""
    wrong = report.n_counted - report.correct - report.ties
    if report.invalid_policy != "drop":
        wrong -= report.invalid
    return {"correct": report.correct, "wrong": wrong, "ties": report.ties, "invalid": report.invalid}


def reward_flat(report: RewardReport) -> Table:
    """The shares (0..1) as one table for CSV."""
    n, n_valid = report.n_pairs, report.n_pairs - report.invalid
    rows = [
        flat_row("accuracy", "", report.n_counted, n_valid, report.accuracy),
        flat_row("accuracy_without_invalid", "", n_valid, n_valid, report.without_invalid),
        flat_row("macro_mean", "", len(report.by["domain"]), len(report.by["domain"]), Estimate(report.macro_mean)),
        flat_row("longer_baseline", "", n, n, Estimate(report.longer_baseline)),
        *(flat_row("pairs", name, n, number, Estimate()) for name, number in tallies(report).items()),
        *flat_groups(report.by),
    ]
    return Table("reward accuracy", flat_columns(), tuple(rows))


def reward_shape(report: RewardReport, model: str) -> dict[str, Any]:
    """The accuracy of a reward model as JSON; shares are 0..1."""
    return {
        "format": 1,
        "model": model,
        **reward_numbers(report),
    }


def reward_numbers(report: RewardReport) -> dict[str, Any]:
    """The numbers themselves for JSON; shares are 0..1."""
    return {
        "n_pairs": report.n_pairs,
        "n_counted": report.n_counted,
        **tallies(report),
        "invalid_policy": report.invalid_policy,
        "accuracy": estimate_shape(report.accuracy),
        "accuracy_without_invalid": report.without_invalid.score,
        "macro_mean": report.macro_mean,
        "longer_baseline": report.longer_baseline,
        "n_longer_equal": report.n_longer_equal,
        "n_equal_texts": report.n_equal_texts,
        "by": {name: group_shape(rows) for name, rows in report.by.items()},
        "published_layout": seed_shape(report.seed_row),
        "incomplete": list(report.incomplete),
    }
