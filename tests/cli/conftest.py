"""Fixtures: a clean environment, the command line, emulated resources."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from iwb_batch.emulator.app import running
from tests.cli.support import KEY, Cli, Desk, Emulation, Inputs, Resource, inputs


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("IWB_BATCH_", "OPENAI_", "AZURE_", "HF_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path / "runs", capsys)


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[Desk, str]]:
    with Desk() as desk, running(desk) as url:
        yield desk, url


@pytest.fixture
def emulate(served: tuple[Desk, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Emulation]:
    emulation = Emulation(*served)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", emulation.url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with emulation.stack:
        yield emulation


@pytest.fixture
def resource(emulate: Emulation) -> Resource:
    """A resource without faults that answers at the first poll."""
    return emulate()


@pytest.fixture
def two(tmp_path: Path) -> Inputs:
    """Two items with their responses: ten requests."""
    return inputs(tmp_path / "given")
