"""WritingBench's own numbers: style, format and length, and the table its own scorer prints."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.support import Cli, Emulation, check_schema, inputs, jsonl
from tests.writing_bench.support import Scores, item, judged, write_lists

SCORES: Scores = {1: (8, 7, 7, 8, 7), 2: (10, 10, 10, 10, 10), 3: (1, 2, 3, 4, 5), 6: (9, 9, 9, 9, 4)}
LISTS = {
    "style": {1: ["Tone 1"], 3: ["结构 3", "Tone 3"]},
    "format": {2: ["Closing 2"], 9: ["Tone 9"]},
    "length": {},
}


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write_lists(tmp_path / "requirement", LISTS)


def test_r_is_the_mean_of_item_scores_and_c_that_of_the_named_criteria(
    cli: Cli, emulate: Emulation, tmp_path: Path, lists: Path
) -> None:
    assert judged(cli, emulate, tmp_path, SCORES) == 0
    done = cli("report", "--format", "json", "--requirements", lists)
    found = done.json()
    assert done.code == 0
    check_schema(found, "report-rubric.schema.json")
    assert found["requirements"] == {
        "style_R": pytest.approx((7.4 + 3.0) / 2),
        "style_C": pytest.approx((7 + 2 + 3) / 3),
        "format_R": 10.0,
        "format_C": 10.0,
        "length_R": None,
        "length_C": None,
    }
    table = cli("report", "--requirements", lists).out
    (line,) = (line for line in table.split("\n") if line.startswith("style_R"))
    assert line.split()[:6] == ["style_R", "2", "of", "2", "items", "5.20"]
    flat = {row["label"]: row for row in csv.DictReader(io.StringIO(cli("report", "--format", "csv").out))}
    assert flat["style_R"]["score"] == ""


def test_without_lists_the_requirements_are_null(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, tmp_path, SCORES)
    found = cli("report", "--format", "json").json()
    assert set(found["requirements"].values()) == {None}


def test_only_complete_items_count_for_requirements(cli: Cli, emulate: Emulation, tmp_path: Path, lists: Path) -> None:
    assert judged(cli, emulate, tmp_path, {**SCORES, 3: (1, 2, 3, 4, None)}) == 4
    done = cli("report", "--format", "json", "--requirements", lists)
    found = done.json()
    assert done.code == 4
    assert found["requirements"]["style_R"] == pytest.approx(7.4)
    assert found["requirements"]["style_C"] == 7.0


def test_repeats_are_averaged_for_requirements(cli: Cli, emulate: Emulation, tmp_path: Path, lists: Path) -> None:
    judged(cli, emulate, tmp_path, SCORES, "--repeats", "2")
    found = cli("report", "--format", "json", "--requirements", lists).json()
    assert found["requirements"]["style_C"] == pytest.approx(4.0)


def remove(path: str) -> Callable[[Path], None]:
    return lambda folder: (folder / path).unlink()


def write(path: str, row: dict[str, object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        jsonl(folder / path, [row])

    return change


def twice(folder: Path) -> None:
    jsonl(folder / "style" / "style_subset.jsonl", [item(1), item(3), item(1)])


def empty(folder: Path) -> None:
    for file in folder.rglob("*.jsonl"):
        file.unlink()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (write("style/style_subset.jsonl", {"query": "q"}), ("style_subset.jsonl line 1", "no integer 'index'")),
        (write("style/style_subset_C.jsonl", item(1, checklist=[])), ("style_subset_C.jsonl line 1", "'checklist'")),
        (
            write("style/style_subset.jsonl", item(1, query="an older prompt")),
            ("style_subset.jsonl line 1", "index 1 has another query than in this run"),
        ),
        (
            write("style/style_subset_C.jsonl", item(1, checklist=[{"name": "Old name"}])),
            ("index 1 has no criterion 'Old name' in this run",),
        ),
        (twice, ("style_subset.jsonl line 3", "index 1 is listed already at style_subset.jsonl line 1")),
        (empty, ("requirement: holds no requirement list",)),
    ],
    ids=["no index", "no criteria", "another version", "unknown criterion", "twice", "no list"],
)
def test_lists_that_do_not_fit_are_refused(
    cli: Cli, emulate: Emulation, tmp_path: Path, lists: Path, change: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    judged(cli, emulate, tmp_path, SCORES)
    change(lists)
    done = cli("report", "--requirements", lists)
    done.refused(1, *words)
    assert done.out == ""


def test_a_missing_list_is_named_and_an_empty_one_is_null(
    cli: Cli, emulate: Emulation, tmp_path: Path, lists: Path
) -> None:
    judged(cli, emulate, tmp_path, SCORES)
    remove("format/format_subset_C.jsonl")(lists)
    found = cli("report", "--format", "json", "--requirements", lists).json()
    assert found["requirements"]["format_R"] == 10.0
    assert found["requirements"]["format_C"] is None
    assert found["requirements"]["length_R"] is None
    assert [note for note in found["notes"] if note.startswith("requirements:")] == [
        "requirements: format_subset_C.jsonl is not in the folder, so its numbers are not known"
    ]


def test_a_folder_that_is_not_there_is_said(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, tmp_path, SCORES)
    cli("report", "--requirements", tmp_path / "gone").refused(1, "gone: no such folder")


COLUMNS = [
    *("Model", "Overall", "Count"),
    *("Domain1_Academic & Engineering", "Domain1_Finance & Business", "Domain1_Politics & Law"),
    *("Domain1_Literature & Arts", "Domain1_Education", "Domain1_Advertising & Marketing"),
    *("Domain2_市场分析", "Domain2_Quiz", "Domain2_Lesson Plan"),
    *("style_R", "style_C", "format_R", "format_C", "length_R", "length_C"),
]


def test_the_original_table_equals_the_default_when_every_item_is_complete(
    cli: Cli, emulate: Emulation, tmp_path: Path, lists: Path
) -> None:
    judged(cli, emulate, tmp_path, SCORES)
    row = cli("report", "--compat", "--requirements", lists, "--format", "json").json()
    report = cli("report", "--requirements", lists, "--format", "json").json()
    assert list(row) == COLUMNS
    assert (row["Model"], row["Count"]) == ("modelA", 4)
    assert row["Overall"] == pytest.approx(report["overall"]["score"])
    for place in report["by"]["domain"]:
        assert row[f"Domain1_{place['label']}"] == pytest.approx(place["score"])
    for place in report["by"]["subdomain"]:
        assert row[f"Domain2_{place['label']}"] == pytest.approx(place["score"])
    for name, value in report["requirements"].items():
        assert row[name] == pytest.approx(value if value is not None else 0)
    assert row["Domain1_Politics & Law"] is None


def test_the_original_table_pools_scores_and_keeps_partial_items(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    """Items with five, three and one score: the pool has nine scores, the mean of item means would be 5."""
    scores: Scores = {1: (10,) * 5, 2: (1, 1, 1, None, None), 3: (4, None, None, None, None)}
    assert judged(cli, emulate, tmp_path, scores) == 4
    done = cli("report", "--compat", "--format", "json")
    row = done.json()
    assert done.code == 4
    assert row["Overall"] == pytest.approx(57 / 9)
    assert row["Count"] == 3
    assert (row["Domain1_Finance & Business"], row["Domain1_Education"]) == (10.0, 2.5)
    assert [row[name] for name in COLUMNS[-6:]] == [0, 0, 0, 0, 0, 0]
    report = cli("report", "--format", "json").json()
    assert report["overall"]["score"] == 10.0
    assert report["pooled_mean"] == pytest.approx(57 / 9)


def test_an_item_without_a_score_is_no_line_of_the_original_table(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, tmp_path, {1: (5,) * 5, 2: (None,) * 5})
    row = cli("report", "--compat", "--format", "json").json()
    assert (row["Count"], row["Overall"], row["Domain1_Education"]) == (1, 5.0, None)


def test_a_run_without_any_score_has_an_empty_table(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, tmp_path, {1: (None,) * 5})
    row = cli("report", "--compat", "--format", "json").json()
    assert (row["Count"], row["Overall"]) == (0, None)


def test_every_repeat_counts_once_in_the_original_table(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, tmp_path, SCORES, "--repeats", "3")
    row = cli("report", "--compat", "--format", "json").json()
    assert row["Overall"] == pytest.approx((37 + 50 + 15 + 40) / 20)
    assert row["Count"] == 4


def test_the_original_table_as_csv_has_one_row_under_its_columns(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    judged(cli, emulate, tmp_path, SCORES)
    columns, values = csv.reader(io.StringIO(cli("report", "--compat", "--format", "csv").out))
    assert columns == COLUMNS
    assert dict(zip(columns, values, strict=True))["Domain1_Politics & Law"] == ""
    assert float(dict(zip(columns, values, strict=True))["style_R"]) == 0
    for form in ("table", "markdown"):
        text = cli("report", "--compat", "--format", form).out
        assert "Overall pools all scores" in text


def test_the_original_table_of_other_scores_has_no_empty_domains(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    emulate()
    assert cli.submit(inputs(tmp_path / "given")).code == 0
    assert cli.collect().code == 0
    row = cli("report", "--compat", "--format", "json").json()
    assert [name for name in row if name.startswith("Domain1_")] == ["Domain1_Education", "Domain1_साहित्य"]


def test_lists_are_for_writing_bench_only(cli: Cli, emulate: Emulation, tmp_path: Path, lists: Path) -> None:
    emulate()
    assert cli.submit(inputs(tmp_path / "given")).code == 0
    cli("report", "--requirements", lists).refused(2, "--requirements is for writing-bench")


def test_the_data_keep_their_own_labels(tmp_path: Path, cli: Cli, emulate: Emulation) -> None:
    judged(cli, emulate, tmp_path, SCORES)
    assert cli.query("SELECT item_index, domain, subdomain, language, variant FROM item_score LIMIT 1") == [
        {"item_index": 1, "domain": "Finance & Business", "subdomain": "市场分析", "language": "zh", "variant": None}
    ]
