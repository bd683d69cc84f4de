"""The original scorer's table, with values worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.compat import (
    DOMAIN_ORDER,
    Requirements,
    official_row,
    requirement_scores,
    requirements_from_rows,
)
from iwb_batch.core.rubric_numbers import ItemRow, RubricData, rubric_report
from iwb_batch.core.run_facts import RunFacts
from iwb_batch.errors import InputError

DOMAINS: Mapping[int, tuple[str | None, str | None]] = {
    1: ("Education", "Lesson Plan"),
    2: ("Education", "Exam"),
    3: ("Finance & Business", "Pitch"),
    4: ("Finance & Business", "Report"),
}
LISTS = Requirements(
    {"style": [1, 3], "format": [4]}, {"style": {1: ["tone"], 3: ["tone", "voice"]}, "format": {4: ["x"]}}
)


def test_overall_is_pooled_and_domains_are_means_of_item_means() -> None:
    lines = [
        (1, {"tone": [10], "b": [10], "c": [10]}),
        (2, {"b": [1]}),
        (3, {"tone": [4], "voice": [6]}),
    ]
    row = official_row("m", lines, domains=DOMAINS, requirements=LISTS)
    assert row["Overall"] == pytest.approx(41 / 6)
    assert row["Count"] == 3
    assert row["Domain1_Education"] == 5.5
    assert row["Domain1_Finance & Business"] == 5.0
    assert row["Domain1_Politics & Law"] is None
    assert row["style_R"] == 7.5
    assert row["style_C"] == pytest.approx(20 / 3)
    assert (row["format_R"], row["format_C"], row["length_R"], row["length_C"]) == (0, 0, 0, 0)


def test_columns_stand_in_the_original_order() -> None:
    row = official_row("m", [(2, {"b": [9]}), (4, {"x": [3]}), (3, {"x": [8]}), (1, {"b": [2]})], domains=DOMAINS)
    assert list(row) == [
        *("Model", "Overall", "Count"),
        *(f"Domain1_{domain}" for domain in DOMAIN_ORDER),
        *("Domain2_Pitch", "Domain2_Report", "Domain2_Exam", "Domain2_Lesson Plan"),
        *("style_R", "style_C", "format_R", "format_C", "length_R", "length_C"),
    ]


def test_every_evaluation_counts_when_criteria_are_judged_several_times() -> None:
    row = official_row("m", [(1, {"tone": [8, 6], "b": [1, 2, 3]})], domains=DOMAINS, requirements=LISTS)
    assert row["Overall"] == row["Domain1_Education"] == 4.0
    assert row["style_C"] == 7.0


def test_unknown_index_is_in_overall_only_and_a_later_line_replaces_the_item_mean() -> None:
    row = official_row("m", [(1, {"b": [2]}), (1, {"b": [4]}), (999, {"b": [9]}), ("2", {"b": [9]})], domains=DOMAINS)
    assert (row["Overall"], row["Count"]) == (6.0, 4)
    assert row["Domain1_Education"] == 4.0


def test_lines_without_a_score_and_empty_runs_do_not_crash() -> None:
    row = official_row("m", [(1, {"b": []})], domains=DOMAINS)
    assert (row["Overall"], row["Count"], row["style_R"]) == (None, 0, 0)


def test_domains_outside_the_original_list_follow_it() -> None:
    row = official_row("m", [(7, {"b": [2]})], domains={7: ("शिक्षा", "निबंध")})
    assert row["Domain1_शिक्षा"] == 2.0
    assert list(row)[9:11] == ["Domain1_शिक्षा", "Domain2_निबंध"]


def test_requirement_scores_are_null_when_empty_or_not_given() -> None:
    assert requirement_scores({1: 5.0}, {}, None) == dict.fromkeys(
        ["style_R", "style_C", "format_R", "format_C", "length_R", "length_C"]
    )
    scores = requirement_scores({1: 5.0}, {1: {"tone": 3.0}}, LISTS)
    assert (scores["style_R"], scores["style_C"], scores["format_R"]) == (5.0, 3.0, None)


def test_requirement_folder_rows_become_lists() -> None:
    checklist = [{"name": "tone", "1-2": "x"}, {"name": "voice"}]
    lists = requirements_from_rows(
        {
            "style": [("style_subset.jsonl line 1", {"index": 3}), ("style_subset.jsonl line 2", {"index": 1})],
            "style_C": [("style_subset_C.jsonl line 1", {"index": 3, "checklist": checklist})],
        }
    )
    assert lists.r["style"] == (3, 1)
    assert lists.c["style"] == {3: ("tone", "voice")}
    assert lists.r["length"] == ()
    assert lists.indexes() == {1, 3}


@pytest.mark.parametrize(
    ("name", "row"),
    [
        pytest.param("style", {"index": "3"}, id="text-index"),
        pytest.param("style", {"index": True}, id="bool-index"),
        pytest.param("style_C", {"index": 3}, id="no-checklist"),
        pytest.param("style_C", {"index": 3, "checklist": [{"name": None}]}, id="no-name"),
    ],
)
def test_bad_requirement_row_names_its_place(name: str, row: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"style_subset\.jsonl line 7"):
        requirements_from_rows({name: [("style_subset.jsonl line 7", row)]})


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.lists(st.lists(st.integers(1, 10), min_size=5, max_size=5), min_size=1, max_size=12))
def test_default_report_equals_the_original_when_all_items_are_complete(scores: list[list[int]]) -> None:
    names = ["a", "b", "c", "d", "e"]
    domains: dict[int, tuple[str | None, str | None]] = {i: (f"d{i % 2}", f"s{i % 3} of {i % 2}") for i in range(12)}
    lists = Requirements({"style": [0, 2, 4]}, {"style": {0: ["a"], 2: ["b", "c"], 4: ["e"]}})
    lines = [(i, {name: [value] for name, value in zip(names, part, strict=True)}) for i, part in enumerate(scores)]
    official = official_row("m", lines, domains=domains, requirements=lists, domain_order=())
    items = [
        ItemRow(i, *domains[i], "en", None, f"c{i}", None, 5, 5, sum(part), sum(part) / 5)
        for i, part in enumerate(scores)
    ]
    head = RunFacts("r", "writing-bench", "m", "j", rehearsal=False, prompt_sha256="x")
    means = {i: dict(zip(names, map(float, part), strict=True)) for i, part in enumerate(scores)}
    ours = rubric_report(RubricData(head, items, {}, requirements=lists, criterion_means=means))
    assert ours.overall.score == pytest.approx(official["Overall"])
    for name, prefix in (("domain", "Domain1_"), ("subdomain", "Domain2_")):
        for line in ours.by[name]:
            assert line.estimate.score == pytest.approx(official[f"{prefix}{line.label}"])
    for required in ours.requirements:
        assert (required.estimate.score or 0) == pytest.approx(official[required.name])
