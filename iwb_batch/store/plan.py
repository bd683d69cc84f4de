"""What is planned: items, responses, requests, the run row, request files with their attempts."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iwb_batch.model import (
    Criterion,
    CustomId,
    Item,
    Request,
    Response,
)
from iwb_batch.store.database import Database

PAGE = 500
"""Rows held in memory at once while streaming requests."""

_DECODER = json.JSONDecoder()


def add_items(database: Database, items: Iterable[tuple[Item, str]]) -> None:
    """Store (item, sha256) pairs, streamed."""
    database.execute_many(
        "INSERT INTO item (item_index, item_id, domain, subdomain, language, variant, tag, cluster, query, criteria,"
        " extra, sha256, notes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                *(item.index, item.item_id, item.domain, item.subdomain, item.language, item.variant, item.tag),
                *(item.cluster, item.query, "[" + ",".join(c.json for c in item.criteria) + "]"),
                *(json.dumps(dict(item.extra), ensure_ascii=False), sha256, json.dumps(item.notes)),
            )
            for item, sha256 in items
        ),
    )


def add_responses(database: Database, responses: Iterable[tuple[Response, str]]) -> None:
    """Store (response, sha256) pairs, streamed."""
    database.execute_many(
        "INSERT INTO response (item_index, reasoning, answer, flags, line, sha256) VALUES (?, ?, ?, ?, ?, ?)",
        ((r.index, r.reasoning, r.answer, json.dumps(r.flags), r.line, sha256) for r, sha256 in responses),
    )


def leave_out(database: Database, item_indexes: Iterable[int], reason: str) -> None:
    """Mark items for which no request is planned, with the reason the report names."""
    database.execute_many("UPDATE item SET left_out = ? WHERE item_index = ?", ((reason, i) for i in item_indexes))


def count_items(database: Database) -> int:
    """Items of the selection."""
    return int(database.value("SELECT count(*) FROM item"))


def fingerprints(database: Database, table: str) -> Iterator[tuple[int, str]]:
    """(item_index, sha256) of ``item`` or ``response``, by index: what the plan hash covers."""
    source = {"item": "item", "response": "response"}[table]
    for row in database.rows(f"SELECT item_index, sha256 FROM {source} ORDER BY item_index"):  # noqa: S608
        yield row[0], row[1]


def judged_items(database: Database) -> Iterator[tuple[Item, str]]:
    """Items for which requests are planned, each with the answer judged, by index."""
    for row in database.rows(
        "SELECT i.*, r.answer FROM item i LEFT JOIN response r USING (item_index)"
        " WHERE i.left_out IS NULL ORDER BY i.item_index"
    ):
        yield item_of(row), row["answer"] or ""


@dataclass(frozen=True, slots=True)
class Size:
    """How large a request is: bytes of its line, input tokens."""

    n_bytes: int
    n_tokens: int


def add_requests(database: Database, requests: Iterable[tuple[Request, Size]]) -> None:
    """Plan requests; those planned already stay as they are (``--repeats`` may grow)."""
    database.execute_many(
        "INSERT OR IGNORE INTO request (item_index, criterion_index, criterion, pair_order, side, repeat, n_bytes,"
        " n_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (r.item_index, r.criterion_index, r.criterion, r.pair_order, r.side, r.repeat, size.n_bytes, size.n_tokens)
            for r, size in requests
        ),
    )


def set_run(database: Database, row: Mapping[str, Any], policy: Iterable[tuple[str, str, int | None]]) -> None:
    """Write the run row and the resubmission policy."""
    with database.transaction():
        columns = ", ".join(row)
        database.execute(
            f"INSERT INTO run ({columns}) VALUES ({', '.join(':' + name for name in row)})",  # noqa: S608
            dict(row),
        )
        set_policy(database, policy)


def set_policy(database: Database, policy: Iterable[tuple[str, str, int | None]]) -> None:
    """Replace the resubmission policy."""
    with database.transaction():
        database.execute("DELETE FROM policy")
        database.execute_many("INSERT INTO policy (outcome, budget, allowed) VALUES (?, ?, ?)", policy)


def update_run(database: Database, **columns: Any) -> None:
    """Change columns of the run row (options, prices, standing ...)."""
    assignments = ", ".join(f"{name} = :{name}" for name in columns)
    database.execute(f"UPDATE run SET {assignments} WHERE id = 1", columns)  # noqa: S608


@dataclass(frozen=True, slots=True)
class ToSend:
    """One request that needs a new attempt, with all that rendering it takes."""

    request_id: int
    request: Request
    item: Item
    answer: str
    attempt: int
    n_tokens: int
    last_outcome: str | None
    last_limit: int | None


def mark_sendable(database: Database) -> int:
    """Collect the requests of the view ``to_send`` into a temporary table; returns how many."""
    database.execute("CREATE TEMP TABLE IF NOT EXISTS sendable (request_id INTEGER PRIMARY KEY) STRICT")
    database.execute("DELETE FROM temp.sendable")
    database.execute("INSERT INTO temp.sendable SELECT request_id FROM to_send")
    return count_sendable(database)


def count_sendable(database: Database) -> int:
    """Requests marked and not taken back."""
    return int(database.value("SELECT count(*) FROM temp.sendable"))


def sizes(database: Database) -> Iterator[tuple[int, Size]]:
    """(item_index, size) of the marked requests, by item."""
    for row in database.rows(
        "SELECT q.item_index, q.n_bytes, q.n_tokens FROM temp.sendable s JOIN request q USING (request_id)"
        " ORDER BY s.request_id"
    ):
        yield row[0], Size(row[1], row[2])


def sendable(database: Database) -> Iterator[ToSend]:
    """Stream the marked requests by item, holding one page at a time."""
    after, item = 0, None
    while True:
        page = database.execute(
            "SELECT q.*, t.attempt AS last_attempt, l.outcome AS last_outcome, t.token_limit AS last_limit"
            " FROM temp.sendable s JOIN request q USING (request_id)"
            " LEFT JOIN attempt t ON t.attempt_id = (SELECT a.attempt_id FROM attempt a"
            "   WHERE a.request_id = q.request_id ORDER BY a.attempt DESC LIMIT 1)"
            " LEFT JOIN reading l ON l.reading_id ="
            "   (SELECT max(n.reading_id) FROM reading n WHERE n.attempt_id = t.attempt_id)"
            " WHERE s.request_id > ? ORDER BY s.request_id LIMIT ?",
            (after, PAGE),
        ).fetchall()
        if not page:
            return
        for row in page:
            after = row["request_id"]
            if item is None or item[0].index != row["item_index"]:
                item = judged(database, row["item_index"])
            yield ToSend(
                request_id=row["request_id"],
                request=request_of(row),
                item=item[0],
                answer=item[1],
                attempt=(row["last_attempt"] or 0) + 1,
                n_tokens=row["n_tokens"],
                last_outcome=row["last_outcome"],
                last_limit=row["last_limit"],
            )


def judged(database: Database, item_index: int) -> tuple[Item, str]:
    """The item and the answer a request is about."""
    row = database.row(
        "SELECT i.*, r.answer FROM item i LEFT JOIN response r USING (item_index) WHERE i.item_index = ?",
        (item_index,),
    )
    assert row is not None, "requests reference items"
    return item_of(row), row["answer"] or ""


def item_of(row: sqlite3.Row) -> Item:
    """An item from its row."""
    return Item(
        index=row["item_index"],
        item_id=row["item_id"],
        query=row["query"],
        cluster=row["cluster"],
        domain=row["domain"],
        subdomain=row["subdomain"],
        language=row["language"],
        variant=row["variant"],
        tag=row["tag"],
        criteria=tuple(_criteria(row["criteria"])),
        extra=json.loads(row["extra"]),
        notes=tuple(json.loads(row["notes"])),
    )


def _criteria(text: str) -> Iterator[Criterion]:
    """The criteria of a stored array, each with the very text it is stored as."""
    at = 1
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield Criterion(name=str(value.get("name")), json=text[at:end])
        at = end + (text[end] == ",")


def request_of(row: sqlite3.Row) -> Request:
    """A request from its row."""
    return Request(
        item_index=row["item_index"],
        repeat=row["repeat"],
        criterion_index=row["criterion_index"],
        criterion=row["criterion"],
        pair_order=row["pair_order"],  # CHECK lets no other words in
        side=row["side"],
    )


def request_by_id(database: Database, request_id: int) -> Request:
    """One planned request."""
    row = database.row("SELECT * FROM request WHERE request_id = ?", (request_id,))
    assert row is not None, "asked for by its own id"
    return request_of(row)


@dataclass(slots=True)
class PlannedAttempt:
    """One line of a request file; ``line`` is its writer's to fill in."""

    request_id: int
    attempt: int
    custom_id: CustomId
    line: int
    token_limit: int
    n_tokens: int
    changed: str | None


