"""Accuracy of a reward model from a file of scores: how pairs are named, what a score may be, what is refused."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.cli.support import Cli, check_schema, jsonl
from tests.pairs.support import Row, array, both_files, chinese, english

GOOD = [(0.9, 0.1), (2, -3.5), (1e-9, 0), (5, 4), (0.2, 0.1), (7, 6)]
"""Scores of the six English pairs, the chosen text above in each."""


def by_row(values: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Score rows that name pairs by their row."""
    return [{"row": row, "chosen": chosen, "rejected": rejected} for row, (chosen, rejected) in enumerate(values)]


def by_name(rows: Sequence[Row], values: Sequence[tuple[Any, Any]]) -> list[dict[str, Any]]:
    """Score rows that name pairs by prompt_id and models."""
    return [
        {
            "prompt_id": row["prompt_id"],
            "chosen_model": row["chosen"]["model"],
            "rejected_model": row["rejected"]["model"],
            "chosen": chosen,
            "rejected": rejected,
        }
        for row, (chosen, rejected) in zip(rows, values, strict=True)
    ]


def as_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    return jsonl(path.with_suffix(".jsonl"), rows)


def as_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path.with_suffix(".csv").write_bytes(b"\xef\xbb\xbf" + out.getvalue().encode())
    return path.with_suffix(".csv")


def as_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pd.DataFrame(rows).to_parquet(path.with_suffix(".parquet"))
    return path.with_suffix(".parquet")


def as_array(path: Path, rows: list[dict[str, Any]]) -> Path:
    return array(path.with_suffix(".json"), rows)


def accuracy(cli: Cli, *options: str | Path) -> dict[str, Any]:
    """The numbers as JSON."""
    done = cli("reward-accuracy", *options, "--format", "json")
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json()
    check_schema(found, "reward-accuracy.schema.json")
    return found


@pytest.mark.parametrize("write", [as_jsonl, as_csv, as_parquet, as_array])
@pytest.mark.parametrize("keyed", ["row", "prompt_id"])
def test_every_form_of_a_score_file_gives_the_same_numbers(cli: Cli, tmp_path: Path, write: Any, keyed: str) -> None:
    file = array(tmp_path / "en.json", english())
    rows = by_row(GOOD) if keyed == "row" else by_name(english(), GOOD)
    found = accuracy(cli, "--dataset", file, "--scores", write(tmp_path / "my-model", rows[::-1]))
    assert found["accuracy"]["score"] == 1.0
    assert (found["model"], found["n_pairs"], found["correct"], found["ties"]) == ("my-model", 6, 6, 0)


def test_both_languages_and_every_breakdown(cli: Cli, tmp_path: Path) -> None:
    files = [word for path in both_files(tmp_path) for word in ("--dataset", path)]
    scores = jsonl(tmp_path / "rm.jsonl", by_row([*GOOD, (1, 2), (2, 1), (1, 1)]))
    found = accuracy(cli, *files, "--scores", scores)
    assert found["accuracy"]["score"] == pytest.approx(7 / 9)
    assert (found["correct"], found["wrong"], found["ties"], found["invalid"]) == (7, 1, 1, 0)
    assert [(row["label"], row["n_items"], row["score"]) for row in found["by"]["language"]] == [
        ("en", 6, 1.0),
        ("zh", 3, pytest.approx(1 / 3)),
    ]
    assert found["published_layout"] == {"en_percent": 100.0, "zh_percent": 33.3, "avg_percent": 66.7}
    assert found["longer_baseline"] == pytest.approx(6 / 9)
    assert found["accuracy"]["low"] < found["accuracy"]["score"] < found["accuracy"]["high"]
    chinese_only = accuracy(cli, *files, "--scores", scores, "--subset", "zh")
    assert (chinese_only["n_pairs"], chinese_only["correct"]) == (3, 1)


