"""The fixtures of the command line's tests, here too."""

from __future__ import annotations

from tests.cli.conftest import clean_environment, cli, emulate, served

__all__ = ["clean_environment", "cli", "emulate", "served"]
