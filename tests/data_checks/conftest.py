"""Checks on the real data, run by ``make check-data DATA=FOLDER``; pytest does not collect them by itself.

FOLDER holds ``writingbench/``, ``writing_preference_bench/`` and ``official_aggregates/``.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.conftest import clean_environment, cli, emulate, served

__all__ = ["clean_environment", "cli", "emulate", "served"]

DATA = "IWB_CHECK_DATA"
FOUND: list[str] = []


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with the data."""
    return Path(os.environ[DATA])


@pytest.fixture
def say(request: pytest.FixtureRequest) -> list[str]:
    """Figures to be shown at the end, each line under the check that found it."""
    FOUND.append(f"{request.node.name}:")
    return FOUND


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the figures."""
    terminalreporter.section("figures")
    for line in FOUND:
        terminalreporter.write_line(line if line.endswith(":") else f"  {line}")
