"""``compare``: two or more runs against each other on the items they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from iwb_batch.core.compare_numbers import Comparison, RunScores
from iwb_batch.core.compare_numbers import compare as compare_numbers
from iwb_batch.errors import RunError
from iwb_batch.store import comparisons, views
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow import looking


def compare(runs_dir: Path, names: Sequence[str], *, force: bool = False) -> Comparison:
    """Compare the named runs.

    UsageError: fewer than two, or one twice. RunError: different benchmarks or judges, a rehearsal
    beside a real run, or no item in common; ``force`` overrides judges and items.
    """
    found = compare_numbers([_scores(runs_dir, name) for name in names], force=force)
    apart = [f"{pair.a} and {pair.b}" for pair in found.pairs if pair.n_matched == 0]
    if apart and not force:
        raise RunError(
            f"the runs have no item in common: {', '.join(apart)}",
            hint="Compare runs on the same data set and subset; --force prints what there is.",
        )
    return found


def _scores(runs_dir: Path, name: str) -> RunScores:
    with looking.reading(folders.find_run(runs_dir, name)) as database:
        if views.run(database).protocol == "generate":
            raise RunError(f"run {name} has no judgements: its answers are generated texts", hint="Judge them first.")
        found = comparisons.run_scores(database)
        return replace(found, items=tuple(found.items))
