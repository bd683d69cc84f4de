"""Fixtures: finished runs, and the command line on them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from iwb_batch.store.database import Database
from iwb_batch.workflow import looking
from iwb_batch.workflow.folder import RunFolder
from tests.cli.support import Cli
from tests.publishing.support import make_all


def _cleared(patch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("IWB_BATCH_", "OPENAI_", "AZURE_", "HF_")):
            patch.delenv(name)
    patch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _cleared(monkeypatch)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the finished runs; tests only read it."""
    with pytest.MonkeyPatch.context() as patch:
        _cleared(patch)
        return make_all(tmp_path_factory.mktemp("published"), patch)


@pytest.fixture
def cli(finished: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line on the finished runs."""
    return Cli(finished, capsys)


@pytest.fixture
def first(finished: Path) -> Iterator[Database]:
    """The run named ``first``, open for reading."""
    with looking.reading(RunFolder(finished / "first")) as database:
        yield database


@pytest.fixture
def copied(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line on a private copy of the finished runs."""
    shutil.copytree(finished, tmp_path / "runs")
    return Cli(tmp_path / "runs", capsys)
