"""Options: what their values may be, contradictions, and the environment twin of each."""

from __future__ import annotations

import click
import pytest

from iwb_batch.cli import cli as commands
from tests.cli.support import Cli, Emulation, Inputs, Resource, jsonl, nothing_sent, responses

WRONG_VALUES = {
    "Devanagari digit": ["--repeats", "٢"],
    "superscript": ["--repeats", "²"],
    "full-width digit": ["--repeats", "２"],
    "zero repeats": ["--repeats", "0"],
    "negative": ["--limit", "-1"],
    "limit zero": ["--limit", "0"],
    "fraction": ["--max-resubmits", "1.5"],
    "word": ["--max-completion-tokens", "many"],
    "infinite wait": ["--wait", "inf"],
    "wait in words": ["--wait", "1h"],
    "negative budget": ["--budget", "-1"],
    "not a number": ["--price-input", "nan"],
    "strip rule": ["--strip-reasoning", "maybe"],
    "empty responses": ["--empty-responses", "zero"],
    "where without value": ["--where", "language"],
    "where without key": ["--where", "=Hindi"],
    "provider": ["--provider", "bedrock"],
    "unknown option": ["--temperature", "0"],
}


@pytest.mark.parametrize("options", WRONG_VALUES.values(), ids=WRONG_VALUES.keys())
def test_a_wrong_value_is_a_usage_error(cli: Cli, two: Inputs, resource: Resource, options: list[str]) -> None:
    done = cli.submit(two, *options)
    done.refused(2, options[0])
    nothing_sent(cli, resource)


def test_an_unknown_benchmark_lists_those_that_exist(cli: Cli, two: Inputs, resource: Resource) -> None:
    done = cli("submit", "--benchmark", "indic", "--responses", two.answers)
    done.refused(2, "no benchmark 'indic'", "indic-writing-bench, writing-bench, writing-preference-bench")
    nothing_sent(cli, resource)


def test_a_missing_benchmark_lists_those_that_exist(cli: Cli, two: Inputs, resource: Resource) -> None:
    done = cli("submit", "--responses", two.answers)
    done.refused(2, "--benchmark is missing", hint="indic-writing-bench, writing-bench, writing-preference-bench")
    nothing_sent(cli, resource)


def test_missing_responses_say_what_the_file_holds(cli: Cli, two: Inputs, resource: Resource) -> None:
    done = cli("submit", "--benchmark", "indic-writing-bench", "--dataset", two.data)
    done.refused(2, "--responses is missing", hint='{"index": ..., "response": ...}')
    nothing_sent(cli, resource)


def test_a_benchmark_without_a_data_set_of_its_own_needs_one(cli: Cli, two: Inputs, resource: Resource) -> None:
    done = cli("submit", "--benchmark", "writing-bench", "--responses", two.answers)
    done.refused(2, "--benchmark writing-bench needs --dataset", hint="data file or folder")
    nothing_sent(cli, resource)


def test_pairs_take_no_responses(cli: Cli, two: Inputs, resource: Resource) -> None:
    done = cli("submit", "--benchmark", "writing-preference-bench", "--dataset", two.data, "--responses", two.answers)
    done.refused(2, "--responses is not for pairs", hint="--judge")
    nothing_sent(cli, resource)


def test_a_name_without_inputs_and_without_a_run_says_what_is_missing(cli: Cli, resource: Resource) -> None:
    done = cli("submit", "--run", "mine")
    assert done.code in (1, 2)
    assert "mine" in done.errors[0]
    assert done.hint
    nothing_sent(cli, resource)


def test_a_name_with_responses_alone_says_that_the_benchmark_is_missing(
    cli: Cli, two: Inputs, resource: Resource
) -> None:
    cli("submit", "--run", "mine", "--responses", two.answers).refused(2, "--benchmark is missing", hint="One of: ")
    nothing_sent(cli, resource)


