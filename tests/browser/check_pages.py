"""Pages in a real browser: from disk, offline, light and dark, on a phone, with hostile texts. Needs Chromium.

Not part of the usual test run; `make test-pages` runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Error, Locator, Page, expect

from tests.cli.support import Cli, background
from tests.publishing.support import DOMAINS, HOSTILE, N

PHONE, DESK = (380, 800), (1200, 900)


@dataclass
class Visit:
    """An open page, and everything it said or asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def quiet(self) -> None:
        """Check that nothing was said and nothing was asked of anybody."""
        assert self.said == []
        assert [address for address in self.asked if not address.startswith(("file:", "blob:"))] == []


@contextmanager
def visit(
    browser: Browser, address: str, size: tuple[int, int] = DESK, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Visit]:
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, offline=address.startswith("file:")
    )
    page = context.new_page()
    found = Visit(page)
    page.on("console", lambda message: found.said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.said.append(str(error)))
    page.on("request", lambda request: found.asked.append(request.url))

    def refuse(dialog: object) -> None:
        found.said.append("a dialog opened")
        dialog.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", refuse)
    page.goto(address)
    yield found
    context.close()


@pytest.fixture
def address(cli: Cli, tmp_path: Path) -> str:
    assert cli("report", "first", "--html", tmp_path / "page.html").code == 4
    return (tmp_path / "page.html").as_uri()


def listed(page: Page) -> Locator:
    """The items of the list."""
    return page.locator("#list > details")


def opened(page: Page, number: int) -> Locator:
    """One item of the list, opened."""
    item = listed(page).nth(number)
    item.locator(":scope > summary").click()
    expect(item.locator("details").first).to_be_visible()
    return item


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_opens_from_disk_without_a_word(
    browser: Browser, address: str, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    with visit(browser, address, size, scheme) as found:
        expect(listed(found.page)).to_have_count(N)
        assert found.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        ground = found.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") is (scheme == "light")
        found.quiet()


def test_from_item_to_criterion_to_reason_to_every_attempt(browser: Browser, address: str) -> None:
    with visit(browser, address) as found:
        request = opened(found.page, 1).locator(":scope > div > details").first
        request.locator(":scope > summary").click()
        expect(request.locator(".text").first).to_contain_text("कारण 1")
        attempts = request.locator(":scope > div > details")
        expect(attempts).to_have_count(2)
        attempts.first.locator("summary").click()
        expect(attempts.first).to_contain_text("attempt 1: invalid_json")
        expect(attempts.first).to_contain_text("content as it came")
        found.quiet()


def test_hostile_text_is_shown_and_opens_nothing(browser: Browser, address: str) -> None:
    with visit(browser, address) as found:
        title = found.page.title()
        item = opened(found.page, 0)
        request = item.locator(":scope > div > details").first
        request.locator(":scope > summary").click()
        expect(request.locator(".text").first).to_contain_text(HOSTILE)
        for text in found.page.get_by_text(DOMAINS[2]).all():
            text.hover()
            text.click()
        assert found.page.locator("img, iframe, main script:not([type])").count() == 0
        assert found.page.title() == title
        found.quiet()


def test_even_a_script_could_not_turn_text_into_markup(browser: Browser, address: str) -> None:
    with visit(browser, address) as found:
        with pytest.raises(Error, match="TrustedHTML"):
            found.page.evaluate("document.body.innerHTML = '<img src=x onerror=alert(1)>'")
        assert found.page.evaluate("fetch('https://example.org').then(() => 'sent', () => 'refused')") == "refused"


def test_search_in_three_scripts(browser: Browser, address: str) -> None:
    with visit(browser, address) as found:
        for text, n in (("आत्मीय", N), ("理由充分", N), ("row-11", 1), ("HYPERLINK", 1), ("attempts", 0), ("", N)):
            found.page.fill("#search", text)
            expect(found.page.locator("#found")).to_have_text(re.compile(rf"^{n} of {N} items\."))
            expect(listed(found.page)).to_have_count(n)
        found.quiet()


def test_narrowing_down_and_order(browser: Browser, address: str) -> None:
    with visit(browser, address) as found:
        found.page.select_option("#show", "incomplete")
        expect(listed(found.page)).to_have_count(1)
        expect(listed(found.page).first).to_contain_text("4 of 5 scored")
        found.page.select_option("#show", "again")
        expect(listed(found.page)).to_have_count(2)
        found.page.select_option("#show", "all")
        found.page.select_option("#order", "high")
        expect(listed(found.page).first).to_contain_text("9.00")
        found.page.select_option("#order", "low")
        expect(listed(found.page).first).to_contain_text("2.00")


def test_an_address_opens_its_item(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}#item-7") as found:
        item = found.page.locator("#item-7")
        expect(item.locator("details").first).to_be_visible()


@pytest.mark.parametrize("run", ["pairs", "sides", "rehearsal"])
def test_other_runs_open_too(browser: Browser, cli: Cli, tmp_path: Path, run: str) -> None:
    assert cli("report", run, "--html", tmp_path / "p.html").code == 0
    with visit(browser, (tmp_path / "p.html").as_uri(), PHONE) as found:
        opened(found.page, 0)
        assert found.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        assert found.page.title().startswith("REHEARSAL") is (run == "rehearsal")
        found.quiet()


def test_a_comparison_has_no_script_at_all(browser: Browser, cli: Cli, tmp_path: Path) -> None:
    assert cli("compare", "first", "second", "third", "--html", tmp_path / "c.html").code == 0
    with visit(browser, (tmp_path / "c.html").as_uri(), PHONE, "dark") as found:
        assert found.page.locator("script").count() == 0
        assert found.page.locator("svg .whisker").count() > 0
        assert found.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
        found.quiet()


def test_browse_shows_hostile_text_as_text(browser: Browser, finished: Path) -> None:
    with background(finished, "browse", "first", "--port", "8764") as started:
        started.wait_for("http://127.0.0.1:8764/first")
        page = browser.new_page()
        for _ in range(100):
            try:
                page.goto("http://127.0.0.1:8764/first/score")
                break
            except Error:
                page.wait_for_timeout(100)
        said: list[str] = []
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto("http://127.0.0.1:8764/first/score?_search=%E0%A4%86%E0%A4%A4%E0%A5%8D%E0%A4%AE%E0%A5%80%E0%A4%AF")
        expect(page.locator("h1")).to_have_text("score")
        assert "owned" not in page.title()
        assert page.locator("img").count() == 0
        assert said == []
        page.close()
        started.interrupt()
        assert started.end().code == 0
