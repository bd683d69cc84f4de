"""A request line that no provider would take stops everything before the first byte goes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iwb_batch.model import CustomId
from iwb_batch.store.plan import PlannedAttempt, ToSend
from iwb_batch.workflow.judging import Judging
from tests.cli.support import Cli, Inputs, Resource, stored

SAME = "0123456789-i0-c0-r1-a1"

Spoil = Callable[[PlannedAttempt, bytes], tuple[PlannedAttempt, bytes]]


def without(key: str) -> Spoil:
    def spoil(attempt: PlannedAttempt, line: bytes) -> tuple[PlannedAttempt, bytes]:
        return attempt, json.dumps({k: v for k, v in json.loads(line).items() if k != key}).encode() + b"\n"

    return spoil


def with_value(key: str, value: Any) -> Spoil:
    return lambda attempt, line: (attempt, json.dumps({**json.loads(line), key: value}).encode() + b"\n")


def as_text(attempt: PlannedAttempt, _line: bytes) -> tuple[PlannedAttempt, bytes]:
    return attempt, b'"just a string"\n'


def cut(attempt: PlannedAttempt, line: bytes) -> tuple[PlannedAttempt, bytes]:
    return attempt, line[:-40] + b"\n"


SPOILT: dict[str, tuple[Spoil, str]] = {
    "no method": (without("method"), "missing method"),
    "no url": (without("url"), "missing url"),
    "empty custom_id": (with_value("custom_id", ""), "empty custom_id"),
    "no messages": (with_value("body", {"model": "gpt-5.4"}), "missing body.messages"),
    "a bare string": (as_text, "not an object"),
    "a cut line": (cut, "not an object"),
}


def spoil_second_item(patch: pytest.MonkeyPatch, spoil: Spoil) -> None:
    """Let the program itself write lines that are wrong, from the second item on."""
    render = Judging.render

    def spoilt(self: Judging, run_id: str, to_send: ToSend, lane: str = "") -> tuple[PlannedAttempt, bytes]:
        attempt, line = render(self, run_id, to_send, lane)
        return spoil(attempt, line) if to_send.request.item_index == 1 else (attempt, line)

    patch.setattr(Judging, "render", spoilt)


@pytest.mark.parametrize(("spoil", "words"), SPOILT.values(), ids=SPOILT.keys())
def test_a_malformed_line_is_named_and_nothing_is_uploaded(
    cli: Cli, two: Inputs, resource: Resource, spoil: Spoil, words: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        spoil_second_item(patch, spoil)
        done = cli.submit(two, "--run", "mine")
        done.refused(1, "0001.jsonl line 6", "-i1-c0-r1-a1: ", words, hint="Nothing of this file was sent")
    assert resource.posts == []
    assert list((cli.folder / "requests").iterdir()) == []
    assert stored(cli.folder / "run.db", "SELECT count(*) FROM attempt") == [(0,)]
    assert cli.submit(two, "--run", "mine").code == 0
    assert cli.collect().code == 0


def test_a_custom_id_that_occurs_twice_is_refused_before_anything_is_uploaded(
    cli: Cli, two: Inputs, resource: Resource
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        spoil_second_item(
            patch,
            lambda attempt, line: (
                replace(attempt, custom_id=CustomId(SAME)),
                line.replace(attempt.custom_id.encode(), SAME.encode()),
            ),
        )
        cli.submit(two, "--run", "mine").refused(1, "UNIQUE constraint failed: attempt.custom_id")
    assert resource.posts == []
    assert cli.submit(two, "--run", "mine").code == 0
    assert len({line["custom_id"] for line in cli.lines()}) == 10
