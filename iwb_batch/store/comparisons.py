"""Fills the input of ``compare``: one run as the comparison needs it."""

from __future__ import annotations

from collections.abc import Iterator

from iwb_batch.core.compare_numbers import JudgeIdentity, RunScores, ScoredItem
from iwb_batch.store import views
from iwb_batch.store.database import Database
from iwb_batch.store.facts import REHEARSAL_MODEL


def run_scores(database: Database) -> RunScores:
    """Scores of one run by item, and what makes its judge the judge it is; ``items`` streams."""
    run = views.run(database)
    judge = run.plan["judge"]
    read = {"pairwise": _pair_items, "pointwise": _scored_pairs}.get(run.protocol, _rubric_items)
    return RunScores(
        run=run.name,
        benchmark=run.benchmark,
        model=run.model_name,
        judge=JudgeIdentity(
            models=frozenset(judging_models(database)),
            reasoning_effort=judge["reasoning_effort"],
            token_limit=int(judge["max_completion_tokens"]),
            response_format="json_schema" if judge["structured_output"] else None,
            prompt_sha256=run.prompt_sha256,
            strip_rule=str(run.plan["strip_reasoning"]),
        ),
        rehearsal=_rehearsal(database),
        items=read(database),
        scale="score" if run.protocol == "rubric" else "share",
    )


def _rehearsal(database: Database) -> bool | None:
    """Whether any answer is made up; None while there is no judgement that could be the one or the other."""
    if REHEARSAL_MODEL in views.models(database):
        return True
    return False if database.value("SELECT EXISTS (SELECT 1 FROM verdict)") else None


def judging_models(database: Database) -> list[str]:
    """Models named by the answers behind the judgements, in alphabetical order."""
    rows = database.rows(
        "SELECT DISTINCT r.model FROM verdict v JOIN reading r USING (reading_id) WHERE r.model IS NOT NULL ORDER BY 1"
    )
    return [row[0] for row in rows]


def _rubric_items(database: Database) -> Iterator[ScoredItem]:
    rows = database.rows(
        "SELECT s.item_index, i.sha256, i.cluster, s.variant, s.score"
        " FROM item_score s JOIN item i USING (item_index) ORDER BY s.item_index"
    )
    for row in rows:
        yield ScoredItem._make(row)


def _pair_items(database: Database) -> Iterator[ScoredItem]:
    """A pair counts only when each of its planned orders has a valid verdict."""
    rows = database.rows(
        "SELECT i.item_index, i.sha256, i.cluster, NULL,"
        " CASE WHEN count(q.request_id) > 0 AND count(j.preferred) = count(q.request_id)"
        " THEN avg(j.preferred = 'chosen') END"
        " FROM item i LEFT JOIN request q USING (item_index) LEFT JOIN verdict v USING (request_id)"
        " LEFT JOIN judgement j USING (reading_id) GROUP BY i.item_index ORDER BY i.item_index"
    )
    for row in rows:
        yield ScoredItem._make(row)


def _scored_pairs(database: Database) -> Iterator[ScoredItem]:
    """Texts scored one at a time: a pair is right when the mean of its chosen text is the higher one."""
    rows = database.rows(
        "SELECT i.item_index, i.sha256, i.cluster, NULL,"
        " CASE WHEN count(q.request_id) > 0 AND count(j.score) = count(q.request_id)"
        " THEN CAST(avg(CASE WHEN q.side = 'chosen' THEN j.score END)"
        " > avg(CASE WHEN q.side = 'rejected' THEN j.score END) AS REAL) END"
        " FROM item i LEFT JOIN request q USING (item_index) LEFT JOIN verdict v USING (request_id)"
        " LEFT JOIN judgement j USING (reading_id) GROUP BY i.item_index ORDER BY i.item_index"
    )
    for row in rows:
        yield ScoredItem._make(row)
