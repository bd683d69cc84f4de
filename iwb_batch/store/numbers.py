"""Fills the reports' input: one streamed pass over run.db for each part."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from iwb_batch.core.compat import Requirements
from iwb_batch.core.pair_numbers import Longer, PairData, PairRow, Preferred, RewardRow
from iwb_batch.core.pointwise_numbers import PointwiseData
from iwb_batch.core.rubric_numbers import ItemRow, RubricData
from iwb_batch.model import PAIR_ORDERS, PAIR_SIDES, PairOrder, PairSide
from iwb_batch.store.database import Database
from iwb_batch.store.facts import run_facts


def rubric(database: Database, requirements: Requirements | None = None) -> RubricData:
    """Everything the numbers of a rubric run rest on; ``items`` streams."""
    listed = requirements.indexes() if requirements is not None else ()
    histogram, repeat_sums = _scores(database)
    return RubricData(
        facts=run_facts(database),
        items=_items(database),
        histogram=histogram,
        repeat_sets=_repeat_sets(database) if len(repeat_sums) > 1 else {},
        repeat_sums=repeat_sums,
        requirements=requirements,
        criterion_means=criterion_means(database, listed),
    )


def _scores(database: Database) -> tuple[dict[int, int], dict[int, tuple[int, int]]]:
    """How often each score was given, by score; sum and number of the scores of each repeat, by repeat."""
    histogram: dict[int, int] = {}
    sums: dict[int, tuple[int, int]] = {}
    for repeat, score, n in database.rows(
        "SELECT repeat, score, count(*) FROM score GROUP BY repeat, score ORDER BY repeat, score"
    ):
        histogram[score] = histogram.get(score, 0) + n
        total, count = sums.get(repeat, (0, 0))
        sums[repeat] = (total + score * n, count + n)
    return dict(sorted(histogram.items())), sums


def criterion_means(database: Database, item_indexes: Collection[int]) -> dict[int, dict[str, float]]:
    """Mean score over repeats of each scored criterion, by item index and criterion name, for the items given."""
    found: dict[int, dict[str, float]] = {}
    rows = database.rows(
        "SELECT item_index, criterion, avg(score) FROM score"
        " WHERE item_index IN (SELECT value FROM json_each(?)) GROUP BY item_index, criterion",
        (json.dumps(sorted(item_indexes)),),
    )
    for row in rows:
        found.setdefault(row[0], {})[row[1]] = row[2]
    return found


def scored_lines(database: Database) -> Iterator[tuple[int, dict[str, list[float]]]]:
    """(index, scores by criterion name) of each item with a score, by index: a line of the original's score file."""
    index: int | None = None
    scores: dict[str, list[float]] = {}
    for row in database.rows(
        "SELECT item_index, criterion, score FROM score ORDER BY item_index, criterion_index, repeat"
    ):
        if index is not None and row[0] != index:
            yield index, scores
            scores = {}
        index = row[0]
        scores.setdefault(row[1], []).append(row[2])
    if index is not None:
        yield index, scores


def domains(database: Database) -> dict[int, tuple[str | None, str | None]]:
    """(domain, subdomain) by item index."""
    return {row[0]: (row[1], row[2]) for row in database.rows("SELECT item_index, domain, subdomain FROM item")}


def items_of(database: Database, item_indexes: Collection[int]) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """(index, query, criterion names) of those of the items that the run has."""
    rows = database.rows(
        "SELECT item_index, query, criteria FROM item WHERE item_index IN (SELECT value FROM json_each(?))"
        " ORDER BY item_index",
        (json.dumps(sorted(item_indexes)),),
    )
    for row in rows:
        yield row[0], row[1], tuple(str(criterion.get("name")) for criterion in json.loads(row[2]))


