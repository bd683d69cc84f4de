"""What a shell is offered: commands, options, and the names of runs where a run is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from iwb_batch.cli import cli as cli_group
from iwb_batch.cli.params import run_names
from tests.cli.support import Cli


def offered(runs: Path, *words: str, shell: str = "bash_complete") -> list[str]:
    """Lines printed when a shell asks to complete the last word."""
    environ = {**os.environ, "IWB_BATCH_RUNS_DIR": str(runs), "_IWB_BATCH_COMPLETE": shell}
    environ |= {"COMP_WORDS": " ".join(("iwb-batch", *words)), "COMP_CWORD": str(len(words))}
    command = [sys.executable, "-c", "from iwb_batch.cli import main; main()"]
    done = subprocess.run(command, env=environ, capture_output=True, check=True, encoding="utf-8", timeout=60)
    assert done.stderr == ""
    return list(filter(None, done.stdout.split("\n")))


def test_commands_and_options_are_offered(tmp_path: Path) -> None:
    assert offered(tmp_path, "re") == ["plain,reparse", "plain,report", "plain,reward-accuracy"]
    assert offered(tmp_path, "report", "--for") == ["plain,--format"]
    assert offered(tmp_path, "report", "--format", "ma") == ["plain,markdown"]


@pytest.mark.parametrize(
    "words",
    [("status",), ("collect",), ("show",), ("query",), ("compare",), ("submit", "--run"), ("cancel",)],
    ids=lambda words: str(words[0]),
)
def test_runs_are_offered_where_a_run_is_named(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.db").touch()
    (tmp_path / "folder").mkdir()
    assert offered(tmp_path, *words, "fi") == ["plain,first"]
    assert offered(tmp_path, "--runs-dir", str(tmp_path / "none"), *words, "fi") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(tmp_path: Path, shell: str) -> None:
    if shell == "bash" and not Path("/bin/bash").exists():
        pytest.skip("click asks bash for its version")
    assert any("_IWB_BATCH_COMPLETE" in line for line in offered(tmp_path, shell=f"{shell}_source"))


def test_only_names_that_a_command_takes_are_offered(tmp_path: Path) -> None:
    for name in ("mine", "odd name", "-dash", "123", "co:lon", "two\nlines", os.fsdecode(b"bad\xff")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.db").touch()
    assert offered(tmp_path, "status", "") == ["plain,mine"]


def test_a_home_folder_is_written_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "run.db").touch()
    assert offered(tmp_path, "--runs-dir", "~/runs", "status", "") == ["plain,mine"]


def test_a_folder_nobody_may_read_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    context = click.Context(cli_group, info_name="iwb-batch")
    context.params["runs_dir"] = tmp_path
    monkeypatch.setattr(Path, "iterdir", closed)
    assert run_names(context, cli_group.params[0], "") == []


def test_nothing_is_completed_without_being_asked(cli: Cli) -> None:
    assert "Usage:" in cli("--help").out
