"""Opening data sets: files, folders with configs, hub ids; numbering and selecting rows."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from iwb_batch.core.row import Row
from iwb_batch.errors import InputError, UsageError
from iwb_batch.inputs.dataset import Dataset, as_text, numbering, open_dataset, select

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def jsonl(*rows: object) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8")


def put(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def queries(dataset: Dataset) -> list[Any]:
    return [row.values["query"] for row in dataset.rows()]


CARD = """---
license: cc-by-4.0
configs:
- config_name: Hindi
  data_files:
  - split: test
    path: Hindi/test-*.jsonl
  - split: train
    path: Hindi/train-*.jsonl
- config_name: Tamil
  data_files: Tamil/*.jsonl
---
# A data set
"""


@pytest.fixture
def carded(tmp_path: Path) -> Path:
    folder = tmp_path / "bench"
    put(folder / "README.md", CARD)
    put(folder / "Hindi/test-00001.jsonl", jsonl({"index": 1, "query": "दूसरा"}))
    put(folder / "Hindi/test-00000.jsonl", jsonl({"index": 0, "query": "पहला"}))
    put(folder / "Hindi/train-00000.jsonl", jsonl({"index": 0, "query": "train"}))
    put(folder / "Tamil/a.jsonl", jsonl({"index": 0, "query": "முதல்"}))
    return folder


def test_one_file_is_read_again_at_each_call(tmp_path: Path) -> None:
    content = jsonl({"query": "a"}, {"query": "b"})
    dataset = open_dataset(str(put(tmp_path / "items.jsonl", content)))
    assert queries(dataset) == queries(dataset) == ["a", "b"]
    assert json.loads(dataset.name) == [{"file": "items.jsonl", "sha256": hashlib.sha256(content).hexdigest()}]
    assert (dataset.revision, dataset.subset, dataset.notes) == (None, None, ())


def test_several_files_are_read_in_the_order_given(tmp_path: Path) -> None:
    paths = [put(tmp_path / name, jsonl({"query": name})) for name in ("z.jsonl", "a.jsonl")]
    dataset = open_dataset([str(path) for path in paths])
    assert queries(dataset) == ["z.jsonl", "a.jsonl"]
    assert [entry["file"] for entry in json.loads(dataset.name)] == ["z.jsonl", "a.jsonl"]


def test_a_column_may_change_its_shape_between_files(tmp_path: Path) -> None:
    first = put(tmp_path / "1.jsonl", jsonl({"query": "a", "refs": []}))
    second = put(tmp_path / "2.jsonl", jsonl({"query": "b", "refs": [{"t": "x"}]}))
    rows = open_dataset([str(first), str(second)]).rows()
    assert [row.values["refs"] for row in rows] == [[], [{"t": "x"}]]


def test_no_folder_name_enters_the_recorded_name(carded: Path) -> None:
    dataset = open_dataset(str(carded), subset="Hindi")
    assert str(carded.parent) not in dataset.name
    assert [e["file"] for e in json.loads(dataset.name)] == ["Hindi/test-00000.jsonl", "Hindi/test-00001.jsonl"]


def test_card_config_reads_its_split_in_order_of_names(carded: Path) -> None:
    dataset = open_dataset(str(carded), subset="Hindi")
    assert queries(dataset) == ["पहला", "दूसरा"]
    assert dataset.subset == "Hindi"
    row = next(iter(dataset.rows()))
    assert (row.where, row.subset) == ("Hindi/test-00000.jsonl line 1", "Hindi")


def test_split_is_chosen(carded: Path) -> None:
    assert queries(open_dataset(str(carded), subset="Hindi", split="train")) == ["train"]


def test_config_without_named_splits_serves_any(carded: Path) -> None:
    assert queries(open_dataset(str(carded), subset="Tamil")) == ["முதல்"]


def test_subset_is_found_in_another_case(carded: Path) -> None:
    assert open_dataset(str(carded), subset="hindi").subset == "Hindi"


def test_several_configs_and_none_named_lists_them(carded: Path) -> None:
    with pytest.raises(UsageError, match="several configs: Hindi, Tamil") as caught:
        open_dataset(str(carded))
    assert (caught.value.exit_code, caught.value.hint) == (2, "name one with --subset")


def test_wrong_config_lists_those_there_are(carded: Path) -> None:
    with pytest.raises(UsageError, match="no config 'Bengali'; it has: Hindi, Tamil"):
        open_dataset(str(carded), subset="Bengali")


def test_wrong_split_lists_those_there_are(carded: Path) -> None:
    with pytest.raises(UsageError, match="no split 'dev' in config 'Hindi'; it has: test, train"):
        open_dataset(str(carded), subset="Hindi", split="dev")


def test_edited_file_is_read_afresh(carded: Path) -> None:
    before = open_dataset(str(carded), subset="Tamil")
    put(carded / "Tamil/a.jsonl", jsonl({"query": "புதிய"}, {"query": "இரண்டு"}))
    after = open_dataset(str(carded), subset="Tamil")
    assert queries(after) == ["புதிய", "இரண்டு"]
    assert before.name != after.name


@pytest.mark.parametrize(
    "entry",
    [
        "data_files: h.jsonl",
        "data_files: ['h.jsonl']",
        "data_files: {test: h.jsonl, train: t.jsonl}",
        "data_files: {test: ['h.jsonl']}",
        "data_files: [{split: test, path: ['h.jsonl', 'h*.jsonl']}]",
        "data_dir: sub",
        "{data_dir: sub, data_files: 'h*.jsonl'}",
    ],
    ids=["text", "list", "by-split", "by-split-list", "split-entries", "data-dir", "both"],
)
def test_every_form_of_a_card_is_understood(tmp_path: Path, entry: str) -> None:
    line = entry.strip("{}") if entry.startswith("{") else entry
    lines = line.split(", data_files") if entry.startswith("{") else [line]
    body = "\n".join("  " + (part if n == 0 else "data_files" + part) for n, part in enumerate(lines))
    put(tmp_path / "README.md", f"---\r\nconfigs:\r\n- config_name: one\r\n{body}\n---\n".replace("\n", "\r\n"))
    put(tmp_path / "h.jsonl", jsonl({"query": "h"}))
    put(tmp_path / "t.jsonl", jsonl({"query": "t"}))
    put(tmp_path / "sub/h.jsonl", jsonl({"query": "h"}))
    dataset = open_dataset(str(tmp_path))
    assert queries(dataset) == ["h"]
    assert dataset.subset == "one"
    assert dataset.notes == (f"subset one: the only one of {tmp_path.name}",)


@pytest.mark.parametrize("pattern", ["../other/*.jsonl", "/etc/*.jsonl", "a/../../b.jsonl"])
def test_card_must_not_leave_its_folder(tmp_path: Path, pattern: str) -> None:
    put(tmp_path / "README.md", f"---\nconfigs:\n- config_name: one\n  data_files: {pattern}\n---\n")
    with pytest.raises(InputError, match="leaves the folder"):
        open_dataset(str(tmp_path))


def test_card_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    put(tmp_path / "README.md", "---\nconfigs: [\n---\n")
    with pytest.raises(InputError, match=r"README\.md: its YAML head cannot be read"):
        open_dataset(str(tmp_path))


def test_card_that_matches_no_file_is_named(tmp_path: Path) -> None:
    put(tmp_path / "README.md", "---\nconfigs:\n- config_name: one\n  data_files: none/*.jsonl\n---\n")
    with pytest.raises(InputError, match="config 'one' matches no file"):
        open_dataset(str(tmp_path))


def test_sub_folders_are_configs(tmp_path: Path) -> None:
    pq_rows = pa.Table.from_pylist([{"index": 0, "query": "कविता"}])
    (tmp_path / "Hindi").mkdir()
    pq.write_table(pq_rows, tmp_path / "Hindi/test-00000-of-00001.parquet")
    put(tmp_path / "Marathi/rows.jsonl", jsonl({"query": "गोष्ट"}))
    put(tmp_path / ".cache/rows.jsonl", jsonl({"query": "hidden"}))
    put(tmp_path / "README.md", "No head here.")
    assert queries(open_dataset(str(tmp_path), subset="Hindi")) == ["कविता"]
    assert queries(open_dataset(str(tmp_path), subset="Marathi")) == ["गोष्ट"]
    with pytest.raises(UsageError, match="Hindi, Marathi"):
        open_dataset(str(tmp_path))


def test_only_sub_folder_is_taken_and_said(tmp_path: Path) -> None:
    put(tmp_path / "Hindi/test.jsonl", jsonl({"query": "a"}))
    dataset = open_dataset(str(tmp_path))
    assert (dataset.subset, dataset.notes) == ("Hindi", (f"subset Hindi: the only one of {tmp_path.name}",))


def test_files_named_by_split_are_told_apart(tmp_path: Path) -> None:
    put(tmp_path / "Hindi/test-0.jsonl", jsonl({"query": "test"}))
    put(tmp_path / "Hindi/validation-0.jsonl", jsonl({"query": "val"}))
    assert queries(open_dataset(str(tmp_path))) == ["test"]
    assert queries(open_dataset(str(tmp_path), split="validation")) == ["val"]
    with pytest.raises(UsageError, match="it has: test, validation"):
        open_dataset(str(tmp_path), split="train")


def test_files_lying_in_a_folder_are_one_config(tmp_path: Path) -> None:
    put(tmp_path / "pairs_english.json", json.dumps([{"query": "en"}]))
    put(tmp_path / "pairs_chinese.json", json.dumps([{"query": "zh"}]))
    put(tmp_path / "dataset_info.json", "{}")
    dataset = open_dataset(str(tmp_path))
    assert queries(dataset) == ["zh", "en"]
    assert [row.file for row in dataset.rows()] == ["pairs_chinese.json", "pairs_english.json"]


def test_config_asked_of_a_folder_with_one_file_explains_default(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": ["a"]}), tmp_path / "test-00000.parquet")
    with pytest.raises(UsageError, match=r"no config 'human_aging'.*'default'") as caught:
        open_dataset(str(tmp_path), subset="human_aging")
    assert "--dataset FILE" in (caught.value.hint or "")
    assert queries(open_dataset(str(tmp_path), subset="default")) == ["a"]


def test_files_lying_in_a_folder_may_be_selected_by_language(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", jsonl({"query": "a", "lang": "en"}, {"query": "b", "lang": "zh"}))
    assert queries(open_dataset(str(tmp_path), subset="ZH")) == ["b"]


def test_two_formats_side_by_side_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.jsonl", jsonl({"query": "a"}))
    put(tmp_path / "a.csv", "query\na\n")
    with pytest.raises(InputError, match=r"formats \.csv, \.jsonl side by side"):
        open_dataset(str(tmp_path))


def test_folder_without_data_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "notes.txt", "x")
    with pytest.raises(InputError, match="holds no data files"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize(
    "files",
    [
        ["state.json", "dataset_info.json", "data-00000-of-00001.arrow"],
        ["dataset_dict.json", "test/state.json", "test/data-00000-of-00001.arrow"],
        ["data-00000-of-00001.arrow"],
    ],
    ids=["dataset", "dataset-dict", "arrow-only"],
)
def test_folder_made_by_save_to_disk_is_refused_with_the_way_out(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        put(tmp_path / "saved" / name, "{}")
    with pytest.raises(InputError, match="saved: was written by save_to_disk") as caught:
        open_dataset(str(tmp_path / "saved"))
    assert "load_from_disk" in (caught.value.hint or "")
    assert "to_parquet" in (caught.value.hint or "")


def test_parent_of_a_saved_folder_is_refused_too(tmp_path: Path) -> None:
    put(tmp_path / "Hindi/state.json", "{}")
    put(tmp_path / "Hindi/data-00000-of-00001.arrow", "x")
    put(tmp_path / "Hindi/rows.jsonl", jsonl({"query": "a"}))
    with pytest.raises(InputError, match="Hindi: was written by save_to_disk"):
        open_dataset(str(tmp_path))


ROWS = [
    {"index": 0, "query": "a", "language": "Hindi", "domain": "Letters"},
    {"index": 1, "query": "b", "lang": "hindi", "domain": "Law"},
    {"index": 2, "query": "c", "language": "Tamil", "domain": "Law"},
    {"index": 3, "query": "d", "language": None},
]


def test_subset_of_a_file_selects_its_language_in_any_case(tmp_path: Path) -> None:
    dataset = open_dataset(str(put(tmp_path / "a.jsonl", jsonl(*ROWS))), subset="HINDI")
    assert queries(dataset) == ["a", "b"]
    assert dataset.subset == "HINDI"


def test_wrong_language_lists_those_there_are(tmp_path: Path) -> None:
    dataset = open_dataset(str(put(tmp_path / "a.jsonl", jsonl(*ROWS))), subset="Odia")
    with pytest.raises(UsageError, match=r"a\.jsonl has no rows of language 'Odia'; it has: Hindi, hindi, Tamil"):
        list(dataset.rows())


def test_language_asked_of_rows_without_one_says_so(tmp_path: Path) -> None:
    dataset = open_dataset(str(put(tmp_path / "a.jsonl", jsonl({"query": "a"}))), subset="Odia")
    with pytest.raises(UsageError, match="no row names a language"):
        list(dataset.rows())


@pytest.mark.parametrize("name", ["missing.jsonl", "some/folder/items.parquet", "./items", "a/b/c", "missing folder"])
def test_missing_path_is_an_input_error(name: str) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_dataset(name)


def test_missing_one_of_several_files_is_named(tmp_path: Path) -> None:
    there = put(tmp_path / "a.jsonl", jsonl({"query": "a"}))
    with pytest.raises(InputError, match=r"b\.jsonl: no such file"):
        open_dataset([str(there), str(tmp_path / "b.jsonl")])


def test_revision_of_a_local_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--revision"):
        open_dataset(str(put(tmp_path / "a.jsonl", jsonl({"query": "a"}))), revision="main")


def test_no_source_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no data set"):
        open_dataset([])


# The hub, with the package that talks to it replaced.


class GenerationError(Exception):
    """Stands for the package's own errors, which are neither OSError nor ValueError."""


class FakeTable(list[dict[str, Any]]):
    download_checksums: dict[str, Any] | None = None
    cache_files: list[dict[str, str]] | None = None


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[Any, ...]]]:
    def install(names: list[str], outcome: FakeTable | Exception) -> list[tuple[Any, ...]]:
        calls: list[tuple[Any, ...]] = []
        module = ModuleType("datasets")

        def get_dataset_config_names(hub_id: str, revision: str | None = None) -> list[str]:
            return names

        def load_dataset(hub_id: str, config: str, *, split: str, revision: str | None) -> FakeTable:
            calls.append((hub_id, config, split, revision))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        module.__dict__.update(get_dataset_config_names=get_dataset_config_names, load_dataset=load_dataset)
        faults = ModuleType("datasets.exceptions")
        faults.__dict__["DatasetsError"] = GenerationError
        monkeypatch.setitem(sys.modules, "datasets", module)
        monkeypatch.setitem(sys.modules, "datasets.exceptions", faults)
        return calls

    return install


def test_hub_config_is_loaded_with_split_and_revision(hub: Callable[..., list[tuple[Any, ...]]]) -> None:
    table = FakeTable([{"query": "पहला"}, {"query": "दूसरा"}])
    table.download_checksums = {f"hf://datasets/lab/bench@{COMMIT}/Hindi/test.parquet": {}}
    calls = hub(["Hindi", "Tamil"], table)
    dataset = open_dataset("lab/bench", subset="Hindi", split="test", revision="v1")
    assert calls == [("lab/bench", "Hindi", "test", "v1")]
    assert queries(dataset) == queries(dataset) == ["पहला", "दूसरा"]
    assert (dataset.name, dataset.subset, dataset.revision, dataset.notes) == ("lab/bench", "Hindi", COMMIT, ())
    assert [row.where for row in dataset.rows()] == ["lab/bench row 1", "lab/bench row 2"]


def test_commit_is_read_from_the_cache_where_downloads_are_not_listed(hub: Callable[..., Any]) -> None:
    table = FakeTable([{"query": "a"}])
    table.cache_files = [{"filename": f"/c/lab___bench/Hindi/0.0.0/{COMMIT}/bench-test.arrow"}]
    hub(["Hindi"], table)
    assert open_dataset("lab/bench").revision == COMMIT


def test_revision_asked_for_is_kept_where_no_commit_is_known(hub: Callable[..., Any]) -> None:
    hub(["Hindi"], FakeTable([{"query": "a"}]))
    assert open_dataset("lab/bench", revision="v2").revision == "v2"


def test_only_hub_config_is_taken_and_said(hub: Callable[..., Any]) -> None:
    hub(["Hindi"], FakeTable([{"query": "a"}]))
    dataset = open_dataset("lab/bench")
    assert (dataset.subset, dataset.notes) == ("Hindi", ("subset Hindi: the only one of lab/bench",))


@pytest.mark.parametrize("subset", [None, "Odia"], ids=["none-named", "wrong"])
def test_hub_configs_are_listed(hub: Callable[..., list[tuple[Any, ...]]], subset: str | None) -> None:
    calls = hub(["Hindi", "Tamil"], FakeTable([]))
    with pytest.raises(UsageError, match="Hindi, Tamil"):
        open_dataset("lab/bench", subset=subset)
    assert calls == []


@pytest.mark.parametrize(
    ("raised", "error", "words"),
    [
        (ValueError("Unknown split \"dev\". Should be one of ['test']."), UsageError, "no split 'test'"),
        (FileNotFoundError("Dataset 'lab/bench' doesn't exist on the Hub"), InputError, "no such data set"),
        (ConnectionError("Couldn't reach 'lab/bench' on the Hub"), InputError, "cannot be reached"),
        (OSError("disk full"), InputError, "cannot be loaded: disk full"),
        (ValueError("features\ndiffer"), InputError, "cannot be loaded: features differ"),
        (GenerationError("while casting"), InputError, "cannot be loaded: while casting"),
    ],
    ids=["split", "absent", "network", "disk", "value", "generation"],
)
def test_hub_faults_are_put_in_one_line(
    hub: Callable[..., Any], raised: Exception, error: type[Exception], words: str
) -> None:
    hub(["Hindi"], raised)
    with pytest.raises(error, match=words) as caught:
        open_dataset("lab/bench")
    assert "\n" not in str(caught.value)


def test_offline_mode_is_respected_and_explained(tmp_path: Path) -> None:
    program = (
        "from iwb_batch.inputs.dataset import open_dataset\n"
        "from iwb_batch.errors import InputError\n"
        "try:\n    open_dataset('lab/bench', subset='Hindi')\n"
        "except InputError as error:\n    print(error.message, '|', error.hint)\n"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": os.defpath}
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout.startswith("lab/bench: the hub cannot be reached")
    assert "--dataset FILE" in run.stdout


# Numbering and selecting.


def made(*rows: dict[str, Any]) -> Dataset:
    return Dataset(lambda: iter([Row(values, f"a.jsonl line {n}", n) for n, values in enumerate(rows, 1)]), "a")


def test_unique_integer_indexes_of_the_data_are_kept() -> None:
    big = 143349558619761321
    dataset = made({"index": 7}, {"index": big}, {"index": "3"})
    found = numbering(dataset)
    assert (found.by_data, found.note, set(found.indexes)) == (True, None, {7, big, 3})
    assert [index for index, _ in found.apply(dataset.rows())] == [7, big, 3]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([{"index": 1}, {"index": 1}], "index 1 occurs again at a.jsonl line 2"),
        ([{"index": 1}, {}], "a.jsonl line 2 has no integer 'index'"),
        ([{"index": 1}, {"index": True}], "a.jsonl line 2 has no integer 'index'"),
        ([{"index": 1}, {"index": 2.0}], "a.jsonl line 2 has no integer 'index'"),
        ([{"index": -1}, {"index": 2}], "a.jsonl line 1 has no integer 'index'"),
        ([{"index": "01"}, {"index": 2}], "a.jsonl line 1 has no integer 'index'"),
        ([{}, {}], "a.jsonl line 1 has no integer 'index'"),
    ],
    ids=["twice", "missing", "boolean", "float", "negative", "zeros", "none"],
)
def test_rows_are_numbered_otherwise_and_it_is_said(rows: list[dict[str, Any]], why: str) -> None:
    dataset = made(*rows)
    found = numbering(dataset)
    assert (found.by_data, list(found.indexes)) == (False, [0, 1])
    assert found.note == f"rows are numbered from 0: {why}"
    assert [index for index, _ in found.apply(dataset.rows())] == [0, 1]


def test_index_column_of_some_files_never_replaces_the_position(tmp_path: Path) -> None:
    first = put(tmp_path / "a.jsonl", jsonl({"query": "a"}, {"query": "b"}))
    second = put(tmp_path / "b.jsonl", jsonl({"query": "c", "index": 0}, {"query": "d", "index": 1}))
    dataset = open_dataset([str(first), str(second)])
    found = numbering(dataset)
    assert [(i, row.values["query"]) for i, row in found.apply(dataset.rows())] == list(enumerate("abcd"))
    assert found.note is not None


def test_pairs_are_numbered_by_row_without_a_note() -> None:
    found = numbering(made({"index": 9}, {"index": 9}), by_row=True)
    assert (list(found.indexes), found.note) == ([0, 1], None)


def chosen(*where: tuple[str, str], limit: int | None = None) -> list[int]:
    dataset = made(*ROWS)
    return [index for index, _ in select(numbering(dataset).apply(dataset.rows()), where, limit)]


@pytest.mark.parametrize(
    ("where", "limit", "expected"),
    [
        ([], None, [0, 1, 2, 3]),
        ([("domain", "Law")], None, [1, 2]),
        ([("domain", "Law"), ("domain", "Letters")], None, [0, 1, 2]),
        ([("domain", "Law"), ("language", "Tamil")], None, [2]),
        ([("domain", "Law")], 1, [1]),
        ([], 2, [0, 1]),
        ([("index", "3")], None, [3]),
        ([("language", "")], None, [3]),
        ([("domain", "law")], None, []),
    ],
    ids=["all", "one", "or", "and", "limit-after-where", "limit", "number", "null", "case-counts"],
)
def test_selection(where: list[tuple[str, str]], limit: int | None, expected: list[int]) -> None:
    assert chosen(*where, limit=limit) == expected


def test_unknown_key_lists_those_there_are() -> None:
    with pytest.raises(UsageError, match="no row has 'genre'; there are: index, query, language, domain, lang"):
        chosen(("genre", "x"))


def test_limit_below_one_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--limit"):
        chosen(limit=0)


def test_names_of_the_benchmark_can_be_asked_for_and_the_data_win() -> None:
    def labels(row: Row, index: int) -> dict[str, object]:
        return {"subject": f"s{index % 2}", "domain": "never"}

    dataset = made(*ROWS[:3])
    numbered = list(numbering(dataset).apply(dataset.rows()))
    assert [index for index, _ in select(numbered, [("subject", "s1")], labels=labels)] == [1]
    assert list(select(numbered, [("domain", "never")], labels=labels)) == []


@pytest.mark.parametrize(
    ("value", "text"),
    [("ä", "ä"), (None, ""), (True, "true"), (12, "12"), (1.5, "1.5"), (["ä"], '["ä"]'), ({"a": 1}, '{"a": 1}')],
    ids=["text", "null", "boolean", "integer", "float", "list", "object"],
)
def test_values_as_text(value: Any, text: str) -> None:
    assert as_text(value) == text
