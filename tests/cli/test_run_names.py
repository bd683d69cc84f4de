"""Which folder a run gets: unsafe names are refused, derived ones are safe, another plan never shares a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import Cli, Emulation, Inputs, Resource, criterion, item, jsonl, nothing_sent, responses, stored

UNSAFE = {
    "parent": "../x",
    "parent on Windows": "..\\x",
    "deeper": "a/b",
    "absolute": "/tmp/x",
    "drive": "C:x",
    "NUL": "a\0b",
    "dot": ".",
    "two dots": "..",
    "hidden": ".x",
    "final dot": "x.",
    "all digits": "2024",
    "Devanagari digits": "१२३",
    "device": "CON",
    "device with suffix": "nul.txt",
    "blank inside": "a b",
    "line break": "a\nb",
    "option": "--yes",
    "too long": "x" * 200,
}


@pytest.mark.parametrize("name", UNSAFE.values(), ids=UNSAFE.keys())
def test_an_unsafe_run_name_is_refused(cli: Cli, two: Inputs, resource: Resource, name: str) -> None:
    cli.submit(two, f"--run={name}").refused(2, "not a safe run name", hint="Use letters, digits")
    nothing_sent(cli, resource)


def test_an_empty_run_name_is_refused(cli: Cli, two: Inputs, resource: Resource) -> None:
    cli.submit(two, "--run=").refused(2, "'--run'", "leave the option out")
    nothing_sent(cli, resource)


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a\0b", ".", "CON"])
@pytest.mark.parametrize("command", ["collect", "status", "report", "cancel --yes"])
def test_no_command_follows_an_unsafe_run_name(cli: Cli, resource: Resource, command: str, name: str) -> None:
    cli(*command.split(), name).refused(2, "not a safe run name", hint="Use letters, digits")
    nothing_sent(cli, resource)


@pytest.mark.parametrize("arguments", [["../x", "select 1"], ["a\0b", "select 1"]])
def test_query_follows_no_unsafe_run_name(cli: Cli, arguments: list[str]) -> None:
    cli("query", *arguments).refused(2, "not a safe run name", hint="Use letters, digits")


MODEL_NAMES = {
    "slashes": "nous/deepseek/v4",
    "colon": "nous:deepseek:v4",
    "backslash": "nous\\deepseek\\v4",
    "device": "CON",
    "parents": "../../outside",
    "NUL": "a\0b",
    "Hindi": "हिंदी मॉडल",
    "emoji": "🦙",
    "long": "x" * 500,
}


def test_model_names_that_become_equal_get_folders_of_their_own(cli: Cli, two: Inputs, resource: Resource) -> None:
    for name in MODEL_NAMES.values():
        done = cli.submit(two, "--model-name", name)
        assert done.code == 0, done.err
    assert len(cli.names) == len(MODEL_NAMES)
    assert {path.parent for path in cli.runs.rglob("run.db")} == {cli.runs / name for name in cli.names}
    kept = {stored(cli.runs / name / "run.db", "select model_name from run")[0][0] for name in cli.names}
    assert kept == set(MODEL_NAMES.values())


def test_a_derived_name_of_a_device_is_safe(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--model-name", "CON").code == 0
    assert all(name.split(".")[0].lower() not in ("con", "aux", "nul") for name in cli.names)


def test_criterion_names_are_data_and_never_paths(cli: Cli, tmp_path: Path, two: Inputs, resource: Resource) -> None:
    names = ["../x", "/etc/x", "a\0b", ".", "CON"]
    jsonl(two.data, [item(i, checklist=[criterion(name) for name in names]) for i in range(2)])
    before = sorted(path.name for path in tmp_path.iterdir())
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    assert cli("report").code == 0
    assert {row["criterion"] for row in cli.query("select criterion from score")} == set(names)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*before, "runs"])


def test_the_default_name_says_benchmark_subset_model_and_plan(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.answers, responses(1))
    done = cli.submit(two, "--subset", "Hindi")
    assert done.code == 0, done.err
    (plan,) = stored(cli.folder / "run.db", "select plan_sha256 from run")
    assert cli.folder.name == f"indic-writing-bench-Hindi-model-x-{plan[0][:8]}"
    assert done.out == f"{cli.folder}\n"


CHANGES = {
    "judge": (["--judge", "gpt-5.1"], 'judge.deployment: "gpt-5.4" -> "gpt-5.1"'),
    "token limit": (["--max-completion-tokens", "400"], "judge.max_completion_tokens: 8000 -> 400"),
    "reasoning effort": (["--reasoning-effort", "low"], 'judge.reasoning_effort: null -> "low"'),
    "structured output": (["--structured-output"], "judge.structured_output: false -> true"),
    "strip rule": (["--strip-reasoning", "off"], "strip_reasoning: "),
    "model name": (["--model-name", "other"], 'model_name: "model-x" -> "other"'),
    "selection": (["--limit", "1"], "data_sha256: "),
}


@pytest.mark.parametrize(("options", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_another_plan_under_the_same_name_is_refused(
    cli: Cli, two: Inputs, resource: Resource, options: list[str], words: str
) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    sent = len(resource.posts)
    done = cli.submit(two, "--run", "mine", *options)
    done.refused(1, "run mine exists with another plan", words, hint="Choose another --run")
    assert len(resource.posts) == sent
    assert cli.names == ["mine"]


@pytest.mark.parametrize(("options", "words"), CHANGES.values(), ids=CHANGES.keys())
def test_another_plan_without_a_name_is_a_run_of_its_own(
    cli: Cli, two: Inputs, resource: Resource, options: list[str], words: str
) -> None:
    assert cli.submit(two).code == 0
    assert cli.submit(two, *options).code == 0
    assert len(cli.names) == 2
    assert len(resource.service.batches_created) == 2


def test_an_edited_criterion_is_another_plan(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    rows = [item(0), item(1)]
    rows[0]["checklist"][0]["criteria_description"] = "How clear is it, in one word more"
    jsonl(two.data, rows)
    done = cli.submit(two, "--run", "mine")
    done.refused(1, "run mine exists with another plan: data_sha256", hint="Choose another --run")
    assert len(resource.service.batches_created) == 1


def test_an_edited_response_is_another_plan(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    rows = responses(2)
    rows[1]["response"] += "!"
    jsonl(two.answers, rows)
    cli.submit(two, "--run", "mine").refused(1, "responses_sha256: ", hint="Choose another --run")


ALLOWED = {
    "resubmits": ["--max-resubmits", "1"],
    "filtered": ["--resubmit-filtered", "2"],
    "budget": ["--budget", "50"],
    "prices": ["--price-input", "1", "--price-output", "2"],
    "file limits": ["--max-requests-per-file", "100", "--max-bytes-per-file", "1000000"],
    "quota": ["--enqueued-token-limit", "1000000"],
    "surface": ["--api-version", "2025-04-01-preview"],
    "waiting": ["--wait", "1", "--grace", "5"],
}


@pytest.mark.parametrize("options", ALLOWED.values(), ids=ALLOWED.keys())
def test_what_may_differ_continues_the_same_run(cli: Cli, two: Inputs, resource: Resource, options: list[str]) -> None:
    assert cli.submit(two).code == 0
    done = cli.submit(two, *options)
    assert done.code == 0, done.err
    assert len(cli.names) == 1
    assert len(resource.service.batches_created) == 1
    assert cli.collect().code == 0


def test_repeats_may_grow_and_only_the_new_ones_are_sent(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    assert cli.collect().code == 0
    grown = cli.submit(two, "--run", "mine", "--repeats", "3")
    assert grown.code == 0
    assert "3 repeats: 20 requests in 1 request file" in grown.err
    assert cli.collect().code == 0
    assert cli("status", "--json").json()["scored"] == 30
    assert set(resource.service.executions.values()) == {1}
    assert len(resource.service.executions) == 30
    cli.submit(two, "--run", "mine", "--repeats", "2").refused(1, "repeats: 3 -> 2", hint="another --run")


def test_a_run_is_continued_by_its_name_alone(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    known = {"gpt-5.4-mini": 10**9}
    resource = emulate(deployments=known, fail_fast=True)
    assert cli.submit(two, "--run", "mine").code == 5
    known["gpt-5.4"] = 10**9
    done = cli("submit", "--run", "mine", "--wait", "0")
    assert done.code == 0, done.err
    assert cli.collect().code == 0
    assert len(resource.service.batches_created) == 1


def test_a_named_run_takes_over_what_may_differ_and_keeps_the_rest(cli: Cli, two: Inputs, resource: Resource) -> None:
    prices = ["--price-input", "1000", "--price-output", "1000"]
    done = cli.submit(two, "--run", "mine", "--judge", "own", "--budget", "0.1", "--max-resubmits", "1", *prices)
    assert done.code == 3, done.err
    done = cli("submit", "--run", "mine", "--wait", "0", "--budget", "1000")
    assert done.code == 0, done.err
    (options,) = cli.query("select options ->> 'budget' as budget, options ->> 'max_resubmits' as more from run")
    assert options == {"budget": 1000.0, "more": 1}
    assert cli.collect().code == 0
    assert cli("submit", "--run", "mine", "--wait", "0", "--repeats", "2").code == 0
    assert cli.collect().code == 0
    assert cli("status", "--json").json()["scored"] == 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--judge", "gpt-5.1"], "another plan: judge.deployment: "),
        (["--max-completion-tokens", "400"], "another plan: judge.max_completion_tokens: "),
        (["--strip-reasoning", "off"], 'strip_reasoning: "auto" -> "off"'),
    ],
)
def test_a_named_run_does_not_take_another_plan(
    cli: Cli, two: Inputs, resource: Resource, options: list[str], words: str
) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    cli("submit", "--run", "mine", *options).refused(1, words, hint="Choose another --run")


def test_a_named_run_keeps_its_items(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    cli("submit", "--run", "mine", "--limit", "1").refused(2, "--limit: the items of a run are chosen", hint="too")


def test_a_budget_for_a_named_run_needs_a_price_of_its_judge(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--run", "mine", "--judge", "own").code == 0
    cli("submit", "--run", "mine", "--budget", "5").refused(2, "the price of own is unknown", hint="--price-input")
