"""The whole of WritingBench loads, and its own scorer's table comes out the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from iwb_batch import schemas
from iwb_batch.core.compat import Requirements, official_row
from iwb_batch.inputs.rows import read_rows
from tests.cli.support import Cli, Emulation, Scripted, jsonl, verdict

ITEMS = "writingbench/benchmark_all.jsonl"
SUBSETS = "writingbench/requirement_subsets.json"
CASES = "official_aggregates"


@pytest.fixture(scope="session")
def items(data: Path) -> dict[int, Mapping[str, Any]]:
    """The items by index."""
    return {row.values["index"]: row.values for row in read_rows(data / ITEMS)}


def write_folder(folder: Path, r: Mapping[str, Any], c: Mapping[str, Any], items: Mapping[int, Any]) -> Path:
    """A requirement folder for the lists given."""
    for name in ("style", "format", "length"):
        (folder / name).mkdir(parents=True)
        jsonl(folder / name / f"{name}_subset.jsonl", [dict(items[i]) for i in r[name]])
        rows = [
            {**items[int(i)], "checklist": [e for e in items[int(i)]["checklist"] if e["name"] in names]}
            for i, names in c[name].items()
        ]
        jsonl(folder / name / f"{name}_subset_C.jsonl", rows)
    return folder


def check_all_items_load(cli: Cli, tmp_path: Path, data: Path, items: Mapping[int, Any], say: list[str]) -> None:
    """1,000 items, 5,000 requests, nothing sent."""
    responses = jsonl(tmp_path / "m.jsonl", [{"index": i, "response": f"answer {i}"} for i in items])
    options = ("--benchmark", "writing-bench", "--dataset", data / ITEMS, "--responses", responses)
    done = cli("submit", *options, "--dry-run")
    assert done.code == 0, done.err
    facts = dict(line.split(maxsplit=1) for line in done.out.split("\n") if line.startswith(("items", "requests")))
    assert facts == {"items": "1,000", "requests": "5,000"}
    say += [line for line in done.out.split("\n") if line]


def check_the_whole_benchmark_with_its_lists(
    cli: Cli, emulate: Emulation, tmp_path: Path, data: Path, items: Mapping[int, Any], say: list[str]
) -> None:
    """A rehearsal over all items; the original's table equals the default report."""
    emulate()
    responses = jsonl(tmp_path / "m.jsonl", [{"index": i, "response": f"answer {i}"} for i in items])
    options = ("--benchmark", "writing-bench", "--dataset", data / ITEMS, "--responses", responses)
    assert cli("submit", *options, "--wait", "0").code == 0
    assert cli.collect().code == 0
    lists = json.loads((data / SUBSETS).read_bytes())
    folder = write_folder(tmp_path / "requirement", lists["R"], lists["C"], items)
    report = cli("report", "--requirements", folder, "--format", "json").json()
    row = cli("report", "--requirements", folder, "--compat", "--format", "json").json()
    assert (report["n_items"], report["n_complete"], row["Count"]) == (1000, 1000, 1000)
    assert row["Overall"] == pytest.approx(report["overall"]["score"])
    for name, value in report["requirements"].items():
        assert row[name] == pytest.approx(value)
    assert {r["label"]: r["n_items"] for r in report["requirement_rows"]} == {
        **{f"style_{kind}": 442 for kind in "RC"},
        **{f"format_{kind}": 498 for kind in "RC"},
        **{f"length_{kind}": 222 for kind in "RC"},
    }
    say.append(f"Overall {row['Overall']:.4f}, both ways; requirements {report['requirements']}")


def cases(data: Path) -> list[dict[str, Any]]:
    """The cases that have score files."""
    found = [json.loads(path.read_bytes()) for path in sorted((data / CASES).glob("*.json"))]
    return [case for case in found if "score_files" in case]


def lists_of(case: Mapping[str, Any]) -> Requirements:
    """The requirement lists of a case."""
    reference = case["reference"]
    r = {name: tuple(indexes) for name, indexes in reference["requirement_R"].items()}
    c = {
        name: {int(index): tuple(names) for index, names in named.items()}
        for name, named in reference["requirement_C"].items()
    }
    return Requirements(r, c)


