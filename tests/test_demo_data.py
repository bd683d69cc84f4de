"""The bundled demo data keep what the demo, the docs and the other tests rely on."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import iwb_batch

DEMO = Path(iwb_batch.__file__).parent / "demo_data"
PAIRS = Path(__file__).parent / "data"
VARIANTS = {"native", "code_mixed", "romanized"}
BANDS = ["1-2", "3-4", "5-6", "7-8", "9-10"]
ITEM_FIELDS = [
    "index",
    "id",
    "domain",
    "subdomain",
    "language",
    "variant",
    "is_code_mixed",
    "is_romanized",
    "prompt",
    "query",
    "reference",
    "checklist",
]
RESPONSE_FILES = ["responses_lekhak-7b.jsonl", "responses_vichar-8b.jsonl"]


def rows(name: str) -> list[dict[str, Any]]:
    """Parse a bundled JSONL file; the file must end with its last line's newline."""
    lines = (DEMO / name).read_bytes().split(b"\n")
    assert lines.pop() == b""
    return [json.loads(line) for line in lines]


def answer(text: str) -> str:
    """The part after a leading chain of thought; the thoughts may quote the tag in back-ticks."""
    return text.rsplit("</think>\n\n", 1)[-1]


def has_devanagari(text: str) -> bool:
    """True when any code point lies in the Devanagari block."""
    return any("\u0900" <= char <= "\u097f" for char in text)


@pytest.fixture(scope="module")
def items() -> list[dict[str, Any]]:
    return rows("items.jsonl")


@pytest.fixture(scope="module")
def prompts(items: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Items grouped by prompt: renderings share domain, subdomain and reference."""
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in items:
        groups[json.dumps([item["domain"], item["subdomain"], item["reference"]])].append(item)
    return list(groups.values())


def test_there_are_enough_items_and_domains(items: list[dict[str, Any]]) -> None:
    assert len(items) >= 12
    assert len({item["domain"] for item in items}) >= 3


def test_each_item_has_the_fields_of_the_benchmark_in_order(items: list[dict[str, Any]]) -> None:
    assert all(list(item) == ITEM_FIELDS for item in items)
    assert all(list(item["reference"]) == ["title", "url", "source_language", "content"] for item in items)
    assert {item["language"] for item in items} == {"Hindi"}
    assert all(item["reference"]["url"].startswith("https://example.org/") for item in items)


def test_index_counts_from_0_and_ids_are_unique(items: list[dict[str, Any]]) -> None:
    assert [item["index"] for item in items] == list(range(len(items)))
    assert len({item["id"] for item in items}) == len(items)


def test_each_prompt_comes_in_three_renderings(prompts: list[list[dict[str, Any]]]) -> None:
    assert len(prompts) >= 5
    assert all(len(group) == 3 and {item["variant"] for item in group} == VARIANTS for group in prompts)


def test_renderings_of_a_prompt_share_the_rubric_byte_for_byte(prompts: list[list[dict[str, Any]]]) -> None:
    for group in prompts:
        assert len({json.dumps(item["checklist"], ensure_ascii=False) for item in group}) == 1


def test_prompts_do_not_share_a_rubric(prompts: list[list[dict[str, Any]]]) -> None:
    assert len({json.dumps(group[0]["checklist"]) for group in prompts}) == len(prompts)


def test_flags_agree_with_the_variant(items: list[dict[str, Any]]) -> None:
    for item in items:
        assert item["is_code_mixed"] is (item["variant"] == "code_mixed")
        assert item["is_romanized"] is (item["variant"] == "romanized")


def test_script_of_the_prompt_fits_the_variant(items: list[dict[str, Any]]) -> None:
    for item in items:
        assert has_devanagari(item["prompt"]) is (item["variant"] == "native"), item["id"]


def test_query_is_the_prompt_with_its_reference(items: list[dict[str, Any]]) -> None:
    for item in items:
        assert item["query"].startswith(item["prompt"] + "\n\n")
        assert item["query"].endswith(item["reference"]["content"])
        assert item["reference"]["title"] in item["query"]


def test_each_rubric_has_five_criteria_with_bands_in_order(items: list[dict[str, Any]]) -> None:
    for item in items:
        assert len({criterion["name"] for criterion in item["checklist"]}) == 5
        for criterion in item["checklist"]:
            assert list(criterion) == ["name", "criteria_description", *BANDS]
            assert all(isinstance(text, str) and text.strip() == text != "" for text in criterion.values())


@pytest.mark.parametrize("name", RESPONSE_FILES)
def test_responses_cover_each_index_once(items: list[dict[str, Any]], name: str) -> None:
    assert [row["index"] for row in rows(name)] == [item["index"] for item in items]
    assert all(list(row) == ["index", "response"] for row in rows(name))


@pytest.mark.parametrize("name", RESPONSE_FILES)
def test_responses_are_short_texts_in_the_script_of_their_prompt(items: list[dict[str, Any]], name: str) -> None:
    for item, row in zip(items, rows(name), strict=True):
        assert 80 <= len(row["response"].split()) <= 250, row["index"]
        assert has_devanagari(answer(row["response"])) is (item["variant"] == "native"), row["index"]


def test_only_the_reasoning_model_thinks_aloud() -> None:
    plain, reasoning = (rows(name) for name in RESPONSE_FILES)
    assert not any("think>" in row["response"] for row in plain)
    for row in reasoning:
        assert row["response"].startswith("<think>\n")
        assert row["response"].count("</think>\n\n") == 1
        assert answer(row["response"]).strip()


def test_some_thoughts_hold_a_quoted_tag_and_a_code_fence() -> None:
    thoughts = [row["response"].rpartition("</think>\n\n")[0] for row in rows(RESPONSE_FILES[1])]
    assert any("`</think>`" in text for text in thoughts)
    assert any("```" in text for text in thoughts)


def test_no_two_responses_are_alike() -> None:
    texts = [row["response"] for name in RESPONSE_FILES for row in rows(name)]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("name", ["items.jsonl", *RESPONSE_FILES])
def test_files_are_plain_utf8_with_one_newline_a_line(name: str) -> None:
    data = (DEMO / name).read_bytes()
    assert not data.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in data
    assert b"\\u" not in data


@pytest.mark.parametrize("language", ["en", "zh"])
def test_pair_fixtures_keep_their_peculiarities(language: str) -> None:
    pairs = json.loads((PAIRS / f"pairs_{language}.json").read_text(encoding="utf-8"))
    texts = [side["response"] for pair in pairs for side in (pair["chosen"], pair["rejected"])]
    assert len(pairs) == 6
    assert any(a["prompt_id"] == b["prompt_id"] for a, b in itertools.pairwise(pairs))
    assert any(pair["chosen"]["score"] == pair["rejected"]["score"] for pair in pairs)
    assert any(pair["chosen"]["response"] == pair["rejected"]["response"] for pair in pairs)
    assert any("\u2028" in text for text in texts)
    assert any("\u200d" in text for text in texts)
    assert any(pair["prompt"].startswith("\n") for pair in pairs)