def test_the_mean_over_domains_stands_beside_the_mean_over_pairs(cli: Cli, tmp_path: Path) -> None:
    rows = [*english(6), english(1)[0], english(1)[0]]
    file = array(tmp_path / "en.json", rows)
    scores = jsonl(tmp_path / "rm.jsonl", by_row([(1, 2), (2, 1), (2, 1), (1, 2), (2, 1), (1, 2), (1, 2), (1, 2)]))
    found = accuracy(cli, "--dataset", file, "--scores", scores)
    rows_by_domain = {row["label"]: (row["n_items"], row["score"]) for row in found["by"]["domain"]}
    assert rows_by_domain == {"Fiction": (4, 0.0), "Poetry": (2, 1.0), "Promotional & Communication": (2, 0.5)}
    assert found["macro_mean"] == 0.5
    assert found["accuracy"]["score"] == 3 / 8
    table = cli("reward-accuracy", "--dataset", file, "--scores", scores).out
    assert re.search(r"^Mean over domains +3 domains +50\.0 ", table, re.MULTILINE)


def test_a_folder_of_pairs_is_read_in_the_order_of_its_files(cli: Cli, tmp_path: Path) -> None:
    both_files(tmp_path / "pairs")
    scores = jsonl(tmp_path / "rm.jsonl", by_row([(2, 1)] * 3 + [(1, 2)] * 6))
    found = accuracy(cli, "--dataset", tmp_path / "pairs", "--scores", scores)
    assert {row["label"]: row["score"] for row in found["by"]["language"]} == {"en": 0.0, "zh": 1.0}


def test_a_tie_is_not_correct_and_is_printed(cli: Cli, tmp_path: Path) -> None:
    """Equal scores win nothing: of a right, a wrong, an equal and a broken pair one in four is correct."""
    file = array(tmp_path / "en.json", english(4))
    scores = jsonl(tmp_path / "rm.jsonl", by_row([(0.5, 0.5), (0.9, 0.1), (0.2, 0.4), (None, 0.4)]))
    found = accuracy(cli, "--dataset", file, "--scores", scores, "--invalid", "count")
    assert [found[name] for name in ("correct", "wrong", "ties", "invalid")] == [1, 1, 1, 1]
    assert found["accuracy"]["score"] == 0.25
    assert found["incomplete"] == ["en:3"]
    table = cli("reward-accuracy", "--dataset", file, "--scores", scores, "--invalid", "count").out
    assert "a tie is not correct; an invalid pair is wrong" in table
    assert re.search(r"^ties +1$", table, re.MULTILINE)
    flat = cli("reward-accuracy", "--dataset", file, "--scores", scores, "--invalid", "count", "--format", "csv").out
    assert "pairs,ties,4,1," in flat


BROKEN = [
    ('{"row": 1, "chosen": NaN, "rejected": 1}', "NaN"),
    ('{"row": 1, "chosen": 1, "rejected": Infinity}', "infinity"),
    ('{"row": 1, "chosen": -Infinity, "rejected": 1}', "minus infinity"),
    ('{"row": 1, "chosen": null, "rejected": 1}', "null"),
    ('{"row": 1, "chosen": "nan", "rejected": 1}', "nan as text"),
    ('{"row": 1, "chosen": "", "rejected": 1}', "empty text"),
    ('{"row": 1, "chosen": 1e999, "rejected": 1}', "beyond a float"),
    ("", "no line at all"),
]


@pytest.mark.parametrize("line", [line for line, _ in BROKEN], ids=[name for _, name in BROKEN])
def test_a_pair_without_two_finite_scores_is_refused_counted_or_dropped(cli: Cli, tmp_path: Path, line: str) -> None:
    file = array(tmp_path / "en.json", english(3))
    scores = tmp_path / "rm.jsonl"
    good = ['{"row": 0, "chosen": 2, "rejected": 1}', '{"row": 2, "chosen": 1, "rejected": 2}']
    scores.write_text("\n".join([good[0], line, good[1]]) + "\n", encoding="utf-8")
    options = ("--dataset", file, "--scores", scores)
    refused = cli("reward-accuracy", *options)
    what = "no finite number for 1 pair: row 1 (line 2)" if line else "no score for 1 pair: row 1"
    refused.refused(1, "rm.jsonl", what, hint="--invalid count")
    assert refused.out == ""
    counted = accuracy(cli, *options, "--invalid", "count")
    assert (counted["accuracy"]["score"], counted["n_counted"], counted["invalid"]) == (pytest.approx(1 / 3), 3, 1)
    assert counted["accuracy_without_invalid"] == 0.5
    dropped = accuracy(cli, *options, "--invalid", "drop")
    assert (dropped["accuracy"]["score"], dropped["n_counted"], dropped["invalid"]) == (0.5, 2, 1)
    assert dropped["n_pairs"] == 3


