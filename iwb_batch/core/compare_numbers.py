"""Comparing runs on the items they share.

Two runs are compared on items that are complete in both and equal in content, each item against
itself. The test flips the sign of whole clusters; p values are corrected over all run pairs. Runs
of different judges are not compared unless asked for, and rehearsals never with real runs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal, NamedTuple

from iwb_batch.core.grouping import Estimator, Labels, cluster_codes, cluster_sums, key_number
from iwb_batch.core.run_facts import Estimate
from iwb_batch.core.statistics import detectable_difference, holm, sign_flip_p, standard_error, stream
from iwb_batch.core.words import counted
from iwb_batch.errors import RunError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]
    IntArray = NDArray[np.int64]

SIGNIFICANT = 0.05
NOT_SEPARABLE = "not separable"
NO_COMMON_ITEMS = "no common items"
_TIE = 1e-9


class ScoredItem(NamedTuple):
    """One item of a run: content hash, cluster key, and its score (``None`` unless complete).

    For pairs the score is the share of correct verdicts.
    """

    item_index: int
    item_sha256: str
    cluster: str
    variant: str | None
    score: float | None


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """What makes two judges the same; ``models`` are the models the answers name."""

    models: frozenset[str]
    reasoning_effort: str | None
    token_limit: int
    response_format: str | None
    prompt_sha256: str
    strip_rule: str


@dataclass(frozen=True, slots=True)
class RunScores:
    """A run as ``compare`` needs it. ``scale`` is ``score`` (1..10) or ``share`` (0..1, pairs).

    ``rehearsal`` is None while nothing is judged: then the run is neither a rehearsal nor a real one, and which
    model judges is not known either.
    """

    run: str
    benchmark: str
    model: str
    judge: JudgeIdentity
    rehearsal: bool | None
    items: Iterable[ScoredItem]
    scale: Literal["score", "share"] = "score"


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Run ``a`` against run ``b``; ``difference`` is a - b over ``n_common`` items in ``n_clusters`` clusters."""

    a: str
    b: str
    n_common: int
    n_clusters: int
    difference: Estimate
    p: float | None
    p_holm: float | None
    win: int
    tie: int
    loss: int
    detectable: float | None
    verdict: str
    n_matched: int
    n_incomplete_a: int
    n_incomplete_b: int
    n_only_a: int
    n_only_b: int
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeaderboardRow:
    """One run: its mean over the items complete in every run, and over its own complete items."""

    run: str
    model: str
    n_items: int
    n_complete: int
    own: Estimate
    common: Estimate
    n_common: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two or more runs; ``forced`` names judge differences that were overridden."""

    runs: tuple[str, ...]
    benchmark: str
    scale: Literal["score", "share"]
    rehearsal: bool
    leaderboard: tuple[LeaderboardRow, ...]
    pairs: tuple[ComparedPair, ...]
    forced: tuple[str, ...]
    notes: tuple[str, ...]


_Key = tuple[str, int]


class _Run:
    """One run's items by content hash; equal items are told apart by their place."""

    def __init__(self, scores: RunScores) -> None:
        """Read the items once."""
        self.run, self.model, self.scale = scores.run, scores.model, scores.scale
        self.items: dict[_Key, ScoredItem] = {}
        seen: Counter[str] = Counter()
        for item in sorted(scores.items, key=lambda item: item.item_index):
            self.items[(item.item_sha256, seen[item.item_sha256])] = item
            seen[item.item_sha256] += 1

    def complete(self) -> dict[_Key, float]:
        """Scores of the complete items."""
        return {key: item.score for key, item in self.items.items() if item.score is not None}


def judge_differences(runs: Sequence[RunScores]) -> tuple[str, ...]:
    """What differs between the judges of the runs, one line for each setting."""
    lines = []
    for setting in fields(JudgeIdentity):
        known = [run for run in runs if setting.name != "models" or run.rehearsal is not None]
        values = [_plain(getattr(run.judge, setting.name)) for run in known]
        if len(set(values)) > 1:
            told = ", ".join(f"{run.run}: {value}" for run, value in zip(known, values, strict=True))
            lines.append(f"{setting.name.replace('_', ' ')} differs ({told})")
    return tuple(lines)


def _plain(value: object) -> str:
    if isinstance(value, frozenset):
        return " + ".join(sorted(map(str, value))) or "none named"
    return "not set" if value is None else str(value)


def compare(runs: Sequence[RunScores], *, rng_seed: int = 0, force: bool = False) -> Comparison:
    """Compare all pairs of runs, in the order given.

    Raises ``UsageError`` for fewer than two or repeated runs, ``RunError`` for runs of different
    benchmarks, for rehearsals beside real runs, and (unless ``force``) for different judges.
    """
    differing = _checked(runs, force=force)
    parts = [_Run(run) for run in runs]
    scale = runs[0].scale
    pairs = [_compared(a, b, scale, rng_seed) for a, b in combinations(parts, 2)]
    corrected = holm([pair.p for pair in pairs])
    return Comparison(
        runs=tuple(run.run for run in runs),
        benchmark=runs[0].benchmark,
        scale=scale,
        rehearsal=any(run.rehearsal for run in runs),
        leaderboard=_leaderboard(parts, scale, rng_seed),
        pairs=tuple(_with_verdict(pair, p) for pair, p in zip(pairs, corrected, strict=True)),
        forced=differing,
        notes=tuple(_notes(len(pairs))),
    )