def add_lanes(database: Database, lanes: Iterable[tuple[str, str, str]]) -> None:
    """Enter (lane, deployment, host)."""
    database.execute_many("INSERT INTO lane (lane, deployment, host) VALUES (?, ?, ?)", lanes)


def idlest_lane(database: Database, lanes: Sequence[str]) -> str:
    """Of the lanes, in their order, the one whose request files hold the fewest tokens so far."""
    held = {
        row[0]: row[1]
        for row in database.rows("SELECT lane, sum(n_tokens) FROM request_file WHERE online = 0 GROUP BY lane")
    }
    return min(lanes, key=lambda lane: held.get(lane, 0))


def next_file_number(database: Database) -> int:
    """Number of the next request file, from 1."""
    return int(database.value("SELECT coalesce(max(request_file_id), 0) + 1 FROM request_file"))


def open_request_file(
    database: Database, number: int, name: str, at: str, *, lane: str = "", online: bool = False
) -> None:
    """Enter a request file that is being written; ``close_request_file`` completes it in the same transaction."""
    database.execute(
        "INSERT INTO request_file (request_file_id, name, sha256, n_requests, n_bytes, n_tokens, created_at, lane,"
        " online) VALUES (?, ?, '', 1, 0, 0, ?, ?, ?)",
        (number, name, at, lane, int(online)),
    )


