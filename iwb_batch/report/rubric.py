"""The report of a rubric run as tables, CSV and JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from iwb_batch.core.rubric_numbers import RubricReport
from iwb_batch.core.run_facts import Estimate
from iwb_batch.core.words import counted
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

_BAR = 40


def document(report: RubricReport) -> Document:
    """The report as titled tables."""
    facts = report.facts
    return Document(
        title(facts),
        head(facts, f"{n_of(report.n_complete, report.n_items, 'item')} complete"),
        tuple(_tables(report)),
        (*report.notes, *_interval_notes(report)),
    )


def _tables(report: RubricReport) -> Iterable[Table]:
    yield _score_table(report)
    for name, rows in report.by.items():
        if rows:
            yield group_table(name, rows, items="items")
    if report.variants:
        yield _variant_table(report)
    yield from outcome_tables(report.facts)
    if report.left_out:
        rows_out = tuple((reason, count(n)) for reason, n in report.left_out)
        yield Table("Items left out", ("reason", "items"), rows_out, "Left-out items are in N and never complete.")
    if report.facts.usage:
        yield usage_table(report.facts)
    yield _histogram_table(report)
    yield _judge_table(report)
    if report.self_consistency is not None:
        yield _repeat_table(report)


def _score_table(report: RubricReport) -> Table:
    items = n_of(report.n_complete, report.n_items, "item")
    n_domains = sum(row.estimate.score is not None for row in report.by.get("domain", ()))
    n_scores = sum(n for _, n in report.histogram)
    everything = n_of(report.n_items, report.n_items, "item")
    rows: list[tuple[Cell, ...]] = [
        ("Overall", items, *estimate_cells(report.overall)),
        (
            "Macro mean",
            n_of(n_domains, len(report.by.get("domain", ())), "domain"),
            Number(report.macro_mean),
            "",
            "",
            "",
        ),
        ("Pooled mean", n_of(n_scores, report.facts.n_planned, "request"), Number(report.pooled_mean), "", "", ""),
        ("Worst case", everything, Number(report.worst), "", "", ""),
        ("Best case", everything, Number(report.best), "", "", ""),
    ]
    rows += [
        (row.name, n_of(row.n_complete, row.n_items, "item"), *estimate_cells(row.estimate))
        for row in report.requirements
    ]
    return Table(
        "Scores (1-10)",
        ("number", "over", "score", "low", "high", "interval"),
        tuple(rows),
        "Overall is the mean of item scores over complete items, the macro mean that of the domain rows, the pooled "
        "mean that of all valid scores; worst and best case put 1 and 10 for each missing judgement.",
    )


def _variant_table(report: RubricReport) -> Table:
    return Table(
        "Variants: paired differences on the same prompts",
        ("difference", "prompts", "mean", "low", "high", "interval"),
        tuple((f"{row.a} - {row.b}", count(row.n_prompts), *estimate_cells(row.difference)) for row in report.variants),
        "Only prompts complete in both renderings; several intervals at once: do not pick the largest difference.",
    )


def _histogram_table(report: RubricReport) -> Table:
    most = max((n for _, n in report.histogram), default=0)
    return Table(
        "Scores given",
        ("score", "requests", "bar"),
        tuple((count(value), count(n), "#" * (-(-n * _BAR // most) if most else 0)) for value, n in report.histogram),
    )


def _judge_table(report: RubricReport) -> Table:
    facts = report.facts
    n_scores = sum(n for _, n in report.histogram)
    rows: list[tuple[Cell, ...]] = [
        ("scores of 10 (ceiling), %", counted(n_scores, "score"), Number(report.ceiling_share, "percent")),
        ("scores of 1 (floor), %", counted(n_scores, "score"), Number(report.floor_share, "percent")),
        ("length and item score, Spearman", counted(report.length_bias_n, "item"), Number(report.length_bias)),
        (
            "answers that needed a changed request, %",
            n_of(facts.changed_requests, facts.n_scored),
            Number(facts.changed_share, "percent"),
        ),
    ]
    found = report.self_consistency
    if found is not None:
        sets = f"{counted(found.n_sets, 'criterion', 'criteria')} judged again"
        rows += [
            ("standard deviation between repeats", sets, Number(found.within_sd)),
            ("mean absolute difference of two repeats", sets, Number(found.mean_difference)),
            ("smallest difference of two scores that means something", sets, Number(found.smallest_difference)),
            ("repeats all equal, %", sets, Number(found.equal_share, "percent")),
            ("repeats within one point, %", sets, Number(found.within_one_share, "percent")),
        ]
    return Table("Judge", ("measure", "over", "value"), tuple(rows))


def _repeat_table(report: RubricReport) -> Table:
    found = report.self_consistency
    rows = found.repeat_means if found is not None else ()
    return Table(
        "Mean score by repeat",
        ("repeat", "scores", "mean"),
        tuple((count(repeat), count(n), Number(mean)) for repeat, mean, n in rows),
        "The spread between repeats is what the judge alone changes; smaller differences between models mean nothing.",
    )


def _interval_notes(report: RubricReport) -> Iterable[str]:
    yield (
        "intervals are 95 %, over clusters of renderings of one prompt: percentile bootstrap with 10,000 resamples, "
        'below 30 clusters a t interval marked "few clusters"'
    )
    if any(len(rows) > 1 for rows in report.by.values()):
        yield "rows of a breakdown are not corrected for looking at many; the highest of them is no finding by itself"


def flat(report: RubricReport) -> Table:
    """The scores as one table for CSV, one number a row."""
    n, done = report.n_items, report.n_complete
    domains = report.by.get("domain", ())
    n_scores = sum(times for _, times in report.histogram)
    rows = [
        flat_row("overall", "", n, done, report.overall),
        flat_row("worst", "", n, n, Estimate(report.worst)),
        flat_row("best", "", n, n, Estimate(report.best)),
        flat_row("macro_mean", "", len(domains), sum(d.n_complete > 0 for d in domains), Estimate(report.macro_mean)),
        flat_row("pooled_mean", "", report.facts.n_planned, n_scores, Estimate(report.pooled_mean)),
        *flat_groups(report.by),
        *(flat_row("requirement", row.name, row.n_items, row.n_complete, row.estimate) for row in report.requirements),
    ]
    return Table("report", flat_columns(), tuple(rows))


def shape(report: RubricReport) -> dict[str, Any]:
    """The report in its JSON shape, see ``schemas/report-rubric.schema.json``."""
    document_shape = facts_shape(report.facts) | {
        "n_items": report.n_items,
        "n_complete": report.n_complete,
        "overall": estimate_shape(report.overall),
        "bounds": {"worst": report.worst, "best": report.best},
        "macro_mean": report.macro_mean,
        "pooled_mean": report.pooled_mean,
        "by": {name: group_shape(rows) for name, rows in report.by.items()},
    }
    if report.requirements:
        document_shape["requirements"] = {row.name: row.estimate.score for row in report.requirements}
        document_shape["requirement_rows"] = [
            {"label": row.name, "n_items": row.n_items, "n_complete": row.n_complete} | estimate_shape(row.estimate)
            for row in report.requirements
        ]
    return document_shape | _judge_shape(report) | run_shape(report.facts) | {"notes": list(report.notes)}


def _judge_shape(report: RubricReport) -> dict[str, Any]:
    found = report.self_consistency
    return {
        "variants": [
            {"a": row.a, "b": row.b, "n_prompts": row.n_prompts} | _difference_shape(row.difference)
            for row in report.variants
        ],
        "histogram": {str(value): n for value, n in report.histogram},
        "ceiling_share": report.ceiling_share,
        "floor_share": report.floor_share,
        "length_bias": {"spearman": report.length_bias, "n_items": report.length_bias_n},
        "self_consistency": None
        if found is None
        else {
            "n_sets": found.n_sets,
            "within_sd": found.within_sd,
            "mean_difference": found.mean_difference,
            "smallest_difference": found.smallest_difference,
            "equal_share": found.equal_share,
            "within_one_share": found.within_one_share,
            "repeat_means": [{"repeat": repeat, "mean": mean, "n_scores": n} for repeat, mean, n in found.repeat_means],
        },
        "left_out": dict(report.left_out),
    }


def _difference_shape(estimate: Estimate) -> dict[str, Any]:
    values = estimate_shape(estimate)
    return {"difference": values.pop("score"), **values}
