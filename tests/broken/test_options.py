"""Options that say nothing, say too much, or have nothing to act on are refused before anything happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iwb_batch.cli import cli as commands
from iwb_batch.cli.params import RowOption
from tests.cli.support import Cli, Inputs, Resource, nothing_sent

REFUSED = {
    "a judge without a name": ["--judge", ""],
    "a judge of white space": ["--judge", " \t"],
    "more repeats than anybody pays for": ["--repeats", "999999999999999"],
    "an order without pairs": ["--orders", "random"],
    "more seconds than a clock can name": ["--wait", "99999999999"],
    "a grace of centuries": ["--grace", "9" * 400],
    "an unsafe run name": ["--run", "../x"],
}


@pytest.mark.parametrize("more", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("dry", [False, True], ids=["submit", "dry run"])
def test_submit_refuses(cli: Cli, two: Inputs, resource: Resource, more: list[str], dry: bool) -> None:
    done = cli.submit(two, *more, *(["--dry-run"] if dry else []))
    done.refused(2, more[0].removeprefix("--").split("-", maxsplit=1)[0])
    nothing_sent(cli, resource)


def test_an_empty_variable_is_no_value_and_a_blank_one_is_refused(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IWB_BATCH_SUBMIT_REASONING_EFFORT", "")
    assert cli.submit(two, "--dry-run").code == 0
    monkeypatch.setenv("IWB_BATCH_SUBMIT_REASONING_EFFORT", " ")
    cli.submit(two, "--dry-run").refused(2, "reasoning-effort")


def test_collect_refuses_intervals_that_no_clock_can_name(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    for name in ("--poll-interval", "--settle", "--grace", "--timeout", "--wait"):
        cli("collect", name, "99999999999").refused(2, name)


@pytest.mark.parametrize("nothing", ["", " ", ",", " , "])
def test_retry_of_nothing_is_refused(cli: Cli, two: Inputs, resource: Resource, nothing: str) -> None:
    assert cli.submit(two).code == 0
    cli("collect", "--retry", nothing).refused(2, "no outcome is named")


def test_show_names_a_criterion_that_is_not_there(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    assert len(cli("show", "0", "--criterion", "4", "--json").json()["requests"]) == 1
    cli("show", "0", "--criterion", "5").refused(1, "criterion 5", "item 0 has 5")


def test_a_folder_of_responses_is_called_a_folder(cli: Cli, two: Inputs, resource: Resource, tmp_path: Path) -> None:
    cli.submit(two, "--responses", tmp_path).refused(1, "is a folder, not a file")
    nothing_sent(cli, resource)


def test_query_never_drops_a_column_or_prints_what_is_no_json(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    cli("query", "select 1 as x, 2 as x", "--format", "json").refused(2, "two columns are called x")
    assert cli("query", "select 1 as x, 2 as x", "--format", "csv").out == "x,x\r\n1,2\n".replace("\r", "")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    done = cli("query", "select 1e999 as up, -1e999 as down, 0.5 as half", "--format", "json")
    assert json.loads(done.out, parse_constant=refuse) == [{"up": "inf", "down": "-inf", "half": 0.5}]


@pytest.mark.parametrize(
    ("value", "told"),
    [("7", "holds 1 value"), ("1 batch_a\n2", "holds 3 values")],
    ids=["one", "three"],
)
def test_half_a_pair_in_the_environment_is_refused_with_the_form_awaited(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch, value: str, told: str
) -> None:
    assert cli.submit(two).code == 0
    monkeypatch.setenv("IWB_BATCH_COLLECT_ADOPT", value)
    cli("collect").refused(2, "IWB_BATCH_COLLECT_ADOPT", told, "awaited are BATCH REMOTE_ID")
    monkeypatch.setenv("IWB_BATCH_COLLECT_ADOPT", "7 batch_a")
    cli("collect").refused(2, "batch 7 is not ambiguous")


def test_every_option_of_several_values_refuses_a_part_of_a_row_in_the_environment() -> None:
    options = [option for command in commands.load_all().values() for option in command.params if option.nargs > 1]
    assert [type(option) for option in options] == [RowOption]
