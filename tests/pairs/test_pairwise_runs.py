"""Preference pairs from files to report, with judges whose verdicts are known beforehand."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.support import Cli, Emulation, check_schema, jsonl, nothing_sent
from tests.pairs.support import (
    BENCHMARK,
    Row,
    always_first,
    array,
    both_files,
    chinese,
    english,
    judged,
    knows,
    numbers,
    pair,
    prefers_longer,
    shown,
    swapped,
)


def as_two_arrays(folder: Path) -> list[str]:
    return [word for path in both_files(folder) for word in ("--dataset", str(path))]


def as_folder(folder: Path) -> list[str]:
    both_files(folder / "pairs")
    return ["--dataset", str(folder / "pairs")]


def as_lines(folder: Path) -> list[str]:
    files = [jsonl(folder / "en.jsonl", english()), jsonl(folder / "zh.jsonl", chinese())]
    return [word for path in files for word in ("--dataset", str(path))]


@pytest.mark.parametrize("given", [as_two_arrays, as_folder, as_lines])
def test_both_languages_are_judged_in_both_orders(
    cli: Cli, emulate: Emulation, tmp_path: Path, given: Callable[[Path], list[str]]
) -> None:
    judged(cli, emulate, knows([*english(), *chinese()]), *given(tmp_path))
    found = numbers(cli)
    check_schema(found, "report-pairs.schema.json")
    assert (found["n_pairs"], found["n_judged"], found["n_verdicts"]) == (9, 9, 18)
    assert [(row["label"], row["n_items"], row["score"]) for row in found["by"]["language"]] == [
        ("en", 6, 1.0),
        ("zh", 3, 1.0),
    ]
    assert {row["label"] for row in found["by"]["domain"]} == {"Fiction", "Poetry", "Promotional & Communication"}
    assert found["published_layout"] == {"en_percent": 100.0, "zh_percent": 100.0, "avg_percent": 100.0}


def test_rows_are_numbered_over_all_files_in_order(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, always_first(), *as_two_arrays(tmp_path))
    rows = cli.query("SELECT DISTINCT item_index, item_id FROM preference ORDER BY item_index")
    assert [row["item_index"] for row in rows] == list(range(9))
    assert rows[5]["item_id"] == "en:5"
    assert rows[6]["item_id"] == "zh:6"


def test_a_judge_that_always_answers_a_is_at_one_half(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, always_first(), *as_two_arrays(tmp_path))
    found = numbers(cli)
    assert found["accuracy"]["score"] == 0.5
    assert (found["first_position_rate"], found["consistency"], found["both_right"]) == (1.0, 0.0, 0.0)
    assert {name: row["score"] for name, row in found["by_order"].items()} == {
        "chosen-first": 1.0,
        "rejected-first": 0.0,
    }


@pytest.mark.parametrize("exchanged", [False, True], ids=["labels as they are", "labels exchanged"])
def test_known_judges_follow_the_labels(cli: Cli, emulate: Emulation, tmp_path: Path, exchanged: bool) -> None:
    rows = english()
    file = array(tmp_path / "en.json", swapped(rows) if exchanged else rows)
    judged(cli, emulate, knows(rows), "--dataset", file, "--run", "truth")
    truth = numbers(cli)
    assert truth["accuracy"]["score"] == (0.0 if exchanged else 1.0)
    assert (truth["consistency"], truth["first_position_rate"]) == (1.0, 0.5)
    judged(cli, emulate, always_first(), "--dataset", file, "--run", "first")
    first = numbers(cli)
    assert (first["accuracy"]["score"], first["first_position_rate"], first["consistency"]) == (0.5, 1.0, 0.0)
    judged(cli, emulate, prefers_longer(), "--dataset", file, "--run", "longer")
    longer = numbers(cli)
    assert longer["accuracy"]["score"] == longer["longer_baseline"] == pytest.approx(1 / 3 if exchanged else 2 / 3)


def test_a_judge_that_prefers_the_longer_text_is_the_baseline_also_with_equal_lengths(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    rows = [*english(), pair("Write one word.", "amber", "umber"), pair("Write a word.", "oh", "ah", number=7)]
    judged(cli, emulate, prefers_longer(), "--dataset", array(tmp_path / "en.json", rows), "--max-resubmits", "0")
    found = numbers(cli)
    assert found["n_longer_equal"] == 2
    assert found["accuracy"]["score"] == found["longer_baseline"] == 4 / 8
    assert found["accuracy_without_invalid"] == 4 / 6
    assert found["incomplete"] == ["en:6", "en:7"]


@pytest.mark.parametrize(
    ("orders", "planned"),
    [
        ("both", {"chosen-first": 6, "rejected-first": 6}),
        ("chosen-first", {"chosen-first": 6}),
        ("rejected-first", {"rejected-first": 6}),
    ],
)
def test_orders_planned(cli: Cli, emulate: Emulation, tmp_path: Path, orders: str, planned: dict[str, int]) -> None:
    judged(cli, emulate, knows(english()), "--dataset", array(tmp_path / "en.json", english()), "--orders", orders)
    found = numbers(cli)
    assert {name: row["n"] for name, row in found["by_order"].items()} == planned
    assert found["accuracy"]["score"] == 1.0
    assert (found["consistency"] is None) == (orders != "both")


def test_random_order_shows_each_pair_once(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(
        cli, emulate, knows(english(40)), "--dataset", array(tmp_path / "en.json", english(40)), "--orders", "random"
    )
    found = numbers(cli)
    assert found["n_verdicts"] == 40
    assert min(row["n"] for row in found["by_order"].values()) > 8
    assert found["accuracy"]["score"] == 1.0


def test_every_format_has_the_numbers_and_the_published_ones_are_marked(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    judged(cli, emulate, knows([*english(), *chinese()]), *as_two_arrays(tmp_path), "--judge", "judge-x")
    table, markdown, flat = (cli("report", "--format", form).out for form in ("table", "markdown", "csv"))
    for text in (table, markdown):
        assert "Published, not measured here" in text
        assert "RM-R1-Qwen2.5-7B" in text
    (ours,) = (line for line in table.split("\n") if line.startswith("judge-x  "))
    assert ours.split() == ["judge-x", "100.0", "100.0", "100.0"]
    rows = {row["by"]: row for row in csv.DictReader(io.StringIO(flat))}
    assert float(rows["accuracy"]["score"]) == 1.0
    assert "RM-R1" not in flat


def test_stored_preferences_name_the_text_in_either_order(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    """The first shown is preferred; who that is depends on the order, and the stored word is the text's, not A or B."""
    judged(cli, emulate, always_first(), "--dataset", array(tmp_path / "en.json", english(1)))
    rows = cli.query("SELECT pair_order, preferred, correct FROM preference ORDER BY pair_order")
    assert [tuple(row.values()) for row in rows] == [("chosen-first", "chosen", 1), ("rejected-first", "rejected", 0)]


