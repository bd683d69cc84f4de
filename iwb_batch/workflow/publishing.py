"""Files one can pass on: a run or a comparison as one page, a run as plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from iwb_batch.core.compare_numbers import Comparison
from iwb_batch.core.human_numbers import HumanAgreement
from iwb_batch.report import charts, comparison, protocols
from iwb_batch.report.html import Headline, Page, render
from iwb_batch.report.protocols import AnyReport
from iwb_batch.report.tables import Number, Table, count
from iwb_batch.store import details, views
from iwb_batch.store.database import Database
from iwb_batch.workflow.folder import WholeFile, explained
from iwb_batch.workflow.page_items import page_items


def write(path: Path, text: str) -> None:
    """Put a text file into place whole, for the owner only. RunError: the folder cannot be written."""
    with WholeFile(path) as target:
        target.write(text.encode("utf-8"))
        target.commit()


def write_comparison_page(found: Comparison, path: Path) -> None:
    """A comparison as a page: leaderboard and paired differences with their intervals drawn."""
    drawn = charts.comparison_charts(found, board=comparison.LEADERBOARD, paired=comparison.PAIRED)
    write(path, render(Page(comparison.document(found), found.rehearsal, charts=drawn)))


def report_page(database: Database, report: AnyReport, agreement: HumanAgreement | None = None) -> str:
    """A run as a page: its numbers, who judged and how, and every item down to the attempts.

    The same run file gives the same text.
    """
    run = views.run(database)
    document = protocols.document(report, agreement)
    tables = (*document.tables, *_failure_tables(database), *_judge_tables(database, run))
    page = Page(
        replace(document, tables=tables),
        report.facts.rehearsal,
        headline=_headline(report),
        charts=charts.report_charts(report),
        items=page_items(details.items(database)),
        run=run.name,
    )
    return render(page)


def write_plots(report: AnyReport, folder: Path) -> list[str]:
    """Draw the report into a folder, made when missing; returns the names of the files. UsageError: no matplotlib."""
    from iwb_batch.report import plots

    written: list[str] = []
    with explained(folder):
        for drawn in plots.draw(plots.report_plots(report)):
            folder.mkdir(parents=True, exist_ok=True)
            with WholeFile(folder / drawn.name) as target:
                target.write(drawn.content)
                target.commit()
            written.append(drawn.name)
    return written


def _headline(report: AnyReport) -> Headline:
    label, estimate = protocols.main_number(report)
    style = protocols.style(report)
    words, complete = protocols.coverage(report)
    unit = " %" if style == "percent" and estimate.score is not None else ""
    interval = estimate.mark
    if estimate.low is not None and estimate.high is not None:
        ends = f"95 % interval {Number(estimate.low, style).text()} to {Number(estimate.high, style).text()}{unit}"
        interval = f"{ends} ({estimate.mark})" if estimate.mark else ends
    return Headline(label, f"{Number(estimate.score, style).text()}{unit}", interval, words, complete)


def _failure_tables(database: Database) -> Iterable[Table]:
    rows = views.failures_by_outcome(database)
    if rows:
        yield Table(
            "Failed requests by reason",
            ("outcome", "code", "requests", "the provider's words"),
            tuple((outcome, code or "", count(n), words or "") for outcome, code, n, words in rows),
            "A failed request has no score and enters no mean.",
        )


def _judge_tables(database: Database, run: views.Run) -> Iterable[Table]:
    answering = details.answering(database)
    yield Table(
        "Who answered",
        ("model", "system fingerprint", "answers", "first batch", "last batch"),
        tuple(
            (row.model, row.fingerprint or "(none)", count(row.answers), count(row.first_batch), count(row.last_batch))
            for row in answering
        ),
        _changes(answering),
    )
    yield Table("Settings", ("setting", "value"), tuple((name, str(value)) for name, value in _settings(run)))
    versions = tuple((name, str(version)) for name, version in sorted(run.versions.items()))
    yield Table("Versions when the run was made", ("package", "version"), versions)


def _changes(answering: Sequence[details.Answering]) -> str:
    if len({row.model for row in answering}) > 1:
        return "More than one model answered in this run: its scores are not from one judge."
    if len({row.fingerprint for row in answering}) > 1:
        return "The system fingerprint changed within this run: the provider changed something behind the model."
    return ""


_JUDGE_WORDS = {
    "deployment": "judge (deployment)",
    "max_completion_tokens": "token limit of an answer",
    "reasoning_effort": "reasoning effort",
    "structured_output": "verdict asked for by JSON schema",
}
_PLAN_WORDS = {
    "strip_reasoning": "reasoning cut from responses",
    "empty_responses": "empty responses",
    "repeats": "repeats",
    "orders": "orders (pairs)",
}
_RUN_WORDS = {
    "created_at": "run created at (UTC)",
    "benchmark": "benchmark",
    "protocol": "protocol",
    "dataset": "data",
    "revision": "revision",
    "subset": "subset",
    "split": "split",
    "model_name": "model judged",
    "responses_file": "responses file",
    "provider": "provider",
    "prompt_sha256": "prompt, sha256",
    "schema_sha256": "verdict schema, sha256",
    "data_sha256": "items, sha256",
    "responses_sha256": "responses, sha256",
    "plan_sha256": "plan, sha256",
}


def _settings(run: views.Run) -> Iterator[tuple[str, Any]]:
    for name, words in _RUN_WORDS.items():
        yield words, _told(getattr(run, name))
    judge: Mapping[str, Any] = run.plan["judge"]
    for name, words in _JUDGE_WORDS.items():
        yield words, _told(judge.get(name))
    for name, words in _PLAN_WORDS.items():
        yield words, _told(run.plan.get(name))
    for name in ("max_resubmits", "resubmit_filtered"):
        yield name.replace("_", " "), _told(run.options.get(name))


def _told(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
