"""Intervals, tests and agreement measures against closed forms, tables and brute force."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.statistics import (
    bootstrap_ratio,
    detectable_difference,
    holm,
    ratio_interval,
    sign_flip_p,
    spearman,
    standard_error,
    stream,
    t_quantile,
    wilson,
)
from tests.agreement import cohen_kappa, quadratic_kappa


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [
        pytest.param(0.975, 1, 12.706205, id="975-df1"),
        pytest.param(0.975, 2, 4.302653, id="975-df2"),
        pytest.param(0.975, 9, 2.262157, id="975-df9"),
        pytest.param(0.975, 28, 2.048407, id="975-df28"),
        pytest.param(0.975, 120, 1.979930, id="975-df120"),
        pytest.param(0.80, 9, 0.883404, id="80-df9"),
        pytest.param(0.95, 5, 2.015048, id="95-df5"),
        pytest.param(0.995, 3, 5.840909, id="995-df3"),
        pytest.param(0.975, 100_000, 1.959988, id="975-near-normal"),
        pytest.param(0.025, 9, -2.262157, id="lower-tail"),
        pytest.param(0.5, 7, 0.0, id="median"),
    ],
)
def test_t_quantile_equals_printed_tables(p: float, df: int, expected: float) -> None:
    assert t_quantile(p, df) == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize(("p", "df"), [(0.0, 3), (1.0, 3), (0.9, 0)])
def test_t_quantile_refuses_what_has_no_answer(p: float, df: int) -> None:
    with pytest.raises(ValueError, match="t_quantile"):
        t_quantile(p, df)


def test_few_clusters_of_one_item_give_the_textbook_t_interval() -> None:
    interval = ratio_interval([7.4, 6.8, 8.0], [1, 1, 1], stream(0, "x"))
    assert interval is not None
    half = 4.302653 * 0.6 / math.sqrt(3)
    assert (interval.method, interval.n_clusters) == ("t", 3)
    assert interval.low == pytest.approx(7.4 - half, abs=1e-5)
    assert interval.high == pytest.approx(7.4 + half, abs=1e-5)


def test_unequal_clusters_are_linearised() -> None:
    """R = 37/6; residuals 5/3, 11/6, -7/2; variance 3/2 * 18.3889 / 36."""
    error = standard_error([14, 8, 15], [2, 1, 3])
    assert error == pytest.approx(math.sqrt(1.5 * (25 / 9 + 121 / 36 + 49 / 4)) / 6, rel=1e-12)
    interval = ratio_interval([14, 8, 15], [2, 1, 3], stream(0, "x"))
    assert interval is not None
    assert interval.high - 37 / 6 == pytest.approx(4.302653 * (error or 0.0), rel=1e-6)


@pytest.mark.parametrize("k", [0, 1])
def test_fewer_than_two_clusters_have_no_interval(k: int) -> None:
    assert ratio_interval([7.0] * k, [1] * k, stream(0, "x")) is None
    assert standard_error([7.0] * k, [1] * k) is None
    assert detectable_difference(standard_error([7.0] * k, [1] * k), k) is None


def test_thirty_clusters_are_resampled_and_twenty_nine_are_not() -> None:
    values = [float(4 + i % 5) for i in range(30)]
    many = ratio_interval(values, [1] * 30, stream(0, "x"))
    few = ratio_interval(values[:29], [1] * 29, stream(0, "x"))
    assert many is not None
    assert few is not None
    assert (many.method, few.method) == ("bootstrap", "t")


def test_resampling_comes_close_to_the_normal_interval() -> None:
    values = np.random.Generator(np.random.PCG64(5)).normal(7, 1, 2000)
    error = float(np.std(values, ddof=1)) / math.sqrt(2000)
    low, high = bootstrap_ratio(values, np.ones(2000), stream(1, "x"))
    assert low == pytest.approx(values.mean() - 1.96 * error, abs=0.1 * error)
    assert high == pytest.approx(values.mean() + 1.96 * error, abs=0.1 * error)


def test_drawing_equal_clusters_together_gives_the_same_distribution() -> None:
    generator = np.random.Generator(np.random.PCG64(6))
    values = generator.integers(5, 51, 3000) / 5
    jittered = values + generator.normal(0, 1e-6, 3000)
    together = bootstrap_ratio(values, np.ones(3000), stream(2, "x"))
    singly = bootstrap_ratio(jittered, np.ones(3000), stream(2, "y"))
    assert together == pytest.approx(singly, abs=0.005)


def test_whole_clusters_move_together() -> None:
    """Three equal renderings in each of 40 prompts are 40 observations, not 120."""
    values = [float(5 + i % 4) for i in range(40)]
    clustered = ratio_interval([3 * v for v in values], [3] * 40, stream(0, "x"))
    single = ratio_interval(values, [1] * 40, stream(0, "x"))
    assert clustered is not None
    assert single is not None
    assert (clustered.low, clustered.high) == pytest.approx((single.low, single.high), abs=1e-9)


def test_equal_values_have_an_interval_of_no_width() -> None:
    interval = ratio_interval([7.0] * 50, [1] * 50, stream(0, "x"))
    assert interval is not None
    assert (interval.low, interval.high) == (7.0, 7.0)


def test_interval_stays_inside_the_scale() -> None:
    interval = ratio_interval([9.0, 10.0], [1, 1], stream(0, "x"), limits=(1, 10))
    assert interval is not None
    assert interval.high == 10
    assert interval.low == pytest.approx(9.5 - 12.706205 * 0.5, abs=1e-5)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(
    clusters=st.lists(st.tuples(st.integers(5, 150), st.integers(1, 3)), min_size=2, max_size=60),
    order=st.randoms(use_true_random=False),
)
def test_order_of_clusters_changes_nothing(clusters: list[tuple[int, int]], order: Random) -> None:
    mixed = list(clusters)
    order.shuffle(mixed)
    first = ratio_interval([s / 5 for s, _ in clusters], [n for _, n in clusters], stream(3, "x"))
    second = ratio_interval([s / 5 for s, _ in mixed], [n for _, n in mixed], stream(3, "x"))
    assert first == second


def test_streams_with_other_names_or_seeds_differ() -> None:
    drawn = {stream(seed, name).integers(0, 2**60) for seed in (0, 1) for name in ("a", "b", "\ud800")}
    assert len(drawn) == 6
    assert stream(0, "a").integers(0, 2**60) == stream(0, "a").integers(0, 2**60)


@pytest.mark.parametrize(
    ("rate", "k", "low", "high"),
    [
        pytest.param(1.0, 30, 0.886487, 1.0, id="all"),
        pytest.param(0.0, 10, 0.0, 0.277535, id="none"),
        pytest.param(0.5, 100, 0.403832, 0.596168, id="half"),
    ],
)
def test_wilson_equals_known_values(rate: float, k: int, low: float, high: float) -> None:
    assert wilson(rate, k) == pytest.approx((low, high), abs=1e-5)


@pytest.mark.parametrize("k", [2, 5, 60])
def test_a_rate_of_exactly_one_gets_an_interval_with_width(k: int) -> None:
    interval = ratio_interval([2.0] * k, [2] * k, stream(0, "x"), limits=(0, 1), rate=True)
    assert interval is not None
    assert interval.method == "wilson"
    assert interval.low < 1.0 == interval.high


@pytest.mark.parametrize("k", [2, 5, 60])
@pytest.mark.parametrize("rate", [0.5, 1 / 3, 0.7])
def test_a_rate_without_variation_gets_an_interval_with_width(k: int, rate: float) -> None:
    counts = [1 + place % 3 for place in range(k)]
    interval = ratio_interval([rate * n for n in counts], counts, stream(0, "x"), limits=(0, 1), rate=True)
    assert interval is not None
    assert (interval.method, interval.n_clusters) == ("wilson", k)
    assert (interval.low, interval.high) == pytest.approx(wilson(rate, k))


def test_means_that_are_no_rates_keep_their_method_without_variation() -> None:
    interval = ratio_interval([7.0] * 5, [1] * 5, stream(0, "x"), limits=(1, 10))
    assert interval is not None
    assert (interval.low, interval.high, interval.method) == (7.0, 7.0, "t")


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.Generator(np.random.PCG64(11))
    covered = 0
    for replicate in range(400):
        prompts = generator.normal(7, 1, 12)
        sums = [float(generator.normal(prompt, 0.5, 3).sum()) for prompt in prompts]
        interval = ratio_interval(sums, [3] * 12, stream(replicate, "x"))
        assert interval is not None
        covered += interval.low <= 7 <= interval.high
    assert 0.92 <= covered / 400 <= 0.98


@pytest.mark.parametrize(
    "sums",
    [
        pytest.param([1.0, 2.0, 3.0], id="all-positive"),
        pytest.param([1.0, 2.0, 3.0, -1.0], id="mixed"),
        pytest.param([0.2, -0.4, 0.6, 0.6, 1.2, -0.2, 0.8], id="ties"),
        pytest.param([5.0], id="one-cluster"),
        pytest.param([0.0, 0.0, 0.0], id="no-difference"),
    ],
)
def test_sign_flip_equals_brute_force(sums: list[float]) -> None:
    patterns = list(itertools.product((1, -1), repeat=len(sums)))
    totals = [abs(sum(sign * value for sign, value in zip(signs, sums, strict=True))) for signs in patterns]
    expected = sum(total >= abs(sum(sums)) - 1e-9 for total in totals) / len(patterns)
    assert sign_flip_p(sums, stream(0, "x")) == pytest.approx(expected)


def test_sign_flip_of_nothing_is_unknown() -> None:
    assert sign_flip_p([], stream(0, "x")) is None


def test_random_flips_count_the_observed_pattern() -> None:
    assert sign_flip_p([1.0] * 40, stream(0, "x")) == pytest.approx(1 / 10_001)


def test_random_flips_agree_with_all_flips() -> None:
    """17 equal clusters, 12 up and 5 down: the exact p is a sum of binomials."""
    sums = [1.0] * 12 + [-1.0] * 5
    exact = 2 * sum(math.comb(17, k) for k in range(12, 18)) / 2**17
    assert sign_flip_p(sums, stream(0, "x")) == pytest.approx(exact, abs=0.012)


def test_holm_steps_down_and_skips_missing_values() -> None:
    assert holm([0.01, 0.04, 0.03, None]) == pytest.approx([0.03, 0.06, 0.06, None])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_detectable_difference_is_the_sum_of_two_quantiles() -> None:
    assert detectable_difference(0.1, 10) == pytest.approx((2.262157 + 0.883404) * 0.1, abs=1e-6)


def test_cohen_kappa_equals_the_textbook() -> None:
    a = ["yes"] * 25 + ["no"] * 25
    b = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(a, b) == pytest.approx(0.4)
    assert cohen_kappa([1, 1], [1, 1]) is None
    assert cohen_kappa([], []) is None


def test_quadratic_kappa_by_hand() -> None:
    """Squared distance 1 seen over 3; over all nine combinations it is 9 over 9."""
    assert quadratic_kappa([1, 2, 3], [1, 2, 2]) == pytest.approx(1 - (1 / 3) / (9 / 9))
    assert quadratic_kappa([1, 5, 9], [1, 5, 9]) == 1.0
    assert quadratic_kappa([4, 4], [4, 4]) is None
    assert quadratic_kappa([], []) is None


def test_raters_must_have_judged_the_same_number() -> None:
    for measure in (cohen_kappa, quadratic_kappa, spearman):
        with pytest.raises(ValueError, match="got 2 and 1"):
            measure([1, 2], [1])


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        pytest.param([1, 2, 3, 4], [10, 20, 30, 40], 1.0, id="rising"),
        pytest.param([1, 2, 3, 4], [4, 3, 2, 1], -1.0, id="falling"),
        pytest.param([1, 2, 2, 3], [1, 3, 2, 4], 4.5 / math.sqrt(4.5 * 5), id="tie"),
        pytest.param([1, 1, 1], [1, 2, 3], None, id="constant"),
        pytest.param([1, 2], [1, 2], None, id="two-points"),
    ],
)
def test_spearman(x: list[float], y: list[float], expected: float | None) -> None:
    assert spearman(x, y) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("distinct", [True, False], ids=["distinct", "repeated"])
def test_resampling_memory_is_bounded(*, distinct: bool) -> None:
    generator = np.random.Generator(np.random.PCG64(7))
    values = generator.random(5000) if distinct else generator.integers(5, 51, 5000) / 5
    tracemalloc.start()
    try:
        bootstrap_ratio(values, np.ones(5000), stream(0, "x"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * 1024 * 1024