def add_attempts(database: Database, number: int, attempts: Iterable[PlannedAttempt]) -> None:
    """Plan attempts of a request file that is being written."""
    database.execute_many(
        "INSERT INTO attempt (request_id, attempt, custom_id, request_file_id, line, token_limit, n_tokens, changed)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (a.request_id, a.attempt, a.custom_id, number, a.line, a.token_limit, a.n_tokens, a.changed)
            for a in attempts
        ),
    )


def close_request_file(
    database: Database, number: int, *, sha256: str, n_requests: int, n_bytes: int, n_tokens: int, at: str
) -> int:
    """Complete a request file and plan its batch; returns the batch's id."""
    database.execute(
        "UPDATE request_file SET sha256 = ?, n_requests = ?, n_bytes = ?, n_tokens = ? WHERE request_file_id = ?",
        (sha256, n_requests, n_bytes, n_tokens, number),
    )
    cursor = database.execute(
        "INSERT INTO batch (request_file_id, state, created_at) VALUES (?, 'planned', ?)", (number, at)
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def release(database: Database, outcomes: Iterable[str] | None, *, fresh_budget: bool) -> int:
    """Allow a further attempt for unscored requests whose last outcome is one of ``outcomes`` (None: any).

    With ``fresh_budget`` all earlier attempts stop counting against the budgets. Returns how many requests.
    """
    chosen = None if outcomes is None else json.dumps(list(outcomes))
    fresh = ", fresh_from = s.attempts" if fresh_budget else ""
    cursor = database.execute(
        f"UPDATE request SET released = s.attempts{fresh} FROM request_status s"  # noqa: S608
        " WHERE s.request_id = request.request_id AND s.status <> 'scored' AND s.last_outcome IS NOT NULL"
        "   AND (:chosen IS NULL OR s.last_outcome IN (SELECT value FROM json_each(:chosen)))"
        "   AND NOT EXISTS (SELECT 1 FROM attempt_reading a WHERE a.request_id = s.request_id AND a.outcome IS NULL)"
        "   AND NOT EXISTS (SELECT 1 FROM attempt a JOIN batch b USING (request_file_id)"
        "     WHERE a.request_id = s.request_id AND b.state IN ('submitted', 'ended'))",
        {"chosen": chosen},
    )
    return cursor.rowcount
