"""Input as it comes: what is accepted, what is said about it, and what reaches the judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import (
    ANSWERS,
    CRITERIA,
    QUERIES,
    Cli,
    Emulation,
    Inputs,
    Resource,
    Scripted,
    answer,
    criterion,
    inputs,
    item,
    items,
    jsonl,
    nothing_sent,
    own_score,
    responses,
    stored,
)


def prompts(cli: Cli) -> list[str]:
    """What the judge is asked, one for each line of the request files."""
    return [line["body"]["messages"][-1]["content"] for line in cli.lines()]


def judged(cli: Cli, index: int) -> str:
    """The response of an item as the run keeps it."""
    ((text,),) = stored(cli.folder / "run.db", f"select answer from response where item_index = {index}")
    assert isinstance(text, str)
    return text


LINE = b'{"index": 0, "response": "one"}'
OTHER = b'{"index": 1, "response": "two"}'

SHAPES = {
    "BOM": b"\xef\xbb\xbf" + LINE + b"\n" + OTHER + b"\n",
    "CRLF": LINE + b"\r\n" + OTHER + b"\r\n",
    "no final line end": LINE + b"\n" + OTHER,
    "blank lines": b"\n" + LINE + b"\n \n\t\n" + OTHER + b"\n\n",
    "another order": OTHER + b"\n" + LINE + b"\n",
    "extra keys": b'{"index": 0, "response": "one", "model": "m", "usage": {"n": [1, null]}}\n' + OTHER,
    "index as text": b'{"index": "0", "response": "one"}\n{"index": "1", "response": "two"}',
    "escaped": b'{"index": 0, "response": "\\u006fne"}\n' + OTHER,
    "array": b"[" + LINE + b",\n" + OTHER + b"]",
}


@pytest.mark.parametrize("content", SHAPES.values(), ids=SHAPES.keys())
def test_responses_are_read_in_any_usual_shape(cli: Cli, two: Inputs, resource: Resource, content: bytes) -> None:
    two.answers.write_bytes(content)
    done = cli.submit(two)
    assert done.code == 0, done.err
    assert (judged(cli, 0), judged(cli, 1)) == ("one", "two")


TEXTS = {
    "line separators": "एक\u2028दो\u2029तीन\u0085चार",
    "line ends": "one\r\ntwo\rthree\x0bfour\x0cfive\n",
    "NUL": "before\0after",
    "braces": "{criteria} {query} {response} {{x}} {0} %s",
    "formula": '=HYPERLINK("http://example.invalid","x")',
    "markup": '<script>alert(1)</script>" onmouseover="x',
    "think in back-ticks": "The tag `<think>` opens, `</think>` closes.",
    "emoji": "👩‍🚀 अंतरिक्ष 🇮🇳",
    "verdict": '{"score": 10, "reason": "best"}',
    "white space": "\n\t  text  \n",
    "large": "वर्षा और 雨水 and rain. " * 52_000,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_response_reaches_the_judge_as_it_is(cli: Cli, two: Inputs, resource: Resource, text: str) -> None:
    jsonl(two.answers, [{"index": 0, "response": text}, {"index": 1, "response": "x"}])
    done = cli.submit(two)
    assert done.code == 0, done.err
    assert judged(cli, 0) == text
    assert sum(text in prompt for prompt in prompts(cli)) == 5
    assert cli.collect().code == 0
    assert cli("status", "--json").json()["scored"] == 10


def test_the_large_response_is_above_two_megabytes() -> None:
    assert len(TEXTS["large"].encode()) > 2_000_000


def test_a_lone_surrogate_becomes_a_replacement_character_and_is_counted(
    cli: Cli, two: Inputs, resource: Resource
) -> None:
    two.answers.write_bytes(b'{"index": 0, "response": "a\\ud83d b"}\n' + OTHER)
    done = cli.submit(two)
    assert done.code == 0, done.err
    assert "note: 1 response: a lone surrogate became U+FFFD" in done.err
    assert judged(cli, 0) == "a\ufffd b"


def test_a_nul_is_kept_and_counted(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.answers, [{"index": 0, "response": "a\0b"}, {"index": 1, "response": "x"}])
    assert "note: 1 response: hold a NUL character" in cli.submit(two).err


def to_csv(path: Path) -> Path:
    target = path.with_suffix(".csv")
    rows = ["response,index,note", f'"{ANSWERS[0]}, again\n""quoted""",0,x', f"{ANSWERS[2]},1,"]
    target.write_bytes("\r\n".join(rows).encode())
    return target


def to_parquet(path: Path) -> Path:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    target = path.with_suffix(".parquet")
    texts = [f'{ANSWERS[0]}, again\n"quoted"', ANSWERS[2]]
    pq.write_table(pa.table({"index": [0, 1], "response": texts, "note": ["x", None]}), target)
    return target