def test_not_a_number_is_read_in_a_json_array_too(cli: Cli, tmp_path: Path) -> None:
    file = array(tmp_path / "en.json", english(2))
    scores = array(tmp_path / "rm.json", by_row([(float("nan"), 1), (2, 1)]))
    assert "NaN" in scores.read_text(encoding="utf-8")
    found = accuracy(cli, "--dataset", file, "--scores", scores, "--invalid", "count")
    assert (found["correct"], found["invalid"]) == (1, 1)


def test_missing_numbers_in_csv_and_parquet_are_invalid_too(cli: Cli, tmp_path: Path) -> None:
    file = array(tmp_path / "en.json", english(3))
    rows = by_row([(2.5, 1), (None, 1), (float("nan"), float("inf"))])
    for write in (as_csv, as_parquet):
        scores = write(tmp_path / "rm", rows)
        found = accuracy(cli, "--dataset", file, "--scores", scores, "--invalid", "count")
        assert (found["correct"], found["invalid"]) == (1, 2)


FAULTS: list[tuple[str, list[dict[str, Any]], tuple[str, ...]]] = [
    ("unknown row", [*by_row(GOOD), {"row": 6, "chosen": 1, "rejected": 0}], ("is not in the data: row 6 (line 7)",)),
    (
        "duplicate row",
        [*by_row(GOOD), {"row": 2, "chosen": 1, "rejected": 0}],
        ("is in the file twice: row 2 (lines 3 and 7)",),
    ),
    ("row as a float", [{"row": 0.0, "chosen": 1, "rejected": 0}], ("line 1", "row 0.0 is not a whole number")),
    ("row with zeros", [{"row": "007", "chosen": 1, "rejected": 0}], ("line 1", "'007' is not a whole number")),
    ("negative row", [{"row": -1, "chosen": 1, "rejected": 0}], ("line 1", "row -1 is not a whole number")),
    ("no key", [{"chosen": 1, "rejected": 0}], ("line 1", "no 'row' and no 'prompt_id'", "chosen, rejected")),
    ("no score column", [{"row": 0, "chosen": 1}], ("line 1", "no 'rejected'")),
    ("word as a score", [{"row": 0, "chosen": "good", "rejected": 0}], ("line 1", "chosen 'good' is not a number")),
    ("list as a score", [{"row": 0, "chosen": [1], "rejected": 0}], ("line 1", "chosen [1] is not a number")),
    ("boolean as a score", [{"row": 0, "chosen": True, "rejected": 0}], ("line 1", "chosen True is not a number")),
    ("foreign digits", [{"row": 0, "chosen": "٣", "rejected": 0}], ("line 1", "is not a number")),
    (
        "prompt_id without models",
        [{"prompt_id": "prompt-0", "chosen": 1, "rejected": 0}],
        ("line 1", "no 'chosen_model'"),
    ),
    (
        "unknown prompt_id",
        [{"prompt_id": "other", "chosen_model": "a", "rejected_model": "b", "chosen": 1, "rejected": 0}],
        ("is not in the data: prompt_id 'other' (line 1)",),
    ),
    (
        "models exchanged",
        [{"prompt_id": "prompt-0", "chosen_model": "finch-0", "rejected_model": "heron-0", "chosen": 1, "rejected": 0}],
        ("is not in the data: prompt_id 'prompt-0' (line 1)",),
    ),
    (
        "row of another order",
        [{"row": 0, "prompt_id": "prompt-1", "chosen": 1, "rejected": 0}],
        ("line 1", "prompt_id 'prompt-1' is not that of row 0 of the data, 'prompt-0'"),
    ),
]