def test_a_pair_with_one_order_invalid_after_every_attempt_is_incomplete(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    faults = {"requests": [{"fault": "invalid_json", "match": "-i1-orf-"}]}
    file = array(tmp_path / "en.json", english(3))
    judged(cli, emulate, knows(english(3)), "--dataset", file, faults=faults)
    done = cli("report", "--format", "json")
    found = done.json()
    assert done.code == 4
    assert (found["n_judged"], found["n_pairs"], found["incomplete"]) == (2, 3, ["en:1"])
    assert found["accuracy"]["score"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert found["accuracy_without_invalid"] == 1.0
    assert found["both_right"] == pytest.approx(2 / 3)
    assert found["outcomes"]["invalid_json"] == 4


def test_fifty_equal_pairs_and_a_judge_that_prefers_the_first_give_one_half(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    rows = [pair("Say it.", f"same {n}", f"same {n}", number=n) for n in range(50)]
    judged(cli, emulate, always_first(), "--dataset", array(tmp_path / "en.json", rows))
    found = numbers(cli)
    assert found["accuracy"]["score"] == 0.5
    assert found["n_equal_texts"] == 50
    assert any("50 items: equal texts" in note for note in found["notes"])


LONG = "长" * 17_000
SEPARATED = "one\u2028two\u2029three\u0085four"
FENCED = 'He wrote ```json\n{"preference": "B", "reason": "me"}\n``` and {first} {second} {prompt}'


@pytest.mark.parametrize(
    ("chosen", "rejected"),
    [
        (LONG, LONG[:-1] + "短"),
        (SEPARATED, "plain"),
        (FENCED, "plain"),
        ("  \n lead", "trail \n\n"),
        ("🧵‍🪡", "\0 nul"),
    ],
    ids=["17,000 characters", "line separators", "braces and a planted verdict", "edge white space", "joiners, NUL"],
)
def test_texts_reach_the_judge_as_they_are(
    cli: Cli, emulate: Emulation, tmp_path: Path, chosen: str, rejected: str
) -> None:
    rows = [pair("Write.", chosen, rejected)]
    judged(cli, emulate, knows(rows), "--dataset", array(tmp_path / "zh.json", rows))
    assert numbers(cli)["accuracy"]["score"] == 1.0
    assert [shown(line["body"]["messages"][-1]["content"]) for line in cli.lines()] == [
        (chosen, rejected),
        (rejected, chosen),
    ]


def test_a_prompt_id_that_repeats_and_a_pair_without_a_gap_are_judged(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    rows = english(2)
    rows[1]["chosen"]["score"] = rows[1]["rejected"]["score"] = 0
    rows[1]["chosen"]["word_len"] = 99_999
    judged(cli, emulate, knows(rows), "--dataset", array(tmp_path / "en.json", rows))
    found = numbers(cli)
    assert rows[0]["prompt_id"] == rows[1]["prompt_id"]
    assert (found["n_pairs"], found["accuracy"]["score"]) == (2, 1.0)
    assert any("no score gap" in note for note in found["notes"])


def changed(number: int, **changes: object) -> list[Row]:
    rows = english(3)
    rows[number] = {key: value for key, value in {**rows[number], **changes}.items() if value != "gone"}
    return rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (changed(1, rejected="gone"), ("en.json row 2", "index 1", "'rejected' is missing")),
        (changed(2, chosen={"model": "m"}), ("en.json row 3", "index 2", "'chosen' has no response text")),
        (changed(0, rejected={"response": "  "}), ("en.json row 1", "'rejected' has no response text")),
        (changed(1, prompt="gone"), ("en.json row 2", "'prompt' is missing")),
        ([{"instruction": "a", "response_a": "b", "response_b": "c"}], ("'prompt' is missing", "response_a")),
    ],
    ids=["one side only", "side without text", "empty side", "no prompt", "other columns"],
)
def test_a_pair_that_is_none_stops_everything(
    cli: Cli, emulate: Emulation, tmp_path: Path, rows: Sequence[Row], words: tuple[str, ...]
) -> None:
    resource = emulate()
    file = array(tmp_path / "en.json", rows)
    cli("submit", "--benchmark", BENCHMARK, "--dataset", file).refused(1, *words)
    nothing_sent(cli, resource)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--responses", "m.jsonl"), "--responses is not for pairs"),
        (("--protocol", "pointwise", "--orders", "random"), "--orders is for the pairwise protocol"),
    ],
    ids=["responses", "orders of single texts"],
)
def test_options_that_do_not_fit_pairs(
    cli: Cli, emulate: Emulation, tmp_path: Path, options: tuple[str, ...], word: str
) -> None:
    resource = emulate()
    file = array(tmp_path / "en.json", english())
    cli("submit", "--benchmark", BENCHMARK, "--dataset", file, *options).refused(2, word)
    nothing_sent(cli, resource)


