"""``reparse``: read the stored answers again with the present parser and schema. No call, no credentials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from iwb_batch import __version__
from iwb_batch.core.lines import UnreadableLine, parse_noting
from iwb_batch.core.words import counted
from iwb_batch.errors import RunError
from iwb_batch.model import Reading
from iwb_batch.store import answers, batches, evidence, kept, plan, views
from iwb_batch.store import database as db
from iwb_batch.store.database import Database
from iwb_batch.store.evidence import StoredAnswer
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.folder import RunFolder
from iwb_batch.workflow.judging import Judging
from iwb_batch.workflow.progress import Progress

EVENT = "reparsed"
NOTE = "stored answers were read again"


@dataclass(frozen=True, slots=True)
class Difference:
    """An answer that now reads otherwise than its newest stored reading."""

    answer: StoredAnswer
    now: Reading

    @property
    def outcomes(self) -> tuple[str, str]:
        """(stored outcome, present outcome)."""
        return self.answer.reading.outcome.value, self.now.outcome.value

    @property
    def is_verdict(self) -> bool:
        """True when a score or a preference differs, is gained or lost."""
        before, now = self.answer.reading.judgement, self.now.judgement
        return (before and (before.score, before.preferred)) != (now and (now.score, now.preferred))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what differs, in the order of the reading."""
        return tuple(
            f.name for f in fields(Reading) if getattr(self.answer.reading, f.name) != getattr(self.now, f.name)
        )


@dataclass(slots=True)
class Reparsed:
    """What came of it: answers read, readings added, by (old outcome, new outcome); verdicts that changed."""

    n_read: int = 0
    n_changed: int = 0
    n_verdicts: int = 0
    by_outcome: dict[tuple[str, str], int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)

    def add(self, difference: Difference) -> None:
        """Count one difference."""
        self.n_changed += 1
        self.n_verdicts += difference.is_verdict
        self.by_outcome[difference.outcomes] = self.by_outcome.get(difference.outcomes, 0) + 1


def judging_of(run: views.Run) -> Judging | None:
    """How the run's answers are read, None for a run without verdicts (generated texts)."""
    return None if run.protocol == "generate" else Judging.of_plan(run.plan)


def read_again(database: Database, judging: Judging) -> Iterator[tuple[StoredAnswer, Difference | None]]:
    """Every stored answer, with its difference to what it was last read as."""
    for answer in evidence.answers(database):
        now = _read(database, judging, answer)
        yield answer, None if now == answer.reading else Difference(answer, now)


def _read(database: Database, judging: Judging, answer: StoredAnswer) -> Reading:
    # A line that is not UTF-8 is no answer, so the stored text has the line's very bytes.
    parsed = parse_noting(answer.text.encode("utf-8"))
    if isinstance(parsed, UnreadableLine):
        raise RunError(
            f"{database.path}: raw line {answer.raw_line_id} ({answer.custom_id}) is no JSON object: {parsed.why}",
            hint="It was one when it was stored: run `iwb-batch doctor RUN` to compare run.db with raw/.",
        )
    record, replaced = parsed
    return judging.reading(record, answer.request, database, surrogates=replaced)


def reparse(folder: RunFolder, *, clock: Clock, progress: Progress) -> Reparsed:
    """Add a reading wherever the present one differs: all of them, or none. Takes the run's lock."""
    with folders.locked(folder):
        database = db.open_for_writing(folder.database)
        try:
            done = _reparse(database, clock, progress)
            kept.keep(database)
            return done
        finally:
            database.close()


def _reparse(database: Database, clock: Clock, progress: Progress) -> Reparsed:
    run = views.run(database)
    judging = judging_of(run)
    if judging is None:
        raise RunError(f"run {run.name} has no verdicts to read again: its answers are generated texts")
    done = Reparsed(before=views.count_statuses(database))
    total = evidence.counts(database)["raw_line"]
    with database.transaction():
        for answer, difference in read_again(database, judging):
            done.n_read += 1
            progress.count("reading answers", done.n_read, total)
            if difference is not None:
                done.add(difference)
                found = (answer.attempt_id, answer.raw_line_id, difference.now)
                answers.add_readings(database, [found], clock.stamp())
        batches.add_event(database, clock.stamp(), EVENT, _event(done, run, judging))
        if done.n_changed:
            plan.update_run(database, notes=json.dumps([*run.notes, _note(done)], ensure_ascii=False))
    progress.count("reading answers", total, total)
    done.after = views.count_statuses(database)
    return done


def _event(done: Reparsed, run: views.Run, judging: Judging) -> str:
    return json.dumps(
        {
            "iwb-batch": __version__,
            "schema_sha256": judging.schema_sha256,
            "run_schema_sha256": run.schema_sha256,
            "read": done.n_read,
            "changed": done.n_changed,
            "verdicts": done.n_verdicts,
            "outcomes": {f"{old} -> {new}": n for (old, new), n in sorted(done.by_outcome.items())},
        }
    )


def _note(done: Reparsed) -> str:
    return (
        f"{NOTE} with iwb-batch {__version__}: {done.n_changed} of {done.n_read} read otherwise,"
        f" {counted(done.n_verdicts, 'verdict')} changed"
    )


def readers(database: Database) -> set[str]:
    """Versions of iwb-batch that may have written the newest readings: the run's own and the last reparse's."""
    versions = {str(views.run(database).versions.get("iwb-batch"))}
    detail = evidence.newest_detail(database, EVENT)
    if detail is not None:
        versions.add(str(json.loads(detail).get("iwb-batch")))
    return versions


def to_text(done: Reparsed) -> str:
    """What was read, what changed, and what that means for the run."""
    changed = f"{done.n_changed} read otherwise, {counted(done.n_verdicts, 'verdict')} changed"
    lines = [f"{counted(done.n_read, 'answer')} read again, {changed}"]
    lines += [f"  {old} -> {new}: {n}" for (old, new), n in sorted(done.by_outcome.items())]
    if done.before != done.after:
        lines.append(
            "requests: "
            + ", ".join(f"{name} {done.before[name]} -> {done.after[name]}" for name in ("scored", "open", "failed"))
        )
        if done.after["open"] > done.before["open"]:
            lines.append("collect sends open requests again")
    return "\n".join(lines)
