"""Bad input: one line says what, where and what next; nothing is sent and no folder is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import (
    Cli,
    Inputs,
    Resource,
    answer,
    criterion,
    item,
    jsonl,
    nothing_sent,
    responses,
)


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


def replaced(line: int, text: str) -> bytes:
    """Two good responses, one of which is replaced by ``text``."""
    lines = [json.dumps(row, ensure_ascii=False) for row in responses(2)]
    lines[line - 1] = text
    return ("\n".join(lines) + "\n").encode()


@dataclass(frozen=True)
class Bad:
    """A file with something wrong, and what the message must say about it."""

    content: bytes
    words: tuple[str, ...]
    hint: str
    name: str = "model-x.jsonl"


BAD_RESPONSES = {
    "not JSON": Bad(replaced(2, "Dear Mr Rao"), ("model-x.jsonl line 2", "not JSON"), "write the file again"),
    "cut line": Bad(replaced(2, '{"index": 1, "resp'), ("model-x.jsonl line 2", "not JSON"), "mend"),
    "array in a line": Bad(replaced(1, "[1, 2]\t"), ("model-x.jsonl", "row 1"), "array of objects"),
    "NaN": Bad(replaced(1, '{"index": NaN, "response": "x"}'), ("line 1", "NaN is not a JSON value"), "mend"),
    "not UTF-8": Bad(replaced(2, "")[:-1] + b'{"index": 1, "response": "\xe9"}', ("line 2", "not UTF-8"), "UTF-8"),
    "UTF-16": Bad(replaced(2, "").decode().encode("utf-16"), ("model-x.jsonl", "UTF-16"), "UTF-8"),
    "wrong column": Bad(
        replaced(1, '{"index": 0, "output": "x"}'), ("line 1", "no 'response'", "output"), "'response'"
    ),
    "no index": Bad(replaced(1, '{"id": 0, "response": "x"}'), ("line 1", "no 'index'", "id"), "'index'"),
    "duplicate index": Bad(
        replaced(2, '{"index": 0, "response": "x"}'),
        ("model-x.jsonl", "twice: 0", "lines 1 and 2", "2 items"),
        "subset",
    ),
    "unknown index": Bad(
        replaced(2, '{"index": 77, "response": "x"}'), ("model-x.jsonl", "not in the data: 77", "line 2"), "data set"
    ),
    "missing index": Bad(
        replaced(2, ""), ("model-x.jsonl", "1 item without a response: 1", "1 index for 2 items"), "--allow-missing"
    ),
    "index with a leading zero": Bad(
        replaced(2, '{"index": "01", "response": "x"}'), ("line 2", "index '01'", "whole number"), "integer"
    ),
    "index in Devanagari digits": Bad(
        replaced(2, '{"index": "१", "response": "x"}'), ("line 2", "index", "whole number"), "integer"
    ),
    "index as a word": Bad(
        replaced(2, '{"index": "one", "response": "x"}'), ("line 2", "index 'one'", "whole number"), "integer"
    ),
    "index as a fraction": Bad(replaced(2, '{"index": 1.0, "response": "x"}'), ("line 2", "index 1.0"), "integer"),
    "index true": Bad(replaced(2, '{"index": true, "response": "x"}'), ("line 2", "index True"), "integer"),
    "response null": Bad(replaced(2, '{"index": 1, "response": null}'), ("line 2", "null", "not text"), "empty"),
    "response a number": Bad(replaced(2, '{"index": 1, "response": 5}'), ("line 2", "5", "not text"), "empty"),
    "an endless number": Bad(
        replaced(2, f'{{"index": 1, "response": "x", "n": {"9" * 5_000}}}'),
        ("model-x.jsonl line 2", "not usable JSON: a number with more than 4,300 digits"),
        "mend or remove the row",
    ),
    "response empty": Bad(
        replaced(2, '{"index": 1, "response": ""}'), ("model-x.jsonl", "index 1 (empty response)"), "--empty-responses"
    ),
    "response only blanks": Bad(
        replaced(2, '{"index": 1, "response": " \\u200b\\ufeff\\n"}'),
        ("index 1 (empty response)",),
        "--empty-responses",
    ),
    "thoughts never closed": Bad(
        replaced(2, '{"index": 1, "response": "<think>first I"}'),
        ("model-x.jsonl", "index 1 (no answer)"),
        "--strip-reasoning off",
    ),
    "no rows": Bad(b"\n\n", ("model-x.jsonl", "holds no rows"), "right file"),
    "empty file": Bad(b"", ("model-x.jsonl", "holds no rows"), "right file"),
    "cut array": Bad(b'[{"index": 0, "response": "x"}', ("model-x.jsonl row 1", "cut"), "Mend the input"),
    "unknown suffix": Bad(b"x", ("model-x.txt", "'.txt' cannot be read"), ".jsonl", "model-x.txt"),
    "damaged parquet": Bad(b"PAR1 and no more", ("model-x.parquet", "Parquet"), "write the file", "model-x.parquet"),
    "ragged CSV": Bad(b"index,response\n0,a,b\n", ("model-x.csv line 2", "3 cells"), "quote", "model-x.csv"),
}


@pytest.mark.parametrize("bad", BAD_RESPONSES.values(), ids=BAD_RESPONSES.keys())
def test_bad_responses_are_refused(cli: Cli, two: Inputs, resource: Resource, bad: Bad) -> None:
    path = two.answers.with_name(bad.name)
    path.write_bytes(bad.content)
    done = cli.submit(Inputs(two.data, path))
    done.refused(1, *bad.words, hint=bad.hint)
    nothing_sent(cli, resource)


BAD_ROWS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "four criteria": (
        lambda: item(1, checklist=[criterion(name) for name in "abcd"]),
        ("items.jsonl line 2", "index 1", "4 criteria instead of 5"),
    ),
    "six criteria": (
        lambda: item(1, checklist=[criterion(name) for name in "abcdef"]),
        ("items.jsonl line 2", "index 1", "6 criteria"),
    ),
    "missing band": (
        lambda: item(1, checklist=[*(criterion(n) for n in "abcd"), without(criterion("भाषा"), "7-8")]),
        ("line 2", "index 1", "band 7-8 missing in criterion 5 'भाषा'"),
    ),
    "empty description": (
        lambda: item(1, checklist=[*(criterion(n) for n in "abcd"), criterion("e") | {"criteria_description": " "}]),
        ("line 2", "index 1", "criteria_description is empty in criterion 5"),
    ),
    "no checklist": (lambda: without(item(1), "checklist"), ("line 2", "index 1", "'checklist' is missing")),
    "checklist as broken text": (lambda: item(1, checklist="[{"), ("line 2", "index 1", "not JSON")),
    "no query": (lambda: without(item(1), "query"), ("line 2", "index 1", "'query' is missing")),
    "empty query": (lambda: item(1, query="  "), ("line 2", "index 1", "'query' is empty")),
}


@pytest.mark.parametrize(("row", "words"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_bad_items_are_refused(
    cli: Cli, two: Inputs, resource: Resource, row: Callable[[], Any], words: tuple[str, ...]
) -> None:
    jsonl(two.data, [item(0), row()])
    done = cli.submit(two)
    done.refused(1, *words)
    nothing_sent(cli, resource)


@pytest.mark.parametrize("which", ["data", "answers"])
def test_a_missing_file_is_named_and_where_it_was_looked_for(
    cli: Cli, two: Inputs, resource: Resource, which: str
) -> None:
    path: Path = getattr(two, which)
    path.unlink()
    done = cli.submit(two)
    done.refused(1, path.name, "no such file", hint=f"looked for {path}")
    nothing_sent(cli, resource)


def test_a_folder_in_place_of_the_responses_is_refused(cli: Cli, two: Inputs, resource: Resource) -> None:
    two.answers.unlink()
    two.answers.mkdir()
    cli.submit(two).refused(1, "model-x.jsonl", "is a folder", hint="name one file")
    nothing_sent(cli, resource)


def test_a_file_name_cannot_turn_the_message_around(cli: Cli, two: Inputs, resource: Resource) -> None:
    path = two.answers.rename(two.answers.with_name("a\u202eb.jsonl"))
    path.write_bytes(b"nothing\n")
    cli.submit(Inputs(two.data, path)).refused(1, "a\\u202eb.jsonl line 1", "not JSON")
    nothing_sent(cli, resource)


def test_all_faults_of_the_indexes_are_told_at_once(cli: Cli, two: Inputs, resource: Resource) -> None:
    rows = [{"index": index, "response": "x"} for index in (0, 0, 5, 6)]
    jsonl(two.answers, rows)
    cli.submit(two).refused(1, "twice: 0 (lines 1 and 2)", "not in the data: 5, 6 (line 3, 4)", "without a response: 1")
    nothing_sent(cli, resource)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param(["--where", "language=Tamil"], "no item is left to judge", id="no such value"),
        pytest.param(["--where", "colour=red"], "no row has 'colour'; there are: ", id="no such key"),
        pytest.param(
            ["--subset", "Tamil"], "no rows of language 'Tamil'; it has: Hindi, English", id="no such language"
        ),
        pytest.param(["--revision", "main"], "--revision is for hub data sets", id="revision of a file"),
    ],
)
def test_a_selection_of_nothing_is_refused(
    cli: Cli, two: Inputs, resource: Resource, options: list[str], words: str
) -> None:
    done = cli.submit(two, *options)
    done.refused(1 if "no item" in words else 2, words)
    nothing_sent(cli, resource)


def test_a_request_above_the_byte_limit_names_its_item(cli: Cli, two: Inputs, resource: Resource) -> None:
    rows = responses(2)
    rows[1]["response"] = answer(1) + "x" * 30_000
    jsonl(two.answers, rows)
    done = cli.submit(two, "--max-bytes-per-file", "20000")
    done.refused(1, "item 1", "above the 20,000 of one request file", hint="--max-bytes-per-file")
    nothing_sent(cli, resource)


def test_the_same_faults_stop_a_dry_run(cli: Cli, two: Inputs) -> None:
    two.answers.write_bytes(replaced(2, "Dear Mr Rao"))
    cli.submit(two, "--dry-run").refused(1, "model-x.jsonl line 2", "not JSON", hint="mend")
    assert cli.names == []
