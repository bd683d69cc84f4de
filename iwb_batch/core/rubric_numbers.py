"""The numbers of a rubric run: what the scores are, over how many items, and how sure they are.

An item's score is the mean of its criterion scores (repeats averaged first). Every mean is over
complete items only, so a failure never becomes a score; what it could have changed is told by the
bounds, which put 1 and 10 in the place of every missing judgement over all items.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from iwb_batch.core.compat import RequirementRow, Requirements, requirement_rows
from iwb_batch.core.grouping import Estimator, Labels, cluster_codes, group_rows, key_number
from iwb_batch.core.run_facts import Estimate, GroupRow, RunFacts
from iwb_batch.core.statistics import spearman

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]

LOWEST, HIGHEST = 1, 10
REPEATABILITY = 1.96 * math.sqrt(2)
"""Two single measurements differ by more than this many standard deviations once in twenty times."""

DIMENSIONS = ("domain", "subdomain", "variant", "language")
_VARIANT_ORDER = ("native", "code_mixed", "romanized")


class ItemRow(NamedTuple):
    """One item of the selection; every item has a row, also those left out.

    ``cluster`` is the item's cluster key. ``left_out`` says why no request was planned (then
    ``n_planned`` is 0). ``n_planned`` and ``n_scored`` count requests (criteria x repeats),
    ``score_sum`` adds up all valid scores of the item. ``score`` is the item score, ``None`` unless
    complete; ``response_length`` is in code points of the text the judge saw.
    """

    item_index: int
    domain: str | None
    subdomain: str | None
    language: str | None
    variant: str | None
    cluster: str
    left_out: str | None
    n_planned: int
    n_scored: int
    score_sum: int
    score: float | None
    response_length: int | None = None


@dataclass(frozen=True, slots=True)
class RubricData:
    """What the store knows about a rubric run.

    ``items`` is read once, in any order. ``histogram`` counts all valid scores by value.
    ``repeat_sets`` counts, over (item, criterion) with more than one valid score, the scores in
    ascending order: ``{(7, 7, 8): 12}``. ``repeat_sums`` has for each repeat (sum, number) of its
    scores. ``criterion_means`` is needed only for items of the requirement lists: criterion name to
    mean score over repeats.
    """

    facts: RunFacts
    items: Iterable[ItemRow]
    histogram: Mapping[int, int]
    repeat_sets: Mapping[tuple[int, ...], int] = field(default_factory=dict)
    repeat_sums: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    requirements: Requirements | None = None
    criterion_means: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class VariantDifference:
    """Paired difference ``a - b`` between two renderings of the same prompts."""

    a: str
    b: str
    n_prompts: int
    difference: Estimate


@dataclass(frozen=True, slots=True)
class SelfConsistency:
    """How far the judge agrees with itself when it is asked again.

    Over ``n_sets`` (item, criterion) with at least two valid scores: the standard deviation within
    a set (pooled), the mean absolute difference of two scores of a set (over its pairs, then over
    sets), the shares of sets whose scores are all equal or at most one apart, and the mean score of
    each repeat. Two single scores of one criterion that are less than ``smallest_difference`` apart
    can come from the judge alone: the repeatability coefficient, 1.96 x sqrt(2) x ``within_sd``.
    """

    n_sets: int
    within_sd: float
    mean_difference: float
    smallest_difference: float
    equal_share: float
    within_one_share: float
    repeat_means: tuple[tuple[int, float, int], ...]


@dataclass(frozen=True, slots=True)
class RubricReport:
    """All numbers of a rubric run. ``n_items`` is every item of the selection."""

    facts: RunFacts
    n_items: int
    n_complete: int
    overall: Estimate
    worst: float | None
    best: float | None
    macro_mean: float | None
    pooled_mean: float | None
    by: Mapping[str, tuple[GroupRow, ...]]
    variants: tuple[VariantDifference, ...]
    histogram: tuple[tuple[int, int], ...]
    floor_share: float | None
    ceiling_share: float | None
    self_consistency: SelfConsistency | None
    length_bias: float | None
    length_bias_n: int
    left_out: tuple[tuple[str, int], ...]
    requirements: tuple[RequirementRow, ...]
    notes: tuple[str, ...]


class _Columns:
    """The items as arrays, sorted by item index."""

    def __init__(self, items: Iterable[ItemRow]) -> None:
        """Read ``items`` once."""
        import numpy as np

        self.labels = {name: Labels() for name in DIMENSIONS}
        self.left_out: Counter[str] = Counter()
        index, keys = array("q"), array("Q")
        score, worst, best, length = array("d"), array("d"), array("d"), array("d")
        for item in items:
            index.append(item.item_index)
            keys.append(key_number(item.cluster))
            for name in DIMENSIONS:
                self.labels[name].add(getattr(item, name))
            score.append(math.nan if item.score is None else item.score)
            worst.append(_bound(item, LOWEST))
            best.append(_bound(item, HIGHEST))
            length.append(math.nan if item.response_length is None else item.response_length)
            if item.left_out is not None:
                self.left_out[item.left_out] += 1
        numbers: IntArray = np.asarray(index, dtype=np.int64)
        in_order = bool(np.all(numbers[1:] > numbers[:-1]))
        self.order: IntArray | slice = slice(None) if in_order else np.argsort(numbers, kind="stable")
        self.index = numbers[self.order]
        self.score, self.worst, self.best, self.length = (
            np.asarray(column, dtype=np.float64)[self.order] for column in (score, worst, best, length)
        )
        self.complete: BoolArray = ~np.isnan(self.score)
        self.variant = self.labels["variant"].codes()[self.order]
        self.cluster, self.n_apart = cluster_codes(np.asarray(keys, dtype=np.uint64)[self.order], self.variant)

    def __len__(self) -> int:
        return len(self.score)


def _bound(item: ItemRow, missing_score: int) -> float:
    """Item score if every missing judgement were ``missing_score``."""
    if item.score is not None:
        return item.score
    if item.n_planned == 0:
        return float(missing_score)
    return (item.score_sum + (item.n_planned - item.n_scored) * missing_score) / item.n_planned


def clusters(items: Sequence[ItemRow]) -> tuple[list[int], str | None]:
    """Cluster number of each item, and a note when some keys cannot tell renderings apart."""
    variants = Labels()
    for item in items:
        variants.add(item.variant)
    codes, n_apart = cluster_codes([key_number(item.cluster) for item in items], variants.codes())
    return [int(code) for code in codes], _apart_note(n_apart)


def _apart_note(n_apart: int) -> str | None:
    if n_apart == 0:
        return None
    return (
        f"{n_apart} items share domain, subdomain, checklist and reference with another item of the same variant; "
        "each of them counts as a cluster of its own"
    )


def rubric_report(data: RubricData, *, rng_seed: int = 0) -> RubricReport:
    """Compute the report. The order of ``data.items`` does not matter; equal data and seed give equal numbers."""
    columns = _Columns(data.items)
    estimator = Estimator(rng_seed, limits=(LOWEST, HIGHEST))
    n_complete = int(columns.complete.sum())

    def estimate(name: str, mask: BoolArray) -> Estimate:
        chosen = mask & columns.complete
        return estimator.mean(name, columns.score[chosen], columns.cluster[chosen])

    by = {
        name: group_rows(name, columns.labels[name], columns.order, columns.complete, estimate) for name in DIMENSIONS
    }
    histogram = tuple((value, data.histogram.get(value, 0)) for value in range(LOWEST, HIGHEST + 1))
    n_scores = sum(times for _, times in histogram)
    bias, bias_n = _length_bias(columns)
    return RubricReport(
        facts=data.facts,
        n_items=len(columns),
        n_complete=n_complete,
        overall=estimate("overall", columns.complete),
        worst=_mean(columns.worst),
        best=_mean(columns.best),
        macro_mean=_macro_mean(by["domain"]),
        pooled_mean=sum(value * times for value, times in histogram) / n_scores if n_scores else None,
        by=by,
        variants=_variant_differences(columns, rng_seed),
        histogram=histogram,
        floor_share=histogram[0][1] / n_scores if n_scores else None,
        ceiling_share=histogram[-1][1] / n_scores if n_scores else None,
        self_consistency=_self_consistency(data),
        length_bias=bias,
        length_bias_n=bias_n,
        left_out=tuple(sorted(columns.left_out.items())),
        requirements=_requirements(data, columns, estimator),
        notes=tuple(_notes(data, columns)),
    )


def _mean(values: FloatArray) -> float | None:
    return math.fsum(values) / len(values) if len(values) else None


def _macro_mean(domains: Sequence[GroupRow]) -> float | None:
    scores = [row.estimate.score for row in domains if row.estimate.score is not None]
    return math.fsum(scores) / len(scores) if scores else None


def _variant_differences(columns: _Columns, seed: int) -> tuple[VariantDifference, ...]:
    """Paired differences inside clusters for every two variants that occur."""
    numbers = {label: number for label, number in columns.labels["variant"].sorted_labels() if label is not None}
    known = [name for name in _VARIANT_ORDER if name in numbers]
    names = known + [name for name in sorted(numbers) if name not in known]
    return tuple(_difference(columns, (a, numbers[a]), (b, numbers[b]), seed) for a, b in combinations(names, 2))


def _difference(columns: _Columns, a: tuple[str, int], b: tuple[str, int], seed: int) -> VariantDifference:
    import numpy as np

    in_a, in_b = (columns.complete & (columns.variant == number) for _, number in (a, b))
    shared, at_a, at_b = np.intersect1d(
        columns.cluster[in_a], columns.cluster[in_b], assume_unique=True, return_indices=True
    )
    differences = columns.score[in_a][at_a] - columns.score[in_b][at_b]
    spread = HIGHEST - LOWEST
    estimator = Estimator(seed, limits=(-spread, spread))
    return VariantDifference(
        a[0], b[0], len(shared), estimator.mean(f"variant\0{a[0]}\0{b[0]}", differences, shared.astype(np.int64))
    )


def _length_bias(columns: _Columns) -> tuple[float | None, int]:
    """Spearman correlation of response length and item score over complete items."""
    import numpy as np

    known = columns.complete & ~np.isnan(columns.length)
    lengths, scores = columns.length[known], columns.score[known]
    return spearman(lengths, scores), len(scores)


def _self_consistency(data: RubricData) -> SelfConsistency | None:
    sets = {scores: times for scores, times in data.repeat_sets.items() if len(scores) > 1 and times > 0}
    if data.facts.repeats < 2 or not sets:
        return None
    n_sets = sum(sets.values())
    freedom = sum((len(scores) - 1) * times for scores, times in sets.items())
    within_sd = math.sqrt(math.fsum(times * _squares(scores) for scores, times in sets.items()) / freedom)
    return SelfConsistency(
        n_sets=n_sets,
        within_sd=within_sd,
        mean_difference=math.fsum(times * _mean_difference(scores) for scores, times in sets.items()) / n_sets,
        smallest_difference=REPEATABILITY * within_sd,
        equal_share=sum(times for scores, times in sets.items() if max(scores) == min(scores)) / n_sets,
        within_one_share=sum(times for scores, times in sets.items() if max(scores) - min(scores) <= 1) / n_sets,
        repeat_means=tuple(
            (repeat, total / number, number) for repeat, (total, number) in sorted(data.repeat_sums.items()) if number
        ),
    )


def _mean_difference(scores: tuple[int, ...]) -> float:
    """Mean absolute difference over all pairs of a set."""
    pairs = list(combinations(scores, 2))
    return sum(abs(a - b) for a, b in pairs) / len(pairs)


def _squares(scores: tuple[int, ...]) -> float:
    """Sum of squared distances from the mean of the set."""
    return sum(score * score for score in scores) - sum(scores) ** 2 / len(scores)


def _requirements(data: RubricData, columns: _Columns, estimator: Estimator) -> tuple[RequirementRow, ...]:
    """R and C over complete items; no rows where the benchmark has no such lists."""
    import numpy as np

    if data.requirements is None and data.facts.benchmark != "writing-bench":
        return ()
    lists = data.requirements or Requirements()
    places = np.flatnonzero(np.isin(columns.index, sorted(lists.indexes())))
    scores = {int(columns.index[i]): float(columns.score[i]) for i in places if columns.complete[i]}
    numbers = {int(columns.index[i]): int(columns.cluster[i]) for i in places}
    return requirement_rows(scores, data.criterion_means, lists, clusters=numbers, estimator=estimator)


def _notes(data: RubricData, columns: _Columns) -> Iterable[str]:
    yield from data.facts.notes
    apart = _apart_note(columns.n_apart)
    if apart:
        yield apart
    if len(columns):
        for name in DIMENSIONS:
            if columns.labels[name].missing_everywhere:
                yield f"no item has a {name}, so there is no breakdown by {name}"
    if data.facts.repeats > 1:
        yield f"each criterion was judged {data.facts.repeats} times; repeats are averaged first and add no items"
