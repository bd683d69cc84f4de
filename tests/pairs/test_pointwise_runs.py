"""Pairs whose texts are scored one at a time: the judge as a reward model with ten levels."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.cli.support import Cli, Emulation, Scripted, check_schema, verdict
from tests.pairs.support import (
    BENCHMARK,
    Row,
    array,
    both_files,
    chinese,
    english,
    judged,
    knows,
    numbers,
    pair,
    scores_alone,
    shown_alone,
    swapped,
)

POINTWISE = ("--protocol", "pointwise")


def likes(rows: Sequence[Row]) -> Callable[[str], int]:
    """9 for a chosen text, 4 for any other."""
    good = {row["chosen"]["response"] for row in rows}
    return lambda text: 9 if text in good else 4


@pytest.mark.parametrize("exchanged", [False, True], ids=["labels as they are", "labels exchanged"])
def test_a_judge_that_knows_the_truth_is_right_everywhere_until_labels_are_exchanged(
    cli: Cli, emulate: Emulation, tmp_path: Path, exchanged: bool
) -> None:
    rows = english()
    file = array(tmp_path / "en.json", swapped(rows) if exchanged else rows)
    judged(cli, emulate, scores_alone(likes(rows)), "--dataset", file, *POINTWISE)
    found = numbers(cli)
    check_schema(found, "report-pointwise.schema.json")
    assert found["accuracy"]["score"] == (0.0 if exchanged else 1.0)
    assert (found["n_pairs"], found["n_judged"], found["ties"], found["invalid"]) == (6, 6, 0, 0)
    assert found["mean_score"] == {"chosen": 4.0 if exchanged else 9.0, "rejected": 9.0 if exchanged else 4.0}


def test_ties_are_wrong_and_counted(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, scores_alone(lambda _text: 6), "--dataset", array(tmp_path / "en.json", english()), *POINTWISE)
    done = cli("report", "--format", "json")
    found = done.json()
    assert done.code == 0
    assert (found["accuracy"]["score"], found["ties"], found["correct"], found["wrong"]) == (0.0, 6, 0, 0)
    assert found["histogram"]["chosen"] == {str(score): 6 if score == 6 else 0 for score in range(1, 11)}
    table = cli("report").out
    assert "a tie is not correct" in table
    assert re.search(r"^ties +6$", table, re.MULTILINE)


def test_longer_texts_scored_higher_give_the_baseline(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judge = scores_alone(lambda text: 8 if len(text) > 60 else 2)
    judged(cli, emulate, judge, "--dataset", array(tmp_path / "en.json", english()), *POINTWISE)
    found = numbers(cli)
    assert found["accuracy"]["score"] == found["longer_baseline"] == pytest.approx(4 / 6)


def test_both_languages_have_the_same_breakdowns_as_a_pairwise_run(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    files = [word for path in both_files(tmp_path) for word in ("--dataset", path)]
    rows = [*english(), *chinese()]
    judged(cli, emulate, scores_alone(likes(rows)), *files, *POINTWISE, "--run", "alone")
    alone = numbers(cli)
    judged(cli, emulate, knows(rows), *files, "--run", "together")
    together = numbers(cli)
    assert alone["by"] == together["by"]
    assert alone["published_layout"] == together["published_layout"]
    assert alone["protocol"] == "pointwise"
    for form in ("table", "markdown"):
        assert "each text scored on its own" in cli("report", "alone", "--format", form).out
        assert "Published, not measured here" in cli("report", "alone", "--format", form).out
    flat = {row["label"]: row for row in csv.DictReader(io.StringIO(cli("report", "alone", "--format", "csv").out))}
    assert float(flat["en"]["score"]) == 1.0
    assert flat["ties"]["n_complete"] == "0"


def test_a_pair_with_a_text_that_stays_unscored_is_incomplete_and_wrong(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    rows = english(3)
    faults = {"requests": [{"fault": "invalid_json", "match": "-i2-sr-"}]}
    emulate(judge=scores_alone(likes(rows)), faults=faults)
    file = array(tmp_path / "en.json", rows)
    cli("submit", "--benchmark", BENCHMARK, "--dataset", file, *POINTWISE, "--wait", "0", "--max-resubmits", "1")
    assert cli.collect().code == 4
    done = cli("report", "--format", "json")
    found = done.json()
    assert done.code == 4
    assert (found["invalid"], found["incomplete"], found["n_judged"]) == (1, ["en:2"], 2)
    assert found["accuracy"]["score"] == pytest.approx(2 / 3)
    assert found["accuracy_without_invalid"] == 1.0
    assert cli.query("SELECT side, attempts, item_id FROM failure") == [
        {"side": "rejected", "attempts": 2, "item_id": "en:2"}
    ]


def test_repeats_are_averaged_before_texts_are_compared(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    rows = [pair("Write.", "good good", "plain")]
    given: dict[str, list[int]] = {"good good": [5, 9], "plain": [8, 5]}
    judge = Scripted(lambda prompt: verdict(given[shown_alone(prompt)].pop(0)))
    judged(cli, emulate, judge, "--dataset", array(tmp_path / "en.json", rows), *POINTWISE, "--repeats", "2")
    found = numbers(cli)
    assert found["accuracy"]["score"] == 1.0
    assert found["mean_score"] == {"chosen": 7.0, "rejected": 6.5}
    assert any("scored 2 times" in note for note in found["notes"])


def test_each_text_is_one_request_and_the_other_one_is_not_shown(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    rows = english(2)
    judged(cli, emulate, scores_alone(likes(rows)), "--dataset", array(tmp_path / "en.json", rows), *POINTWISE)
    lines = cli.lines()
    assert [re.sub("^[0-9a-f]{10}", "", line["custom_id"]) for line in lines] == [
        "-i0-sc-r1-a1",
        "-i0-sr-r1-a1",
        "-i1-sc-r1-a1",
        "-i1-sr-r1-a1",
    ]
    for number, line in enumerate(lines):
        row = rows[number // 2]
        system, user = (message["content"] for message in line["body"]["messages"])
        mine, other = (("chosen", "rejected"), ("rejected", "chosen"))[number % 2]
        assert shown_alone(user) == row[mine]["response"]
        assert row[other]["response"] not in user
        assert row["prompt"] in user
        assert "one text" in system
        assert all(word in user for word in ("Creativity", "Emotional resonance", "Stylistic flair"))


def test_scores_can_be_audited(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    rows = english(1)
    judged(cli, emulate, scores_alone(likes(rows)), "--dataset", array(tmp_path / "en.json", rows), *POINTWISE)
    assert cli.query("SELECT item_id, side, repeat, score, reason FROM side_score ORDER BY side") == [
        {"item_id": "en:0", "side": "chosen", "repeat": 1, "score": 9, "reason": "A fair text."},
        {"item_id": "en:0", "side": "rejected", "repeat": 1, "score": 4, "reason": "A fair text."},
    ]
    assert cli.query("SELECT score FROM score") == []
    assert cli.query("SELECT score, n_planned FROM item_score") == [{"score": None, "n_planned": 2}]
    assert cli.query("SELECT side, status FROM request_status ORDER BY request_id") == [
        {"side": "chosen", "status": "scored"},
        {"side": "rejected", "status": "scored"},
    ]
    assert "chosen, repeat 1: scored" in cli("show", "0").out
    assert cli("status", "--json").json()["state"] == "complete"


def test_the_same_command_sends_nothing_and_another_protocol_is_another_run(
    cli: Cli, emulate: Emulation, tmp_path: Path
) -> None:
    rows = english(2)
    options = ("--benchmark", BENCHMARK, "--dataset", str(array(tmp_path / "en.json", rows)), "--wait", "0")
    resource = judged(cli, emulate, scores_alone(likes(rows)), *options[2:4], *POINTWISE)
    before = len(resource.posts)
    assert cli("submit", *options, *POINTWISE).code == 0
    assert len(resource.posts) == before
    assert len(cli.names) == 1
    (alone,) = cli.names
    cli("submit", *options, "--run", alone).refused(1, "another plan", "protocol")
    assert cli("submit", *options).code == 0
    assert len(cli.names) == 2


def test_repeats_may_grow_and_only_the_new_scores_are_asked_for(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    rows = english(2)
    options = ("--dataset", str(array(tmp_path / "en.json", rows)), "--run", "grown")
    judged(cli, emulate, scores_alone(likes(rows)), *options, *POINTWISE)
    judged_again = ("submit", "--benchmark", BENCHMARK, *options, *POINTWISE, "--repeats", "2", "--wait", "0")
    assert cli(*judged_again).code == 0
    assert cli.collect().code == 0
    assert cli.query("SELECT repeat, count(*) AS n FROM side_score GROUP BY repeat") == [
        {"repeat": 1, "n": 4},
        {"repeat": 2, "n": 4},
    ]


def test_a_rehearsal_answers_with_scores_and_says_so(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    emulate()
    file = array(tmp_path / "en.json", english())
    assert cli("submit", "--benchmark", BENCHMARK, "--dataset", file, *POINTWISE, "--wait", "0").code == 0
    assert cli.collect().code == 0
    found = numbers(cli)
    assert found["rehearsal"] is True
    assert sum(found["histogram"]["chosen"].values()) == 6
