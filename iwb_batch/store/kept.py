"""Counts over a whole run, kept in run.db so that a look at a large run need not count it again.

A count holds while what it rests on has the newest rows it had; changing or deleting a row empties the table
(triggers of schemas/run.sql).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

from iwb_batch.errors import IwbError
from iwb_batch.store.database import Database

T = TypeVar("T")

LARGEST = 65_536
"""Characters of a count that is kept. A longer one (each answer by a model of its own) is counted afresh."""

_COUNTS: dict[str, Callable[[Database], Any]] = {}


def kept(read: Callable[[Any], T]) -> Callable[[Callable[[Database], Any]], Callable[[Database], T]]:
    """Make a function that counts look for its kept value first.

    The function returns plain JSON values, which ``read`` turns into what is used. A kept value that ``read`` cannot
    take was put there by somebody else, and is counted afresh.
    """

    def decorate(count: Callable[[Database], Any]) -> Callable[[Database], T]:
        name = count.__name__
        _COUNTS[name] = count

        @wraps(count)
        def looked_up(database: Database) -> T:
            return database.once(name, of_run)

        def of_run(database: Database) -> T:
            text = database.value("SELECT value FROM kept_count WHERE name = ?", (name,))
            if text is not None:
                with suppress(TypeError, ValueError, LookupError, AttributeError):
                    return read(json.loads(text))
            return read(count(database))

        return looked_up

    return decorate


def keep(database: Database) -> None:
    """Count everything and keep it, unless what is kept holds. An error is let be: only the next look takes longer."""
    with suppress(IwbError), database.impatient(), database.transaction():
        if database.value("SELECT EXISTS (SELECT 1 FROM kept_count)"):
            return
        counted = {name: _counted(database, name) for name in _COUNTS}
        database.execute("DELETE FROM kept")
        database.execute_many(
            "INSERT INTO kept SELECT ?, ?, last_request, last_attempt, last_reading FROM newest",
            ((name, text) for name, text in counted.items() if len(text) <= LARGEST),
        )


def wrong(database: Database) -> list[str]:
    """Names of kept counts that are not what counting gives: none, unless somebody changed the table by hand."""
    rows = list(database.rows("SELECT name, value FROM kept_count ORDER BY name"))
    # A name this version does not know was kept by another one, and nothing reads it here.
    return [name for name, text in rows if name in _COUNTS and _plain(text) != _plain(_counted(database, name))]


def _counted(database: Database, name: str) -> str:
    return json.dumps(_COUNTS[name](database), ensure_ascii=False)


def _plain(text: str) -> Any:
    """The value without the last digits of its sums: versions of SQLite add up in their own ways."""
    return json.loads(text, parse_float=lambda digits: f"{float(digits):.9g}")
