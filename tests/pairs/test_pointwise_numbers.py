"""The numbers of texts scored one at a time against tables worked out by hand, and the names they go by."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch import benchmarks
from iwb_batch.core.languages import language_code, language_in
from iwb_batch.core.pair_numbers import RewardRow
from iwb_batch.core.pointwise_numbers import PointwiseData, PointwiseReport, pointwise_report
from iwb_batch.core.render import custom_id
from iwb_batch.core.run_facts import RunFacts
from iwb_batch.errors import UsageError
from iwb_batch.model import PairSide, Request

FACTS = RunFacts("p", "writing-preference-bench", "m", "m", rehearsal=False, prompt_sha256="x")


def row(index: int, chosen: float | None, rejected: float | None, language: str | None = "en") -> RewardRow:
    return RewardRow(
        index, language, "Fiction", None, f"prompt {index // 2}", chosen, rejected, f"{language}:{index}", "chosen"
    )


def report(rows: list[RewardRow]) -> PointwiseReport:
    histogram: dict[PairSide, dict[int, int]] = {"chosen": {}, "rejected": {}}
    for entry in rows:
        sides: tuple[tuple[PairSide, float | None], ...] = (("chosen", entry.chosen), ("rejected", entry.rejected))
        for side, score in sides:
            if score is not None:
                histogram[side][int(score)] = histogram[side].get(int(score), 0) + 1
    return pointwise_report(PointwiseData(FACTS, rows, histogram))


def test_five_pairs_by_hand() -> None:
    found = report([row(0, 8, 5), row(1, 5, 5), row(2, 3, 7), row(3, None, 4), row(4, 9, 8, "zh")])
    rewards = found.rewards
    assert (rewards.n_pairs, found.n_judged, rewards.correct, rewards.ties, rewards.invalid) == (5, 4, 2, 1, 1)
    assert rewards.accuracy.score == 2 / 5
    assert rewards.without_invalid.score == 2 / 4
    assert rewards.incomplete == ("en:3",)
    assert rewards.macro_mean == 2 / 5
    assert found.means == {"chosen": 25 / 4, "rejected": 29 / 5}
    assert found.histogram[4] == (5, 1, 2)
    assert (rewards.longer_baseline, rewards.accuracy.n_clusters) == (1.0, 3)


def test_no_pairs_do_not_crash() -> None:
    found = report([])
    assert found.rewards.accuracy.score is None
    assert found.means == {"chosen": None, "rejected": None}
    assert found.notes == ()


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    st.lists(st.tuples(st.none() | st.integers(1, 10), st.none() | st.integers(1, 10)), min_size=1, max_size=12),
    st.integers(0, 100),
)
def test_order_of_pairs_changes_nothing_and_counts_add_up(
    scores: list[tuple[int | None, int | None]], seed: int
) -> None:
    rows = [row(index, chosen, rejected) for index, (chosen, rejected) in enumerate(scores)]
    shuffled = rows.copy()
    Random(seed).shuffle(shuffled)
    found = report(rows)
    assert report(shuffled) == found
    wrong = sum(c is not None and r is not None and c < r for c, r in scores)
    assert found.rewards.correct + found.rewards.ties + found.rewards.invalid + wrong == len(rows)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 10), st.integers(1, 10)), min_size=1, max_size=12))
def test_exchanged_labels_turn_right_into_wrong_and_leave_ties(scores: list[tuple[int, int]]) -> None:
    there = report([row(n, a, b) for n, (a, b) in enumerate(scores)]).rewards
    back = report([row(n, b, a) for n, (a, b) in enumerate(scores)]).rewards
    assert there.correct + back.correct + there.ties == len(scores)
    assert there.ties == back.ties


@pytest.mark.parametrize(
    ("side", "name"), [("chosen", "0123456789-i7-sc-r1-a2"), ("rejected", "0123456789-i7-sr-r1-a2")]
)
def test_a_side_is_in_the_custom_id(side: PairSide, name: str) -> None:
    assert custom_id("0123456789", Request(7, 1, side=side), 2) == name


@pytest.mark.parametrize(
    ("name", "code"),
    [("English", "en"), ("zh", "zh"), ("CHINESE", "zh"), ("fr", "fr"), ("Hindi", "Hindi")],
)
def test_language_codes(name: str, code: str) -> None:
    assert language_code(name) == code


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("WP_bench_english.json", "en"),
        ("pairs.zh.jsonl", "zh"),
        ("en-zh.json", None),
        ("length.json", None),
        ("", None),
        (None, None),
    ],
    ids=["word", "code", "both", "inside a word", "empty", "none"],
)
def test_language_a_file_name_speaks_of(text: str | None, language: str | None) -> None:
    assert language_in(text) == language


def test_protocols_of_a_benchmark() -> None:
    pairs = benchmarks.get("writing-preference-bench")
    alone = benchmarks.get("writing-preference-bench", "pointwise")
    assert (pairs.protocol, alone.protocol) == ("pairwise", "pointwise")
    assert alone.name == pairs.name
    assert alone.template != pairs.template
    with pytest.raises(UsageError, match="has no protocol 'pointwise'; it has: rubric"):
        benchmarks.get("indic-writing-bench", "pointwise")