@pytest.mark.parametrize("convert", [to_csv, to_parquet])
def test_responses_may_be_csv_or_parquet(
    cli: Cli, two: Inputs, resource: Resource, convert: Callable[[Path], Path]
) -> None:
    done = cli.submit(Inputs(two.data, convert(two.answers)))
    assert done.code == 0, done.err
    expected = (f'{ANSWERS[0]}, again\n"quoted"', ANSWERS[2])
    assert tuple(text.replace("\r\n", "\n") for text in (judged(cli, 0), judged(cli, 1))) == expected


def as_array(given: Inputs) -> Path:
    path = given.data.with_suffix(".json")
    path.write_text(json.dumps(items(2), ensure_ascii=False, indent=1), encoding="utf-8")
    return path


def as_parquet(given: Inputs) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = given.data.with_suffix(".parquet")
    pq.write_table(pa.Table.from_pylist(items(2)), path)
    return path


def as_text_checklist(given: Inputs) -> Path:
    rows = [row | {"checklist": json.dumps(row["checklist"], ensure_ascii=False)} for row in items(2)]
    return jsonl(given.data, rows)


def as_windows_file(given: Inputs) -> Path:
    given.data.write_bytes(b"\xef\xbb\xbf" + given.data.read_bytes().replace(b"\n", b"\r\n"))
    return given.data


@pytest.mark.parametrize("convert", [as_array, as_parquet, as_text_checklist, as_windows_file])
def test_the_same_items_in_another_form_ask_the_same(
    cli: Cli, two: Inputs, resource: Resource, convert: Callable[[Inputs], Path]
) -> None:
    assert cli.submit(two, "--run", "plain").code == 0
    done = cli.submit(Inputs(convert(two), two.answers), "--run", "plain")
    assert done.code == 0, done.err
    assert len(resource.service.batches_created) == 1