def refusal(case: Mapping[str, Any]) -> str | None:
    """Why no run can hold the scores of a case; None when one can."""
    valid = jsonschema.Draft202012Validator(schemas.load("judgement.schema.json"))
    known = {int(index) for index in case["reference"]["benchmark"]}
    for line in (line for lines in case["score_files"].values() for line in lines):
        if not isinstance(line, dict):
            return "a line without an object is no response"
        if not isinstance(line["index"], int):
            return "an index is a whole number; as text it names the same item"
        if line["index"] not in known:
            return "an index that the data lack is refused before anything is sent"
        for evaluation in (e for evaluations in line["scores"].values() for e in evaluations):
            for error in valid.iter_errors(evaluation):
                return f"no verdict: {error.message}"
    return None


def check_the_rule_for_every_case(data: Path, say: list[str]) -> None:
    """Where the original prints a table, ours is the same table, also for input that no run can hold."""
    for case in cases(data):
        official = case["official_output"]
        if official["exit_code"] != 0:
            reason = refusal(case) or "not a crash here: what has no score is left out"
            say.append(f"{case['case']}: the original stops with {official['error']!r}; {reason}")
            continue
        for (model, lines), expected in zip(case["score_files"].items(), official["rows"], strict=True):
            evaluations = [
                (line["index"], {name: [e["score"] for e in found] for name, found in line["scores"].items()})
                for line in lines
            ]
            domains = {int(i): (v["domain1"], v["domain2"]) for i, v in case["reference"]["benchmark"].items()}
            row = official_row(model, evaluations, domains=domains, requirements=lists_of(case))
            assert row == pytest.approx(expected), case["case"]
        refused = refusal(case)
        say.append(f"{case['case']}: equal{f'; no run can hold it: {refused}' if refused else ''}")


def judge_of(lines: list[dict[str, Any]]) -> Scripted:
    """A judge that gives the scores of a score file; nothing usable where it has none."""
    left = {
        (line["index"], name): [e["score"] for e in evaluations]
        for line in lines
        for name, evaluations in line["scores"].items()
    }

    def content(prompt: str) -> str:
        for (index, name), scores in left.items():
            if scores and f"@@{index}@@" in prompt and f"{json.dumps(name, ensure_ascii=False)}, " in prompt:
                return verdict(scores.pop(0))
        return "nothing"

    return Scripted(content)


def check_valid_cases_through_a_run(
    cli: Cli, emulate: Emulation, tmp_path: Path, data: Path, items: Mapping[int, Any], say: list[str]
) -> None:
    """The scores of each valid case come from a judge, go through a run, and ``report --compat`` prints the table."""
    for case in cases(data):
        if case["official_output"]["exit_code"] != 0 or refusal(case) is not None:
            continue
        folder = tmp_path / case["case"]
        reference = case["reference"]
        lists = write_folder(folder, reference["requirement_R"], reference["requirement_C"], items)
        for (model, lines), expected in zip(case["score_files"].items(), case["official_output"]["rows"], strict=True):
            emulate(judge=judge_of(lines))
            answers = [{"index": line["index"], "response": f"@@{line['index']}@@"} for line in lines]
            repeats = max(len(found) for line in lines for found in line["scores"].values())
            chosen = [word for line in lines for word in ("--where", f"index={line['index']}")]
            options = ("--benchmark", "writing-bench", "--dataset", data / ITEMS, *chosen, "--model-name", model)
            sent = cli(
                *("submit", *options, "--responses", jsonl(folder / "answers.jsonl", answers), "--wait", "0"),
                *("--run", case["case"], "--repeats", str(repeats), "--max-resubmits", "0"),
            )
            assert sent.code == 0, sent.err
            cli.collect()
            row = cli("report", "--compat", "--requirements", lists, "--format", "json").json()
            assert row == pytest.approx(expected), case["case"]
            say.append(f"{case['case']}: equal through a run, Overall {row['Overall']}")