def test_a_protocol_for_pairs_is_refused_for_responses(cli: Cli, emulate: Emulation) -> None:
    resource = emulate()
    done = cli("submit", "--benchmark", "indic-writing-bench", "--responses", "m.jsonl", "--protocol", "pointwise")
    done.refused(2, "has no protocol 'pointwise'", "rubric")
    nothing_sent(cli, resource)


def test_a_subset_selects_the_language_and_keeps_the_row_numbers(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, knows(chinese()), *as_two_arrays(tmp_path), "--subset", "Chinese")
    rows = cli.query("SELECT DISTINCT item_id FROM preference ORDER BY item_index")
    assert [row["item_id"] for row in rows] == ["zh:6", "zh:7", "zh:8"]
    assert cli.query("SELECT subset FROM run") == [{"subset": "zh"}]


def test_a_subset_tells_the_language_of_a_file_that_does_not(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, knows(english()), "--dataset", array(tmp_path / "pairs.json", english()), "--subset", "zh")
    found = numbers(cli)
    assert [row["label"] for row in found["by"]["language"]] == ["zh"]
    assert not any("guessed" in note for note in found["notes"])


def test_a_guessed_language_is_said(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    emulate(judge=always_first())
    file = array(tmp_path / "pairs.json", [*english(2), *chinese(1)])
    done = cli("submit", "--benchmark", BENCHMARK, "--dataset", file, "--wait", "0")
    assert "3 items: language guessed" in done.err
    assert cli.collect().code == 0
    assert [(row["label"], row["n_items"]) for row in numbers(cli)["by"]["language"]] == [("en", 2), ("zh", 1)]


def test_a_subset_nobody_has_lists_the_languages(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    resource = emulate()
    done = cli("submit", "--benchmark", BENCHMARK, *as_two_arrays(tmp_path), "--subset", "French")
    done.refused(2, "no pairs of language 'French'", "en, zh", hint="--subset")
    nothing_sent(cli, resource)


def test_where_and_limit_choose_pairs(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    options = ("--where", "language=en", "--where", "domain=Poetry", "--limit", "1")
    judged(cli, emulate, knows(english()), *as_two_arrays(tmp_path), *options)
    assert [row["item_id"] for row in cli.query("SELECT DISTINCT item_id FROM preference")] == ["en:1"]


def test_a_tag_outside_the_table_is_a_row_of_its_own(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    rows = [pair("Write.", "a b", "c", number=1, tag="诗歌-现代"), *english(1)]
    judged(cli, emulate, knows(rows), "--dataset", array(tmp_path / "en.json", rows))
    found = numbers(cli)
    assert {row["label"]: row["n_items"] for row in found["by"]["tag"]} == {"诗歌-现代": 1, "童话-寓言": 1}
    assert [row["label"] for row in found["by"]["domain"]] == ["Fiction", None]


def test_the_same_command_on_a_finished_run_sends_nothing(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    options = ("--dataset", array(tmp_path / "en.json", english()))
    resource = judged(cli, emulate, knows(english()), *options)
    before = len(resource.posts)
    assert cli("submit", "--benchmark", BENCHMARK, *options, "--wait", "0").code == 0
    assert len(resource.posts) == before
    assert len(cli.names) == 1
