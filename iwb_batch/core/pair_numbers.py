"""The numbers of a pairwise run, and of a reward model on the same pairs.

A pair counts with the share of its planned verdicts that prefer the text people chose. A verdict
that never became valid is not correct; ``accuracy_without_invalid`` shows what is left without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple

from iwb_batch.core.grouping import Estimator, Labels, group_rows, key_number
from iwb_batch.core.rounding import percent, plain_mean
from iwb_batch.core.run_facts import Estimate, GroupRow, RunFacts
from iwb_batch.core.words import counted
from iwb_batch.model import PAIR_ORDERS, PairOrder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]

Preferred = Literal["chosen", "rejected"]
Longer = Literal["chosen", "rejected", "equal"]
DIMENSIONS = ("language", "domain", "tag")
_FIRST_SHOWN: Mapping[PairOrder, Preferred] = {"chosen-first": "chosen", "rejected-first": "rejected"}
_LANGUAGES = {"en": "EN", "english": "EN", "zh": "ZH", "chinese": "ZH"}


class PairRow(NamedTuple):
    """One pair of the selection.

    ``cluster`` is equal for pairs with one prompt text; ``longer`` is by code points. ``verdicts``
    has, for each planned order, one entry for each repeat: the text preferred, or ``None`` where no
    valid verdict is there.
    """

    item_index: int
    item_id: str
    language: str | None
    domain: str | None
    tag: str | None
    cluster: str
    longer: Longer
    equal_texts: bool
    verdicts: Mapping[PairOrder, Sequence[Preferred | None]]


@dataclass(frozen=True, slots=True)
class PairData:
    """What the store knows about a pairwise run; ``pairs`` is read once, in any order."""

    facts: RunFacts
    pairs: Iterable[PairRow]


@dataclass(frozen=True, slots=True)
class OrderRow:
    """One order: pairs planned in it, valid verdicts, accuracy with invalid verdicts counted as wrong."""

    n: int
    n_valid: int
    accuracy: Estimate


@dataclass(frozen=True, slots=True)
class SeedRow:
    """Per cent in the layout of the published table; ``avg`` is the plain mean of the two printed numbers."""

    en: Decimal | None
    zh: Decimal | None
    avg: Decimal | None


@dataclass(frozen=True, slots=True)
class PairReport:
    """All numbers of a pairwise run. ``n_judged`` counts pairs all of whose planned verdicts are valid."""

    facts: RunFacts
    n_pairs: int
    n_judged: int
    n_verdicts: int
    n_valid: int
    accuracy: Estimate
    accuracy_without_invalid: Estimate
    by_order: Mapping[PairOrder, OrderRow]
    both_right: Estimate
    consistency: Estimate
    n_consistency: int
    first_position_rate: Estimate
    longer_baseline: float | None
    n_longer_equal: int
    n_equal_texts: int
    by: Mapping[str, tuple[GroupRow, ...]]
    seed_row: SeedRow
    incomplete: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def macro_mean(self) -> float | None:
        """Mean accuracy over the domain rows."""
        return domain_mean(self.by["domain"])


class _Pairs:
    """The pairs sorted by index, with their clusters and what each came to."""

    def __init__(self, pairs: Iterable[PairRow]) -> None:
        """Read ``pairs`` once."""
        import numpy as np

        self.rows = sorted(pairs, key=lambda pair: pair.item_index)
        keys = np.array([key_number(pair.cluster) for pair in self.rows], dtype=np.uint64)
        self.cluster: IntArray = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        self.planned = self._column(lambda pair: sum(len(part) for part in pair.verdicts.values()))
        self.valid = self._column(lambda pair: sum(v is not None for part in pair.verdicts.values() for v in part))
        self.correct = self._column(lambda pair: sum(v == "chosen" for part in pair.verdicts.values() for v in part))
        self.first = self._column(_first_shown_preferred)
        self.complete: BoolArray = (self.valid == self.planned) & (self.planned > 0)
        self.accuracy: FloatArray = self.correct / np.maximum(self.planned, 1.0)
        self.both_planned = self._column(lambda pair: all(pair.verdicts.get(order) for order in PAIR_ORDERS))
        self.orders = [order for order in PAIR_ORDERS if any(pair.verdicts.get(order) for pair in self.rows)]

    def _column(self, value: Callable[[PairRow], float]) -> FloatArray:
        import numpy as np

        return np.array([value(pair) for pair in self.rows], dtype=np.float64)

    def labels(self, name: str) -> Labels:
        """The label column ``name``."""
        column = Labels()
        for pair in self.rows:
            column.add(getattr(pair, name))
        return column

    def breakdowns(self, estimator: Estimator) -> dict[str, tuple[GroupRow, ...]]:
        """Accuracy by language, domain and tag."""

        def accuracy(name: str, mask: BoolArray) -> Estimate:
            return estimator.mean(name, self.accuracy[mask], self.cluster[mask])

        return {name: group_rows(name, self.labels(name), slice(None), self.complete, accuracy) for name in DIMENSIONS}

    def order(self, order: PairOrder, estimator: Estimator) -> OrderRow:
        """Accuracy in one order; a pair counts with the share of its repeats."""
        import numpy as np

        planned = self._column(lambda pair: len(pair.verdicts.get(order, ())))
        correct = self._column(lambda pair: sum(v == "chosen" for v in pair.verdicts.get(order, ())))
        valid = self._column(lambda pair: sum(v is not None for v in pair.verdicts.get(order, ())))
        asked = (planned > 0).astype(np.float64)
        estimate = estimator.ratio(f"order\0{order}", correct / np.maximum(planned, 1.0), asked, self.cluster)
        return OrderRow(int(asked.sum()), int(valid.sum()), estimate)

    def agreement(self, both: Callable[[Preferred | None, Preferred | None], bool]) -> FloatArray:
        """For each pair the share of repeats whose two orders fulfil ``both``."""

        def share(pair: PairRow) -> float:
            repeats = list(zip(*(pair.verdicts.get(order, ()) for order in PAIR_ORDERS), strict=False))
            return sum(both(a, b) for a, b in repeats) / len(repeats) if repeats else 0.0

        return self._column(share)


def _first_shown_preferred(pair: PairRow) -> int:
    return sum(v == _FIRST_SHOWN[order] for order, part in pair.verdicts.items() for v in part)


def pair_report(data: PairData, *, rng_seed: int = 0) -> PairReport:
    """Compute the report. The order of ``data.pairs`` does not matter; equal data and seed give equal numbers."""
    import numpy as np

    pairs = _Pairs(data.pairs)
    n = len(pairs.rows)
    estimator = Estimator(rng_seed, limits=(0.0, 1.0), rate=True)
    consistent = pairs.both_planned * pairs.complete
    by = pairs.breakdowns(estimator)
    return PairReport(
        facts=data.facts,
        n_pairs=n,
        n_judged=int(pairs.complete.sum()),
        n_verdicts=int(pairs.planned.sum()),
        n_valid=int(pairs.valid.sum()),
        accuracy=estimator.ratio("accuracy", pairs.accuracy, np.ones(n), pairs.cluster),
        accuracy_without_invalid=estimator.ratio("valid", pairs.correct, pairs.valid, pairs.cluster),
        by_order={order: pairs.order(order, estimator) for order in pairs.orders},
        both_right=estimator.ratio("both", pairs.agreement(_both_right), pairs.both_planned, pairs.cluster),
        consistency=estimator.ratio("consistency", pairs.agreement(_same) * consistent, consistent, pairs.cluster),
        n_consistency=int(consistent.sum()),
        first_position_rate=estimator.ratio("first", pairs.first, pairs.valid, pairs.cluster),
        longer_baseline=sum(pair.longer == "chosen" for pair in pairs.rows) / n if n else None,
        n_longer_equal=sum(pair.longer == "equal" for pair in pairs.rows),
        n_equal_texts=sum(pair.equal_texts for pair in pairs.rows),
        by=by,
        seed_row=seed_row(by["language"]),
        incomplete=tuple(pair.item_id for pair, done in zip(pairs.rows, pairs.complete, strict=True) if not done),
        notes=tuple(_notes(data.facts, pairs)),
    )


def _both_right(a: Preferred | None, b: Preferred | None) -> bool:
    return a == b == "chosen"


def _same(a: Preferred | None, b: Preferred | None) -> bool:
    return a is not None and a == b


def seed_row(languages: Sequence[GroupRow]) -> SeedRow:
    """EN, ZH and their plain mean, from the breakdown by language; ``None`` where a language is missing."""
    found: dict[str, Decimal] = {}
    for row in languages:
        name = _LANGUAGES.get((row.label or "").lower())
        if name is not None and row.estimate.score is not None:
            found[name] = percent(row.estimate.score)
    en, zh = found.get("EN"), found.get("ZH")
    return SeedRow(en, zh, None if en is None or zh is None else plain_mean(en, zh))


def domain_mean(domains: Sequence[GroupRow]) -> float | None:
    """Plain mean over the rows of a breakdown by domain: every domain counts once, whatever its number of pairs."""
    scores = [row.estimate.score for row in domains if row.estimate.score is not None]
    return math.fsum(scores) / len(scores) if scores else None


def _notes(facts: RunFacts, pairs: _Pairs) -> Iterable[str]:
    yield from facts.notes
    if pairs.rows:
        for name in DIMENSIONS:
            if pairs.labels(name).missing_everywhere:
                yield f"no pair has a {name}, so there is no breakdown by {name}"
        if not pairs.both_planned.any():
            yield "no pair was planned in both orders, so both_right and consistency are not known"
        n_equal = sum(pair.equal_texts for pair in pairs.rows)
        if n_equal:
            yield f"{counted(n_equal, 'pair has', 'pairs have')} two equal texts, judged and counted like all others"
    if facts.repeats > 1:
        yield f"each order was judged {facts.repeats} times; repeats are averaged first and add no pairs"


class RewardRow(NamedTuple):
    """Two scalar rewards of one pair; ``None`` or a number that is not finite is invalid. ``longer`` as in PairRow."""

    item_index: int
    language: str | None
    domain: str | None
    tag: str | None
    cluster: str
    chosen: float | None
    rejected: float | None
    item_id: str = ""
    longer: Longer | None = None
    equal_texts: bool = False

    @property
    def valid(self) -> bool:
        """True when both rewards are finite numbers."""
        return all(value is not None and math.isfinite(value) for value in (self.chosen, self.rejected))


@dataclass(frozen=True, slots=True)
class RewardReport:
    """Accuracy of a reward model: ``chosen > rejected``, strictly; a tie is not correct and is counted.

    ``invalid_policy`` is ``count`` (an invalid pair is wrong), ``drop`` (it leaves N) or ``refuse``
    (there is none). ``without_invalid`` is the accuracy over valid pairs alone. ``longer_baseline`` is
    over all pairs, ``None`` where the lengths are not known. ``incomplete`` has the ids of invalid pairs.
    """

    n_pairs: int
    n_counted: int
    correct: int
    ties: int
    invalid: int
    invalid_policy: str
    accuracy: Estimate
    by: Mapping[str, tuple[GroupRow, ...]]
    seed_row: SeedRow
    without_invalid: Estimate
    longer_baseline: float | None
    n_longer_equal: int
    n_equal_texts: int
    incomplete: tuple[str, ...]

    @property
    def macro_mean(self) -> float | None:
        """Mean accuracy over the domain rows."""
        return domain_mean(self.by["domain"])


def reward_report(
    rows: Iterable[RewardRow], *, invalid_policy: Literal["count", "drop", "refuse"] = "count", rng_seed: int = 0
) -> RewardReport:
    """Compute the accuracy of a reward model over all pairs given."""
    import numpy as np

    ordered = sorted(rows, key=lambda row: row.item_index)
    counted = [row for row in ordered if row.valid or invalid_policy != "drop"]
    valid: BoolArray = np.array([row.valid for row in counted], dtype=bool)
    correct: FloatArray = np.array([row.valid and _above(row) for row in counted], dtype=np.float64)
    keys = np.array([key_number(row.cluster) for row in counted], dtype=np.uint64)
    cluster = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    estimator = Estimator(rng_seed, limits=(0.0, 1.0), rate=True)

    def accuracy(name: str, mask: BoolArray) -> Estimate:
        return estimator.mean(name, correct[mask], cluster[mask])

    by: dict[str, tuple[GroupRow, ...]] = {}
    for name in DIMENSIONS:
        labels = Labels()
        for row in counted:
            labels.add(getattr(row, name))
        by[name] = group_rows(name, labels, slice(None), valid, accuracy)
    return RewardReport(
        n_pairs=len(ordered),
        n_counted=len(counted),
        correct=int(correct.sum()),
        ties=sum(row.valid and row.chosen == row.rejected for row in ordered),
        invalid=sum(not row.valid for row in ordered),
        invalid_policy=invalid_policy,
        accuracy=accuracy("accuracy", np.ones(len(counted), dtype=bool)),
        by=by,
        seed_row=seed_row(by["language"]),
        without_invalid=estimator.ratio("valid", correct, valid.astype(np.float64), cluster),
        longer_baseline=_baseline(ordered),
        n_longer_equal=sum(row.longer == "equal" for row in ordered),
        n_equal_texts=sum(row.equal_texts for row in ordered),
        incomplete=tuple(row.item_id for row in ordered if not row.valid),
    )


def _baseline(rows: Sequence[RewardRow]) -> float | None:
    if not rows or any(row.longer is None for row in rows):
        return None
    return sum(row.longer == "chosen" for row in rows) / len(rows)


def _above(row: RewardRow) -> bool:
    return row.chosen is not None and row.rejected is not None and row.chosen > row.rejected
