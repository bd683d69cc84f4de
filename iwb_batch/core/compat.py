"""WritingBench's requirement scores, and the table its own scorer prints.

Source of the rules: the public scorer ``calculate_scores.py`` of X-PLUG/WritingBench (2025-12-19).
Its Overall pools all scores instead of averaging items, items count however few of their criteria
were scored, and a requirement without an item is 0. The default report differs on purpose; both
agree when every item is complete.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iwb_batch.core.grouping import Estimator
from iwb_batch.core.run_facts import Estimate
from iwb_batch.errors import InputError

REQUIREMENTS = ("style", "format", "length")
DOMAIN_ORDER = (
    "Academic & Engineering",
    "Finance & Business",
    "Politics & Law",
    "Literature & Arts",
    "Education",
    "Advertising & Marketing",
)


@dataclass(frozen=True, slots=True)
class Requirements:
    """Which items ask for a style, format or length (R), and which of their criteria are about it (C).

    ``r`` maps a requirement to item indexes, ``c`` to criterion names by item index.
    """

    r: Mapping[str, Sequence[int]] = field(default_factory=dict)
    c: Mapping[str, Mapping[int, Sequence[str]]] = field(default_factory=dict)

    def indexes(self) -> frozenset[int]:
        """Every item index that occurs in one of the lists."""
        return frozenset(index for part in (*self.r.values(), *self.c.values()) for index in part)


@dataclass(frozen=True, slots=True)
class RequirementRow:
    """One requirement number, for example ``style_R``; the score is ``None`` when no item or no list is there.

    ``n_items`` counts the items of the list that are in the selection, ``n_complete`` those with an
    item score.
    """

    name: str
    n_items: int
    n_complete: int
    estimate: Estimate


def requirements_from_rows(rows: Mapping[str, Iterable[tuple[str, Mapping[str, Any]]]]) -> Requirements:
    """Build the lists from the rows of the original's ``requirement/`` folder.

    ``rows`` maps a requirement name to the rows of ``<name>_subset.jsonl``, and ``<name>_C`` to those
    of ``<name>_subset_C.jsonl``, each with the place it comes from. A row has ``index`` and, in the
    ``_C`` files, a ``checklist`` with the criteria that count.
    """
    r: dict[str, tuple[int, ...]] = {}
    c: dict[str, dict[int, tuple[str, ...]]] = {}
    for requirement in REQUIREMENTS:
        r[requirement] = tuple(_index(where, row) for where, row in rows.get(requirement, ()))
        c[requirement] = {
            _index(where, row): _criterion_names(where, row) for where, row in rows.get(f"{requirement}_C", ())
        }
    return Requirements(r, c)


def _index(where: str, row: Mapping[str, Any]) -> int:
    index = row.get("index")
    if not isinstance(index, int) or isinstance(index, bool):
        raise InputError.at(where, "the requirement row has no integer 'index'", hint="use the original's files")
    return index


def _criterion_names(where: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    checklist = row.get("checklist")
    names = [entry.get("name") for entry in checklist if isinstance(entry, dict)] if isinstance(checklist, list) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError.at(where, "the requirement row has no 'checklist' with criterion names")
    return tuple(str(name) for name in names)


def requirement_scores(
    item_scores: Mapping[int, float],
    criterion_means: Mapping[int, Mapping[str, float]],
    requirements: Requirements | None,
) -> dict[str, float | None]:
    """R and C over the items given: item scores by index, and criterion means by index and name.

    R is the mean of the item scores, C the mean of the named criteria (an item with two counts
    twice). ``None`` when there is no such item or no list.
    """
    lists = requirements or Requirements()
    scores: dict[str, float | None] = {}
    for requirement in REQUIREMENTS:
        present = [index for index in lists.r.get(requirement, ()) if index in item_scores]
        named = [value for index in present for value in _named(index, requirement, lists, criterion_means)]
        scores[f"{requirement}_R"] = _mean([item_scores[index] for index in present])
        scores[f"{requirement}_C"] = _mean(named)
    return scores


def _named(
    index: int, requirement: str, lists: Requirements, criterion_means: Mapping[int, Mapping[str, float]]
) -> list[float]:
    means = criterion_means.get(index, {})
    return [means[name] for name in lists.c.get(requirement, {}).get(index, ()) if name in means]


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def requirement_rows(
    item_scores: Mapping[int, float],
    criterion_means: Mapping[int, Mapping[str, float]],
    requirements: Requirements | None,
    *,
    clusters: Mapping[int, int],
    estimator: Estimator,
) -> tuple[RequirementRow, ...]:
    """R and C as in ``requirement_scores``, with counts and intervals, in printed order.

    ``clusters`` has the cluster of every item of the selection that is in one of the lists;
    ``item_scores`` those of them that are complete.
    """
    lists = requirements or Requirements()
    rows = []
    for requirement in REQUIREMENTS:
        listed = sorted({index for index in lists.r.get(requirement, ()) if index in clusters})
        present = [index for index in listed if index in item_scores]
        named = {index: _named(index, requirement, lists, criterion_means) for index in present}
        parts = {
            "R": {index: [item_scores[index]] for index in present},
            "C": named,
        }
        for kind, values in parts.items():
            name = f"{requirement}_{kind}"
            rows.append(RequirementRow(name, len(listed), len(present), _estimate(name, values, clusters, estimator)))
    return tuple(rows)


def _estimate(
    name: str, values: Mapping[int, Sequence[float]], clusters: Mapping[int, int], estimator: Estimator
) -> Estimate:
    import numpy as np

    return estimator.ratio(
        name,
        np.array([math.fsum(part) for part in values.values()], dtype=np.float64),
        np.array([len(part) for part in values.values()], dtype=np.float64),
        np.array([clusters[index] for index in values], dtype=np.int64),
    )


Evaluations = Mapping[str, Sequence[float]]


def official_row(
    model: str,
    lines: Iterable[tuple[Hashable, Evaluations]],
    *,
    domains: Mapping[int, tuple[str | None, str | None]],
    requirements: Requirements | None = None,
    domain_order: Sequence[str] = DOMAIN_ORDER,
) -> dict[str, str | int | float | None]:
    """The row the original scorer prints for one model, under its column names and in its order.

    ``lines`` are (index, {criterion name: its scores}), one for each item with at least one score;
    ``domains`` maps an index to (domain, subdomain). An index that ``domains`` lacks counts in
    Overall only; of two lines with one index the later one gives the item mean. ``Overall`` is
    ``None`` when there is no score at all. A domain outside ``domain_order`` follows, sorted.
    """
    kept = [(index, evaluations) for index, evaluations in lines if any(evaluations.values())]
    pooled = [score for _, evaluations in kept for scores in evaluations.values() for score in scores]
    item_scores: dict[Any, float] = {}
    criterion_means: dict[Any, dict[str, float]] = {}
    for index, evaluations in kept:
        scores = [score for part in evaluations.values() for score in part]
        item_scores[index] = math.fsum(scores) / len(scores)
        criterion_means[index] = {name: math.fsum(part) / len(part) for name, part in evaluations.items() if part}
    row: dict[str, str | int | float | None] = {"Model": model, "Overall": _mean(pooled), "Count": len(kept)}
    row.update(_domain_columns(item_scores, domains, domain_order))
    asked = requirement_scores(item_scores, criterion_means, requirements)
    row.update({name: 0 if score is None else score for name, score in asked.items()})
    return row


def _domain_columns(
    item_scores: Mapping[Any, float],
    domains: Mapping[int, tuple[str | None, str | None]],
    domain_order: Sequence[str],
) -> dict[str, float | None]:
    by_domain: dict[str, list[float]] = {}
    by_subdomain: dict[str, dict[str, list[float]]] = {}
    for index, score in item_scores.items():
        domain, subdomain = domains.get(index, (None, None))
        if domain is not None:
            by_domain.setdefault(domain, []).append(score)
            if subdomain is not None:
                by_subdomain.setdefault(domain, {}).setdefault(subdomain, []).append(score)
    order = [*domain_order, *sorted(set(by_domain) - set(domain_order))]
    columns: dict[str, float | None] = {f"Domain1_{domain}": _mean(by_domain.get(domain, ())) for domain in order}
    for domain in order:
        means = {name: math.fsum(scores) / len(scores) for name, scores in by_subdomain.get(domain, {}).items()}
        for name in sorted(means, key=lambda name: -means[name]):
            columns[f"Domain2_{name}"] = means[name]
    return columns
