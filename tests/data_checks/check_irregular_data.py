"""Rows whose metadata do not fit their text, and the odd items of WritingBench."""

from __future__ import annotations

import json
from pathlib import Path

from iwb_batch import benchmarks
from iwb_batch.inputs.rows import read_rows
from tests.cli.support import Cli, Emulation, jsonl
from tests.pairs.support import array, judged, knows, numbers

ROWS = "writing_preference_bench/official_rows_with_irregular_metadata.json"
TAXONOMY = "writing_preference_bench/taxonomy_51_tags.json"
ODD = "writingbench/benchmark_sample_16.jsonl"


def check_rows_with_stale_metadata(cli: Cli, emulate: Emulation, tmp_path: Path, data: Path, say: list[str]) -> None:
    """A gap of 0 and stale token counts change nothing."""
    rows = []
    for number, row in enumerate(json.loads((data / ROWS).read_bytes())["rows"]):
        texts = {side: {**row[side], "response": f"{side} 文本 {number}"} for side in ("chosen", "rejected")}
        rows.append({**row, **texts, "prompt": "为一篇论文写摘要。"})
    judged(cli, emulate, knows(rows), "--dataset", str(array(tmp_path / "chinese.json", rows)))
    found = numbers(cli)
    assert (found["n_pairs"], found["accuracy"]["score"]) == (2, 1.0)
    assert any("1 item: no score gap" in note for note in found["notes"])
    say += found["notes"]


def check_every_tag_has_its_domain(data: Path) -> None:
    """The table of tags is the published one, in both languages."""
    benchmark = benchmarks.get("writing-preference-bench")
    domains = json.loads((data / TAXONOMY).read_bytes())["macro_domains"]
    tags = [(tag[key], entry["domain"]) for entry in domains for tag in entry["tags"] for key in ("zh", "en")]
    assert len(tags) == 102
    for tag, domain in tags:
        row = next(iter(read_rows(data / ODD)))
        named = type(row)({"prompt": "p", "tag": tag}, row.where, row.number)
        assert benchmark.labels(named, 0)["domain"] == domain, tag


def check_odd_items_are_judged(cli: Cli, emulate: Emulation, tmp_path: Path, data: Path) -> None:
    """Braces, private-use characters, U+FEFF and the longest query go through a rehearsal."""
    emulate()
    indexes = [row.values["index"] for row in read_rows(data / ODD)]
    responses = jsonl(tmp_path / "m.jsonl", [{"index": i, "response": "{criteria} {query}"} for i in indexes])
    options = ("--benchmark", "writing-bench", "--dataset", data / ODD, "--responses", responses)
    assert cli("submit", *options, "--wait", "0").code == 0
    assert cli.collect().code == 0
    assert cli("report", "--format", "json").json()["n_complete"] == 16