@pytest.mark.parametrize(("rows", "words"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
@pytest.mark.parametrize("invalid", ["refuse", "drop"])
def test_a_file_that_does_not_fit_is_refused_by_line(
    cli: Cli, tmp_path: Path, rows: list[dict[str, Any]], words: tuple[str, ...], invalid: str
) -> None:
    file = array(tmp_path / "en.json", english())
    scores = jsonl(tmp_path / "rm.jsonl", rows)
    cli("reward-accuracy", "--dataset", file, "--scores", scores, "--invalid", invalid).refused(1, "rm.jsonl", *words)


def test_a_name_that_fits_several_pairs_asks_for_rows(cli: Cli, tmp_path: Path) -> None:
    rows = [english(1)[0], english(1)[0]]
    scores = jsonl(tmp_path / "rm.jsonl", by_name(rows, [(1, 0), (1, 0)]))
    done = cli("reward-accuracy", "--dataset", array(tmp_path / "en.json", rows), "--scores", scores)
    done.refused(1, "line 1", "in the data 2 times (rows 0, 1)", hint="'row'")


def test_names_beside_rows_may_be_there_when_they_fit(cli: Cli, tmp_path: Path) -> None:
    named = [{**row, **name} for row, name in zip(by_row(GOOD), by_name(english(), GOOD), strict=True)]
    file = array(tmp_path / "en.json", english())
    assert accuracy(cli, "--dataset", file, "--scores", jsonl(tmp_path / "rm.jsonl", named))["correct"] == 6


def test_scores_that_differ_in_the_last_digit_are_no_tie(cli: Cli, tmp_path: Path) -> None:
    values = [(0.1 + 0.2, 0.3), (2**60 + 1, 2**60), (1e-300, 0)]
    file = array(tmp_path / "en.json", english(3))
    for write in (as_jsonl, as_csv):
        found = accuracy(cli, "--dataset", file, "--scores", write(tmp_path / "rm", by_row(values)))
        assert (found["correct"], found["ties"]) == (3, 0)


@pytest.mark.parametrize(
    ("options", "code", "word"),
    [
        ((), 2, "--dataset is missing"),
        (("--dataset", "en.json"), 2, "--scores is missing"),
        (("--dataset", "gone.json", "--scores", "rm.jsonl"), 1, "gone.json: no such file"),
        (("--dataset", "en.json", "--scores", "gone.jsonl"), 1, "gone.jsonl: no such file"),
        (("--dataset", "en.json", "--scores", "rm.jsonl", "--invalid", "ignore"), 2, "'ignore' is not one of"),
        (("--dataset", "en.json", "--scores", "rm.txt"), 1, "'.txt' cannot be read"),
    ],
    ids=["no data", "no scores", "data not there", "scores not there", "unknown policy", "other suffix"],
)
def test_exit_codes(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    array(tmp_path / "en.json", english())
    jsonl(tmp_path / "rm.jsonl", by_row(GOOD))
    (tmp_path / "rm.txt").write_text("x", encoding="utf-8")
    cli("reward-accuracy", *options).refused(code, word)


def test_options_have_environment_twins(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = "\n".join(map(str, both_files(tmp_path)))
    monkeypatch.setenv("IWB_BATCH_REWARD_ACCURACY_DATASET", files)
    monkeypatch.setenv("IWB_BATCH_REWARD_ACCURACY_SCORES", str(jsonl(tmp_path / "rm.jsonl", by_row([(1, 0)] * 9))))
    monkeypatch.setenv("IWB_BATCH_REWARD_ACCURACY_FORMAT", "json")
    done = cli("reward-accuracy")
    assert done.code == 0, done.err
    assert json.loads(done.out)["correct"] == 9


def test_a_bad_pair_of_the_data_is_named(cli: Cli, tmp_path: Path) -> None:
    rows = [*chinese(2), {"prompt": "写", "chosen": {"response": "好"}}]
    scores = jsonl(tmp_path / "rm.jsonl", by_row([(1, 0)] * 3))
    done = cli("reward-accuracy", "--dataset", array(tmp_path / "zh.json", rows), "--scores", scores)
    done.refused(1, "zh.json row 3", "'rejected' is missing")


def test_no_run_is_written(cli: Cli, tmp_path: Path) -> None:
    scores = jsonl(tmp_path / "rm.jsonl", by_row(GOOD))
    accuracy(cli, "--dataset", array(tmp_path / "en.json", english()), "--scores", scores)
    assert cli.names == []
