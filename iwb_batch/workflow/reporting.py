"""``report``: the numbers of a run in one of the formats."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iwb_batch.core.compat import DOMAIN_ORDER, Requirements, official_row
from iwb_batch.core.human_numbers import HumanAgreement
from iwb_batch.core.pair_numbers import pair_report
from iwb_batch.core.pointwise_numbers import pointwise_report
from iwb_batch.core.rubric_numbers import rubric_report
from iwb_batch.errors import InputError, RunError, UsageError
from iwb_batch.inputs.requirements import RequirementFolder, query_sha256, read_requirements
from iwb_batch.report import protocols
from iwb_batch.report.formats import Format
from iwb_batch.report.protocols import AnyReport
from iwb_batch.store import numbers, views
from iwb_batch.store.database import Database
from iwb_batch.store.facts import run_facts
from iwb_batch.workflow import human, looking, publishing
from iwb_batch.workflow.folder import RunFolder, explained
from iwb_batch.workflow.status import report_code

WITH_REQUIREMENTS = "writing-bench"
"""The one benchmark that has requirement lists, and a scorer of its own to be compared with."""


@dataclass(frozen=True, slots=True)
class Beside:
    """What a report is given or writes besides its text: people's labels, a page, a folder of plots."""

    human: Path | None = None
    html: Path | None = None
    plots: Path | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """The text, the exit code (0 complete, 3 open, 4 finished incomplete), and the files written."""

    text: str
    code: int
    written: tuple[Path, ...] = ()


def report(folder: RunFolder, form: Format) -> tuple[str, int]:
    """The plain report as text, and its exit code."""
    done = full_report(folder, form)
    return done.text, done.code


def full_report(
    folder: RunFolder,
    form: Format,
    *,
    compat: bool = False,
    requirements: Path | None = None,
    beside: Beside | None = None,
) -> Reported:
    """The report of a run with all that can be asked of it.

    ``compat``: the original scorer's table instead. ``requirements``: the original's requirement/ folder.
    UsageError: one of the two for a run it is not for. InputError: a list or a label does not fit the run's items.
    """
    beside = beside or Beside()
    with looking.reading(folder) as database:
        run = views.run(database)
        _check_options(run, compat=compat, requirements=requirements)
        lists, notes = _requirements(database, requirements)
        code = report_code(database)
        if compat and beside == Beside():
            return Reported(_compat_text(database, run, lists, form), code)
        found = _numbers(database, run, lists, notes)
        agreement = None if beside.human is None else human.agreement(database, beside.human, protocol=run.protocol)
        written = tuple(_files(database, found, agreement, beside))
        if compat:
            return Reported(_compat_text(database, run, lists, form), code, written)
        return Reported(protocols.render(found, form, agreement=agreement), code, written)


_SUFFIX: dict[Format, str] = {"table": "txt", "markdown": "md", "csv": "csv", "json": "json"}


def keep(folder: RunFolder, text: str, form: Format, *, compat: bool) -> str | None:
    """Put what was printed into the run's ``report/`` too; says why not where that cannot be written."""
    target = folder.report / f"{'compat' if compat else 'report'}.{_SUFFIX[form]}"
    try:
        with explained(folder.report):
            folder.report.mkdir(mode=0o700, exist_ok=True)
        publishing.write(target, text.removesuffix("\n") + "\n")
    except RunError as error:
        return f"no copy in the run folder: {error.message}"
    return None


def _files(database: Database, found: AnyReport, agreement: HumanAgreement | None, beside: Beside) -> Iterator[Path]:
    if beside.html is not None:
        publishing.write(beside.html, publishing.report_page(database, found, agreement))
        yield beside.html
    if beside.plots is not None:
        for name in publishing.write_plots(found, beside.plots):
            yield beside.plots / name


def _check_options(run: views.Run, *, compat: bool, requirements: Path | None) -> None:
    if run.protocol == "generate":
        raise UsageError(
            f"{run.name} holds responses, not verdicts", hint="Submit the file that `generate --out` wrote to a judge."
        )
    if requirements is not None and run.benchmark != WITH_REQUIREMENTS:
        raise UsageError(
            f"--requirements is for {WITH_REQUIREMENTS}; {run.name} is a run of {run.benchmark}", hint="Leave it out."
        )
    if compat and run.protocol != "rubric":
        raise UsageError(
            f"--compat is for scores against criteria; {run.name} is a run of {run.benchmark}", hint="Leave it out."
        )


def _numbers(database: Database, run: views.Run, lists: Requirements | None, notes: Sequence[str]) -> AnyReport:
    if run.protocol == "pairwise":
        return pair_report(numbers.pairs(database))
    if run.protocol == "pointwise":
        return pointwise_report(numbers.pointwise(database))
    data = numbers.rubric(database, lists)
    return rubric_report(replace(data, facts=replace(data.facts, notes=(*data.facts.notes, *notes))))


def _compat_text(database: Database, run: views.Run, lists: Requirements | None, form: Format) -> str:
    from iwb_batch.report import compat

    row = official_row(
        run.model_name,
        numbers.scored_lines(database),
        domains=numbers.domains(database),
        requirements=lists,
        domain_order=DOMAIN_ORDER if run.benchmark == WITH_REQUIREMENTS else (),
    )
    return compat.render(row, form, rehearsal=run_facts(database).rehearsal)


def _requirements(database: Database, path: Path | None) -> tuple[Requirements | None, tuple[str, ...]]:
    """The lists, checked against the items of the run, and what to say about them."""
    if path is None:
        return None, ()
    found = read_requirements(path)
    _check_lists(database, found)
    notes = tuple(f"requirements: {name} is not in the folder, so its numbers are not known" for name in found.absent)
    return found.lists, notes


def _check_lists(database: Database, found: RequirementFolder) -> None:
    """The same index must mean the same item: the lists of another version of the data number it differently."""
    hint = "Use the requirement folder of the same version as the data set of this run."
    for index, query, criteria in numbers.items_of(database, found.listed.keys()):
        digest = query_sha256(query)
        for row in found.listed[index]:
            if row.query_sha256 not in (None, digest):
                raise InputError.at(row.where, f"index {index} has another query than in this run", hint=hint)
        named = [name for part in found.lists.c.values() for name in part.get(index, ())]
        unknown = next((name for name in named if name not in criteria), None)
        if unknown is not None:
            where = found.listed[index][0].where
            raise InputError.at(where, f"index {index} has no criterion '{unknown}' in this run", hint=hint)
