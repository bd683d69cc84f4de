"""The invariants of a run file, each one SQL query that finds the places where it does not hold.

Every query has one column, a name for the place. None found means the rule holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from iwb_batch import schemas
from iwb_batch.store.database import Database, statements


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule of the run file. ``rule`` says what holds; ``sql`` finds where it does not."""

    name: str
    rule: str
    sql: str
    severity: Literal["broken", "warn"] = "broken"
    next_step: str = "Restore run.db from a copy, or keep it for inspection: the rows are in the audit views."


@dataclass(frozen=True, slots=True)
class Found:
    """What an invariant's query found: how many places, and the first of them."""

    invariant: Invariant
    count: int
    first: str | None


INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "requests_add_up",
        "every planned request is exactly one of scored, open and failed",
        "SELECT 'request ' || request_id FROM"
        " (SELECT request_id FROM request"
        "  EXCEPT SELECT request_id FROM request_status WHERE status IN ('scored', 'open', 'failed'))"
        " UNION ALL SELECT 'request ' || request_id FROM request_status GROUP BY request_id HAVING count(*) > 1",
    ),
    Invariant(
        "items_accounted_for",
        "every item has requests or a reason why it was left out",
        "SELECT 'item ' || i.item_index FROM item i"
        " WHERE (i.left_out IS NULL) <> EXISTS (SELECT 1 FROM request q WHERE q.item_index = i.item_index)",
    ),
    Invariant(
        "attempts_numbered",
        "the attempts of a request are numbered 1, 2, 3 without a gap",
        "SELECT 'request ' || request_id FROM attempt GROUP BY request_id HAVING count(*) <> max(attempt)",
    ),
    Invariant(
        "one_open_attempt",
        "no request has two attempts without an outcome",
        "SELECT 'request ' || request_id FROM attempt_reading WHERE outcome IS NULL"
        " GROUP BY request_id HAVING count(*) > 1",
    ),
    Invariant(
        "open_attempt_is_last",
        "an attempt without an outcome is the last of its request",
        "SELECT a.custom_id FROM attempt_reading a WHERE a.outcome IS NULL"
        " AND EXISTS (SELECT 1 FROM attempt n WHERE n.request_id = a.request_id AND n.attempt > a.attempt)",
    ),
    Invariant(
        "open_attempts_have_a_batch",
        "every attempt without an outcome belongs to a batch that can still bring one",
        "SELECT a.custom_id FROM attempt_reading a WHERE a.outcome IS NULL AND NOT EXISTS"
        " (SELECT 1 FROM batch b WHERE b.request_file_id = a.request_file_id AND b.state <> 'dropped')",
    ),
    Invariant(
        "collected_is_closed",
        "every attempt of a collected batch has an outcome",
        "SELECT a.custom_id FROM batch b JOIN attempt_reading a ON a.request_file_id = b.request_file_id"
        " WHERE b.state = 'collected' AND a.outcome IS NULL",
    ),
    Invariant(
        "judgements_of_valid_readings",
        "judgements and valid readings belong together one to one",
        "SELECT 'reading ' || j.reading_id FROM judgement j JOIN reading r ON r.reading_id = j.reading_id"
        " WHERE r.outcome <> 'valid'"
        " UNION ALL SELECT 'reading ' || r.reading_id FROM reading r WHERE r.outcome = 'valid'"
        " AND (SELECT protocol FROM run) <> 'generate'"
        " AND NOT EXISTS (SELECT 1 FROM judgement j WHERE j.reading_id = r.reading_id)",
    ),
    Invariant(
        "judgements_fit_protocol",
        "a judgement is a score or a preference, as the protocol says, with a reason",
        "SELECT 'reading ' || j.reading_id FROM judgement j CROSS JOIN run"
        " WHERE (j.score IS NULL) = (j.preferred IS NULL) OR trim(j.reason) = ''"
        " OR (run.protocol = 'pairwise') <> (j.preferred IS NOT NULL)",
    ),
    Invariant(
        "answer_lines_are_read",
        "every raw line of kind 'answer' has a reading",
        "SELECT 'raw line ' || raw_line_id FROM"
        " (SELECT raw_line_id FROM raw_line WHERE kind = 'answer' EXCEPT SELECT raw_line_id FROM reading)",
    ),
    Invariant(
        "answer_lines_count",
        "the newest reading of an answered attempt was read from its answer line",
        "SELECT l.custom_id FROM raw_line l JOIN attempt_reading a ON a.custom_id = l.custom_id"
        " WHERE l.kind = 'answer' AND a.raw_line_id IS NOT l.raw_line_id",
    ),
    Invariant(
        "raw_lines_are_matched",
        "every raw line is the answer of one attempt, or a stray that is none",
        "SELECT 'raw line ' || l.raw_line_id FROM raw_line l WHERE l.kind = 'answer'"
        " AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.custom_id = l.custom_id)"
        " UNION ALL SELECT 'raw line ' || l.raw_line_id FROM raw_line l"
        " JOIN raw_file f ON f.raw_file_id = l.raw_file_id JOIN batch b ON b.batch_id = f.batch_id"
        " JOIN attempt a ON a.custom_id = l.custom_id AND a.request_file_id = b.request_file_id"
        " WHERE l.kind = 'unknown'"
        " UNION ALL SELECT 'raw line ' || raw_line_id FROM raw_line WHERE kind = 'unreadable' AND custom_id IS NOT NULL"
        " UNION ALL SELECT 'raw line ' || raw_line_id FROM raw_line WHERE kind = 'duplicate'"
        " AND custom_id NOT IN (SELECT custom_id FROM raw_line WHERE kind = 'answer')",
    ),
    Invariant(
        "readings_match_lines",
        "a reading belongs to the attempt its line names",
        "SELECT a.custom_id FROM reading r JOIN raw_line l ON l.raw_line_id = r.raw_line_id"
        " JOIN attempt a ON a.attempt_id = r.attempt_id WHERE l.custom_id IS NOT a.custom_id",
    ),
    Invariant(
        "custom_ids_formed",
        "custom_id names run, item, part, repeat and attempt in at most 64 characters",
        "SELECT a.custom_id FROM attempt a JOIN request q ON q.request_id = a.request_id CROSS JOIN run"
        " WHERE length(a.custom_id) > 64 OR a.custom_id GLOB '*[^0-9a-z-]*'"
        " OR substr(a.custom_id, 1, length(run.run_id || '-i' || q.item_index) + 1)"
        "    <> run.run_id || '-i' || q.item_index || '-'"
        " OR a.custom_id NOT LIKE '%-r' || q.repeat || '-a' || a.attempt"
        " OR (q.criterion_index IS NOT NULL AND instr(a.custom_id, '-c' || q.criterion_index || '-') = 0)"
        " OR (q.pair_order IS NOT NULL"
        "     AND instr(a.custom_id, CASE q.pair_order WHEN 'chosen-first' THEN '-ocf-' ELSE '-orf-' END) = 0)"
        " OR (q.side IS NOT NULL AND instr(a.custom_id, '-s' || substr(q.side, 1, 1) || '-') = 0)",
    ),
    Invariant(
        "custom_ids_unique",
        "no custom_id is used twice, nor answered twice",
        "SELECT custom_id FROM attempt GROUP BY custom_id HAVING count(*) > 1"
        " UNION ALL SELECT custom_id FROM raw_line WHERE kind = 'answer' GROUP BY custom_id HAVING count(*) > 1",
    ),
    Invariant(
        "request_files_filled",
        "a request file holds its attempts, one a line, and has a batch",
        "SELECT f.name FROM request_file f LEFT JOIN attempt a ON a.request_file_id = f.request_file_id"
        " GROUP BY f.request_file_id"
        " HAVING count(a.attempt_id) <> f.n_requests OR max(a.line) <> f.n_requests"
        " OR count(DISTINCT a.line) <> f.n_requests OR min(a.line) <> 1"
        " UNION ALL SELECT name FROM request_file"
        " WHERE request_file_id NOT IN (SELECT request_file_id FROM batch)",
    ),
    Invariant(
        "raw_files_stored",
        "every line of a raw file is stored",
        "SELECT f.name FROM raw_file f LEFT JOIN raw_line l ON l.raw_file_id = f.raw_file_id"
        " GROUP BY f.raw_file_id HAVING count(l.raw_line_id) <> f.n_lines",
    ),
    Invariant(
        "batches_have_ids",
        "a batch at the provider has the provider's id",
        "SELECT 'batch ' || batch_id FROM batch WHERE state IN ('submitted', 'ended', 'collected')"
        " AND remote_batch_id IS NULL AND (SELECT provider FROM run) <> 'files'",
    ),
    Invariant(
        "usage_adds_up",
        "attempts and tokens by class add up to those of all attempts",
        "WITH classed AS (SELECT total(attempts) AS a, total(prompt_tokens) AS p, total(cached_tokens) AS c,"
        " total(completion_tokens) AS o, total(reasoning_tokens) AS r FROM usage),"
        " logged AS (SELECT count(*) AS a, total(prompt_tokens) AS p, total(cached_tokens) AS c,"
        " total(completion_tokens) AS o, total(reasoning_tokens) AS r FROM attempt_log WHERE outcome IS NOT NULL)"
        " SELECT 'usage' FROM classed x CROSS JOIN logged y"
        " WHERE (x.a, x.p, x.c, x.o, x.r) IS NOT (y.a, y.p, y.c, y.o, y.r)",
    ),
    Invariant(
        "item_scores_add_up",
        "planned and scored requests of all items add up to those of the run",
        "SELECT 'planned' WHERE (SELECT total(n_planned) FROM item_score) <> (SELECT count(*) FROM request)"
        " UNION ALL SELECT 'scored' WHERE (SELECT protocol FROM run) = 'rubric'"
        " AND (SELECT total(n_scored) FROM item_score)"
        "     <> (SELECT count(*) FROM request_status WHERE status = 'scored')"
        " UNION ALL SELECT 'judged' WHERE (SELECT protocol FROM run) = 'pairwise'"
        " AND (SELECT count(*) FROM preference) <> (SELECT count(*) FROM request_status WHERE status = 'scored')"
        " UNION ALL SELECT 'scored' WHERE (SELECT protocol FROM run) = 'pointwise'"
        " AND (SELECT count(*) FROM side_score) <> (SELECT count(*) FROM request_status WHERE status = 'scored')",
    ),
    Invariant(
        "nothing_paid_twice",
        "no request has two valid answers",
        "SELECT 'request ' || request_id FROM attempt_reading WHERE outcome = 'valid'"
        " GROUP BY request_id HAVING count(*) > 1",
        "warn",
        "The first valid answer counts; `iwb-batch show` lists all of them.",
    ),
    Invariant(
        "batches_settled",
        "no batch is ambiguous",
        "SELECT 'batch ' || batch_id FROM batch WHERE state = 'creating'",
        "warn",
        "`iwb-batch collect` looks for it at the provider; `iwb-batch status` names the choices by hand.",
    ),
)


