"""What a killed ``submit`` leaves behind is cleared away later, and never while it may still be at work."""

from __future__ import annotations

import os

from tests.cli.support import Cli, Inputs, Resource


def test_a_day_old_leftover_goes_and_a_fresh_one_stays(cli: Cli, resource: Resource, two: Inputs) -> None:
    old, fresh = (cli.runs / f".staging-{name}" for name in ("0ld", "fresh"))
    for path in (old, fresh):
        path.mkdir(parents=True)
        (path / "run.db").write_bytes(b"half")
    moment = old.stat().st_mtime - 25 * 3600
    os.utime(old, (moment, moment))
    assert cli.submit(two, "--yes").code == 0
    assert [name for name in cli.names if name.startswith(".")] == [".staging-fresh"]
    assert len(cli("runs", "--json").json()) == 1
