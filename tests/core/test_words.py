"""Counts in words."""

from __future__ import annotations

import pytest

from iwb_batch.core.words import counted


@pytest.mark.parametrize(
    ("n", "words", "told"),
    [
        (0, ("request",), "0 requests"),
        (1, ("request",), "1 request"),
        (2, ("request",), "2 requests"),
        (1, ("index is", "indexes are"), "1 index is"),
        (3, ("index is", "indexes are"), "3 indexes are"),
    ],
)
def test_one_is_singular(n: int, words: tuple[str, ...], told: str) -> None:
    assert counted(n, *words) == told