def test_a_budget_needs_a_price(cli: Cli, two: Inputs, resource: Resource) -> None:
    done = cli.submit(two, "--judge", "my-own-deployment", "--budget", "5")
    done.refused(2, "--budget: the price of my-own-deployment is unknown", hint="--price-input and --price-output")
    nothing_sent(cli, resource)


def test_a_budget_that_is_spent_holds_back_what_is_left(cli: Cli, two: Inputs, resource: Resource) -> None:
    prices = ["--price-input", "1000", "--price-output", "1000"]
    done = cli.submit(two, "--judge", "own", "--budget", "10", "--max-requests-per-file", "5", *prices)
    assert done.code == 3, done.err
    assert "1 of 2 request files sent" in done.err
    assert "held back by --budget 10.00" in done.err
    assert len(resource.service.batches_created) == 1
    more = cli.submit(two, "--judge", "own", "--budget", "100", "--max-requests-per-file", "5", *prices)
    assert more.code == 0, more.err
    assert cli.collect().code == 0


def test_watching_ends_when_the_budget_holds_back_all_that_is_left(cli: Cli, two: Inputs, resource: Resource) -> None:
    prices = ["--price-input", "1000", "--price-cached", "1000", "--price-output", "0"]
    done = cli.submit(two, "--judge", "own", "--budget", "6", "--max-requests-per-file", "5", *prices)
    assert done.code == 3, done.err
    held = cli("collect", "--watch", "--poll-interval", "0.02", "--wait", "0")
    assert held.code == 3, held.err
    assert "5 of 10 requests judged, 5 open" in held.err
    assert "not finished: 0002.jsonl planned (held back by --budget 6.00: spent " in held.err
    assert len(resource.service.batches_created) == 1


