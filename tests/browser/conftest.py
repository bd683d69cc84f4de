"""The finished runs of the publishing tests, and a real browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.publishing.conftest import clean_environment, cli, finished

__all__ = ["clean_environment", "cli", "finished"]

# As root a browser has no sandbox; without the other flags it calls its maker at every start.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert path is not None, "no Chromium: install it (Debian: apt-get install chromium) or name it in CHROMIUM"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()
