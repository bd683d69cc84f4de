"""The last few requests through chat completions: same validation, own price, marked on each judgement."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Cli, Emulation, Inputs, Scripted, inputs, own_score

FAIL_ONCE = {"requests": [{"fault": "invalid_json", "match": "-c[01]-r1-a1$"}]}
PRICES = ["--price-input", "1", "--price-output", "10"]


def online(cli: Cli, *more: str) -> list[str]:
    return ["collect", "--finish-online", "--online-judge", "gpt-5.4-online", "--wait", "0", *more]


def submitted(cli: Cli, emulate: Emulation, given: Inputs) -> Emulation:
    emulate(faults=FAIL_ONCE, judge=Scripted(own_score))
    assert cli.submit(given, "--yes", *PRICES).code == 0
    return emulate


def test_what_failed_is_asked_online_and_marked(cli: Cli, emulate: Emulation, two: Inputs) -> None:
    submitted(cli, emulate, two)
    done = cli(*online(cli, "--yes"))
    assert done.code == 0, done.err
    rows = cli.query(
        "select a.custom_id, a.changed, j.notes from attempt_reading a join judgement j using (reading_id)"
        " where a.attempt = 2"
    )
    assert len(rows) == 4
    assert {tuple(json.loads(row["notes"])) for row in rows} == {("online",)}
    assert {row["changed"] for row in rows} == {"online gpt-5.4-online"}
    assert cli.query("select count(*) as n from score") == [{"n": 10}]
    assert cli("report").code == 0
    assert cli("doctor", cli.folder.name).code == 0


def test_the_online_price_is_twice_the_batch_price(cli: Cli, emulate: Emulation, two: Inputs) -> None:
    submitted(cli, emulate, two)
    cli(*online(cli, "--yes"))
    (good,) = cli.query("select attempts, prompt_tokens, completion_tokens, cost_usd from usage where class = 'good'")
    batch, asked = 6, 4
    assert (good["attempts"], good["prompt_tokens"], good["completion_tokens"]) == (10, 1_000, 200)
    assert good["cost_usd"] == pytest.approx((batch + 2 * asked) * (100 * 1 + 20 * 10) / 1e6)


def test_an_answer_on_disk_is_not_asked_for_again(cli: Cli, emulate: Emulation, two: Inputs) -> None:
    refused = {"fault": "status", "status": 401, "path": "chat/completions", "nth": [3]}
    service = emulate(faults={**FAIL_ONCE, "http": [refused]}, judge=Scripted(own_score)).service
    assert cli.submit(two, "--yes").code == 0
    cli(*online(cli, "--yes")).refused(5, "refused the credentials")
    assert cli("status").code == 0
    done = cli(*online(cli, "--yes"))
    assert done.code == 0, done.err
    asked = [status for _, path, status in service.calls if "chat/completions" in path]
    assert sorted(asked) == [200, 200, 200, 200, 401], "four requests were waiting, one was refused once"
    assert cli.query("select count(*) as n from score") == [{"n": 10}]


def test_both_options_are_needed(cli: Cli, emulate: Emulation, two: Inputs) -> None:
    submitted(cli, emulate, two)
    cli("collect", "--finish-online").refused(2, "--online-judge")
    cli("collect", "--online-judge", "x").refused(2, "--finish-online")


def test_without_anything_waiting_nothing_is_asked(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    service = emulate(judge=Scripted(own_score)).service
    cli.submit(inputs(tmp_path / "in", 1), "--yes")
    assert cli.collect().code == 0
    assert cli(*online(cli, "--yes")).code == 0
    assert not [path for _, path, _ in service.calls if "chat" in path]
