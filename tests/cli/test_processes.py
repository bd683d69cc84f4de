"""The command line as a process of its own: signals, locks, consoles, locales, closed streams, and no secrets."""

from __future__ import annotations

import getpass
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.cli.support import (
    KEY,
    Cli,
    Emulation,
    HeldService,
    Inputs,
    Resource,
    Scripted,
    background,
    command,
    criterion,
    environment,
    in_a_row,
    item,
    jsonl,
    process,
    several,
    stored,
    verdict,
)

STUCK = {"batches": [{"fault": "stuck"}]}
WATCH = ("collect", "--watch", "--wait", "0", "--poll-interval")


def submit(given: Inputs, *more: str) -> list[str]:
    return ["submit", *given.options, "--wait", "0", *more]


def test_a_second_process_is_told_who_works_on_the_run(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(faults=STUCK)
    assert cli.submit(two, "--run", "mine").code == 0
    with background(cli.runs, *WATCH, "30") as first:
        first.wait_for("in_progress")
        for arguments in (["collect", "--wait", "0"], ["cancel", "--yes"]):
            cli(*arguments).refused(
                1, f"mine: process {first.process.pid} works on this run", hint="Wait until it ends"
            )
        cli.submit(two, "--run", "mine").refused(1, f"process {first.process.pid} works on this run", hint="Wait")
        assert cli("status", "--json").json()["state"] == "running"
        assert cli("report").code == 3
        first.process.kill()
        first.process.wait(30)
        done = cli("collect", "--wait", "0")
        assert done.code == 3, done.err


def test_the_same_command_twice_at_once_sends_once(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate()
    with background(cli.runs, *submit(two)) as one, background(cli.runs, *submit(two)) as other:
        ended = [one.end(), other.end()]
    assert {done.code for done in ended} <= {0, 1}
    assert 0 in {done.code for done in ended}, ended
    for done in ended:
        if done.code == 1:
            assert len(done.errors) == 1
            assert done.hint
    assert len(cli.names) == 1
    assert len(resource.service.batches_created) == 1
    assert cli.collect().code == 0


def test_ctrl_c_while_waiting_ends_the_wait_and_leaves_the_batch(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(polls_per_stage=1)
    assert cli.submit(two, "--run", "mine").code == 0
    with background(cli.runs, *WATCH, "30") as watching:
        watching.wait_for("in_progress")
        began = time.monotonic()
        watching.interrupt()
        done = watching.end()
    assert time.monotonic() - began < 10
    assert done.code == 130
    assert "interrupted: everything so far is saved" in done.err
    assert "`iwb-batch collect mine` goes on from here" in done.err
    assert "`iwb-batch cancel mine` stops the remote work" in done.err
    assert "Traceback" not in done.err
    assert not any(path.endswith("/cancel") for path in resource.posts)
    assert cli.collect().code == 0
    assert resource.service.paid_twice() == []


HELD = {
    "upload": ("POST .*/files$", "submit", 1),
    "upload, twice": ("POST .*/files$", "submit", 2),
    "create": ("POST .*/batches$", "submit", 1),
    "poll": ("GET .*/batches/", "collect", 1),
    "download": ("GET .*/content$", "collect", 1),
    "download, twice": ("GET .*/content$", "collect", 2),
}


@pytest.mark.parametrize(("hold", "name", "times"), HELD.values(), ids=HELD.keys())
def test_ctrl_c_during_a_call_ends_soon_and_loses_nothing(
    cli: Cli, two: Inputs, emulate: Emulation, hold: str, name: str, times: int
) -> None:
    service: HeldService = emulate().service
    if name == "collect":
        assert cli.submit(two).code == 0
    service.hold = hold
    arguments = submit(two) if name == "submit" else [*WATCH, "0.05"]
    with background(cli.runs, *arguments) as working:
        assert service.entered.wait(30)
        began = time.monotonic()
        for _ in range(times):
            working.interrupt()
            time.sleep(0.05)
        done = working.end()
    assert time.monotonic() - began < 10
    assert done.code in (130, -signal.SIGINT), done.err
    assert not list(cli.runs.rglob("*.partial"))
    assert len(cli.names) == 1
    service.hold = None
    service.release.set()
    finished = cli.collect("--grace", "0")
    assert finished.code == 0, finished.err
    assert cli("status", "--json").json()["scored"] == 10
    assert service.paid_twice() == []
    assert len(service.batches_created) == 1


def test_a_run_without_a_terminal_is_the_same(cli: Cli, two: Inputs, resource: Resource) -> None:
    done = several(cli.runs, (submit(two), [*WATCH, "0.05"]))
    assert done.code == 0, done.err
    assert "10 of 10 requests judged" in done.err
    assert "%|" not in done.err
    assert "\r" not in done.err


@pytest.mark.parametrize("closed", ["<&-", "<&- >/dev/null", "<&- 2>/dev/null"])
def test_closed_streams_stop_nothing(cli: Cli, two: Inputs, resource: Resource, closed: str) -> None:
    commands = (submit(two), [*WATCH, "0.05"], ["status"], ["report"])
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *in_a_row(cli.runs, commands)],
        env=environment(),
        capture_output=True,
        start_new_session=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert cli("status", "--json").json()["scored"] == 10


def test_a_reader_that_goes_away_is_no_error(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    sql = "with recursive n(x) as (select 1 union all select x + 1 from n limit 200000) select x from n"
    line = 'exec "$@" | head -n 1'
    done = subprocess.run(
        ["sh", "-c", line, "sh", *command(cli.runs, "query", sql, "--format", "csv")],
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b"x\n"
    assert done.stderr == b""


def hostile_run(cli: Cli, folder: Path, emulate: Emulation) -> None:
    emulate(judge=Scripted(lambda _: verdict(6, "अच्छा 🙂 很好")))
    rows = [item(index, domain="数学", checklist=[criterion(f"标准 🙂 {n}") for n in range(5)]) for index in range(2)]
    given = Inputs(
        jsonl(folder / "items.jsonl", rows),
        jsonl(folder / "m.jsonl", [{"index": i, "response": "好 🙂"} for i in (0, 1)]),
    )
    assert cli.submit(given, "--model-name", "模型 🙂", "--run", "mine").code == 0
    assert cli.collect().code == 0


# An ASCII console is a wrong setting more often than a fact, so click writes UTF-8 to it.
@pytest.mark.parametrize(("encoding", "seen"), [("cp1252", "cp1252"), ("ascii", "utf-8")], ids=["cp1252", "ascii"])
def test_a_console_that_cannot_show_the_text_stops_nothing(
    cli: Cli, tmp_path: Path, emulate: Emulation, encoding: str, seen: str
) -> None:
    hostile_run(cli, tmp_path, emulate)
    reading = (
        *(
            ["report"],
            ["report", "--format", "json"],
            ["report", "--format", "csv"],
            ["report", "--format", "markdown"],
        ),
        *(["status"], ["status", "--json"], ["show", "0"], ["show", "0", "--json"], ["runs"]),
        *(["query", "select * from score"], ["query", "select * from score", "--format", "jsonl"], ["collect"]),
    )
    done = several(cli.runs, reading, encoding=seen, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert done.code == 0, done.err
    assert "Traceback" not in done.err
    failed = several(cli.runs, [["status", "模型🙂"]], encoding=seen, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    failed.refused(2, "not a safe run name")
    assert stored(cli.folder / "run.db", "select distinct domain from item") == [("数学",)]
    assert "标准 🙂 0" in next((cli.folder / "requests").iterdir()).read_text(encoding="utf-8")


def test_the_c_locale_changes_nothing_and_no_encoding_is_left_to_it(cli: Cli, two: Inputs, resource: Resource) -> None:
    python = ("-X", "warn_default_encoding", "-X", "utf8=0", "-W", "error::EncodingWarning")
    settings = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    reading = (["report", "--format", "json"], ["show", "0"], ["status"], ["runs"], ["query", "select * from score"])
    done = several(cli.runs, [submit(two), [*WATCH, "0.05"], *reading], python=python, **settings)
    assert done.code == 0, done.err
    assert cli("status", "--json").json()["scored"] == 10
    assert "भाषा" in (cli.folder / "requests" / "0001.jsonl").read_text(encoding="utf-8")


def test_no_warning_of_any_kind_is_raised(cli: Cli, two: Inputs, resource: Resource) -> None:
    commands = (submit(two), [*WATCH, "0.05"], ["report"], ["status"], ["show", "0"], ["runs"])
    done = several(cli.runs, commands, python=("-X", "dev"))
    assert done.code == 0, done.err
    assert "Warning" not in done.err


def everything(folder: Path, *texts: str) -> bytes:
    """All bytes of all files below a folder, their names, and some texts."""
    files = [path.read_bytes() + path.name.encode() for path in sorted(folder.rglob("*")) if path.is_file()]
    return b"\n".join([*files, *(text.encode() for text in texts)])


@pytest.mark.parametrize(
    ("options", "outcome"),
    [([], "accepted"), ([], "refused"), (["--api-version", "2025-04-01-preview"], "accepted")],
    ids=["v1", "v1 refused", "dated"],
)
def test_the_key_appears_nowhere_whatever_the_log_level(
    cli: Cli,
    two: Inputs,
    resource: Resource,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    outcome: str,
) -> None:
    key = KEY if outcome == "accepted" else "sk-test-0000-not-this-one"
    commands = (["-v", *submit(two, *options)], ["-v", *WATCH, "0.05"], ["-v", "report"], ["-v", "show", "0"])
    done = several(cli.runs, commands, AZURE_OPENAI_API_KEY=key, OPENAI_LOG="debug", HTTPX_LOG_LEVEL="trace")
    assert done.code == (0 if outcome == "accepted" else 5), done.err
    assert re.search("openai|httpx|HTTP Request", done.err), "nothing was logged"
    found = everything(cli.runs, done.out, done.err)
    assert key.encode() not in found
    assert key[-6:].encode() not in found


@pytest.mark.parametrize("key", ["abc", "q7"])
def test_a_short_key_is_not_shown_in_part_either(cli: Cli, two: Inputs, resource: Resource, key: str) -> None:
    done = process(cli.runs, "-v", *submit(two), AZURE_OPENAI_API_KEY=f"zz{key}", OPENAI_LOG="debug")
    assert done.code == 5
    assert f"zz{key}".encode() not in everything(cli.runs, done.out, done.err)


def local_words(folder: Path) -> Iterable[str]:
    yield from (
        str(folder),
        folder.name,
        getpass.getuser() + "@",
        socket.gethostname(),
        str(Path.home()),
        "zoe-the-user",
    )


def test_nothing_local_is_written_into_a_run(cli: Cli, tmp_path: Path, resource: Resource) -> None:
    from tests.cli.support import inputs

    given = inputs(tmp_path / "folder-of-zoe-the-user", 2)
    commands = (submit(given, "--run", "mine"), [*WATCH, "0.05"], ["report"])
    done = several(cli.runs, commands, USER="zoe-the-user", LOGNAME="zoe-the-user")
    assert done.code == 0, done.err
    connection = stored(cli.folder / "run.db", "select dataset, responses_file from run")
    assert json.loads(connection[0][0])[0]["file"] == "items.jsonl"
    assert connection[0][1] == "model-x.jsonl"
    found = everything(cli.folder)
    for word in local_words(tmp_path):
        assert word.encode() not in found, word


def test_an_unexpected_error_is_one_line_and_a_traceback_only_with_v(cli: Cli, two: Inputs, resource: Resource) -> None:
    start = (
        "import sys; import iwb_batch.workflow.listing as listing\n"
        "def broken(_): raise ZeroDivisionError('broken on purpose')\n"
        "listing.runs = broken\n"
        "from iwb_batch.cli import main; main()"
    )
    for more in ([], ["-v"]):
        arguments = [*command(cli.runs)[:1], "-c", start, "--runs-dir", str(cli.runs), *more, "runs"]
        done = subprocess.run(arguments, env=environment(), capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 1
        assert "error: unexpected ZeroDivisionError: broken on purpose" in done.stderr
        assert "Run again with -v" in done.stderr
        assert ("Traceback" in done.stderr) == bool(more)


def test_a_process_without_a_home_or_user_works(cli: Cli, two: Inputs, resource: Resource) -> None:
    kept = {name: value for name, value in environment().items() if name not in ("HOME", "USER", "LOGNAME")}
    done = subprocess.run(command(cli.runs, *submit(two)), env=kept, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert os.listdir(cli.runs)  # noqa: PTH208
