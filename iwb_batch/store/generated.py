"""Reading the responses a generation run brought home."""

from __future__ import annotations

from collections.abc import Iterator

from iwb_batch.store.database import Database


def responses(database: Database) -> Iterator[tuple[int, str]]:
    """(item index, text) of every item with a complete answer, by index; of repeats the first."""
    for row in database.rows(
        "SELECT q.item_index, t.content FROM verdict v JOIN request q USING (request_id)"
        " JOIN answer_text t USING (reading_id) WHERE q.repeat = 1 ORDER BY q.item_index"
    ):
        yield row[0], row[1]
