"""SQL of the pilot: which requests it takes and what came of them.

An attempt that the judge never saw says nothing about the judge: its request is sent again as part of the pilot.
"""

from __future__ import annotations

import json

from iwb_batch.model import Outcome
from iwb_batch.store.database import Database

_UNSEEN = json.dumps([o.value for o in (Outcome.NOT_RUN, Outcome.EXPIRED, Outcome.CANCELLED, Outcome.ACCOUNT)])
"""Outcomes of attempts that the judge never saw."""


def is_over(database: Database) -> bool:
    """True when attempts were planned, each has an outcome, and no request that the judge never saw goes again."""
    return bool(
        database.value(
            "SELECT EXISTS (SELECT 1 FROM attempt) AND NOT EXISTS (SELECT 1 FROM attempt_reading WHERE outcome IS NULL)"
            " AND NOT EXISTS (SELECT 1 FROM to_send s WHERE s.request_id IN (SELECT request_id FROM attempt)"
            "  AND NOT EXISTS (SELECT 1 FROM attempt_reading a"
            "   WHERE a.request_id = s.request_id AND a.outcome NOT IN (SELECT value FROM json_each(?))))",
            (_UNSEEN,),
        )
    )


def tally(database: Database) -> tuple[int, int, int]:
    """(requests sent, valid among their first answers, truncated among them)."""
    row = database.row(
        "SELECT (SELECT count(DISTINCT request_id) FROM attempt),"
        " coalesce(sum(outcome = 'valid'), 0), coalesce(sum(outcome = 'truncated'), 0)"
        " FROM (SELECT min(attempt), outcome FROM attempt_reading"
        "  WHERE outcome NOT IN (SELECT value FROM json_each(?)) GROUP BY request_id)",
        (_UNSEEN,),
    )
    assert row is not None, "an aggregate has one row"
    return int(row[0]), int(row[1]), int(row[2])


def keep_spread(database: Database, n: int) -> None:
    """Of the requests marked sendable keep ``n`` spread evenly over the run; later only those of them not yet seen."""
    database.execute(
        "DELETE FROM temp.sendable WHERE CASE WHEN EXISTS (SELECT 1 FROM attempt)"
        " THEN request_id NOT IN (SELECT request_id FROM attempt) OR request_id IN (SELECT request_id FROM"
        "  attempt_reading WHERE outcome NOT IN (SELECT value FROM json_each(:unseen)))"
        " ELSE request_id NOT IN ("
        " SELECT request_id FROM (SELECT request_id, row_number() OVER (ORDER BY request_id) AS rank,"
        "  count(*) OVER () AS total FROM temp.sendable)"
        " WHERE (rank * :n) / total > ((rank - 1) * :n) / total) END",
        {"n": n, "unseen": _UNSEEN},
    )
