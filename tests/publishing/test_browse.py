"""``browse``: the run in Datasette, on a copy, described and searchable. Requests are served in process."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.store.browsable import CANNED, FACETS, HIDDEN, SEARCHED, SHOWN
from iwb_batch.store.described import described
from iwb_batch.workflow import browsing
from iwb_batch.workflow.browsing import Browsable
from iwb_batch.workflow.folder import RunFolder
from tests.cli.support import Cli
from tests.publishing.support import DOMAINS, HOSTILE, N


@pytest.fixture
def open_run(finished: Path) -> Iterator[Browsable]:
    with browsing.prepared(RunFolder(finished / "first")) as found:
        yield found


def get(found: Browsable, path: str, **query: str) -> Any:
    async def ask() -> Any:
        await found.application.invoke_startup()
        return await found.application.client.get(f"/{found.name}{path}", params=query)

    return asyncio.run(ask())


def rows(found: Browsable, path: str, **query: str) -> list[dict[str, Any]]:
    answer = get(found, f"{path}.json", _shape="array", _size="max", **query)
    assert answer.status_code == 200, answer.text
    value: list[dict[str, Any]] = answer.json()
    return value


def test_tables_are_the_views_of_the_run(open_run: Browsable) -> None:
    assert len(rows(open_run, "/item_score")) == N
    assert len(rows(open_run, "/request_status")) == 5 * N
    assert len(rows(open_run, "/failure")) == 1


@pytest.mark.parametrize(
    ("text", "n"),
    [("आत्मीय", 54), ("理由充", 54), ("HYPERLINK", 5), ("nowhere", 0)],
    ids=["Devanagari", "Chinese", "letters", "nothing"],
)
def test_reasons_are_searched(open_run: Browsable, text: str, n: int) -> None:
    assert len(rows(open_run, "/score", _search=text)) == n


@pytest.mark.parametrize("name", CANNED)
def test_each_query_runs(open_run: Browsable, name: str) -> None:
    rows(open_run, f"/{name}", text="充分", at_most="3")


def test_queries_answer_what_they_say(open_run: Browsable) -> None:
    assert len(rows(open_run, "/reasons_containing", text="充分")) == 54
    assert {row["score"] for row in rows(open_run, "/low_scores", at_most="2")} == {2}
    (failed,) = rows(open_run, "/failures_by_reason")
    assert (failed["outcome"], failed["requests"]) == ("filtered", 1)
    assert {row["request_id"] for row in rows(open_run, "/sent_again")} == {6, 12}


def test_orders_that_disagree_are_found(finished: Path) -> None:
    with browsing.prepared(RunFolder(finished / "pairs")) as found:
        assert rows(found, "/orders_that_disagree") == []
        assert len(rows(found, "/preference")) == 18


def test_tables_and_columns_are_described(open_run: Browsable) -> None:
    page = get(open_run, "/attempt")
    assert "The n-th sending of a request." in page.text
    assert "joins answers to attempts; nothing else does" in page.text
    assert "what was unwrapped or noticed" not in get(open_run, "/score").text


def test_every_table_opens(open_run: Browsable) -> None:
    for name in described():
        assert get(open_run, f"/{name}").status_code == 200, name


def test_facets_are_offered(open_run: Browsable) -> None:
    facets = get(open_run, "/score.json").json()["facet_results"]
    assert {entry["value"] for entry in facets["domain"]["results"]} == set(DOMAINS)


def test_hostile_text_is_escaped(open_run: Browsable) -> None:
    text = get(open_run, "/score").text
    assert HOSTILE not in text
    assert DOMAINS[0] not in text


@pytest.mark.parametrize(
    "sql",
    ["delete from item", "update item set query = 'x'", "attach '/etc/passwd' as p", "pragma writable_schema = 1"],
)
def test_nothing_can_be_changed(open_run: Browsable, sql: str) -> None:
    assert get(open_run, ".json", sql=sql).status_code == 400


def test_the_run_file_stays_as_it_is_and_the_copy_goes(finished: Path) -> None:
    database = finished / "first" / "run.db"
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    with browsing.prepared(RunFolder(finished / "first")) as found:
        copy = Path(next(iter(found.application.immutables)))
        assert copy.is_file()
        assert copy.stat().st_mode & 0o077 == 0 or copy.parent.stat().st_mode & 0o077 == 0
        assert get(found, "/score").status_code == 200
    assert not copy.parent.exists()
    assert hashlib.sha256(database.read_bytes()).hexdigest() == before


def test_a_rehearsal_says_so(finished: Path) -> None:
    with browsing.prepared(RunFolder(finished / "rehearsal")) as found:
        assert "REHEARSAL" in get(found, "").text or "REHEARSAL" in str(found.application.metadata())


def test_names_used_exist_in_the_schema() -> None:
    known = described()
    assert {name for name in SHOWN if known[name].kind == "view"} == set(SHOWN)
    assert set(SEARCHED) <= set(SHOWN)
    assert set(FACETS) <= set(known)
    assert set(HIDDEN) - {"sqlite_stat1"} <= set(known)


def test_the_schema_describes_every_table(finished: Path) -> None:
    with sqlite3.connect(finished / "first" / "run.db") as connection:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")]
    connection.close()
    assert set(names) == set(described())
    assert all(found.description for found in described().values())
    assert described()["run"].columns["standing"].startswith("stopped: by cancel")


def test_without_datasette_the_way_out_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasette.app", None)
    cli("browse", "first").refused(2, "browse needs the package", hint="iwb-batch[browse]")
