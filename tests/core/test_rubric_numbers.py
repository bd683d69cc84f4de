"""Rubric numbers against tables worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.compat import Requirements
from iwb_batch.core.rubric_numbers import ItemRow, RubricData, RubricReport, clusters, rubric_report
from iwb_batch.core.run_facts import Estimate, GroupRow, RunFacts, UsageRow


def facts(benchmark: str = "indic-writing-bench", repeats: int = 1) -> RunFacts:
    return RunFacts("run-a", benchmark, "lekhak", "gpt-5.4", rehearsal=False, prompt_sha256="ab" * 32, repeats=repeats)


def item(
    index: int,
    scores: Sequence[int | None] = (),
    *,
    domain: str | None = "शिक्षा",
    subdomain: str | None = "निबंध",
    variant: str | None = "native",
    cluster: str | None = None,
    left_out: str | None = None,
    length: int | None = None,
) -> ItemRow:
    """An item judged once for each entry of ``scores``; ``None`` is a judgement that never came."""
    valid = [score for score in scores if score is not None]
    complete = bool(scores) and len(valid) == len(scores)
    return ItemRow(
        index,
        domain,
        subdomain,
        "Hindi",
        variant,
        cluster or f"prompt {index}",
        left_out,
        len(scores),
        len(valid),
        sum(valid),
        sum(valid) / len(valid) if complete else None,
        length,
    )


def report(
    items: Sequence[ItemRow], *, histogram: Mapping[int, int] | None = None, seed: int = 0, head: RunFacts | None = None
) -> RubricReport:
    return rubric_report(RubricData(head or facts(), items, histogram or {}), rng_seed=seed)


def row(rows: Sequence[GroupRow], label: str | None) -> GroupRow:
    return next(found for found in rows if found.label == label)


def test_item_score_is_the_mean_of_its_criteria() -> None:
    found = report([item(0, (8, 7, 7, 8, 7))], histogram={7: 3, 8: 2})
    assert found.overall == Estimate(7.4, n_clusters=1)
    assert found.pooled_mean == 7.4
    assert (found.n_items, found.n_complete) == (1, 1)


def test_a_failed_judgement_is_missing_and_not_zero_or_one() -> None:
    """Eight of nine items scored with mean 3.875; a zero in the gap would make it 3.444."""
    scored = [item(i, (4,)) for i in range(4)] + [item(4, (3,))] + [item(i, (4,)) for i in range(5, 8)]
    found = report([*scored, item(8, (None,))])
    assert found.overall.score == 3.875
    assert (found.n_complete, found.n_items) == (8, 9)
    assert (found.worst, found.best) == pytest.approx(((31 + 1) / 9, (31 + 10) / 9))


def test_one_bad_verdict_in_two_hundred_withholds_nothing() -> None:
    found = report([*(item(i, (6, 8)) for i in range(199)), item(199, (6, None))])
    assert found.overall.score == 7.0
    assert (found.n_complete, found.n_items) == (199, 200)


def test_bounds_put_one_and_ten_for_each_missing_judgement() -> None:
    items = [
        item(0, (8, 8, 8, 8, 8)),
        item(1, (7, 7, 7, None, None)),
        item(2, left_out="missing response"),
    ]
    found = report(items)
    assert found.worst == pytest.approx((8 + (21 + 2) / 5 + 1) / 3)
    assert found.best == pytest.approx((8 + (21 + 20) / 5 + 10) / 3)
    assert found.left_out == (("missing response", 1),)


def test_bounds_of_a_complete_run_are_the_overall() -> None:
    found = report([item(0, (8, 6)), item(1, (3, 4))])
    assert found.worst == found.best == found.overall.score == 5.25


def test_pooled_mean_takes_every_valid_score_and_overall_only_complete_items() -> None:
    items = [item(0, (10,) * 5), item(1, (1, 1, 1)), item(2, (4, None))]
    found = report(items, histogram={10: 5, 1: 3, 4: 1})
    assert found.overall.score == 5.5
    assert found.pooled_mean == pytest.approx(57 / 9)


def test_macro_mean_is_the_plain_mean_of_the_printed_domain_rows() -> None:
    items = [item(0, (9,)), item(1, (7,)), item(2, (4,), domain="文学"), item(3, (None,), domain="व्यापार")]
    found = report(items)
    assert found.overall.score == pytest.approx(20 / 3)
    assert found.macro_mean == 6.0
    printed = [line.estimate.score for line in found.by["domain"] if line.estimate.score is not None]
    assert found.macro_mean == sum(printed) / len(printed)
    assert row(found.by["domain"], "व्यापार").estimate.score is None


def test_overall_can_be_recomputed_from_the_rows_of_every_breakdown() -> None:
    items = [item(i, (1 + i % 10, 5), domain=f"d{i % 3}", subdomain=f"s{i % 4}") for i in range(24)]
    found = report(items)
    for rows in found.by.values():
        total = math.fsum((line.estimate.score or 0.0) * line.n_complete for line in rows)
        assert total / sum(line.n_complete for line in rows) == pytest.approx(found.overall.score or 0.0)


def test_a_missing_label_is_a_row_and_other_labels_stay() -> None:
    items = [item(0, (5,)), item(1, (7,), domain=None), item(2, (None,), domain=None), item(3, (9,), domain="code 🔧")]
    rows = report(items).by["domain"]
    assert [line.label for line in rows] == ["code 🔧", "शिक्षा", None]
    assert (row(rows, None).n_items, row(rows, None).n_complete, row(rows, None).estimate.score) == (2, 1, 7.0)
    assert sum(line.n_items for line in rows) == 4
    assert row(rows, "शिक्षा").estimate.score == 5.0


def test_an_empty_label_is_not_a_missing_one() -> None:
    rows = report([item(0, (5,), domain=""), item(1, (7,), domain=None)]).by["domain"]
    assert [(line.label, line.estimate.score) for line in rows] == [("", 5.0), (None, 7.0)]


def test_a_label_missing_everywhere_gives_no_rows_and_a_note() -> None:
    found = report([item(0, (5,), subdomain=None), item(1, (7,), subdomain=None)])
    assert found.by["subdomain"] == ()
    assert "no item has a subdomain, so there is no breakdown by subdomain" in found.notes
    assert row(found.by["domain"], "शिक्षा").estimate.score == 6.0


def test_repeats_add_no_items() -> None:
    """Ten items judged four times: the error is over 10 items, never over 40."""
    items = [item(i, (3 + i % 5,) * 4) for i in range(10)]
    found = report(items, head=facts(repeats=4))
    assert (found.n_items, found.overall.n_clusters, found.overall.method) == (10, 10, "t")
    assert any("repeats are averaged first" in note for note in found.notes)


def test_one_cluster_has_no_interval_rather_than_a_made_up_one() -> None:
    found = report([item(0, (5,))])
    assert (found.overall.low, found.overall.high, found.overall.method) == (None, None, None)
    assert found.overall.mark == "no interval: fewer than 2 clusters"


def test_renderings_of_one_prompt_are_one_cluster() -> None:
    items = [item(3 * p + v, (4 + p,), variant=name, cluster=f"p{p}") for p in range(4) for v, name in enumerate("abc")]
    numbers, note = clusters(items)
    assert note is None
    assert [numbers[i] == numbers[3 * (i // 3)] for i in range(12)] == [True] * 12
    assert len(set(numbers)) == 4
    assert report(items).overall.n_clusters == 4


@pytest.mark.parametrize("variant", ["native", None])
def test_two_items_of_one_variant_are_no_renderings_of_each_other(variant: str | None) -> None:
    items = [item(i, (5,), variant=variant, cluster="same") for i in range(3)]
    items.append(item(3, (5,), variant="romanized", cluster="same"))
    items += [item(4, (5,), variant=v, cluster="other") for v in ("native", "romanized")]
    numbers, note = clusters(items)
    assert len(set(numbers[:4])) == 4
    assert numbers[4] == numbers[5]
    assert note is not None
    assert note.startswith("4 items share")
    notes = report([line._replace(item_index=i) for i, line in enumerate(items)]).notes
    assert sum("cluster of its own" in text for text in notes) == 1


def test_variants_are_compared_on_the_same_prompts() -> None:
    """Prompt p2 has no romanized rendering and p3 an incomplete one."""
    scores = {"p0": (8, 5), "p1": (6, 5), "p2": (10, None), "p3": (10, None)}
    items = []
    for number, (prompt, (native, romanized)) in enumerate(scores.items()):
        items.append(item(2 * number, (native,), variant="native", cluster=prompt))
        if prompt != "p2":
            items.append(item(2 * number + 1, (romanized,), variant="romanized", cluster=prompt))
    (difference,) = report(items).variants
    assert (difference.a, difference.b, difference.n_prompts) == ("native", "romanized", 2)
    assert difference.difference.score == 2.0
    assert difference.difference.low == pytest.approx(max(-9.0, 2 - 12.706205 * 1.0), abs=1e-4)


def test_histogram_ceiling_and_floor() -> None:
    found = report([item(0, (10, 1))], histogram={10: 3, 1: 1, 5: 4})
    assert found.histogram == tuple((value, {10: 3, 1: 1, 5: 4}.get(value, 0)) for value in range(1, 11))
    assert (found.ceiling_share, found.floor_share, found.pooled_mean) == (3 / 8, 1 / 8, 51 / 8)


def test_self_consistency_by_hand() -> None:
    data = RubricData(
        facts(repeats=3),
        [item(0, (7, 7, 8, 5, 5, 5))],
        {},
        repeat_sets={(7, 7, 8): 1, (5, 5, 5): 2, (2, 4): 1, (9,): 5},
        repeat_sums={1: (24, 4), 2: (20, 4), 3: (0, 0)},
    )
    found = rubric_report(data).self_consistency
    assert found is not None
    assert found.n_sets == 4
    assert found.within_sd == pytest.approx(math.sqrt((2 / 3 + 0 + 2) / (2 + 4 + 1)))
    assert found.mean_difference == pytest.approx((2 / 3 + 0 + 0 + 2) / 4)
    assert found.smallest_difference == pytest.approx(1.96 * math.sqrt(2) * found.within_sd)
    assert (found.equal_share, found.within_one_share) == (0.5, 0.75)
    assert found.repeat_means == ((1, 6.0, 4), (2, 5.0, 4))


def test_one_repeat_says_nothing_about_self_consistency() -> None:
    assert rubric_report(RubricData(facts(), [item(0, (5,))], {}, repeat_sets={(5, 6): 1})).self_consistency is None


def test_length_bias_is_over_complete_items_with_a_length() -> None:
    items = [item(i, (i + 1,), length=100 * i) for i in range(5)]
    items += [item(5, (None,), length=9000), item(6, (1,), length=None)]
    found = report(items)
    assert found.length_bias == pytest.approx(1.0)
    assert found.length_bias_n == 5


LISTS = Requirements(
    {"style": [0, 1, 2, 77], "format": [2], "length": []},
    {"style": {0: ["लहजा"], 1: ["tone", "voice"], 2: ["tone"]}, "format": {2: ["layout"]}, "length": {}},
)
MEANS = {0: {"लहजा": 4.0}, 1: {"tone": 6.0, "voice": 9.0}}


def test_requirements_are_over_complete_items_and_null_when_empty() -> None:
    items = [item(0, (4, 6)), item(1, (6, 9)), item(2, (5, None))]
    data = RubricData(facts("writing-bench"), items, {}, requirements=LISTS, criterion_means=MEANS)
    found = {line.name: line for line in rubric_report(data).requirements}
    assert list(found) == ["style_R", "style_C", "format_R", "format_C", "length_R", "length_C"]
    assert found["style_R"].estimate.score == pytest.approx((5 + 7.5) / 2)
    assert found["style_C"].estimate.score == pytest.approx((4 + 6 + 9) / 3)
    assert (found["style_R"].n_items, found["style_R"].n_complete) == (3, 2)
    assert found["format_R"].estimate.score is None
    assert found["length_C"].estimate.score is None


def test_requirements_not_given_are_null_for_writing_bench_and_absent_elsewhere() -> None:
    given_none = rubric_report(RubricData(facts("writing-bench"), [item(0, (5,))], {}))
    assert [line.estimate.score for line in given_none.requirements] == [None] * 6
    assert report([item(0, (5,))]).requirements == ()


def test_cost_is_unknown_as_soon_as_one_part_is() -> None:
    good = UsageRow("good", 5, 100, 0, 50, 20, 0.25)
    unknown = UsageRow("unknown", 1, None, None, None, None, None)

    def cost(*usage: UsageRow, **outcomes: int) -> tuple[float | None, float]:
        head = RunFacts("r", "b", "m", "j", rehearsal=False, prompt_sha256="x", usage=usage, outcomes=outcomes)
        return head.cost_usd, head.known_cost_usd

    assert cost(good, valid=5) == (0.25, 0.25)
    assert cost(good, unknown, valid=5, transient=1) == (None, 0.25)
    assert cost(unknown, missing=1) == (None, 0)


def test_what_nobody_answered_costs_nothing() -> None:
    unknown = UsageRow("unknown", 3, None, None, None, None, None)
    head = RunFacts("r", "b", "m", "j", rehearsal=False, prompt_sha256="x")
    assert head.cost_usd == 0.0
    never = {"not_run": 1, "cancelled": 1, "expired": 1}
    assert replace(head, usage=[unknown], outcomes=never).cost_usd == 0.0
    assert replace(head, usage=[unknown], outcomes={**never, "missing": 1}).cost_usd is None


def test_an_empty_selection_and_a_run_without_a_score_do_not_crash() -> None:
    for items in ([], [item(0, (None,)), item(1, left_out="empty response")]):
        found = report(items)
        assert found.overall == Estimate()
        assert found.macro_mean is None
        assert found.pooled_mean is None
        assert found.n_complete == 0


_SCORES = st.lists(st.one_of(st.none(), st.integers(1, 10)), min_size=5, max_size=5)
_ITEMS = st.lists(
    st.tuples(_SCORES, st.sampled_from(["क", "文", None]), st.sampled_from(["native", "romanized", None])), max_size=40
)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(drawn=_ITEMS, mixer=st.randoms(use_true_random=False))
def test_order_of_items_changes_nothing_and_counts_add_up(
    drawn: list[tuple[list[int | None], str | None, str | None]], mixer: Random
) -> None:
    items = [
        item(i, scores, domain=domain, variant=variant, cluster=f"p{i // 2}", length=i * 7 % 11)
        for i, (scores, domain, variant) in enumerate(drawn)
    ]
    mixed = list(items)
    mixer.shuffle(mixed)
    found = report(items, seed=5)
    assert report(mixed, seed=5) == found
    for rows in found.by.values():
        assert not rows or sum(line.n_items for line in rows) == found.n_items
        assert not rows or sum(line.n_complete for line in rows) == found.n_complete
    if found.overall.score is not None and found.worst is not None and found.best is not None:
        assert 1 <= found.worst <= found.best <= 10
        assert 1 <= (found.overall.low or 1) <= found.overall.score + 1e-9
