"""The items a command is about: opening a benchmark's data set, numbering its rows, choosing a subset of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from iwb_batch.benchmarks import Benchmark
from iwb_batch.core.languages import language_code
from iwb_batch.core.row import Row
from iwb_batch.errors import UsageError
from iwb_batch.inputs.dataset import Dataset, Numbering, numbering, open_dataset


def open_items(
    benchmark: Benchmark, sources: Sequence[str], *, subset: str | None, split: str, revision: str | None
) -> tuple[Dataset, Numbering]:
    """The benchmark's data set, and which index each of its rows has.

    Pairs are numbered over all files given, whatever ``subset`` selects: the row is their key in every command.
    UsageError: no data set is named. Raises InputError and UsageError as ``open_dataset`` does.
    """
    names = list(sources) or ([benchmark.default_dataset] if benchmark.default_dataset else [])
    if not names:
        raise UsageError(f"--benchmark {benchmark.name} needs --dataset", hint="Name its data file or folder.")
    dataset = open_dataset(names, subset=subset, split=split, revision=revision, keep_all=benchmark.keyed_by_row)
    if dataset.unselected and dataset.subset is not None:
        dataset = replace(dataset, subset=language_code(dataset.subset))
    return dataset, numbering(dataset, by_row=benchmark.keyed_by_row)


def of_subset(rows: Iterable[tuple[int, Row]], dataset: Dataset, benchmark: Benchmark) -> Iterator[tuple[int, Row]]:
    """The rows of the subset, where ``open_dataset`` left the choice to us. UsageError at the end: there was none."""
    if not dataset.unselected:
        yield from rows
        return
    seen: dict[str, None] = {}
    found = False
    for index, row in rows:
        language = str(benchmark.labels(row, index)["language"])
        if language == dataset.subset:
            found = True
            yield index, row
        else:
            seen.setdefault(language)
    if not found:
        raise UsageError(
            f"the data set has no pairs of language '{dataset.subset}'; it has: {', '.join(seen)}",
            hint="choose --subset accordingly, or leave it out",
        )