def _checked(runs: Sequence[RunScores], *, force: bool) -> tuple[str, ...]:
    names = [run.run for run in runs]
    if len(runs) < 2:
        raise UsageError("compare needs at least two runs", hint="name two runs: iwb-batch compare RUN RUN")
    if len(set(names)) < len(names):
        raise UsageError("compare needs different runs, one is named twice")
    if len({run.benchmark for run in runs}) > 1 or len({run.scale for run in runs}) > 1:
        told = ", ".join(f"{run.run}: {run.benchmark}" for run in runs)
        raise RunError(f"runs of different benchmarks cannot be compared ({told})")
    if len({run.rehearsal for run in runs if run.rehearsal is not None}) > 1:
        rehearsals = ", ".join(run.run for run in runs if run.rehearsal)
        raise RunError(
            f"a rehearsal is never compared with a real run; rehearsals here: {rehearsals}",
            hint="judge the same responses with a real deployment first",
        )
    differing = judge_differences(runs)
    if differing and not force:
        raise RunError(
            f"the runs were not judged by the same judge: {'; '.join(differing)}",
            hint="--force compares them all the same and prints the difference",
        )
    return differing


def _columns(keys: Sequence[_Key], run: _Run) -> IntArray:
    """Clusters of the items ``keys`` of ``run``; pairs have no variants, there an equal prompt is enough."""
    import numpy as np

    numbers = np.array([key_number(run.items[key].cluster) for key in keys], dtype=np.uint64)
    if run.scale == "share":
        return np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    variants = Labels()
    for key in keys:
        variants.add(run.items[key].variant)
    return cluster_codes(numbers, variants.codes())[0]


def _compared(a: _Run, b: _Run, scale: str, seed: int) -> ComparedPair:
    import numpy as np

    matched = [key for key in a.items if key in b.items]
    scores_a, scores_b = a.complete(), b.complete()
    common = sorted(key for key in matched if key in scores_a and key in scores_b)
    differences = np.array([scores_a[key] - scores_b[key] for key in common], dtype=np.float64)
    clusters = _columns(common, a)
    sums, counts = cluster_sums(differences, np.ones(len(common)), clusters)
    name = f"compare\0{a.run}\0{b.run}"
    spread = 9.0 if scale == "score" else 1.0
    missing_a, missing_b = (sum(key not in scores for key in matched) for scores in (scores_a, scores_b))
    return ComparedPair(
        a=a.run,
        b=b.run,
        n_common=len(common),
        n_clusters=len(sums),
        difference=Estimator(seed, limits=(-spread, spread)).mean(name, differences, clusters),
        p=sign_flip_p(sums, stream(seed, f"{name}\0flip")),
        p_holm=None,
        win=int(np.count_nonzero(differences > _TIE)),
        tie=int(np.count_nonzero(np.abs(differences) <= _TIE)),
        loss=int(np.count_nonzero(differences < -_TIE)),
        detectable=detectable_difference(standard_error(sums, counts), len(sums)),
        verdict="",
        n_matched=len(matched),
        n_incomplete_a=missing_a,
        n_incomplete_b=missing_b,
        n_only_a=len(a.items) - len(matched),
        n_only_b=len(b.items) - len(matched),
        flags=tuple(_flags(a, b, (missing_a, missing_b), len(matched))),
    )


def _flags(a: _Run, b: _Run, missing: tuple[int, int], n_matched: int) -> Iterable[str]:
    if missing[0] != missing[1]:
        items = counted(n_matched, "item is", "items are")
        yield (
            f"failure rates differ: {missing[0]} of {items} incomplete in {a.run}, "
            f"{missing[1]} in {b.run}; what failed is in neither mean"
        )
    only_a, only_b = len(a.items) - n_matched, len(b.items) - n_matched
    if only_a or only_b:
        yield f"not compared: {counted(only_a, 'item')} only in {a.run}, {only_b} only in {b.run}"


def _with_verdict(pair: ComparedPair, p_holm: float | None) -> ComparedPair:
    return replace(pair, p_holm=p_holm, verdict=_verdict(pair, p_holm))


def _verdict(pair: ComparedPair, p_holm: float | None) -> str:
    if pair.n_common == 0:
        return NO_COMMON_ITEMS
    score = pair.difference.score
    if p_holm is None or p_holm >= SIGNIFICANT or not score:
        return NOT_SEPARABLE
    return "a is higher" if score > 0 else "b is higher"


def _leaderboard(parts: Sequence[_Run], scale: str, seed: int) -> tuple[LeaderboardRow, ...]:
    limits = (1.0, 10.0) if scale == "score" else (0.0, 1.0)
    estimator = Estimator(seed, limits=limits, rate=scale == "share")
    complete = [part.complete() for part in parts]
    shared = set(complete[0]).intersection(*complete[1:])
    rows = [
        LeaderboardRow(
            part.run,
            part.model,
            len(part.items),
            len(scores),
            own=_mean(f"board\0{part.run}\0own", part, scores, scores, estimator),
            common=_mean(f"board\0{part.run}\0common", part, scores, shared, estimator),
            n_common=len(shared),
        )
        for part, scores in zip(parts, complete, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: (-_or_lowest(row.common), -_or_lowest(row.own), row.run)))


def _or_lowest(estimate: Estimate) -> float:
    return -math.inf if estimate.score is None else estimate.score


def _mean(name: str, part: _Run, scores: Mapping[_Key, float], keys: Iterable[_Key], estimator: Estimator) -> Estimate:
    import numpy as np

    chosen = sorted(keys)
    return estimator.mean(name, np.array([scores[key] for key in chosen], dtype=np.float64), _columns(chosen, part))


def _notes(n_pairs: int) -> Iterable[str]:
    yield f"p by flipping the sign of whole clusters; corrected by Holm over {n_pairs} run pairs"
    yield "a difference is named when the corrected p is below 0.05; otherwise the runs are not separable"