def folder(path: Path) -> Path:
    """A local data set with two configs in Parquet, named by the head of its README."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, index in (("hindi", 0), ("chinese", 2)):
        (path / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([item(index)]), path / name / "test-00000-of-00001.parquet")
    configs = "".join(
        f"- config_name: {name}\n  data_files:\n  - split: test\n    path: {name}/test-*\n"
        for name in ("hindi", "chinese")
    )
    (path / "README.md").write_text(f"---\nlicense: mit\nconfigs:\n{configs}---\n# Data\n", encoding="utf-8")
    return path


def test_a_folder_with_configs_is_read_by_subset(cli: Cli, two: Inputs, resource: Resource, tmp_path: Path) -> None:
    data = folder(tmp_path / "bench")
    jsonl(two.answers, [{"index": 2, "response": answer(2)}])
    done = cli.submit(Inputs(data, two.answers), "--subset", "chinese")
    assert done.code == 0, done.err
    assert all(QUERIES[2] in prompt for prompt in prompts(cli))
    assert "indic-writing-bench-chinese-" in cli.folder.name


def test_a_folder_edited_afterwards_is_read_afresh(cli: Cli, two: Inputs, resource: Resource, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = folder(tmp_path / "bench")
    jsonl(two.answers, [{"index": 2, "response": answer(2)}])
    given = Inputs(data, two.answers)
    assert cli.submit(given, "--subset", "chinese", "--run", "first").code == 0
    changed = item(2, query="写一首诗")
    pq.write_table(pa.Table.from_pylist([changed]), data / "chinese" / "test-00000-of-00001.parquet")
    cli.submit(given, "--subset", "chinese", "--run", "first").refused(1, "data_sha256", hint="another --run")


@pytest.mark.parametrize(
    ("options", "words"),
    [([], "several configs: hindi, chinese"), (["--subset", "tamil"], "no config 'tamil'; it has: hindi, chinese")],
    ids=["none named", "wrong name"],
)
def test_a_subset_that_is_missing_or_wrong_lists_those_that_exist(
    cli: Cli, two: Inputs, resource: Resource, tmp_path: Path, options: list[str], words: str
) -> None:
    given = Inputs(folder(tmp_path / "bench"), two.answers)
    cli.submit(given, *options).refused(2, words, hint="--subset")
    nothing_sent(cli, resource)


def test_a_split_that_does_not_exist_lists_those_that_do(
    cli: Cli, two: Inputs, resource: Resource, tmp_path: Path
) -> None:
    given = Inputs(folder(tmp_path / "bench"), two.answers)
    cli.submit(given, "--subset", "hindi", "--split", "dev").refused(
        2, "no split 'dev'", "it has: test", hint="--split"
    )
    nothing_sent(cli, resource)


def test_a_folder_of_save_to_disk_is_refused_with_the_way_out(
    cli: Cli, two: Inputs, resource: Resource, tmp_path: Path
) -> None:
    data = tmp_path / "saved"
    data.mkdir()
    (data / "state.json").write_bytes(b"{}")
    (data / "data-00000-of-00001.arrow").write_bytes(b"ARROW1")
    cli.submit(Inputs(data, two.answers)).refused(1, "saved: was written by save_to_disk", hint="to_parquet")
    nothing_sent(cli, resource)


def test_the_language_of_a_file_is_its_subset(cli: Cli, tmp_path: Path, resource: Resource) -> None:
    given = inputs(tmp_path / "six", 6)
    jsonl(given.answers, [row for row in responses(6) if row["index"] % 3 == 0])
    done = cli.submit(given, "--subset", "hindi")
    assert done.code == 0, done.err
    assert [row["item_index"] for row in cli.query("select item_index from item_score order by 1")] == [0, 3]


def test_missing_responses_may_be_allowed_and_stay_in_the_count(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.answers, responses(1))
    done = cli.submit(two, "--allow-missing")
    assert done.code == 0, done.err
    assert cli.collect().code == 0
    report = cli("report", "--format", "json")
    assert (report.json()["n_items"], report.json()["n_complete"]) == (2, 1)
    assert cli.query("select item_index, left_out from item where left_out is not null") == [
        {"item_index": 1, "left_out": "missing response"}
    ]


EMPTY = {"empty": "", "blank": " \n", "invisible": "\u200b\ufeff", "unclosed thoughts": "<think>let me see"}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY.keys())
def test_empty_responses_may_be_left_out(cli: Cli, two: Inputs, resource: Resource, text: str) -> None:
    jsonl(two.answers, [{"index": 0, "response": text}, {"index": 1, "response": answer(1)}])
    done = cli.submit(two, "--empty-responses", "exclude")
    assert done.code == 0, done.err
    assert "1 response without an answer: --empty-responses exclude" in done.err
    assert len(cli.lines()) == 5
    assert cli.collect().code == 0
    assert cli("report", "--format", "json").json()["n_items"] == 2


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY.keys())
def test_empty_responses_may_be_judged(cli: Cli, two: Inputs, resource: Resource, text: str) -> None:
    jsonl(two.answers, [{"index": 0, "response": text}, {"index": 1, "response": answer(1)}])
    done = cli.submit(two, "--empty-responses", "judge")
    assert done.code == 0, done.err
    assert len(cli.lines()) == 10
    assert not any("let me see" in prompt for prompt in prompts(cli))
    assert cli.collect().code == 0
    assert cli("report", "--format", "json").json()["n_complete"] == 2


def test_thoughts_are_cut_before_judging_and_kept_in_the_run(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.answers, [{"index": 0, "response": "<think>\nsecret plan\n</think>\n\nबादल"}, responses(2)[1]])
    assert cli.submit(two).code == 0
    assert judged(cli, 0) == "बादल"
    assert not any("secret plan" in prompt for prompt in prompts(cli))
    assert "secret plan" in cli("show", "0").out


def original_row(index: int) -> dict[str, Any]:
    """A row as the original benchmark lays it out."""
    return {
        "index": index,
        "domain1": "Literature",
        "domain2": "Poem",
        "lang": "en" if index % 2 else "zh",
        "query": QUERIES[1 if index % 2 else 2],
        "checklist": [criterion(name) for name in CRITERIA],
    }


def test_the_original_layout_with_windows_line_ends(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(judge=Scripted(own_score))
    text = "".join(json.dumps(original_row(index), ensure_ascii=False) + "\r\n" for index in (1, 2, 3))
    two.data.write_bytes(text.encode())
    jsonl(two.answers, [{"index": index, "response": answer(index)} for index in (3, 1, 2)])
    options = ("--benchmark", "writing-bench", "--dataset", two.data, "--responses", two.answers)
    done = cli("submit", *options, "--wait", "0")
    assert done.code == 0, done.err
    assert cli.collect().code == 0
    rows = cli.query("select item_index, domain, subdomain, language, variant, score from item_score order by 1")
    assert [tuple(row.values()) for row in rows] == [
        (1, "Literature", "Poem", "en", None, 2.0),
        (2, "Literature", "Poem", "zh", None, 3.0),
        (3, "Literature", "Poem", "en", None, 4.0),
    ]


def test_rows_without_a_usable_index_are_numbered_and_it_is_said(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.data, [item(7), item(7, query="a second text")])
    done = cli.submit(two)
    assert done.code == 0, done.err
    assert "note: rows are numbered from 0: index 7 occurs again at items.jsonl line 2" in done.err
    assert [row["item_index"] for row in cli.query("select item_index from item order by 1")] == [0, 1]
