"""What every test of this folder starts from: the undisturbed run's scores, and worlds that are closed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.harness import Scores, World
from tests.faults.invariants import undisturbed

Build = Callable[..., World]


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Scores:
    """Scores of the small run when nothing goes wrong but its request faults."""
    scores, _ = undisturbed(tmp_path_factory.mktemp("undisturbed"))
    assert len(scores) == 15
    return scores


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    """Makes worlds below ``tmp_path`` and closes them at the end."""
    with ExitStack() as stack:
        made = 0

        def make(**settings: Any) -> World:
            nonlocal made
            made += 1
            return stack.enter_context(World(tmp_path / f"world{made}", **settings))

        yield make
