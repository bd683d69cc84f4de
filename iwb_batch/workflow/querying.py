"""``query``: a user's SQL on a run file that it cannot change."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from iwb_batch.errors import UsageError
from iwb_batch.report import rows as forms
from iwb_batch.store import views
from iwb_batch.store.database import Database

_FORMS = {"table": forms.table, "csv": forms.csv_lines, "json": forms.json_array, "jsonl": forms.json_lines}


def rows(database: Database, sql: str, form: str) -> Iterator[str]:
    """Lines of the answer. UsageError: the SQL is wrong, changes something, or is more than one statement."""
    columns, found = views.query(database, sql)
    if not columns:
        raise UsageError("SQL: the statement gives no columns", hint="One read-only statement, for example a SELECT.")
    twice = next((name for place, name in enumerate(columns) if name in columns[:place]), None)
    if twice is not None and form.startswith("json"):
        raise UsageError(f"SQL: two columns are called {twice}", hint="An object holds one of them: rename with AS.")

    def values() -> Iterator[tuple[object, ...]]:
        row: sqlite3.Row
        for row in found:
            yield tuple(row)

    return _FORMS[form](columns, values())