def journal_mode(database: Database) -> str:
    """SQLite's word for how the file is kept whole: ``wal``, ``delete`` ..."""
    return str(database.value("PRAGMA journal_mode")).lower()


def hold_still(database: Database) -> None:
    """Let all later queries see the file as it is now, where that keeps no writer waiting."""
    if journal_mode(database) == "wal":
        database.execute("BEGIN")


def find(database: Database, invariant: Invariant) -> Found:
    """Run one invariant's query."""
    # The invariants are constants of this module; nothing of a user gets into the text.
    row = database.row(f"WITH found(place) AS ({invariant.sql}) SELECT count(*), min(place) FROM found")  # noqa: S608
    assert row is not None, "an aggregate has one row"
    return Found(invariant, int(row[0]), row[1])


def integrity_errors(database: Database) -> list[str]:
    """What SQLite's own check says, empty when the file is sound."""
    return [str(row[0]) for row in database.rows("PRAGMA integrity_check(20)") if row[0] != "ok"]


def foreign_key_errors(database: Database) -> list[str]:
    """Rows that refer to nothing, as ``table row -> table``."""
    return [f"{row[0]} row {row[1]} -> {row[2]}" for row in database.rows("PRAGMA foreign_key_check")]


_OBJECTS = "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('view', 'trigger') ORDER BY type, name"
_COLUMNS = (
    "SELECT s.name, c.name, c.type, c.pk FROM sqlite_schema s JOIN pragma_table_info(s.name) c"
    " WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite_%' ORDER BY s.name, c.cid"
)


