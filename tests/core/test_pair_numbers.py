"""Pairwise and reward numbers against tables worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.pair_numbers import (
    PairData,
    PairReport,
    PairRow,
    Preferred,
    RewardReport,
    RewardRow,
    pair_report,
    reward_report,
    seed_row,
)
from iwb_batch.core.rounding import half_up, percent, plain_mean
from iwb_batch.core.run_facts import Estimate, GroupRow, RunFacts
from iwb_batch.model import PairOrder

Shown = Callable[[PairOrder], Preferred]
C: Preferred = "chosen"
R: Preferred = "rejected"


def facts(repeats: int = 1) -> RunFacts:
    return RunFacts("p", "writing-preference-bench", "", "gpt-5.4", rehearsal=False, prompt_sha256="x", repeats=repeats)


def pair(
    index: int,
    chosen_first: Sequence[Preferred | None],
    rejected_first: Sequence[Preferred | None],
    *,
    language: str | None = "en",
    domain: str | None = "Fiction",
    longer: Literal["chosen", "rejected", "equal"] = "chosen",
    prompt: str | None = None,
    equal_texts: bool = False,
) -> PairRow:
    verdicts: dict[PairOrder, Sequence[Preferred | None]] = {}
    if chosen_first:
        verdicts["chosen-first"] = chosen_first
    if rejected_first:
        verdicts["rejected-first"] = rejected_first
    name = f"{language}:{index}"
    return PairRow(index, name, language, domain, "诗歌", prompt or f"prompt {index}", longer, equal_texts, verdicts)


def report(pairs: Sequence[PairRow], *, repeats: int = 1) -> PairReport:
    return pair_report(PairData(facts(repeats), pairs))


FOUR = [
    pair(0, [C], [C]),
    pair(1, [C], [R], longer="rejected"),
    pair(2, [R], [R], language="zh", domain="Poetry", longer="equal"),
    pair(3, [C], [None], language="zh", domain=None),
]


def test_all_numbers_of_four_pairs_by_hand() -> None:
    found = report(FOUR)
    assert (found.n_pairs, found.n_judged, found.n_verdicts, found.n_valid) == (4, 3, 8, 7)
    assert found.accuracy.score == (1 + 0.5 + 0 + 0.5) / 4
    assert found.accuracy_without_invalid.score == 4 / 7
    assert found.by_order["chosen-first"].accuracy.score == 3 / 4
    assert found.by_order["rejected-first"].accuracy.score == 1 / 4
    assert (found.by_order["rejected-first"].n, found.by_order["rejected-first"].n_valid) == (4, 3)
    assert found.both_right.score == 1 / 4
    assert found.consistency.score == pytest.approx(2 / 3)
    assert found.n_consistency == 3
    assert found.first_position_rate.score == pytest.approx(5 / 7)
    assert (found.longer_baseline, found.n_longer_equal) == (0.5, 1)


def test_a_pair_with_one_invalid_order_is_incomplete_and_no_win() -> None:
    found = report([pair(0, [C], [None])])
    assert found.incomplete == ("en:0",)
    assert found.n_judged == 0
    assert found.both_right.score == 0.0
    assert found.consistency.score is None


def test_a_judge_that_knows_the_truth_is_right_in_both_orders() -> None:
    found = report([pair(i, [C], [C]) for i in range(5)])
    scores = (found.accuracy.score, found.both_right.score, found.consistency.score, found.first_position_rate.score)
    assert scores == (1.0, 1.0, 1.0, 0.5)


def test_a_judge_that_prefers_the_first_text_is_at_one_half_and_never_consistent() -> None:
    found = report([pair(i, [C], [R], equal_texts=True) for i in range(50)])
    scores = (found.accuracy.score, found.both_right.score, found.consistency.score, found.first_position_rate.score)
    assert scores == (0.5, 0.0, 0.0, 1.0)
    assert found.n_equal_texts == 50
    assert any("equal texts" in note for note in found.notes)


def test_repeats_are_averaged_inside_a_pair() -> None:
    found = report([pair(0, [C, C, R], [C, R, R]), pair(1, [C, C, C], [C, C, None])], repeats=3)
    assert found.accuracy.score == pytest.approx((3 / 6 + 5 / 6) / 2)
    assert found.both_right.score == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert found.consistency.score == pytest.approx(2 / 3)
    assert found.accuracy.n_clusters == 2


def test_one_order_leaves_what_needs_two_unknown() -> None:
    found = report([pair(0, [C], []), pair(1, [], [R])])
    assert found.both_right == found.consistency == Estimate()
    assert {name: row.n for name, row in found.by_order.items()} == {"chosen-first": 1, "rejected-first": 1}
    assert any("both orders" in note for note in found.notes)
    assert "rejected-first" not in report([pair(0, [C], [])]).by_order


def test_pairs_of_one_prompt_are_one_cluster() -> None:
    found = report([pair(i, [C], [R], prompt="एक कविता लिखो") for i in range(6)] + [pair(6, [C], [C])])
    assert found.accuracy.n_clusters == 2


def test_breakdowns_keep_pairs_without_a_label() -> None:
    found = report(FOUR)
    assert [(row.label, row.n_items, row.n_complete, row.estimate.score) for row in found.by["domain"]] == [
        ("Fiction", 2, 2, 0.75),
        ("Poetry", 1, 1, 0.0),
        (None, 1, 0, 0.5),
    ]
    assert sum(row.n_items for row in found.by["language"]) == 4
    assert report([pair(0, [C], [C], domain=None)]).by["domain"] == ()


def test_a_judge_that_always_takes_the_first_text_has_an_interval_with_width_everywhere() -> None:
    found = report([pair(i, [C], [R]) for i in range(4)])
    (row,) = found.by["domain"]
    for estimate in (found.accuracy, row.estimate):
        assert (estimate.score, estimate.method) == (0.5, "wilson")
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < 0.5 < estimate.high


def test_a_perfect_score_has_a_wilson_interval() -> None:
    found = report([pair(i, [C], [C]) for i in range(40)])
    assert (found.accuracy.high, found.accuracy.method) == (1.0, "wilson")
    assert found.accuracy.low == pytest.approx(40 / (40 + 1.959964**2), abs=1e-6)


def test_no_pairs_do_not_crash() -> None:
    found = report([])
    assert found.accuracy == Estimate()
    assert found.longer_baseline is None
    assert found.seed_row.avg is None


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    drawn=st.lists(st.tuples(*[st.sampled_from(["chosen", "rejected", None])] * 2, st.integers(0, 5)), max_size=50),
    mixer=st.randoms(use_true_random=False),
)
def test_order_of_pairs_changes_nothing(
    drawn: list[tuple[Preferred | None, Preferred | None, int]], mixer: Random
) -> None:
    pairs = [pair(i, [a], [b], prompt=f"p{p}") for i, (a, b, p) in enumerate(drawn)]
    mixed = list(pairs)
    mixer.shuffle(mixed)
    assert report(pairs) == report(mixed)


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        pytest.param(77.55, 1, "77.6", id="half-goes-up"),
        pytest.param(45.05, 1, "45.1", id="half-goes-up-again"),
        pytest.param(50.15, 1, "50.2", id="binary-below-half"),
        pytest.param(7.125, 2, "7.13", id="exact-half"),
        pytest.param(-0.001, 2, "0.00", id="no-negative-zero"),
        pytest.param(-0.285, 2, "-0.29", id="negative-away-from-zero"),
        pytest.param(7, 2, "7.00", id="integer"),
        pytest.param(1e-12, 4, "0.0000", id="tiny"),
    ],
)
def test_rounding_is_half_up_on_decimals(value: float, digits: int, expected: str) -> None:
    assert str(half_up(value, digits)) == expected


def test_percent_of_a_share() -> None:
    assert str(percent(0.6255)) == "62.6"
    assert str(percent(1251 / 2000)) == "62.6"
    assert str(percent(1.0)) == "100.0"


@pytest.mark.parametrize(
    ("en", "zh", "avg"),
    [("81.8", "73.3", "77.6"), ("62.5", "62.6", "62.6"), ("46.8", "53.5", "50.2"), ("48.1", "42.0", "45.1")],
)
def test_average_of_two_printed_numbers(en: str, zh: str, avg: str) -> None:
    assert plain_mean(Decimal(en), Decimal(zh)) == Decimal(avg)


def test_seed_layout_averages_languages_and_not_pairs() -> None:
    rows = [
        GroupRow("en", 4, 4, Estimate(0.818)),
        GroupRow("Chinese", 1, 1, Estimate(0.733)),
        GroupRow("hi", 9, 9, Estimate(0.1)),
    ]
    row = seed_row(rows)
    assert (row.en, row.zh, row.avg) == (Decimal("81.8"), Decimal("73.3"), Decimal("77.6"))
    assert seed_row(rows[:1]).avg is None


def rewards(*values: tuple[float | None, float | None], policy: Literal["count", "drop"] = "count") -> RewardReport:
    rows = [
        RewardRow(i, "zh" if i % 2 else "en", "Fiction", None, f"p{i}", chosen, rejected)
        for i, (chosen, rejected) in enumerate(values)
    ]
    return reward_report(rows, invalid_policy=policy)


def test_reward_ties_and_invalid_pairs_are_not_correct_and_are_counted() -> None:
    found = rewards((0.5, 0.5), (0.9, 0.1), (0.2, 0.4), (math.nan, 0.4))
    assert (found.correct, found.ties, found.invalid, found.n_pairs, found.n_counted) == (1, 1, 1, 4, 4)
    assert found.accuracy.score == 0.25


def test_invalid_reward_pairs_can_leave_n_but_ties_never_do() -> None:
    found = rewards((0.5, 0.5), (0.9, 0.1), (0.2, 0.4), (None, 0.4), (math.inf, 0.0), policy="drop")
    assert (found.n_pairs, found.n_counted, found.invalid, found.ties) == (5, 3, 2, 1)
    assert found.accuracy.score == pytest.approx(1 / 3)


def test_reward_accuracy_of_each_language_is_plain() -> None:
    found = rewards((1.0, 0.0), (0.0, 1.0), (1.0, 0.5), (2.0, 1.0))
    assert {row.label: row.estimate.score for row in found.by["language"]} == {"en": 1.0, "zh": 0.5}
    assert found.seed_row.avg == Decimal("75.0")
    assert found.by["tag"] == ()


def test_large_rewards_are_compared_exactly() -> None:
    found = rewards((2**53 + 1, 2**53), (1e308, -1e308))
    assert found.correct == 2


def test_no_rewards_do_not_crash() -> None:
    assert rewards().accuracy == Estimate()
