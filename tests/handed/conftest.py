"""The fixtures of the command-line tests, one small run's inputs, and providers that answer as written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.conftest import clean_environment, cli, emulate, resource, served, two
from tests.cli.support import KEY, Desk, Inputs, inputs
from tests.handed.wire import Ending, Wire

__all__ = ["clean_environment", "cli", "emulate", "resource", "served", "two"]

Tell = Callable[..., Wire]


@pytest.fixture
def one(tmp_path: Path) -> Inputs:
    """One item with its response: five requests."""
    return inputs(tmp_path / "one", 1)


@pytest.fixture
def tell(served: tuple[Desk, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Tell]:
    """Makes a provider that tells the endings given; it answers at the address in the environment."""
    desk, url = served
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with ExitStack() as stack:

        def make(*endings: Ending) -> Wire:
            wire = stack.enter_context(Wire(*endings))
            desk.resource = wire
            return wire

        yield make