def schema_differences(database: Database) -> list[str]:
    """Views, triggers and tables that are not those of schemas/run.sql.

    A view says what a number is, and a trigger may change data, so both must be ours to the letter.
    Tables and views somebody added are no difference, a trigger is.
    """
    with closing(sqlite3.connect(":memory:")) as reference:
        for statement in statements(schemas.read_text("run.sql")):
            reference.execute(statement)
        objects = {(row[0], row[1]): row[2] for row in reference.execute(_OBJECTS)}
        columns = _by_table(reference.execute(_COLUMNS))
    found = {(row[0], row[1]): row[2] for row in database.rows(_OBJECTS)}
    have = _by_table(database.rows(_COLUMNS))
    differing = [f"{kind} {name}" for (kind, name), sql in objects.items() if found.get((kind, name)) != sql]
    differing += [f"trigger {name}" for kind, name in found if kind == "trigger" and (kind, name) not in objects]
    return differing + [f"table {name}" for name, wanted in columns.items() if have.get(name) != wanted]


def _by_table(rows: Iterable[Any]) -> Mapping[str, list[tuple[str, str, int]]]:
    tables: dict[str, list[tuple[str, str, int]]] = {}
    for table, column, kind, key in rows:
        tables.setdefault(table, []).append((column, kind, key))
    return tables
