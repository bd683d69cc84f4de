"""Small WritingBench data in the original's layout, its requirement lists, and a judge told what to score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cli.support import BANDS, Cli, Emulation, Scripted, jsonl, verdict

NAMES = ("Purpose", "结构", "Tone", "Evidence", "Closing")
KINDS = (("Education", "Lesson Plan", "en"), ("Finance & Business", "市场分析", "zh"), ("Education", "Quiz", "en"))

Scores = Mapping[int, Sequence[int | None]]
"""Scores of an item's five criteria by index; None: the judge says nothing usable."""


def criterion(name: str) -> dict[str, str]:
    """One criterion."""
    return {"name": name, "criteria_description": f"About {name}", **{band: f"{name} {band}" for band in BANDS}}


def item(index: int, **changes: Any) -> dict[str, Any]:
    """One row of the benchmark; indexes begin at 1 there."""
    domain, subdomain, language = KINDS[index % 3]
    return {
        "index": index,
        "domain1": domain,
        "domain2": subdomain,
        "lang": language,
        "query": f"Task number <{index}>: 写一份 plan.",
        "checklist": [criterion(f"{name} {index}") for name in NAMES],
        **changes,
    }


def write_items(path: Path, indexes: Sequence[int]) -> Path:
    """The data file, with the original's CRLF line ends."""
    lines = (json.dumps(item(index), ensure_ascii=False) + "\r\n" for index in indexes)
    path.write_bytes("".join(lines).encode())
    return path


def write_lists(folder: Path, lists: Mapping[str, Mapping[int, Sequence[str]]]) -> Path:
    """A requirement folder: for each requirement its items, and which of their criteria are about it."""
    for name, named in lists.items():
        part = folder / name
        part.mkdir(parents=True)
        jsonl(part / f"{name}_subset.jsonl", [without_language(item(index)) for index in named])
        rows = [without_language(item(i, checklist=[criterion(n) for n in names])) for i, names in named.items()]
        jsonl(part / f"{name}_subset_C.jsonl", rows)
    return folder


def without_language(row: dict[str, Any]) -> dict[str, Any]:
    """The lists have no ``lang``."""
    return {key: value for key, value in row.items() if key != "lang"}


def told(scores: Scores) -> Scripted:
    """A judge that gives each criterion the score it was told."""

    def content(prompt: str) -> str:
        for index, values in scores.items():
            for name, value in zip(NAMES, values, strict=True):
                if f'"{name} {index}"' in prompt:
                    return "no idea" if value is None else verdict(value)
        raise AssertionError(prompt)

    return Scripted(content)


def judged(cli: Cli, emulate: Emulation, folder: Path, scores: Scores, *options: str) -> int:
    """Judge one model on the items the scores are for; the exit code of ``collect``."""
    emulate(judge=told(scores))
    items = write_items(folder / "benchmark_all.jsonl", list(scores))
    answers = jsonl(folder / "modelA.jsonl", [{"index": i, "response": f"Answer to <{i}>"} for i in scores])
    options = ("--dataset", str(items), "--responses", str(answers), "--max-resubmits", "0", *options)
    sent = cli("submit", "--benchmark", "writing-bench", "--wait", "0", *options)
    assert sent.code == 0, sent.err
    return cli.collect().code
