"""Width and escaping of text in tables."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.report.display import clipped, padded, visible, whole, width


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param("plain", 5, id="ascii"),
        pytest.param("数学", 4, id="chinese"),
        pytest.param("क्षमा", 4, id="virama-takes-none"),
        pytest.param("é", 1, id="combining-accent"),
        pytest.param("ｗ", 2, id="full-width"),
        pytest.param("🔧", 2, id="emoji"),
        pytest.param("👩\u200d🚀", 2, id="joined-emoji"),
        pytest.param("👍🏽", 2, id="skin-tone"),
        pytest.param("☀️", 2, id="emoji-presentation"),
        pytest.param("🏃\u200d♀️", 2, id="joined-sign"),
        pytest.param("⚡️x", 3, id="presentation-of-a-wide-sign"),
        pytest.param("1️⃣", 2, id="keycap"),
        pytest.param("र्\u200dय", 2, id="devanagari-joiner"),
        pytest.param("", 0, id="empty"),
    ],
)
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[31mred", "\\x1b[31mred", id="ansi-colour"),
        pytest.param("a\nb\tc\r", "a\\nb\\tc\\r", id="line-ends"),
        pytest.param("a\u2028b\u0085c", "a\\u2028b\\x85c", id="unicode-line-ends"),
        pytest.param("a\u202eb", "a\\u202eb", id="right-to-left-override"),
        pytest.param("\ufeff\u200bx", "\\ufeff\\u200bx", id="zero-width"),
        pytest.param("\x00", "\\x00", id="nul"),
        pytest.param("\ud800x", "\ufffdx", id="lone-surrogate"),
        pytest.param("\U000e0041", "\\U000e0041", id="tag-character"),
        pytest.param("र्\u200dय हिन्दी 数学 🔧", "र्\u200dय हिन्दी 数学 🔧", id="scripts-stay"),
    ],
)
def test_what_could_harm_a_terminal_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_padding_counts_columns_and_not_characters() -> None:
    assert padded("数学", 6) == "数学  "
    assert padded("7", 3, right=True) == "  7"
    assert padded("longer", 3) == "longer"


def test_long_text_is_cut_with_an_ellipsis() -> None:
    assert clipped("x" * 80, 10) == "x" * 9 + "…"
    assert width(clipped("数" * 50, 10)) <= 10
    assert clipped("short", 10) == "short"


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.text(st.characters(), max_size=60))
def test_no_text_breaks_a_line_or_an_encoding(text: str) -> None:
    shown = visible(text)
    assert not any(unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") for character in shown)
    shown.encode()
    whole(text).encode()
    assert width(clipped(shown, 20)) <= 20
