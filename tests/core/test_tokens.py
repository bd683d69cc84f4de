"""Token counts: exact ones equal the known ids' number, estimates stay near them, sums are right."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest

from iwb_batch.core.tokens import Counter, ExactCounter, PromptTokens, ScriptEstimate, best_counter

PROSE = {
    "english": "The old librarian kept one shelf for books that nobody had ever borrowed, and dusted it on Sundays. "
    "When a child finally asked for one of them, she cried a little and then forgot to stamp it.",
    "hindi": "गाँव के पुराने बरगद के नीचे हर शाम बच्चे दादी की कहानी सुनने बैठते थे। उस दिन दादी नहीं आईं, तो बच्चों ने "
    "बारी-बारी से वही कहानी एक-दूसरे को सुनाई, और हर बार उसका अंत थोड़ा बदल गया।",
    "chinese": "老街尽头有一家修钟表的小店，店主从来不戴手表。有人问他为什么，他说自己听得见时间走过的声音。后来小店"
    "关门了，街上的人才发现，大家的钟都慢了五分钟。",
}


class Characters:
    label = "characters"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def count(self, texts: Sequence[str]) -> list[int]:
        self.asked += texts
        return [len(text) for text in texts]


def test_exact_counts_are_those_of_o200k_base() -> None:
    counter = ExactCounter()
    assert counter.count(["", "hello world", ""]) == [0, 2, 0]
    assert counter.count([]) == []
    assert counter.label.startswith("exact: o200k_base")


def test_special_tokens_count_as_ordinary_text() -> None:
    assert ExactCounter().count(["<|endoftext|>"])[0] > 1


@pytest.mark.parametrize("language", PROSE)
def test_estimate_is_near_the_exact_count(language: str) -> None:
    (exact,), (estimate,) = ExactCounter().count([PROSE[language]]), ScriptEstimate().count([PROSE[language]])
    assert abs(estimate / exact - 1) < 0.35


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("a", 1), ("   ", 1), ("abcd", 1), ("abcde", 2), ("漢字漢字漢字", 5), ("क" * 5, 2), ("ab cd", 1)],
    ids=["empty", "one", "blank", "four", "five", "chinese", "devanagari", "space-is-free"],
)
def test_estimate_of_small_texts(text: str, tokens: int) -> None:
    assert ScriptEstimate().count([text]) == [tokens]


def test_estimate_grows_with_the_text() -> None:
    counts = ScriptEstimate().count(["कहानी story 故事 " * n for n in range(1, 30)])
    assert counts == sorted(counts)


def test_request_tokens_are_framing_fixed_text_and_fields() -> None:
    counter: Counter = Characters()
    tokens = PromptTokens(counter, "sys", "ab{criteria}c{query}{criteria}")
    fixed = 3 + 3 + 2 * 4 + 3
    assert tokens.count([{"criteria": "12345", "query": "1234567"}]) == [fixed + 5 + 7 + 5]


def test_extra_text_and_missing_system_are_counted() -> None:
    tokens = PromptTokens(Characters(), None, "{query}", extra=["schema"])
    assert tokens.count([{"query": "1"}]) == [6 + 4 + 3 + 1]


def test_each_field_is_counted_once_for_an_item() -> None:
    counter = Characters()
    tokens = PromptTokens(counter, "s", "{criteria}{query}{response}")
    shared = {"query": "the query", "response": "the response"}
    assert tokens.count([{"criteria": f"c{n}", **shared} for n in range(5)]) == [1 + 11 + 2 + 9 + 12] * 5
    assert counter.asked.count("the query") == 1
    assert counter.asked.count("the response") == 1


def test_sum_of_parts_is_near_the_whole() -> None:
    counter = ExactCounter()
    tokens = PromptTokens(counter, "You judge.", "Query: {query}\n\nAnswer: {response}")
    whole = sum(counter.count([f"Query: {PROSE['hindi']}\n\nAnswer: {PROSE['chinese']}", "You judge."])) + 11
    (parts,) = tokens.count([{"query": PROSE["hindi"], "response": PROSE["chinese"]}])
    assert abs(parts - whole) <= 6


def test_without_the_package_the_estimate_is_taken_and_labelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toktok", None)
    counter = best_counter()
    assert counter.label.startswith("estimate")
    assert counter.count(["hello world"])[0] > 0


def test_with_the_package_the_exact_counter_is_taken() -> None:
    assert best_counter().label.startswith("exact")
