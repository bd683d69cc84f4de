"""The fixtures of the command-line tests."""

from __future__ import annotations

from tests.cli.conftest import clean_environment, cli, emulate, resource, served, two

__all__ = ["clean_environment", "cli", "emulate", "resource", "served", "two"]
