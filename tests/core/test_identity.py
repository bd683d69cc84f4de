"""Who judged, and whether it was the same all the time."""

from __future__ import annotations

import pytest

from iwb_batch.core.identity import Answers, change_note, maker, same_maker


@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("gpt-5.4", "OpenAI"),
        ("my-gpt-5.4-batch", "OpenAI"),
        ("o4-mini", "OpenAI"),
        ("claude-4-sonnet", "Anthropic"),
        ("Qwen3-32B", "Alibaba"),
        ("sarvam-m", "Sarvam AI"),
        ("meta-llama/Llama-3.1-8B", "Meta"),
        ("lekhak-7b", None),
        ("philosopher-1", None),
        ("", None),
    ],
)
def test_makers_are_told_by_a_word_of_the_name(name: str, who: str | None) -> None:
    assert maker(name) == who


def test_a_shared_maker_is_only_told_when_it_is_known() -> None:
    assert same_maker("gpt-4.1-mini", ["judge-deployment", "gpt-5.4-2026"]) == "OpenAI"
    assert same_maker("qwen3", ["gpt-5.4"]) is None
    assert same_maker("writer", ["judge"]) is None


def test_one_judge_is_no_change() -> None:
    assert change_note([]) is None
    assert change_note([Answers("m", "fp", 10), Answers(None, None, 2), Answers("m", "fp", 3)]) is None


def test_a_change_is_told_with_the_counts_before_and_after() -> None:
    note = change_note([Answers("m", "fp_1", 40), Answers("m", "fp_2", 60)])
    assert note == "the judge changed within the run: m (fp_1): 40 answers, then m (fp_2): 60 answers"


def test_a_to_and_fro_is_told_in_totals() -> None:
    note = change_note([Answers("m", f"fp_{place % 2}", 5) for place in range(10)])
    assert note == "the judge changed to and fro within the run: m (fp_0): 25 answers, m (fp_1): 25 answers"
