"""How often intervals hold the true value, over many simulated runs. Slow; not part of the usual test run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from iwb_batch.core.statistics import detectable_difference, ratio_interval, sign_flip_p, standard_error, stream


@pytest.mark.parametrize("size", [1, 3], ids=["single", "renderings"])
@pytest.mark.parametrize("k", [5, 12, 29, 30, 60, 200])
def test_interval_of_a_mean_covers_about_95_per_cent(k: int, size: int) -> None:
    generator = np.random.Generator(np.random.PCG64([k, size]))
    replicates = 1500
    covered = 0
    for replicate in range(replicates):
        prompts = generator.normal(7, 1, k)
        sums = [float(generator.normal(prompt, 0.7, size).sum()) for prompt in prompts]
        interval = ratio_interval(sums, [size] * k, stream(replicate, "coverage"))
        assert interval is not None
        covered += interval.low <= 7 <= interval.high
    tolerance = 4 * math.sqrt(0.95 * 0.05 / replicates)
    assert 0.95 - tolerance - 0.015 <= covered / replicates <= 0.95 + tolerance


@pytest.mark.parametrize("k", [10, 16, 17, 40])
def test_sign_flip_rejects_equal_runs_about_one_time_in_twenty(k: int) -> None:
    generator = np.random.Generator(np.random.PCG64(k))
    replicates = 1500
    rejected = 0
    for replicate in range(replicates):
        p = sign_flip_p(generator.normal(0, 1, k), stream(replicate, "flip"))
        rejected += p is not None and p < 0.05
    assert abs(rejected / replicates - 0.05) <= 4 * math.sqrt(0.05 * 0.95 / replicates)


@pytest.mark.parametrize("k", [15, 50])
def test_the_detectable_difference_is_found_four_times_in_five(k: int) -> None:
    generator = np.random.Generator(np.random.PCG64(k))
    wanted = detectable_difference(1 / math.sqrt(k), k)
    assert wanted is not None
    replicates = 1500
    found = 0
    for replicate in range(replicates):
        values = generator.normal(wanted, 1, k)
        assert standard_error(values, np.ones(k)) is not None
        p = sign_flip_p(values, stream(replicate, "power"))
        found += p is not None and p < 0.05
    assert found / replicates == pytest.approx(0.8, abs=0.06)
