"""Cutting request lines into request files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.split import Filler, Limits
from iwb_batch.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class PlannedLine:
    """Size of one line: bytes with its line end, input tokens, and what it is called in a message."""

    n_bytes: int
    n_tokens: int
    name: str = "a request"


def split(lines: Iterable[PlannedLine], limits: Limits) -> Iterator[list[PlannedLine]]:
    """The lines of each request file, in order; one file is held in memory at a time.

    InputError: a line that fits into no file.
    """
    filler = Filler(limits)
    present: list[PlannedLine] = []
    for line in lines:
        if filler.add(line.n_bytes, line.n_tokens, line.name) and present:
            yield present
            present = []
        present.append(line)
    if present:
        yield present


def sizes(lines: list[tuple[int, int]], limits: Limits) -> list[list[tuple[int, int]]]:
    files = split((PlannedLine(b, t) for b, t in lines), limits)
    return [[(line.n_bytes, line.n_tokens) for line in file] for file in files]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(), [[(10, 1), (20, 2), (30, 3)]]),
        (Limits(max_requests=2), [[(10, 1), (20, 2)], [(30, 3)]]),
        (Limits(max_bytes=30), [[(10, 1), (20, 2)], [(30, 3)]]),
        (Limits(max_bytes=50), [[(10, 1), (20, 2)], [(30, 3)]]),
        (Limits(max_tokens=3), [[(10, 1), (20, 2)], [(30, 3)]]),
        (Limits(max_requests=1), [[(10, 1)], [(20, 2)], [(30, 3)]]),
        (Limits(max_bytes=60), [[(10, 1), (20, 2), (30, 3)]]),
    ],
    ids=["default", "requests", "bytes-exact", "bytes", "tokens", "one-each", "bytes-all-fit"],
)
def test_a_file_is_closed_at_the_first_limit(limits: Limits, expected: list[list[tuple[int, int]]]) -> None:
    assert sizes([(10, 1), (20, 2), (30, 3)], limits) == expected


def test_no_lines_make_no_file() -> None:
    assert sizes([], Limits()) == []


@settings(deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), max_size=60),
    st.integers(1, 7),
    st.integers(50, 120),
    st.none() | st.integers(50, 120),
)
def test_files_hold_all_lines_in_order_within_every_limit(
    lines: list[tuple[int, int]], max_requests: int, max_bytes: int, max_tokens: int | None
) -> None:
    files = sizes(lines, Limits(max_requests, max_bytes, max_tokens))
    assert [line for file in files for line in file] == lines
    for file in files:
        assert 1 <= len(file) <= max_requests
        assert sum(b for b, _ in file) <= max_bytes
        assert max_tokens is None or sum(t for _, t in file) <= max_tokens
    for file, after in pairwise(files):
        over_bytes = sum(b for b, _ in file) + after[0][0] > max_bytes
        over_tokens = max_tokens is not None and sum(t for _, t in file) + after[0][1] > max_tokens
        assert len(file) == max_requests or over_bytes or over_tokens


def test_line_above_the_byte_limit_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"item 17.* 1,001 bytes, above the 1,000") as caught:
        list(split([PlannedLine(10, 1), PlannedLine(1001, 1, "item 17")], Limits(max_bytes=1000)))
    assert caught.value.hint is not None
    assert "--max-bytes-per-file" in caught.value.hint


def test_line_above_the_token_limit_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"item 3.* 500 tokens"):
        list(split([PlannedLine(10, 500, "item 3")], Limits(max_tokens=499)))


def test_line_of_exactly_the_limit_is_a_file_of_its_own() -> None:
    assert sizes([(1, 1), (1000, 1), (1, 1)], Limits(max_bytes=1000)) == [[(1, 1)], [(1000, 1)], [(1, 1)]]


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--max-requests-per-file", {"max_requests": 0}),
        ("--max-bytes-per-file", {"max_bytes": -1}),
        ("--enqueued-token-limit", {"max_tokens": 0}),
    ],
    ids=["requests", "bytes", "tokens"],
)
def test_limits_below_one_are_a_usage_error(option: str, values: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=option):
        Limits(**values)


def test_filler_says_when_a_file_opens_and_what_it_holds() -> None:
    filler = Filler(Limits(max_requests=2))
    assert [filler.add(5, 1) for _ in range(5)] == [True, False, True, False, True]
    assert (filler.n_requests, filler.n_bytes, filler.n_tokens) == (1, 5, 1)
    assert filler.fits(5, 1)
    filler.add(5, 1)
    assert not filler.fits(5, 1)
