"""Benchmarks are found by file name; each brings what the protocol asks for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from iwb_batch import benchmarks, schemas
from iwb_batch.core.render import Template
from iwb_batch.errors import UsageError
from iwb_batch.model import Criterion, Item

NAMES = ["indic-writing-bench", "writing-bench", "writing-preference-bench"]


def test_names_come_from_the_files() -> None:
    assert benchmarks.names() == NAMES


def test_listing_names_imports_no_benchmark() -> None:
    program = (
        "import sys; from iwb_batch import benchmarks; benchmarks.names();"
        "print([m for m in sys.modules if m.startswith('iwb_batch.benchmarks.')])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("name", NAMES)
def test_each_benchmark_is_complete(name: str) -> None:
    benchmark = benchmarks.get(name)
    assert benchmark.name == name
    assert benchmark.system
    places = {"rubric": {"criteria", "query", "response"}, "pairwise": {"prompt", "first", "second"}}
    assert set(Template(benchmark.template).names) == places[benchmark.protocol]
    assert benchmark.keyed_by_row == (benchmark.protocol == "pairwise")


@pytest.mark.parametrize("name", NAMES)
def test_schemas_of_each_benchmark_are_shipped(name: str) -> None:
    benchmark = benchmarks.get(name)
    assert schemas.load(benchmark.schema)
    assert schemas.load(benchmark.request_schema)


def test_only_the_indic_benchmark_has_a_default_data_set() -> None:
    assert [benchmarks.get(name).default_dataset for name in NAMES] == ["sarvam/indic_writing_bench_v1", None, None]


@pytest.mark.parametrize("name", ["unknown", "_rubric", "-rubric", "", "writing_bench"])
def test_unknown_benchmark_lists_those_there_are(name: str) -> None:
    with pytest.raises(UsageError, match="there are: indic-writing-bench, writing-bench, writing-preference-bench"):
        benchmarks.get(name)


def test_schema_text_is_found_and_copies_are_independent() -> None:
    assert "CREATE TABLE run" in schemas.read_text("run.sql")
    schemas.load("judgement.schema.json")["changed"] = True
    assert "changed" not in schemas.load("judgement.schema.json")


def test_missing_schema_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match=r"schemas/none\.json"):
        schemas.read_text("none.json")


ITEM = Item(0, "a", "query", "cluster", domain="d", criteria=(Criterion("n", '{"name": "n"}'),))


def test_item_hash_changes_with_what_is_judged_and_only_then() -> None:
    base = benchmarks.item_sha256(ITEM)
    same = Item(0, "a", "query", "other", domain="e", notes=("x",), criteria=ITEM.criteria, extra={"model": "m"})
    assert benchmarks.item_sha256(same) == base
    changed = [
        Item(0, "b", "query", "cluster", criteria=ITEM.criteria),
        Item(0, "a", "query ", "cluster", criteria=ITEM.criteria),
        Item(0, "a", "query", "cluster", criteria=(Criterion("n", '{"name": "m"}'),)),
        Item(0, "a", "query", "cluster", criteria=ITEM.criteria, extra={"chosen": "c", "rejected": "r"}),
        Item(0, "a", "query", "cluster", criteria=ITEM.criteria, extra={"chosen": "r", "rejected": "c"}),
    ]
    hashes = {benchmarks.item_sha256(item) for item in changed}
    assert len(hashes) == len(changed)
    assert base not in hashes
