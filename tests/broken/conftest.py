"""The fixtures of the command-line tests, and worlds with a clock of their own."""

from __future__ import annotations

from tests.cli.conftest import clean_environment, cli, emulate, resource, served, two
from tests.faults.conftest import build

__all__ = ["build", "clean_environment", "cli", "emulate", "resource", "served", "two"]
