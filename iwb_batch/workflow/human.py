"""``report --human``: the judge beside people who labelled the same things."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from iwb_batch.core.grouping import Labels, cluster_codes, key_number
from iwb_batch.core.human_numbers import HumanAgreement, HumanPoint, human_agreement
from iwb_batch.errors import InputError
from iwb_batch.inputs.labels import PreferenceLabel, ScoreLabel, read_labels
from iwb_batch.store import labelled
from iwb_batch.store.database import Database


def agreement(database: Database, path: Path, *, protocol: str) -> HumanAgreement:
    """Read the labels and compare. InputError: bad labels, or labels of another kind than the run's verdicts."""
    labels = read_labels(path)
    preferences = [label for label in labels if isinstance(label, PreferenceLabel)]
    scores = [label for label in labels if isinstance(label, ScoreLabel)]
    if protocol == "pairwise":
        if scores:
            raise InputError(
                f"{path.name}: holds scores, the run holds preferences", hint="Use columns row, preferred."
            )
        return _preferences(database, preferences)
    if preferences:
        raise InputError(f"{path.name}: holds preferences, the run holds scores", hint="Use columns index, score.")
    return _scores(database, scores)


def _scores(database: Database, labels: Sequence[ScoreLabel]) -> HumanAgreement:
    single = {label.criterion is not None for label in labels}
    if len(single) > 1:
        odd = next(label for label in labels if (label.criterion is None) != (labels[0].criterion is None))
        raise InputError(
            f"{odd.where}: labels of items and of single criteria are mixed", hint="Put them into two files."
        )
    items = labelled.items(database)
    inside = [label for label in labels if label.item_index in items]
    codes = _codes(items, sorted({label.item_index for label in inside}))
    judged = (
        _criterion_scores(database, inside) if True in single else [items[label.item_index].score for label in inside]
    )
    points = [
        HumanPoint(label.score, score, codes[label.item_index])
        for label, score in zip(inside, judged, strict=True)
        if score is not None
    ]
    return human_agreement(
        points,
        level="criterion" if True in single else "item",
        n_labels=len(labels),
        n_unscored=len(inside) - len(points),
        n_outside=len(labels) - len(inside),
    )


def _criterion_scores(database: Database, labels: Sequence[ScoreLabel]) -> list[float | None]:
    """The judge's score of each label's criterion. InputError: an item has no such criterion."""
    wanted = {label.item_index for label in labels}
    by_name: dict[tuple[int, str], float | None] = {}
    by_number: dict[tuple[int, str], float | None] = {}
    planned: set[int] = set()
    for row in labelled.criterion_means(database):
        if row.item_index in wanted:
            planned.add(row.item_index)
            by_name.setdefault((row.item_index, row.criterion), row.score)
            by_number[(row.item_index, str(row.criterion_index))] = row.score
    return [_criterion_score(label, by_name, by_number, planned) for label in labels]


def _criterion_score(
    label: ScoreLabel,
    by_name: dict[tuple[int, str], float | None],
    by_number: dict[tuple[int, str], float | None],
    planned: set[int],
) -> float | None:
    key = (label.item_index, label.criterion or "")
    if key in by_name:
        return by_name[key]
    if key in by_number:
        return by_number[key]
    if label.item_index not in planned:
        return None
    names = ", ".join(name for index, name in by_name if index == label.item_index)
    raise InputError(
        f"{label.where}: item {label.item_index} has no criterion {label.criterion!r}",
        hint=f"Its criteria are: {names}.",
    )


def _codes(items: dict[int, labelled.LabelledItem], indexes: Sequence[int]) -> dict[int, int]:
    """Cluster number of each item."""
    variants = Labels()
    for index in indexes:
        variants.add(items[index].variant)
    codes, _ = cluster_codes([key_number(items[index].cluster) for index in indexes], variants.codes())
    return {index: int(code) for index, code in zip(indexes, codes, strict=True)}


def _preferences(database: Database, labels: Sequence[PreferenceLabel]) -> HumanAgreement:
    items = labelled.items(database)
    numbers = {key: number for number, key in enumerate(sorted({item.cluster for item in items.values()}))}
    human = {label.row: label.preferred for label in labels}
    points: list[HumanPoint] = []
    answered: set[int] = set()
    for row, preferred in labelled.verdicts(database):
        if row in human and preferred is not None:
            answered.add(row)
            points.append(
                HumanPoint(float(human[row] == "chosen"), float(preferred == "chosen"), numbers[items[row].cluster])
            )
    inside = sum(row in items for row in human)
    return human_agreement(
        points,
        level="verdict",
        n_labels=len(labels),
        n_unscored=inside - len(answered),
        n_outside=len(labels) - inside,
    )
