"""SQL of the pilot: which requests it takes and what came of them."""

from __future__ import annotations

from iwb_batch.store.database import Database


def is_over(database: Database) -> bool:
    """True when attempts were planned and each has an outcome."""
    return bool(
        database.value(
            "SELECT EXISTS (SELECT 1 FROM attempt) AND NOT EXISTS (SELECT 1 FROM attempt_reading WHERE outcome IS NULL)"
        )
    )


def tally(database: Database) -> tuple[int, int, int]:
    """(first attempts, valid among them, truncated among them)."""
    row = database.row(
        "SELECT count(*), coalesce(sum(outcome = 'valid'), 0), coalesce(sum(outcome = 'truncated'), 0)"
        " FROM attempt_reading WHERE attempt = 1"
    )
    assert row is not None, "an aggregate has one row"
    return int(row[0]), int(row[1]), int(row[2])


def keep_spread(database: Database, n: int) -> None:
    """Of the requests marked sendable keep ``n`` spread evenly over the run; none if attempts exist already."""
    database.execute(
        "DELETE FROM temp.sendable WHERE EXISTS (SELECT 1 FROM attempt) OR request_id NOT IN ("
        " SELECT request_id FROM (SELECT request_id, row_number() OVER (ORDER BY request_id) AS rank,"
        "  count(*) OVER () AS total FROM temp.sendable)"
        " WHERE (rank * :n) / total > ((rank - 1) * :n) / total)",
        {"n": n},
    )