def test_answers_without_token_counts_use_up_the_budget_as_estimated(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(faults={"requests": [{"fault": "no_usage"}]})
    prices = ["--price-input", "1000", "--price-output", "0"]
    assert cli.submit(two, "--judge", "own", "--budget", "6", "--max-requests-per-file", "5", *prices).code == 3
    held = cli("collect", "--watch", "--poll-interval", "0.02", "--wait", "0")
    assert held.code == 3, held.err
    assert "5 of 10 requests judged, 5 open" in held.err
    assert "held back by --budget 6.00: spent 0.00" not in held.err
    assert len(resource.service.batches_created) == 1


def test_a_run_without_a_budget_needs_no_price(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--judge", "my-own-deployment").code == 0
    assert cli.collect().code == 0
    status = cli("status", "--json").json()
    assert status["cost_usd"] is None
    assert status["tokens"]["prompt"] > 0


def test_nothing_is_spent_before_anything_is_answered(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--judge", "my-own-deployment").code == 0
    assert cli("status", "--json").json()["cost_usd"] == 0
    assert "0.0000 USD, nothing is answered yet" in cli("status").out
    assert cli("report", "--format", "json").json()["cost_usd"] == 0
    assert cli("cancel", "--yes").code in (0, 3)


def test_options_may_come_from_the_environment(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "IWB_BATCH_RUNS_DIR": str(cli.runs),
        "IWB_BATCH_SUBMIT_BENCHMARK": "indic-writing-bench",
        "IWB_BATCH_SUBMIT_DATASET": str(two.data),
        "IWB_BATCH_SUBMIT_RESPONSES": str(two.answers),
        "IWB_BATCH_SUBMIT_RUN": "from-environment",
        "IWB_BATCH_SUBMIT_JUDGE": "my-own-deployment",
        "IWB_BATCH_SUBMIT_REPEATS": "2",
        "IWB_BATCH_SUBMIT_WAIT": "0",
        "IWB_BATCH_COLLECT_WATCH": "1",
        "IWB_BATCH_COLLECT_POLL_INTERVAL": "0.02",
        "IWB_BATCH_STATUS_JSON": "1",
        "IWB_BATCH_REPORT_FORMAT": "json",
        "IWB_BATCH_QUERY_FORMAT": "jsonl",
        "IWB_BATCH_SHOW_JSON": "1",
        "IWB_BATCH_RUNS_JSON": "1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert cli("submit").code == 0
    assert cli.names == ["from-environment"]
    assert cli("collect").code == 0
    status = cli("status").json()
    assert (status["run"], status["scored"]) == ("from-environment", 20)
    assert cli("report").json()["judge"]
    assert cli("query", "select judge from run").json() == {"judge": "my-own-deployment"}
    assert cli("show", "0").json()["item_index"] == 0
    assert [entry["run"] for entry in cli("runs").json()] == ["from-environment"]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_repeatable_option_takes_one_value_a_line(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    given = Inputs(jsonl(two.data, [{**row, "domain": "a, b c"} for row in map(row_of, range(4))]), two.answers)
    jsonl(given.answers, responses(4))
    value = "domain=a, b c\nlanguage=English\nlanguage=Hindi".replace("\n", end or "\n") + end
    monkeypatch.setenv("IWB_BATCH_SUBMIT_WHERE", value)
    done = cli.submit(given)
    assert done.code == 0, done.err
    assert cli.query("select item_index from item_score order by 1") == [{"item_index": i} for i in (0, 1, 3)]


def row_of(index: int) -> dict[str, object]:
    from tests.cli.support import item

    return item(index)


def test_the_command_line_beats_the_environment(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IWB_BATCH_SUBMIT_LIMIT", "2")
    monkeypatch.setenv("IWB_BATCH_SUBMIT_JUDGE", "from-environment")
    assert cli.submit(two, "--limit", "1", "--judge", "from-line").code == 0
    assert cli.query("select judge, count(*) as n from run, item") == [{"judge": "from-line", "n": 1}]


def test_a_wrong_value_in_the_environment_is_a_usage_error(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IWB_BATCH_SUBMIT_REPEATS", "²")
    cli.submit(two).refused(2, "--repeats")
    nothing_sent(cli, resource)


@pytest.mark.parametrize("command", ["submit", "collect", "status", "report", "query", "show", "cancel", "runs"])
def test_help_says_what_a_command_is_for(cli: Cli, command: str) -> None:
    done = cli(command, "--help")
    assert done.code == 0
    assert done.out.startswith("Usage: iwb-batch ")
    assert done.err == ""


def test_an_unknown_command_is_a_usage_error(cli: Cli) -> None:
    cli("judge").refused(2, "No such command 'judge'")
    cli("submitt").refused(2, "No such command 'submitt'", "submit")


def test_where_selects_by_value_and_limit_takes_the_first(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate()
    jsonl(two.data, [row_of(index) for index in range(9)])
    jsonl(two.answers, responses(9))
    options = ["--where", "language=Hindi", "--where", "language=Chinese", "--where", "subdomain=kind 0"]
    done = cli.submit(two, *options, "--limit", "2")
    assert done.code == 0, done.err
    assert "7 responses belong to items outside the selection" in done.err
    assert cli.query("select item_index from item_score order by 1") == [{"item_index": 0}, {"item_index": 2}]


def options_of_every_command() -> list[tuple[str, click.Option]]:
    found = []
    for name, command in commands.load_all().items():
        found += [(name, option) for option in command.params if isinstance(option, click.Option)]
    return found


@pytest.mark.parametrize(
    ("name", "option"),
    [pytest.param(name, option, id=f"{name} {option.opts[-1]}") for name, option in options_of_every_command()],
)
def test_every_option_has_its_twin_in_the_environment(name: str, option: click.Option) -> None:
    written = next(spelling for spelling in option.opts if spelling.startswith("--"))
    assert option.envvar == f"IWB_BATCH_{name}_{written[2:]}".upper().replace("-", "_")
    assert option.help
