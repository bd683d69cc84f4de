"""The sweeps in small: every call for two kinds of HTTP fault, strides for the rest. tests/sweep has all of it."""

from __future__ import annotations

import errno
from itertools import count
from pathlib import Path

import pytest

from tests.faults.harness import Scores
from tests.faults.sweeping import (
    FILE_FAULTS,
    HTTP_FAULTS,
    SQL_FAULTS,
    boundaries,
    fail_file,
    fail_http,
    fail_sql,
    lose_log,
)

EVERY = ("reply lost after commit", "reset before commit")
STRIDED = [name for name in HTTP_FAULTS if name not in EVERY]
CALLS = 40
"""The small run makes at least so many calls; the sweep ends by itself after the last."""


@pytest.mark.parametrize("kind", EVERY)
def test_every_http_call(tmp_path: Path, expected: Scores, kind: str) -> None:
    for nth in count(1):
        if not fail_http(tmp_path / str(nth), HTTP_FAULTS[kind], nth, expected):
            break
    assert nth > CALLS


@pytest.mark.parametrize(("kind", "first"), list(zip(STRIDED, count(1))), ids=STRIDED)
def test_every_seventeenth_http_call(tmp_path: Path, expected: Scores, kind: str, first: int) -> None:
    """Each kind begins at another call, so that together they strike all over the run."""
    for nth in range(first, 10 * CALLS, 17):
        if not fail_http(tmp_path / str(nth), HTTP_FAULTS[kind], nth, expected):
            break
    assert nth > CALLS


@pytest.mark.parametrize(("kind", "first"), list(zip(FILE_FAULTS, count(1))), ids=FILE_FAULTS)
def test_every_eleventh_file_operation(tmp_path: Path, expected: Scores, kind: str, first: int) -> None:
    struck = set()
    for nth in range(first * 3, 10_000, 11):
        hit = fail_file(tmp_path / str(nth), FILE_FAULTS[kind], nth, expected)
        if hit is None:
            break
        struck.add(hit)
    assert nth > 100
    assert len(struck) >= 4


def test_each_kind_of_file_operation_in_the_first_request_file(tmp_path: Path, expected: Scores) -> None:
    struck = {fail_file(tmp_path / str(nth), errno.ENOSPC, nth, expected) for nth in (*range(1, 12), *range(18, 34))}
    assert struck >= {"mkdir", "rename", "open", "fsync", "write", "flush", "close", "replace", "unlink"}


@pytest.mark.parametrize(("kind", "first"), list(zip(SQL_FAULTS, count(1))), ids=SQL_FAULTS)
def test_every_fifty_third_statement(tmp_path: Path, expected: Scores, kind: str, first: int) -> None:
    for nth in range(first * 11, 100_000, 53):
        if fail_sql(tmp_path / str(nth), SQL_FAULTS[kind], nth, expected) is None:
            break
    assert nth > 400


def test_the_write_ahead_log_is_lost_at_every_seventh_boundary(tmp_path: Path, expected: Scores) -> None:
    """run.db alone is an older run.db: what was done since is found at the provider and in raw/, and not done again."""
    chosen = boundaries(tmp_path / "count")[3::7]
    held = [lose_log(tmp_path / f"{name}{nth}", expected, name, nth) for name, nth in chosen]
    assert sum(held) >= 8, "where the log held nothing there was nothing to lose"
