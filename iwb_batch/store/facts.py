"""The head of a report, which ``status`` shows too: how far the run is, what it cost, what to know about its judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iwb_batch.core import identity
from iwb_batch.core.run_facts import RunFacts
from iwb_batch.core.words import counted
from iwb_batch.store import views
from iwb_batch.store.database import Database

REHEARSAL_MODEL = "iwb-rehearsal"
"""The model name the emulator's rehearsal judge answers with."""


def run_facts(database: Database) -> RunFacts:
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
        changed_requests=views.changed_requests(database),
        retried_requests=views.retried_requests(database),
        models=models,
        price_source=run.price_source,
        notes=(*run.notes, *_lane_note(database), *_judge_notes(database, run, models)),
    )


def _lane_note(database: Database) -> list[str]:
    """The lanes with what each was sent, when there are several."""
    rows = database.rows(
        "SELECT l.lane, l.deployment, l.host, coalesce(sum(f.n_requests), 0) FROM lane l"
        " LEFT JOIN request_file f ON f.lane = l.lane AND f.online = 0 WHERE l.lane <> ''"
        " GROUP BY l.lane ORDER BY l.lane"
    )
    named = [f"{lane} ({deployment} on {host}, {counted(n, 'request')})" for lane, deployment, host, n in rows]
    return [f"lanes: {', '.join(named)}"] if named else []


def _judge_notes(database: Database, run: views.Run, models: Mapping[str, int]) -> list[str]:
    """A judge that changed within the run, and a judge from the maker of the model judged."""
    change = identity.change_note(list(_stretches(database)))
    shared = identity.same_maker(run.model_name, (run.judge, *models)) if run.protocol == "rubric" else None
    family = f"judge and judged model are both made by {shared}: it may prefer its own family's texts"
    return [note for note in (change, family if shared else None) if note]


def _stretches(database: Database) -> Iterator[identity.Answers]:
    """Answers by request file, in the order of the files; neighbours by the same judge are taken together."""
    present: identity.Answers | None = None
    for model, fingerprint, n in views.answers_by_file(database):
        if present is not None and (present.model, present.fingerprint) == (model, fingerprint):
            present = present._replace(n=present.n + n)
            continue
        if present is not None:
            yield present
        present = identity.Answers(model, fingerprint, n)
    if present is not None:
        yield present
