"""``report``: the numbers of a run in one of the formats."""

from __future__ import annotations

from iwb_batch.core.pair_numbers import pair_report
from iwb_batch.core.rubric_numbers import rubric_report
from iwb_batch.report.formats import Format
from iwb_batch.store import numbers, views
from iwb_batch.workflow import opening
from iwb_batch.workflow.folder import RunFolder
from iwb_batch.workflow.status import report_code


def report(folder: RunFolder, form: Format) -> tuple[str, int]:
    """The report as text, and the exit code: 0 complete, 3 open, 4 finished incomplete."""
    with opening.reading(folder) as database:
        code = report_code(database)
        if views.run(database).protocol == "pairwise":
            from iwb_batch.report import pairs

            return pairs.render(pair_report(numbers.pairs(database)), form), code
        from iwb_batch.report import rubric

        return rubric.render(rubric_report(numbers.rubric(database)), form), code
