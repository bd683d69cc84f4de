"""``collect --finish-online`` while the endpoint is away: budgets are not burnt, nothing is asked without a pause."""

from __future__ import annotations

from typing import Any

import pytest

from iwb_batch.workflow.clock import Clock
from tests.cli.support import Cli, Emulation, Inputs, Scripted, own_score

FAIL_ONCE = [{"fault": "invalid_json", "match": "-c[01]-r1-a1$"}]
ONLINE = ("collect", "--finish-online", "--online-judge", "gpt-5.4-online", "--wait", "0", "--yes")
AWAY: dict[str, dict[str, Any]] = {
    "busy": {"fault": "status", "status": 429, "times": 5},
    "broken": {"fault": "status", "status": 503, "times": 5},
    "no reply": {"fault": "lost_reply", "times": 5},
    "asks for an hour": {"fault": "status", "status": 429, "retry_after": 3600, "times": 1},
}


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the commands slept; nobody waits."""
    times: list[float] = []
    monkeypatch.setattr(Clock, "sleep", lambda _self, seconds: times.append(seconds))
    return times


@pytest.mark.parametrize("fault", AWAY.values(), ids=AWAY.keys())
def test_an_endpoint_that_is_away_is_left_alone_after_a_few_tries(
    cli: Cli, two: Inputs, emulate: Emulation, slept: list[float], fault: dict[str, Any]
) -> None:
    away = {**fault, "path": "chat/completions"}
    resource = emulate(faults={"requests": FAIL_ONCE, "http": [away]}, judge=Scripted(own_score))
    assert cli.submit(two).code == 0
    done = cli(*ONLINE)
    assert (done.code, done.errors) == (3, []), done.err
    assert "asking online is given up for now" in done.err
    asked = [path for _, path, _ in resource.service.calls if "chat" in path]
    assert len(asked) == fault["times"]
    assert [round(pause) for pause in slept if pause >= 4][-4:] == [5, 10, 20, 40][: len(asked) - 1]
    assert cli.query("select count(*) as n from failure") == [{"n": 0}]
    assert cli(*ONLINE).code == 0
    assert cli.query("select count(*) as n from score") == [{"n": 10}]
    assert cli("doctor", cli.folder.name).code == 0


def test_collect_names_the_way_on_where_an_online_file_was_begun(
    cli: Cli, two: Inputs, emulate: Emulation, slept: list[float]
) -> None:
    busy = {"fault": "status", "status": 429, "path": "chat/completions"}
    emulate(faults={"requests": FAIL_ONCE, "http": [busy]}, judge=Scripted(own_score))
    assert cli.submit(two).code == 0
    assert cli(*ONLINE).code == 3
    done = cli("collect", "--wait", "0")
    assert done.code == 3
    assert "--finish-online goes on" in done.err
    assert slept
