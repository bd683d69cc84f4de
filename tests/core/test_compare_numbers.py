"""Paired comparison of runs against small tables worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.compare_numbers import (
    NO_COMMON_ITEMS,
    NOT_SEPARABLE,
    JudgeIdentity,
    RunScores,
    ScoredItem,
    compare,
    judge_differences,
)
from iwb_batch.errors import RunError, UsageError

JUDGE = JudgeIdentity(frozenset({"gpt-5.4-2026-03-05"}), None, 8000, None, "94b30ed0", "auto")


def run(
    name: str,
    scores: Mapping[int, float | None] | Sequence[float | None],
    *,
    judge: JudgeIdentity = JUDGE,
    rehearsal: bool | None = False,
    benchmark: str = "indic-writing-bench",
    scale: Literal["score", "share"] = "score",
    cluster: Mapping[int, str] | None = None,
) -> RunScores:
    """A run over items with equal content for equal numbers."""
    pairs = scores.items() if isinstance(scores, Mapping) else enumerate(scores)
    items = [
        ScoredItem(i, f"sha of {i}", (cluster or {}).get(i, f"prompt {i}"), f"variant {i % 3}", score)
        for i, score in pairs
    ]
    return RunScores(name, benchmark, f"model of {name}", judge, rehearsal, items, scale)


def test_only_items_complete_in_both_are_compared() -> None:
    """Items 1 and 2 are common; 8 - 7 and 6 - 6 make a mean difference of 0.5."""
    found = compare([run("m1", {1: 8, 2: 6, 3: 10}), run("m2", {1: 7, 2: 6, 4: 1})])
    (pair,) = found.pairs
    assert (pair.n_common, pair.difference.score) == (2, 0.5)
    assert (pair.win, pair.tie, pair.loss) == (1, 1, 0)
    assert (pair.n_only_a, pair.n_only_b) == (1, 1)
    assert any("not compared: 1 item only in m1, 1 only in m2" in flag for flag in pair.flags)
    own = {row.run: row.own.score for row in found.leaderboard}
    assert own == {"m1": 8.0, "m2": pytest.approx(14 / 3)}


def test_items_of_changed_content_are_not_common() -> None:
    a, b = run("a", [5, 6]), run("b", [5, 6])
    changed = [item._replace(item_sha256="other") if item.item_index == 1 else item for item in b.items]
    (pair,) = compare([a, replace(b, items=changed)]).pairs
    assert (pair.n_common, pair.n_only_a, pair.n_only_b) == (1, 1, 1)


def test_equal_items_are_matched_by_their_place() -> None:
    twins = [ScoredItem(i, "same", f"c{i}", None, score) for i, score in enumerate((3.0, 9.0))]
    a = replace(run("a", []), items=twins)
    b = replace(run("b", []), items=[item._replace(score=(item.score or 0) - 1) for item in reversed(twins)])
    (pair,) = compare([a, b]).pairs
    assert (pair.n_common, pair.win, pair.difference.score) == (2, 2, 1.0)


def test_differing_failure_rates_are_flagged() -> None:
    """Zeros for failures would have turned the order of these runs around."""
    full = run("full", [4, 4, 4, 4, 3, 4, 4, 4, 4])
    baseline = run("baseline", [4, 4, 4, 4, 3, 4, 4, 4, None])
    (pair,) = compare([baseline, full]).pairs
    assert (pair.n_incomplete_a, pair.n_incomplete_b, pair.n_common) == (1, 0, 8)
    assert pair.difference.score == 0.0
    assert pair.verdict == NOT_SEPARABLE
    assert any("failure rates differ: 1 of 9 items are incomplete in baseline, 0 in full" in f for f in pair.flags)
    assert compare([full, run("again", [4] * 9)]).pairs[0].flags == ()


def test_exact_p_of_ten_wins_is_two_in_a_thousand_and_twenty_four() -> None:
    (pair,) = compare([run("a", [8.0] * 10), run("b", [7.0 - 0.1 * i for i in range(10)])]).pairs
    assert pair.p == pytest.approx(2 / 1024)
    assert pair.verdict == "a is higher"
    assert (pair.win, pair.tie, pair.loss) == (10, 0, 0)


def test_whole_clusters_flip_together() -> None:
    """Nine items in three prompts: the smallest p is 2 / 2**3, however many renderings there are."""
    clusters = {i: f"prompt {i // 3}" for i in range(9)}
    (pair,) = compare([run("a", [8] * 9, cluster=clusters), run("b", [6] * 9, cluster=clusters)]).pairs
    assert (pair.n_clusters, pair.p) == (3, 0.25)
    assert pair.verdict == NOT_SEPARABLE


def test_pairs_of_one_prompt_are_one_cluster_without_variants() -> None:
    clusters = {i: f"prompt {i // 3}" for i in range(9)}
    runs = [run(name, [share] * 9, scale="share", cluster=clusters) for name, share in (("a", 1.0), ("b", 0.5))]
    items = [[item._replace(variant=None) for item in scores.items] for scores in runs]
    found = compare([replace(scores, items=part) for scores, part in zip(runs, items, strict=True)])
    assert found.pairs[0].n_clusters == 3
    assert found.leaderboard[0].common.method == "wilson"


def test_holm_runs_over_all_run_pairs() -> None:
    runs = [run("a", [9.0] * 12), run("b", [7.0] * 12), run("c", [7.0] * 6 + [7.5] * 6)]
    pairs = {(pair.a, pair.b): pair for pair in compare(runs).pairs}
    assert list(pairs) == [("a", "b"), ("a", "c"), ("b", "c")]
    smallest = 2 / 2**12
    assert pairs["a", "b"].p == pytest.approx(smallest)
    assert pairs["a", "b"].p_holm == pytest.approx(3 * smallest)
    assert pairs["b", "c"].p == pairs["b", "c"].p_holm == pytest.approx(2 / 2**6)
    assert pairs["b", "c"].verdict == "b is higher"
    assert pairs["b", "c"].difference.score == -0.25


def test_detectable_difference_by_hand() -> None:
    """Differences 0, 1, 2: standard error 1 / sqrt(3), two degrees of freedom."""
    (pair,) = compare([run("a", [5, 6, 7]), run("b", [5, 5, 5])]).pairs
    assert pair.detectable == pytest.approx((4.302653 + 1.060660) / 3**0.5, abs=1e-5)
    assert pair.difference.mark == "few clusters"


def test_no_common_items_leave_every_number_unknown() -> None:
    (pair,) = compare([run("a", {0: 5}), run("b", {1: 5})]).pairs
    assert (pair.verdict, pair.p, pair.p_holm, pair.detectable) == (NO_COMMON_ITEMS, None, None, None)
    assert pair.difference.score is None


def test_equal_runs_are_not_separable() -> None:
    (pair,) = compare([run("a", [5, 6, 7] * 20), run("b", [5, 6, 7] * 20)]).pairs
    assert (pair.p, pair.verdict, pair.tie) == (1.0, NOT_SEPARABLE, 60)


def test_leaderboard_is_sorted_by_the_mean_over_items_complete_everywhere() -> None:
    found = compare([run("low", [4, 5, None]), run("high", [6, 7, 1]), run("empty", [None, 9, 9])])
    assert [(row.run, row.n_common) for row in found.leaderboard] == [("empty", 1), ("high", 1), ("low", 1)]
    nothing = compare([run("low", [4, None]), run("high", [None, 6])])
    assert [row.run for row in nothing.leaderboard] == ["high", "low"]
    assert nothing.leaderboard[0].common.score is None


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        pytest.param(replace(JUDGE, models=frozenset({"gpt-5.4-2026-09-01"})), "models", id="model-returned"),
        pytest.param(replace(JUDGE, reasoning_effort="high"), "reasoning effort", id="reasoning-effort"),
        pytest.param(replace(JUDGE, token_limit=4000), "token limit", id="token-limit"),
        pytest.param(replace(JUDGE, response_format="json_schema"), "response format", id="response-format"),
        pytest.param(replace(JUDGE, prompt_sha256="00"), "prompt sha256", id="prompt"),
        pytest.param(replace(JUDGE, strip_rule="off"), "strip rule", id="strip-rule"),
    ],
)
def test_another_judge_is_refused_unless_forced(judge: JudgeIdentity, told: str) -> None:
    runs = [run("a", [5, 6]), run("b", [5, 6], judge=judge)]
    with pytest.raises(RunError, match=told) as refusal:
        compare(runs)
    assert refusal.value.hint is not None
    assert "--force" in refusal.value.hint
    forced = compare(runs, force=True)
    assert forced.forced == judge_differences(runs)
    assert told in forced.forced[0]


def test_rehearsals_and_real_runs_never_mix_not_even_by_force() -> None:
    with pytest.raises(RunError, match="rehearsals here: b"):
        compare([run("a", [5]), run("b", [5], rehearsal=True)], force=True)
    assert compare([run("a", [5], rehearsal=True), run("b", [5], rehearsal=True)]).rehearsal


def test_a_run_without_judgements_is_neither_rehearsal_nor_real() -> None:
    nobody = replace(JUDGE, models=frozenset())
    unjudged = run("u", [None], judge=nobody, rehearsal=None)
    assert compare([run("a", [5], rehearsal=True), unjudged]).rehearsal
    assert not compare([unjudged, run("a", [5])]).rehearsal
    assert not compare([unjudged, run("v", [None], judge=nobody, rehearsal=None)]).rehearsal
    with pytest.raises(RunError, match="token limit differs"):
        compare([run("a", [5]), replace(unjudged, judge=replace(nobody, token_limit=9))])


def test_other_benchmarks_are_refused() -> None:
    with pytest.raises(RunError, match="different benchmarks"):
        compare([run("a", [5]), run("b", [5], benchmark="writing-bench")], force=True)


@pytest.mark.parametrize("names", [["a"], ["a", "a"]])
def test_two_different_runs_are_needed(names: list[str]) -> None:
    with pytest.raises(UsageError):
        compare([run(name, [5]) for name in names])


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    scores=st.lists(st.tuples(st.integers(5, 50), st.integers(5, 50)), min_size=2, max_size=45),
    mixer=st.randoms(use_true_random=False),
)
def test_order_of_items_changes_nothing_and_swapping_runs_changes_the_sign(
    scores: list[tuple[int, int]], mixer: Random
) -> None:
    clusters = {i: f"prompt {i // 3}" for i in range(len(scores))}
    a = run("a", [x / 5 for x, _ in scores], cluster=clusters)
    b = run("b", [y / 5 for _, y in scores], cluster=clusters)
    mixed = list(a.items)
    mixer.shuffle(mixed)
    found = compare([a, b])
    assert compare([replace(a, items=mixed), b]) == found
    swapped = compare([b, a]).pairs[0]
    assert swapped.difference.score == pytest.approx(-(found.pairs[0].difference.score or 0.0), abs=1e-12)
    assert (swapped.win, swapped.loss) == (found.pairs[0].loss, found.pairs[0].win)
