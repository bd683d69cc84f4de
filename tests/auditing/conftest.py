"""Fixtures: finished runs, the command line, an environment without credentials."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.auditing.support import (
    FAULTS,
    PAIRS,
    RUN,
    TEXTS,
    clear_credentials,
    copied,
    make_run,
    pair_inputs,
    rubric_inputs,
    served,
)
from tests.cli.support import Cli


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rubric run with resubmissions, strays and one failed request, and two runs over pairs."""
    folder = tmp_path_factory.mktemp("made")
    runs = folder / "runs"
    with pytest.MonkeyPatch.context() as patch:
        clear_credentials(patch)
        with served(patch, faults=FAULTS):
            make_run(runs, RUN, rubric_inputs(folder))
        with served(patch):
            make_run(runs, TEXTS, [*pair_inputs(folder), "--protocol", "pointwise"])
            make_run(runs, PAIRS, pair_inputs(folder))
    return runs


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_credentials(monkeypatch)


@pytest.fixture
def cli(finished_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line on a private copy of the finished runs."""
    return Cli(copied(finished_runs, tmp_path / "runs"), capsys)


@pytest.fixture
def run(cli: Cli) -> Path:
    """Folder of the rubric run."""
    return cli.runs / RUN
