"""``export --format csv|jsonl``: every judgement that counts, one a row, streamed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from iwb_batch.errors import RunError
from iwb_batch.report import rows as forms
from iwb_batch.store import evidence, views
from iwb_batch.workflow import looking
from iwb_batch.workflow.folder import RunFolder, WholeFile

_FORMS = {"csv": forms.csv_lines, "jsonl": forms.json_lines}
LINE_FORMATS = tuple(_FORMS)


def judgement_lines(folder: RunFolder, form: str) -> Iterator[str]:
    """Lines of the run's judgements with the labels of their items; ``form`` is one of LINE_FORMATS.

    In CSV a text that a spreadsheet would run as a formula gets an apostrophe. RunError: the run has no verdicts.
    """
    with looking.reading(folder) as database:
        run = views.run(database)
        if run.protocol == "generate":
            raise RunError(f"run {run.name} has no judgements: its answers are generated texts")
        columns, found = evidence.judgements(database)
        yield from _FORMS[form](columns, (tuple(row) for row in found))


def write_judgements(folder: RunFolder, form: str, target: Path) -> int:
    """Write the judgements to a file, whole or not at all; returns its bytes."""
    with WholeFile(target) as whole:
        for line in judgement_lines(folder, form):
            whole.write(line.encode("utf-8", "replace") + b"\n")
        whole.commit()
    return whole.n_bytes
