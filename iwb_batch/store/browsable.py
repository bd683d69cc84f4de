"""A copy of a run file made for browsing: views as tables, full-text search over reasons, canned queries."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iwb_batch.store.database import Database
from iwb_batch.store.described import column_words, described

SHOWN = (
    *("request_status", "score", "item_score", "preference", "side_score", "attempt_log", "batch_log", "failure"),
    *("usage", "event_log", "to_send"),
)
"""Views that become tables in the copy: they can be sorted, faceted and searched without being computed each time."""

SEARCHED = {
    "score": ("reason",),
    "preference": ("reason",),
    "side_score": ("reason",),
    "attempt_log": ("content", "message"),
}
"""Columns with full-text search."""

FACETS: Mapping[str, tuple[str, ...]] = {
    "request_status": ("status", "last_outcome"),
    "score": ("score", "domain", "language", "variant"),
    "item_score": ("domain", "subdomain", "language", "variant"),
    "preference": ("preferred", "pair_order", "language", "domain"),
    "side_score": ("side", "score", "language", "domain"),
    "attempt_log": ("outcome", "attempt", "model", "finish_reason"),
    "failure": ("outcome", "error_code"),
    "event_log": ("kind",),
    "item": ("domain", "language", "variant", "left_out"),
    "reading": ("outcome", "model", "system_fingerprint"),
}
"""Columns offered for narrowing down."""

HIDDEN = ("policy", "batch_transition", "attempt_reading", "verdict", "kept", "kept_count", "newest", "sqlite_stat1")


@dataclass(frozen=True, slots=True)
class Canned:
    """A query with a name; ``:word`` in it is asked for."""

    title: str
    description: str
    sql: str


CANNED: Mapping[str, Canned] = {
    "reasons_containing": Canned(
        "Reasons that contain a text",
        "Exact letters, in any script; for two Chinese characters too, which the search box does not find.",
        "SELECT item_index, item_id, criterion, repeat, score, reason FROM score WHERE instr(reason, :text) > 0"
        " ORDER BY item_index, criterion_index, repeat",
    ),
    "low_scores": Canned(
        "Lowest scores with the judge's reasons",
        "Scores up to :at_most (1 to 10).",
        "SELECT score, item_index, item_id, criterion, repeat, reason, custom_id FROM score"
        " WHERE score <= CAST(:at_most AS INTEGER) ORDER BY score, item_index, criterion_index",
    ),
    "scores_by_criterion": Canned(
        "Scores by criterion",
        "Mean and number of scores of each criterion name, lowest mean first.",
        "SELECT criterion, count(*) AS scores, round(avg(score), 2) AS mean, min(score) AS lowest,"
        " max(score) AS highest FROM score GROUP BY criterion ORDER BY mean, criterion",
    ),
    "item_scores_by_label": Canned(
        "Item scores by domain, language and variant",
        "Over complete items; n of N beside each mean.",
        "SELECT domain, language, variant, count(score) AS complete, count(*) AS items, round(avg(score), 2) AS mean"
        " FROM item_score GROUP BY domain, language, variant ORDER BY domain, language, variant",
    ),
    "orders_that_disagree": Canned(
        "Pairs whose two orders disagree",
        "The judge chose the text by its place, not by its content.",
        "SELECT item_index, item_id, language, domain, tag, repeat,"
        " max(CASE WHEN pair_order = 'chosen-first' THEN preferred END) AS chosen_first,"
        " max(CASE WHEN pair_order = 'rejected-first' THEN preferred END) AS rejected_first"
        " FROM preference GROUP BY item_index, repeat HAVING count(DISTINCT preferred) > 1 ORDER BY item_index, repeat",
    ),
    "failures_by_reason": Canned(
        "Failed requests by reason",
        "What went wrong last, in the provider's words.",
        "SELECT outcome, error_code, message, count(*) AS requests FROM failure"
        " GROUP BY outcome, error_code, message ORDER BY requests DESC",
    ),
    "sent_again": Canned(
        "Requests sent more than once",
        "Every attempt of them, in order.",
        "SELECT l.request_id, l.attempt, l.outcome, l.detail, l.error_code, l.model, l.request_file, l.content"
        " FROM attempt_log l JOIN request_status s USING (request_id) WHERE s.attempts > 1"
        " ORDER BY l.request_id, l.attempt",
    ),
    "who_answered": Canned(
        "Who answered",
        "Answers by model and system fingerprint, with the first and last batch.",
        "SELECT model, system_fingerprint, count(*) AS answers, min(batch_id) AS first_batch,"
        " max(batch_id) AS last_batch FROM attempt_log WHERE model IS NOT NULL"
        " GROUP BY model, system_fingerprint ORDER BY first_batch, model",
    ),
}


def write_copy(database: Database, target: Path) -> None:
    """Write the copy; ``target`` must not exist yet. The run file is only read."""
    import sqlite_utils

    database.execute("VACUUM INTO ?", (str(target),))
    copy = sqlite_utils.Database(target)
    try:
        _views_to_tables(copy)
        for table, columns in SEARCHED.items():
            copy[table].enable_fts(columns, tokenize=_tokenizer())  # type: ignore[union-attr]
        copy.analyze()
    finally:
        copy.close()


def _views_to_tables(copy: Any) -> None:
    with copy.conn:
        for view in SHOWN:
            copy.execute(f"CREATE TABLE [held_{view}] AS SELECT * FROM [{view}]")  # noqa: S608 (names from SHOWN)
        for view in reversed(SHOWN):
            copy.execute(f"DROP VIEW [{view}]")
        for view in SHOWN:
            copy.execute(f"ALTER TABLE [held_{view}] RENAME TO [{view}]")


def _tokenizer() -> str:
    """Any three letters in a row are found, in every script; Indic vowel signs and Chinese need no word borders."""
    return "trigram" if sqlite3.sqlite_version_info >= (3, 34) else "unicode61"


def metadata(database: Database, database_name: str, *, title: str, description: str) -> dict[str, Any]:
    """Datasette metadata: tables and columns in the words of the schema, facets, canned queries."""
    names = [row[0] for row in database.rows("SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')")]
    return {
        "title": title,
        "description": description,
        "databases": {
            database_name: {
                "description": description,
                "tables": {name: _table(database, name) for name in dict.fromkeys([*names, *HIDDEN])},
                "queries": {
                    name: {"title": query.title, "description": query.description, "sql": query.sql}
                    for name, query in CANNED.items()
                },
            }
        },
    }


def _table(database: Database, name: str) -> dict[str, Any]:
    found = described().get(name)
    entry: dict[str, Any] = {"hidden": True} if name in HIDDEN else {}
    if found is None:
        return entry
    words = found.columns if found.kind == "table" else column_words()
    columns = [row[0] for row in database.rows("SELECT name FROM pragma_table_info(?) ORDER BY cid", (name,))]
    entry["description"] = found.description
    entry["columns"] = {column: words[column] for column in columns if column in words}
    if name in FACETS:
        entry["facets"] = list(FACETS[name])
    return entry