def _items(database: Database) -> Iterator[ItemRow]:
    rows = database.rows(
        "SELECT s.item_index, s.domain, s.subdomain, s.language, s.variant, i.cluster, i.left_out, s.n_planned,"
        " s.n_scored, s.score_sum, s.score, r.answer"
        " FROM item_score s JOIN item i USING (item_index) LEFT JOIN response r USING (item_index)"
        " ORDER BY s.item_index"
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
    return PairData(facts=run_facts(database), pairs=_pairs(database))


def _pairs(database: Database) -> Iterator[PairRow]:
    rows = database.rows(
        "SELECT i.item_index, i.item_id, i.language, i.domain, i.tag, i.cluster, i.extra,"
        " json_group_array(json_array(q.pair_order, q.repeat, j.preferred)) AS verdicts"
        " FROM item i JOIN request q USING (item_index) LEFT JOIN verdict v USING (request_id)"
        " LEFT JOIN judgement j USING (reading_id) GROUP BY i.item_index ORDER BY i.item_index"
    )
    for row in rows:
        longer, equal_texts = _lengths(json.loads(row["extra"]))
        yield PairRow(
            item_index=row["item_index"],
            item_id=row["item_id"],
            language=row["language"],
            domain=row["domain"],
            tag=row["tag"],
            cluster=row["cluster"],
            longer=longer,
            equal_texts=equal_texts,
            verdicts=_by_order(json.loads(row["verdicts"])),
        )


def _lengths(texts: Mapping[str, Any]) -> tuple[Longer, bool]:
    """Which text of a pair has more code points, and whether the two are equal."""
    chosen, rejected = texts["chosen"], texts["rejected"]
    if len(chosen) == len(rejected):
        return "equal", chosen == rejected
    return ("chosen" if len(chosen) > len(rejected) else "rejected"), False


def pointwise(database: Database) -> PointwiseData:
    """Everything the numbers of a pointwise run rest on; ``pairs`` streams."""
    histogram: dict[PairSide, dict[int, int]] = {side: {} for side in PAIR_SIDES}
    for row in database.rows("SELECT side, score, count(*) FROM side_score GROUP BY side, score ORDER BY side, score"):
        histogram[row[0]][row[1]] = row[2]
    return PointwiseData(facts=run_facts(database), pairs=_rewards(database), histogram=histogram)


def _rewards(database: Database) -> Iterator[RewardRow]:
    rows = database.rows(
        "SELECT i.item_index, i.item_id, i.language, i.domain, i.tag, i.cluster, i.extra,"
        " json_group_array(json_array(q.side, j.score)) AS scores"
        " FROM item i JOIN request q USING (item_index) LEFT JOIN verdict v USING (request_id)"
        " LEFT JOIN judgement j USING (reading_id) GROUP BY i.item_index ORDER BY i.item_index"
    )
    for row in rows:
        longer, equal_texts = _lengths(json.loads(row["extra"]))
        scores = json.loads(row["scores"])
        yield RewardRow(
            item_index=row["item_index"],
            language=row["language"],
            domain=row["domain"],
            tag=row["tag"],
            cluster=row["cluster"],
            chosen=_side_mean(scores, "chosen"),
            rejected=_side_mean(scores, "rejected"),
            item_id=row["item_id"],
            longer=longer,
            equal_texts=equal_texts,
        )


def _side_mean(scores: Sequence[Sequence[Any]], side: PairSide) -> float | None:
    """Mean over the repeats of one side; None unless all of them are scored."""
    mine = [score for name, score in scores if name == side]
    return sum(mine) / len(mine) if mine and None not in mine else None


def _by_order(entries: Sequence[Sequence[object]]) -> dict[PairOrder, list[Preferred | None]]:
    found: dict[PairOrder, list[Preferred | None]] = {}
    for order in PAIR_ORDERS:
        mine = sorted((e for e in entries if e[0] == order), key=lambda e: cast("int", e[1]))
        if mine:
            found[order] = [cast("Preferred | None", e[2]) for e in mine]
    return found
