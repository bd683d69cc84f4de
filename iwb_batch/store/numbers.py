"""Fills the reports' input: one streamed pass over run.db for each part."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import cast

from iwb_batch.core.pair_numbers import PairData, PairRow, Preferred
from iwb_batch.core.rubric_numbers import ItemRow, RubricData
from iwb_batch.core.run_facts import RunFacts
from iwb_batch.model import PAIR_ORDERS, PairOrder
from iwb_batch.store import views
from iwb_batch.store.database import Database

REHEARSAL_MODEL = "iwb-rehearsal"
"""The model name the emulator's rehearsal judge answers with."""


def facts(database: Database) -> RunFacts:
    """The head of a report."""
    run = views.run(database)
    counts = views.status_counts(database)
    models = views.models(database)
    failures: dict[str, int] = {}
    for outcome, _, n, _ in views.failures_by_outcome(database):
        failures[outcome] = failures.get(outcome, 0) + n
    return RunFacts(
        run=run.name,
        benchmark=run.benchmark,
        model=run.model_name,
        judge=run.judge,
        rehearsal=REHEARSAL_MODEL in models,
        prompt_sha256=run.prompt_sha256,
        n_planned=sum(counts.values()),
        n_scored=counts["scored"],
        n_open=counts["open"],
        n_failed=counts["failed"],
        repeats=int(run.plan["repeats"]),
        outcomes=views.outcome_counts(database),
        failures=failures,
        usage=views.usage(database),
        changed_requests=_changed(database),
        retried_requests=int(database.value("SELECT count(*) FROM request WHERE fresh_from > 0")),
        models=models,
        price_source=run.price_source,
        notes=run.notes,
    )


def _changed(database: Database) -> int:
    return int(
        database.value("SELECT count(*) FROM verdict v JOIN attempt a USING (attempt_id) WHERE a.changed IS NOT NULL")
    )


def rubric(database: Database) -> RubricData:
    """Everything the numbers of a rubric run rest on; ``items`` streams."""
    return RubricData(
        facts=facts(database),
        items=_items(database),
        histogram={
            row[0]: row[1] for row in database.rows("SELECT score, count(*) FROM score GROUP BY score ORDER BY score")
        },
        repeat_sets=_repeat_sets(database),
        repeat_sums={
            row[0]: (row[1], row[2])
            for row in database.rows("SELECT repeat, sum(score), count(*) FROM score GROUP BY repeat ORDER BY repeat")
        },
    )


def _items(database: Database) -> Iterator[ItemRow]:
    rows = database.rows(
        "WITH sums AS (SELECT item_index, sum(score) AS score_sum FROM score GROUP BY item_index)"
        " SELECT s.item_index, s.domain, s.subdomain, s.language, s.variant, i.cluster, i.left_out, s.n_planned,"
        " s.n_scored, coalesce(u.score_sum, 0), s.score, r.answer"
        " FROM item_score s JOIN item i USING (item_index) LEFT JOIN sums u USING (item_index)"
        " LEFT JOIN response r USING (item_index) ORDER BY s.item_index"
    )
    for row in rows:
        # SQLite's length() stops at a NUL character, so the text's own length is taken.
        yield ItemRow._make((*tuple(row)[:-1], None if row[-1] is None else len(row[-1])))


def _repeat_sets(database: Database) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    rows = database.rows(
        "SELECT json_group_array(score) FROM (SELECT item_index, criterion_index, score FROM score ORDER BY score)"
        " GROUP BY item_index, criterion_index HAVING count(*) > 1"
    )
    for row in rows:
        scores = tuple(sorted(json.loads(row[0])))
        found[scores] = found.get(scores, 0) + 1
    return found


def pairs(database: Database) -> PairData:
    """Everything the numbers of a pairwise run rest on; ``pairs`` streams."""
    return PairData(facts=facts(database), pairs=_pairs(database))


def _pairs(database: Database) -> Iterator[PairRow]:
    rows = database.rows(
        "SELECT i.item_index, i.item_id, i.language, i.domain, i.tag, i.cluster, i.extra,"
        " json_group_array(json_array(q.pair_order, q.repeat, j.preferred)) AS verdicts"
        " FROM item i JOIN request q USING (item_index) LEFT JOIN verdict v USING (request_id)"
        " LEFT JOIN judgement j USING (reading_id) GROUP BY i.item_index ORDER BY i.item_index"
    )
    for row in rows:
        texts = json.loads(row["extra"])
        chosen, rejected = texts["chosen"], texts["rejected"]
        longer = "equal" if len(chosen) == len(rejected) else "chosen" if len(chosen) > len(rejected) else "rejected"
        yield PairRow(
            item_index=row["item_index"],
            item_id=row["item_id"],
            language=row["language"],
            domain=row["domain"],
            tag=row["tag"],
            cluster=row["cluster"],
            longer=longer,  # type: ignore[arg-type]
            equal_texts=chosen == rejected,
            verdicts=_by_order(json.loads(row["verdicts"])),
        )


def _by_order(entries: Sequence[Sequence[object]]) -> dict[PairOrder, list[Preferred | None]]:
    found: dict[PairOrder, list[Preferred | None]] = {}
    for order in PAIR_ORDERS:
        mine = sorted((e for e in entries if e[0] == order), key=lambda e: cast("int", e[1]))
        if mine:
            found[order] = [cast("Preferred | None", e[2]) for e in mine]
    return found
