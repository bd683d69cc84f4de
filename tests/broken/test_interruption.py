"""Ctrl-C in ``submit``: the message names the run that was at work, which need not be the newest."""

from __future__ import annotations

import pytest

from iwb_batch.workflow.clock import Clock
from tests.cli.support import Cli, Emulation, Inputs


def test_the_way_on_names_the_run(cli: Cli, two: Inputs, emulate: Emulation, monkeypatch: pytest.MonkeyPatch) -> None:
    emulate(faults={"http": [{"fault": "status", "status": 503, "method": "POST", "path": "^/files$"}]})
    for name in ("older", "newer"):
        assert cli.submit(two, "--run", name).code == 3

    def interrupt(_self: Clock, _seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Clock, "sleep", interrupt)
    for more in ((), tuple(two.options)):
        done = cli("submit", "--run", "older", *more, "--wait", "30")
        assert done.code == 130
        assert "`iwb-batch collect older` goes on" in done.err
        assert "`iwb-batch cancel older` stops" in done.err
