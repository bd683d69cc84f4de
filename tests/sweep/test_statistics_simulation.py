"""What intervals and tests promise, measured on simulated runs, with printed figures. Slow; not in the usual test run.

A simulated item has five criterion scores, whole numbers from 1 to 10. What its prompt adds is shared by
the three renderings of the prompt, so items of one prompt are alike: a cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from iwb_batch.core.compare_numbers import JudgeIdentity, RunScores, ScoredItem, compare
from iwb_batch.core.human_numbers import HumanPoint, human_agreement
from iwb_batch.core.statistics import ratio_interval, sign_flip_p, spearman, standard_error, stream, t_quantile
from tests.agreement import quadratic_kappa

Floats = NDArray[np.float64]
Record = Callable[[str, object], None]
VARIANTS = 3
CRITERIA = 5
PROMPT_SD, ITEM_SD, CRITERION_SD = 1.0, 0.6, 1.2


@contextmanager
def figures(record_property: Record, title: str) -> Iterator[list[str]]:
    """Lines for the summary at the end, which also has those of the workers of a parallel run."""
    lines: list[str] = []
    yield lines
    record_property("simulated", "\n".join([title, *(f"  {line}" for line in lines)]))


def item_scores(rng: np.random.Generator, prompts: Floats, shift: float = 0.0) -> Floats:
    """Mean criterion score of each item, (prompts, variants); ``prompts`` is what each prompt adds."""
    level = 6.3 + shift + prompts[:, None, None]
    item = rng.normal(0, ITEM_SD, (len(prompts), VARIANTS, 1))
    noise = rng.normal(0, CRITERION_SD, (len(prompts), VARIANTS, CRITERIA))
    means: Floats = np.clip(np.round(level + item + noise), 1, 10).mean(axis=2)
    return means


def true_mean(shift: float = 0.0) -> float:
    """Mean over very many prompts; its own error is below 0.002."""
    rng = np.random.Generator(np.random.PCG64(99))
    return float(item_scores(rng, rng.normal(0, PROMPT_SD, 400_000), shift).mean())


def share(hits: int, n: int) -> str:
    """A share in per cent with its own simulation error."""
    rate = hits / n
    return f"{100 * rate:5.2f} % (+- {100 * 1.96 * math.sqrt(rate * (1 - rate) / n):.2f})"


@pytest.mark.parametrize("k", [5, 12, 29, 30, 60, 200])
def test_intervals_cover_the_true_mean_under_clustering(k: int, record_property: Record) -> None:
    truth, rng, replicates = true_mean(), np.random.Generator(np.random.PCG64([1, k])), 3000
    covered = ignoring = 0
    for replicate in range(replicates):
        scores = item_scores(rng, rng.normal(0, PROMPT_SD, k))
        interval = ratio_interval(scores.sum(axis=1), [VARIANTS] * k, stream(replicate, "coverage"))
        assert interval is not None
        covered += interval.low <= truth <= interval.high
        flat = scores.ravel()
        half = t_quantile(0.975, len(flat) - 1) * float(flat.std(ddof=1)) / math.sqrt(len(flat))
        ignoring += abs(float(flat.mean()) - truth) <= half
    with figures(
        record_property, f"95 % interval of a mean, {k} clusters of {VARIANTS} items, {replicates} runs"
    ) as lines:
        lines.append(f"covers the true mean      {share(covered, replicates)}")
        lines.append(f"were clusters ignored     {share(ignoring, replicates)}")
    assert 0.93 <= covered / replicates <= 0.97
    assert ignoring / replicates < 0.85


@pytest.mark.parametrize("k", [8, 16, 17, 40, 100])
def test_the_paired_test_finds_nothing_where_nothing_is(k: int, record_property: Record) -> None:
    rng, replicates = np.random.Generator(np.random.PCG64([2, k])), 5000
    found = ignoring = 0
    for replicate in range(replicates):
        prompts = rng.normal(0, PROMPT_SD, k)
        a, b = (item_scores(rng, prompts + rng.normal(0, 0.5, k)) for _ in range(2))
        p = sign_flip_p((a - b).sum(axis=1), stream(replicate, "null"))
        assert p is not None
        found += p < 0.05
        d = (a - b).ravel()
        ignoring += abs(float(d.mean())) > t_quantile(0.975, len(d) - 1) * float(d.std(ddof=1)) / math.sqrt(len(d))
    with figures(record_property, f"two equal runs, {k} clusters, {replicates} pairs of runs: p below 0.05") as lines:
        lines.append(f"whole clusters flip sign  {share(found, replicates)}")
        lines.append(f"were clusters ignored     {share(ignoring, replicates)}")
    # With 8 clusters few patterns of signs exist and equal sums make fewer still: the test errs on the safe side.
    assert (0.04 if k >= 16 else 0.02) <= found / replicates <= 0.06
    assert ignoring / replicates > 0.07


@pytest.mark.parametrize("k", [12, 40])
def test_pairing_finds_more_than_two_separate_means(k: int, record_property: Record) -> None:
    rng, replicates, shift = np.random.Generator(np.random.PCG64([3, k])), 1500, 0.4
    paired = separate = 0
    for replicate in range(replicates):
        prompts = rng.normal(0, PROMPT_SD, k)
        a, b = item_scores(rng, prompts, shift), item_scores(rng, prompts)
        p = sign_flip_p((a - b).sum(axis=1), stream(replicate, "power"))
        assert p is not None
        paired += p < 0.05
        errors = [standard_error(x.sum(axis=1), np.full(k, float(VARIANTS))) or 0.0 for x in (a, b)]
        separate += abs(float(a.mean() - b.mean())) > t_quantile(0.975, 2 * k - 2) * math.hypot(*errors)
    with figures(
        record_property, f"a true difference of {shift}, {k} clusters, {replicates} pairs of runs: found"
    ) as lines:
        lines.append(f"paired                    {share(paired, replicates)}")
        lines.append(f"unpaired                  {share(separate, replicates)}")
    assert paired > 2 * separate


def test_many_equal_runs_seldom_show_any_difference(record_property: Record) -> None:
    rng, replicates, k, n_runs = np.random.Generator(np.random.PCG64(4)), 400, 24, 4
    judge = JudgeIdentity(frozenset({"judge"}), None, 8000, None, "0", "auto")
    any_corrected = any_plain = 0
    for replicate in range(replicates):
        prompts = rng.normal(0, PROMPT_SD, k)
        runs = []
        for number in range(n_runs):
            scores = item_scores(rng, prompts + rng.normal(0, 0.5, k))
            items = [
                ScoredItem(VARIANTS * c + v, f"{c} {v}", f"cluster {c}", f"variant {v}", float(scores[c, v]))
                for c in range(k)
                for v in range(VARIANTS)
            ]
            runs.append(RunScores(f"run {number}", "indic-writing-bench", "m", judge, rehearsal=False, items=items))
        pairs = compare(runs, rng_seed=replicate).pairs
        any_corrected += any(pair.verdict != "not separable" for pair in pairs)
        any_plain += any(pair.p is not None and pair.p < 0.05 for pair in pairs)
    with figures(
        record_property, f"{n_runs} equal runs, {k} clusters, {replicates} comparisons: any difference named"
    ) as lines:
        lines.append(f"corrected by Holm         {share(any_corrected, replicates)}")
        lines.append(f"not corrected             {share(any_plain, replicates)}")
    assert any_corrected / replicates <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / replicates)
    assert any_plain / replicates > 0.10


@pytest.mark.parametrize("k", [15, 60])
def test_agreement_with_people_has_honest_intervals(k: int, record_property: Record) -> None:
    def drawn(rng: np.random.Generator, prompts: int) -> list[HumanPoint]:
        lift = rng.normal(0, 0.7, prompts)
        human = rng.integers(1, 11, (prompts, CRITERIA))
        judge = np.clip(np.round(human + lift[:, None] + rng.normal(0, 1.5, human.shape)), 1, 10)
        return [HumanPoint(float(human[c, j]), float(judge[c, j]), c) for c in range(prompts) for j in range(CRITERIA)]

    rng, replicates = np.random.Generator(np.random.PCG64([5, k])), 300
    big = drawn(rng, 20_000)
    human, judge = [int(p.human) for p in big], [int(p.judge) for p in big]
    true_kappa, true_rank = quadratic_kappa(human, judge), spearman(human, judge)
    assert true_kappa is not None
    assert true_rank is not None
    kappa = rank = 0
    for replicate in range(replicates):
        found = human_agreement(drawn(rng, k), level="criterion", n_labels=0, rng_seed=replicate)
        for estimate, value, name in ((found.quadratic, true_kappa, "kappa"), (found.spearman, true_rank, "rank")):
            assert estimate is not None
            assert estimate.low is not None
            assert estimate.high is not None
            inside = estimate.low <= value <= estimate.high
            kappa += inside and name == "kappa"
            rank += inside and name == "rank"
    with figures(
        record_property, f"agreement with people, {k} clusters, {replicates} sets of labels: interval holds the truth"
    ) as lines:
        lines.append(f"quadratic kappa           {share(kappa, replicates)}")
        lines.append(f"Spearman                  {share(rank, replicates)}")
    assert 0.90 <= kappa / replicates <= 0.99
    assert 0.90 <= rank / replicates <= 0.99
