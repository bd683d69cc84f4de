"""The page of a run: complete, self-contained, the same twice, and hostile text stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.core.run_facts import Estimate
from iwb_batch.report import html
from iwb_batch.report.charts import Bar, bar
from iwb_batch.report.html import Page, PageItem, render, script_json
from iwb_batch.report.tables import Document, Table, count
from iwb_batch.workflow.page_items import TEXT_LIMIT, clipped
from tests.cli.support import Cli
from tests.publishing.support import DOMAINS, FORMULA, HOSTILE, N


class Reader(HTMLParser):
    """Elements with their attributes, and the text of chosen elements."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.content: dict[str, list[str]] = {}
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        self.content.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.content[self._open][-1] += data


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader


def page_of(cli: Cli, run: str, folder: Path, *more: str) -> str:
    done = cli("report", run, "--html", folder / f"{run}.html", *more)
    assert done.code in (0, 4), done.err
    assert f"wrote {folder / run}.html" in done.err
    return (folder / f"{run}.html").read_text(encoding="utf-8")


def data_of(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    value: dict[str, Any] = json.loads(found[1])
    return value


def details_of(text: str) -> list[dict[str, Any]]:
    return [
        detail for chunk in data_of(text)["chunks"] for detail in json.loads(zlib.decompress(base64.b64decode(chunk)))
    ]


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture
def page(cli: Cli, tmp_path: Path) -> str:
    return page_of(cli, "first", tmp_path)


def test_only_our_script_and_style_may_run(page: str) -> None:
    reader = read(page)
    policy = next(a["content"] for tag, a in reader.tags if a.get("http-equiv") == "Content-Security-Policy")
    data, script = reader.content["script"]
    (style,) = reader.content["style"]
    assert policy is not None
    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src {sha256(script)}",
        f"style-src {sha256(style)}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ]
    assert data.startswith("{")


def test_the_page_needs_nothing_from_elsewhere_and_has_no_handler(page: str) -> None:
    for tag, attributes in read(page).tags:
        assert tag not in {"img", "iframe", "object", "embed", "link", "a", "base", "audio", "video"}
        names = set(attributes)
        assert not names & {"src", "href", "srcdoc", "action", "formaction", "style", "srcset", "data"}, (tag, names)
        assert not any(name.startswith("on") for name in names), (tag, names)
    assert "url(" not in page
    assert "@import" not in page


def test_the_script_uses_no_way_to_make_text_into_code() -> None:
    script = (Path(html.__file__).parent / "templates" / "page.js").read_text(encoding="utf-8")
    for sink in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(", "setAttribute"):
        assert sink not in script
    for address in ("fetch(", "XMLHttpRequest", "WebSocket", "http"):
        assert address not in script


def test_hostile_labels_stay_text(page: str) -> None:
    reader = read(page)
    cells = [text.strip() for text in reader.content["td"]]
    assert set(DOMAINS) <= set(cells)
    assert DOMAINS[0] not in page


def test_hostile_reasons_are_nowhere_in_the_source_and_whole_in_the_data(page: str) -> None:
    assert HOSTILE not in page
    assert "owned" not in page
    assert page.count("</script>") == 2
    reasons = [request["reason"] for detail in details_of(page) for request in detail["requests"]]
    assert any(reason and reason.startswith(HOSTILE) for reason in reasons)
    assert FORMULA in reasons


def test_every_request_and_attempt_is_on_the_page(page: str) -> None:
    details = details_of(page)
    requests = [request for detail in details for request in detail["requests"]]
    assert len(details) == N
    assert len(requests) == 5 * N
    assert [len(r["attempts"]) for r in requests].count(2) == 2
    (failed,) = [r for r in requests if r["status"] == "failed"]
    assert failed["verdict"] is None
    (attempt,) = failed["attempts"]
    assert attempt["outcome"] == "filtered"
    assert attempt["message"]
    again = next(r for r in requests if r["attempts"][0]["outcome"] == "invalid_json")
    assert again["attempts"][0]["content"]
    assert again["attempts"][1]["content"] is None
    fenced = details[3]["requests"][0]
    assert fenced["notes"]
    assert fenced["attempts"][0]["content"].startswith("```")


def test_entries_say_what_is_complete(page: str) -> None:
    entries = data_of(page)["entries"]
    assert [entry["index"] for entry in entries] == list(range(N))
    assert entries[4]["value"] is None
    assert entries[4]["shown"] == "4 of 5 scored"
    assert entries[0]["value"] == 2
    assert [entry["index"] for entry in entries if entry["again"]] == [1, 2]


def test_headline_with_interval_and_coverage(cli: Cli, page: str) -> None:
    numbers = cli("report", "first", "--format", "json").json()
    paragraphs = [text.strip() for text in read(page).content["p"]]
    overall = numbers["overall"]
    assert f"{overall['score']:.2f}" in paragraphs
    assert any(text.startswith(f"95 % interval {overall['low']:.2f} to {overall['high']:.2f}") for text in paragraphs)
    assert f"{N - 1} of {N} items complete" in paragraphs


def test_the_page_has_every_table_of_the_text_report_and_the_judge(page: str) -> None:
    headings = [text.strip() for text in read(page).content["h2"]]
    for heading in (
        *("Scores (1-10)", "By domain", "By subdomain", "By variant", "By language", "Scores given"),
        *("Tokens and cost", "Failed requests by reason", "Who answered", "Settings", "Items", "Notes"),
    ):
        assert heading in headings


def test_a_rehearsal_says_so_in_its_title(cli: Cli, tmp_path: Path) -> None:
    text = page_of(cli, "rehearsal", tmp_path)
    assert read(text).content["title"][0].startswith("REHEARSAL")
    assert "made up by the emulator" in text


def test_the_same_run_gives_the_same_bytes(cli: Cli, tmp_path: Path, page: str) -> None:
    (tmp_path / "again").mkdir()
    assert page_of(cli, "first", tmp_path / "again") == page


def test_no_host_and_no_folder_is_on_the_page(page: str, finished: Path) -> None:
    assert "127.0.0.1" not in page
    assert str(finished) not in page


def test_pairs_have_their_page(cli: Cli, tmp_path: Path) -> None:
    text = page_of(cli, "pairs", tmp_path)
    assert "100.0 %" in text
    details = details_of(text)
    assert [request["label"] for request in details[0]["requests"]] == ["chosen-first", "rejected-first"]
    assert {title for title, _ in details[0]["texts"]} >= {"query", "chosen", "rejected"}
    assert data_of(text)["entries"][0]["shown"] == "2 of 2 right"


def test_texts_scored_alone_have_their_page(cli: Cli, tmp_path: Path) -> None:
    text = page_of(cli, "sides", tmp_path)
    assert sorted(r["label"] for r in details_of(text)[0]["requests"]) == ["chosen", "rejected"]
    assert " against " in data_of(text)["entries"][0]["shown"]


def simple(items: list[PageItem]) -> Page:
    document = Document("t", (), (Table("A", ("x",), ((count(1),),)),))
    return Page(document, rehearsal=False, items=items, run="r")


def test_what_does_not_fit_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [PageItem({"index": i}, {"texts": [("query", f"{i}" * 50)]}) for i in range(60)]
    whole = data_of(render(simple(items)))
    assert (len(whole["entries"]), whole["left_out"]) == (60, 0)
    monkeypatch.setattr(html, "PACKED_LIMIT", len(whole["chunks"][0]) + len(whole["chunks"][1]))
    cut = data_of(render(simple(items)))
    assert len(cut["entries"]) + cut["left_out"] == 60
    assert cut["left_out"] > 0
    assert len(cut["chunks"]) == -(-len(cut["entries"]) // html.ITEMS_IN_CHUNK)


@pytest.mark.parametrize("text", ["</script>", "<!--", "]]>", "\u2028\u2029", "\ud800", "\0", "&lt;"], ids=ascii)
def test_json_in_the_page_can_end_nothing(text: str) -> None:
    written = script_json({"a": text})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written)["a"] == text.replace("\ud800", "\ufffd")


def test_long_texts_are_cut_and_say_so() -> None:
    assert clipped("क" * TEXT_LIMIT) == "क" * TEXT_LIMIT
    assert clipped("क" * (TEXT_LIMIT + 7)).endswith("[... 7 more characters in run.db]")


def test_a_missing_interval_is_shown_as_missing() -> None:
    assert bar(Estimate(5.5, n_clusters=1), (1.0, 10.0), 1.0) == Bar(0.0, 50.0)
    assert bar(Estimate(), (1.0, 10.0), 1.0) is None
    document = Document("t", (), (Table("By x", ("x",), ((count(1),), (count(2),))),))
    charts = {"By x": [bar(Estimate(5.5), (1.0, 10.0), 1.0), None]}
    text = render(Page(document, rehearsal=False, charts=charts))
    assert text.count("<svg") == 1
    assert 'class="whisker"' not in text


@pytest.mark.parametrize(
    ("estimate", "start", "length"),
    [(Estimate(-2.0, -3.0, -1.0), 25.0, 25.0), (Estimate(4.0, 2.0, 9.0), 50.0, 50.0)],
    ids=["below zero", "above"],
)
def test_differences_are_drawn_from_zero(estimate: Estimate, start: float, length: float) -> None:
    drawn = bar(estimate, (-4.0, 4.0), 0.0)
    assert drawn is not None
    assert (drawn.start, drawn.length) == (start, length)
    assert drawn.low is not None
    assert drawn.high is not None
    assert 0.0 <= drawn.low <= drawn.high <= 100.0
