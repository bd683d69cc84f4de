"""Reading a run: what status, report, show and the workflow ask. Nothing here writes."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from iwb_batch.core.run_facts import UsageRow
from iwb_batch.errors import DamagedRun
from iwb_batch.store.database import Database
from iwb_batch.store.kept import kept


@dataclass(frozen=True, slots=True)
class Run:
    """The run row, JSON columns parsed."""

    run_id: str
    name: str
    created_at: str
    standing: str
    standing_reason: str | None
    benchmark: str
    protocol: str
    dataset: str
    revision: str | None
    subset: str | None
    split: str
    model_name: str
    responses_file: str | None
    judge: str
    provider: str
    host: str
    plan_sha256: str
    prompt_sha256: str
    schema_sha256: str
    data_sha256: str
    responses_sha256: str
    plan: Mapping[str, Any]
    options: Mapping[str, Any]
    notes: tuple[str, ...]
    versions: Mapping[str, Any]
    price_input: float | None
    price_cached: float | None
    price_output: float | None
    price_source: str | None


def run(database: Database) -> Run:
    """The run of this file."""
    row = database.row("SELECT * FROM run")
    if row is None:
        raise DamagedRun(
            f"{database.path}: holds no run", hint="Name a run of the runs folder; `iwb-batch runs` lists them."
        )
    values = {name: row[name] for name in row.keys() if name != "id"}  # noqa: SIM118 (sqlite3.Row iterates values)
    for name in ("plan", "options", "versions"):
        values[name] = json.loads(values[name])
    values["notes"] = tuple(json.loads(values["notes"]))
    return Run(**values)


EXAMPLE_QUERY = "select criterion, avg(score) from score group by criterion"


def count_statuses(database: Database) -> dict[str, int]:
    """Requests by status: scored, open, failed. The same as counting request_status, which looks at each of them.

    What a run does next is decided by this, never by a count that was kept.
    """
    planned = int(database.value("SELECT count(*) FROM request"))
    scored = int(database.value("SELECT count(*) FROM verdict"))
    failed = int(database.value("SELECT count(*) FROM failure"))
    return {"scored": scored, "open": planned - scored - failed, "failed": failed}


@kept(lambda found: {word: int(found[word]) for word in ("scored", "open", "failed")})
def status_counts(database: Database) -> dict[str, int]:
    """What ``count_statuses`` counts, for showing it."""
    return count_statuses(database)


def open_attempts(database: Database) -> int:
    """Attempts planned or sent that have no outcome yet."""
    return int(database.value("SELECT count(*) FROM attempt_reading WHERE outcome IS NULL"))


def open_attempts_of(database: Database, request_file_id: int) -> int:
    """Attempts of one request file that have no outcome yet."""
    return int(
        database.value(
            "SELECT count(*) FROM attempt_reading WHERE request_file_id = ? AND outcome IS NULL", (request_file_id,)
        )
    )


def anything_to_send(database: Database) -> bool:
    """True when a request would get another attempt by itself."""
    return bool(database.value("SELECT EXISTS (SELECT 1 FROM to_send)"))


class _Answered(NamedTuple):
    """Attempts of one outcome and model; tokens are prompt, cached, completion, reasoning."""

    outcome: str
    model: str | None
    n: int
    tokens: tuple[int, ...]


@kept(
    lambda rows: [_Answered(str(a), _word(b), int(n), (int(p), int(c), int(d), int(r))) for a, b, n, p, c, d, r in rows]
)
def _answers(database: Database) -> list[list[Any]]:
    """[outcome, model, attempts, prompt, cached, completion, reasoning tokens] of attempts that have an outcome."""
    return _lists(
        database,
        "SELECT outcome, model, count(*), coalesce(sum(prompt_tokens), 0), coalesce(sum(cached_tokens), 0),"
        " coalesce(sum(completion_tokens), 0), coalesce(sum(reasoning_tokens), 0)"
        " FROM attempt_log WHERE outcome IS NOT NULL GROUP BY outcome, model ORDER BY outcome, model",
    )


def outcome_counts(database: Database) -> dict[str, int]:
    """Attempts by outcome."""
    counts: Counter[str] = Counter()
    for row in _answers(database):
        counts[row.outcome] += row.n
    return dict(counts)


def models(database: Database) -> dict[str, int]:
    """Answers by the model the provider says answered, by name."""
    counts: Counter[str] = Counter()
    for row in _answers(database):
        if row.model is not None:
            counts[row.model] += row.n
    return dict(sorted(counts.items()))


def tokens(database: Database) -> dict[str, int]:
    """Sums of token counts over attempt_log; strays are left out."""
    sums = [sum(column) for column in zip(*(row.tokens for row in _answers(database)), strict=True)]
    return dict(zip(("prompt", "cached", "completion", "reasoning"), sums or (0, 0, 0, 0), strict=True))


@kept(lambda rows: [(str(row[0]), _word(row[1]), bool(row[2]), int(row[3]), _word(row[4])) for row in rows])
def _failures(database: Database) -> list[list[Any]]:
    """[outcome, error code, whether its batch is gone, requests, the provider's words] of failed requests."""
    return _lists(
        database,
        "SELECT outcome, error_code, detail IS 'gone', count(*), min(message) FROM failure"
        " GROUP BY outcome, error_code, detail IS 'gone' ORDER BY outcome, error_code",
    )


def failures_by_outcome(database: Database) -> list[tuple[str, str | None, int, str | None]]:
    """(outcome, error code, requests, the provider's words) of failed requests, most frequent first."""
    found: dict[tuple[str, str | None], tuple[int, str | None]] = {}
    for outcome, code, _, n, message in _failures(database):
        before, said = found.get((outcome, code), (0, None))
        found[outcome, code] = (before + n, message if said is None else said)
    rows = [(outcome, code, n, message) for (outcome, code), (n, message) in found.items()]
    return sorted(rows, key=lambda row: -row[2])


def gone(database: Database) -> int:
    """Failed requests whose batch the provider no longer knows."""
    return sum(n for _, _, is_gone, n, _ in _failures(database) if is_gone)


def _usage_row(name: object, n: Any, *sums: Any) -> UsageRow:
    *tokens, cost = sums
    prompt, cached, completion, reasoning = (None if value is None else int(value) for value in tokens)
    return UsageRow(str(name), int(n), prompt, cached, completion, reasoning, None if cost is None else float(cost))


@kept(lambda rows: [_usage_row(*row) for row in rows])
def usage(database: Database) -> list[list[Any]]:
    """Usage by class: good, resubmitted, wasted, unknown."""
    return _lists(database, "SELECT * FROM usage ORDER BY class")


@kept(lambda rows: [(_word(model), _word(fingerprint), int(n)) for model, fingerprint, n in rows])
def answers_by_file(database: Database) -> list[list[Any]]:
    """(model, system fingerprint, answers) of each request file in order, as they came."""
    return _lists(
        database,
        "SELECT r.model, r.system_fingerprint, count(*) FROM reading r JOIN attempt a USING (attempt_id)"
        " WHERE r.http_status = 200 GROUP BY a.request_file_id, r.model, r.system_fingerprint"
        " ORDER BY a.request_file_id, min(r.reading_id)",
    )


@kept(int)
def changed_requests(database: Database) -> int:
    """Scored requests whose answer came from an attempt that differed from the first one."""
    return int(
        database.value(
            "SELECT count(*) FROM attempt a INDEXED BY attempt_changed JOIN verdict v USING (request_id)"
            " WHERE a.changed IS NOT NULL AND v.attempt_id = a.attempt_id"
        )
    )


@kept(int)
def retried_requests(database: Database) -> int:
    """Requests given a fresh budget by hand."""
    return int(database.value("SELECT count(*) FROM request WHERE fresh_from > 0"))


def _word(value: object) -> str | None:
    return None if value is None else str(value)


def _lists(database: Database, sql: str) -> list[list[Any]]:
    return [list(row) for row in database.rows(sql)]


def mean_completion_tokens(database: Database) -> float | None:
    """Mean completion tokens of the answers so far; None before the first."""
    found: float | None = database.value(
        "SELECT avg(completion_tokens) FROM reading WHERE completion_tokens IS NOT NULL"
    )
    return found


def uncounted(database: Database) -> tuple[int, int]:
    """(attempts, estimated input tokens) that were or may have been paid, but came back without token counts."""
    row = database.row(
        "SELECT count(*), coalesce(sum(n_tokens), 0) FROM attempt_reading"
        " WHERE prompt_tokens IS NULL AND (http_status = 200 OR (outcome = 'missing' AND detail = 'maybe_paid'))"
    )
    assert row is not None, "an aggregate has one row"
    return int(row[0]), int(row[1])


def requests_in_flight(database: Database) -> tuple[int, int]:
    """(requests, estimated input tokens) of batches sent and not collected."""
    row = database.row(
        "SELECT coalesce(sum(f.n_requests), 0), coalesce(sum(f.n_tokens), 0) FROM batch b"
        " JOIN request_file f USING (request_file_id) WHERE b.state IN ('creating', 'submitted', 'ended')"
    )
    assert row is not None, "an aggregate has one row"
    return int(row[0]), int(row[1])


def batches(database: Database) -> list[dict[str, Any]]:
    """Rows of batch_log, dropped ones included."""
    return [dict(row) for row in database.rows("SELECT * FROM batch_log ORDER BY batch_id")]


def strays(database: Database) -> dict[str, int]:
    """Raw lines that belong to no reading, by kind."""
    return {
        row[0]: row[1]
        for row in database.rows(
            "SELECT kind, count(*) FROM raw_line WHERE kind <> 'answer' GROUP BY kind ORDER BY kind"
        )
    }


def left_out(database: Database) -> dict[str, int]:
    """Items without requests, by reason."""
    return {
        row[0]: row[1]
        for row in database.rows(
            "SELECT left_out, count(*) FROM item WHERE left_out IS NOT NULL GROUP BY left_out ORDER BY left_out"
        )
    }


def query(database: Database, sql: str) -> tuple[list[str], Iterator[sqlite3.Row]]:
    """Run a user's SQL on a read-only connection: (column names, rows). UsageError: the SQL is wrong."""
    columns, rows = database.users_query(sql)
    return columns, rows


def item(database: Database, item_index: int) -> dict[str, Any] | None:
    """One item with its response, None when the run has no such index."""
    row = database.row(
        "SELECT i.*, r.reasoning, r.answer, r.flags AS response_flags, r.line AS response_line"
        " FROM item i LEFT JOIN response r USING (item_index) WHERE i.item_index = ?",
        (item_index,),
    )
    return None if row is None else dict(row)


def item_requests(database: Database, item_index: int) -> list[dict[str, Any]]:
    """request_status rows of one item."""
    return [
        dict(row)
        for row in database.rows("SELECT * FROM request_status WHERE item_index = ? ORDER BY request_id", (item_index,))
    ]


def request_attempts(database: Database, request_id: int) -> list[dict[str, Any]]:
    """Every attempt of a request with its reading and verdict, in order."""
    return [
        dict(row)
        for row in database.rows(
            "SELECT l.*, j.score, j.preferred, j.reason, j.notes FROM attempt_log l"
            " JOIN attempt_reading r ON r.custom_id = l.custom_id LEFT JOIN judgement j ON j.reading_id = r.reading_id"
            " WHERE l.request_id = ? ORDER BY l.attempt",
            (request_id,),
        )
    ]
