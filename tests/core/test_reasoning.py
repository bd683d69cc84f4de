"""Chain of thought: where the answer begins, in each mode, and what is flagged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.reasoning import Mode, Stripped, is_empty, opens, strip

PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<THINK>",
        "</Think >",
        "<thinking>",
        "</thinking>",
        "<think",
        "</think",
        "`",
        "```",
        "\n",
        "\n\n",
        " ",
        "\u200b",
        "\ufeff",
        "नमस्ते",
        "答案",
        "answer",
        "</think>\n\n",
        "```\n",
        '{"score": 3}',
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join) | st.text()
MODES: list[Mode] = ["auto", "exact", "required", "off"]


@pytest.mark.parametrize(
    ("text", "answer", "flags"),
    [
        pytest.param("सीधा उत्तर", "सीधा उत्तर", (), id="no tag"),
        pytest.param("", "", (), id="empty"),
        pytest.param("  two\n", "  two\n", (), id="white space stays without a tag"),
        pytest.param("<think>a</think>\n\nanswer\n", "answer\n", (), id="closed block"),
        pytest.param("<think>a</think>answer", "answer", (), id="nothing between tag and answer"),
        pytest.param("<think>a</think> \r\n\t答案", "答案", (), id="white space after the tag goes"),
        pytest.param(" \n\ufeff<think>a</think>b", "b", (), id="white space and BOM before the tag"),
        pytest.param("<Think>inner</THINK>Notes", "Notes", (), id="tags in another case"),
        pytest.param("<thinking>inner</thinking>Notes", "Notes", (), id="thinking is the same tag"),
        pytest.param("<think >inner</think\n>Notes", "Notes", (), id="white space inside the tags"),
        pytest.param("<think></think>", "", (), id="nothing but an empty block"),
        pytest.param("<think\nfirst, add\n</think>\n7", "7", ("damaged_tag",), id="damaged opening tag"),
        pytest.param("<thinker>is a word</thinker>", "<thinker>is a word</thinker>", (), id="another tag"),
        pytest.param("plan\n</think>\n8", "8", ("orphan_close",), id="closing tag only"),
        pytest.param(
            "plan\n</think>\nWrite `</think>` at the end.",
            "Write `</think>` at the end.",
            ("orphan_close", "multiple_close"),
            id="orphan, and the answer quotes the tag",
        ),
        pytest.param(
            "<think>The template emits `</think>` for system turns.\nNow answer.</think>\n42",
            "42",
            ("multiple_close",),
            id="thoughts quote the closing tag in back-ticks",
        ),
        pytest.param(
            "<think>It prints\n```\n</think>\n```\nso be it.</think>\n42",
            "42",
            ("multiple_close",),
            id="thoughts quote the closing tag in a fenced block",
        ),
        pytest.param("<think>a</think>b</think>c", "b</think>c", ("multiple_close",), id="further closing tag is kept"),
        pytest.param("<think>a</think>b<think>c", "b<think>c", ("further_open",), id="further opening tag is kept"),
        pytest.param("<think>a ` b\n</think>\nuse `x`", "use `x`", (), id="a stray back-tick swallows nothing"),
        pytest.param("<think>``a ` b`` c</think>d", "d", (), id="code span of two back-ticks"),
        pytest.param("Use `<think>` tags.", "Use `<think>` tags.", (), id="opening tag quoted in an answer"),
        pytest.param("Use `</think>` tags.", "Use `</think>` tags.", (), id="closing tag quoted in an answer"),
        pytest.param("Yes.\n<think>hm</think>\nNo.", "No.", ("orphan_close",), id="opened in the middle and closed"),
        pytest.param("<think>Good morning", None, ("unclosed",), id="opened and never closed"),
        pytest.param("Yes.\n<think>\nperhaps again", None, ("unclosed",), id="opened in the middle and never closed"),
        pytest.param("<think>a `</think>` b", None, ("unclosed",), id="closed only inside back-ticks"),
        pytest.param("<think>a</think b", None, ("damaged_tag", "unclosed"), id="damaged closing tag closes nothing"),
        pytest.param("<think", None, ("damaged_tag", "unclosed"), id="nothing but a damaged tag"),
        pytest.param(
            "Thinking Process:\n\n1. Consider", "Thinking Process:\n\n1. Consider", (), id="thoughts without tags"
        ),
    ],
)
def test_auto(text: str, answer: str | None, flags: tuple[str, ...]) -> None:
    stripped = strip(text, "auto")
    assert (stripped.answer, stripped.flags) == (answer, flags)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        pytest.param("plain answer", "plain answer", id="no tag"),
        pytest.param("<think>a</think>\n\nanswer", "answer", id="the exact mark"),
        pytest.param("<think>a</think>\nanswer", "<think>a</think>\nanswer", id="one newline is not the mark"),
        pytest.param("<think>a</think>answer", "<think>a</think>answer", id="no newline is not the mark"),
        pytest.param("<think>a</think>\n\nx</think>\n\ny", "x</think>\n\ny", id="the first mark counts"),
        pytest.param("<think>a</think>\nx</think>\n\ny", "y", id="the first whole mark counts"),
        pytest.param("</think>\n\n", "", id="nothing after the mark"),
        pytest.param("<think>never closed", "<think>never closed", id="never closed"),
        pytest.param("x</think>\r\n\r\nanswer", "x</think>\r\n\r\nanswer", id="CRLF is not the mark"),
        pytest.param("<think>a</think>\n\n\nanswer", "\nanswer", id="only two newlines go"),
        pytest.param("<THINK>a</THINK>\n\nanswer", "<THINK>a</THINK>\n\nanswer", id="upper case is not the mark"),
        pytest.param("The tag </think>\n\nquoted", "quoted", id="a quoted mark is cut too"),
        pytest.param("", "", id="empty"),
    ],
)
def test_exact_is_the_rule_of_the_original(text: str, answer: str) -> None:
    assert strip(text, "exact").answer == answer


@pytest.mark.parametrize(
    ("text", "answer", "flags"),
    [
        pytest.param("Thinking Process:\n\n1. Consider", None, ("no_closing_tag",), id="thoughts cut before any tag"),
        pytest.param("<think>a", None, ("unclosed", "no_closing_tag"), id="opened and never closed"),
        pytest.param("a `</think>` b", None, ("no_closing_tag",), id="only a quoted closing tag"),
        pytest.param("Thinking Process: done</think>\n\n7", "7", ("orphan_close",), id="closing tag only"),
        pytest.param("<think>a</think>7", "7", (), id="closed block"),
    ],
)
def test_required_wants_a_closing_tag(text: str, answer: str | None, flags: tuple[str, ...]) -> None:
    stripped = strip(text, "required")
    assert (stripped.answer, stripped.flags) == (answer, flags)


def test_off_keeps_the_text() -> None:
    text = "<think>Good morning"
    assert strip(text, "off") == Stripped("", text)


@settings(deadline=None, derandomize=True, max_examples=400)
@given(TEXTS, st.sampled_from(MODES))
def test_nothing_is_lost(text: str, mode: Mode) -> None:
    stripped = strip(text, mode)
    if stripped.answer is None:
        assert stripped.reasoning == text
        assert {"unclosed", "no_closing_tag"} & set(stripped.flags)
    else:
        assert stripped.reasoning + stripped.answer == text


@settings(deadline=None, derandomize=True, max_examples=400)
@given(TEXTS)
def test_an_answer_without_flags_holds_no_more_tags(text: str) -> None:
    stripped = strip(text, "auto")
    if stripped.answer is not None and not stripped.flags and stripped.reasoning:
        assert "</think>" not in stripped.answer
        assert strip(stripped.answer, "auto").answer == stripped.answer


@settings(deadline=None, derandomize=True, max_examples=200)
@given(TEXTS)
def test_every_path_gets_the_same_answer(text: str) -> None:
    closed = strip(text, "required")
    if closed.answer is not None:
        assert strip(text, "auto") == closed


def test_large_texts_do_not_hang() -> None:
    for unit in ("`", "<think>", "</think>`", "```\n", "<", " ", "</think\n"):
        stripped = strip("<think>" + unit * (2_000_000 // len(unit)), "auto")
        assert stripped.answer is None or stripped.reasoning


@pytest.mark.parametrize(
    ("text", "empty"),
    [
        pytest.param("", True, id="nothing"),
        pytest.param(" \n\t\u00a0\u3000", True, id="white space"),
        pytest.param("\u200b\ufeff \u200b", True, id="zero-width"),
        pytest.param("\u200d", False, id="a joiner is something"),
        pytest.param("०", False, id="a digit"),
    ],
)
def test_is_empty(text: str, empty: bool) -> None:
    assert is_empty(text) is empty


def test_opens() -> None:
    assert opens("\n<Think>x")
    assert opens("<thinking")
    assert not opens("x <think>")
    assert not opens("`<think>`")
