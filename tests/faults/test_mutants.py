"""Tests of the tests: each guard is turned off by hand, and the checks of this folder must notice.

A mutant that lives means that the promise behind its guard is not tested.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.core import lifecycle
from iwb_batch.emulator.app import running
from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault, RequestFault
from iwb_batch.errors import LockHeld, RunError, Unreachable
from iwb_batch.model import BatchState
from iwb_batch.providers import openai_batch, openai_client
from iwb_batch.providers.openai_batch import OpenAIBatch
from iwb_batch.store import answers, batches
from iwb_batch.store.database import Database
from iwb_batch.workflow import download, ingest, receive, reconcile
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.session import Session, no_boundary
from iwb_batch.workflow.settings import Waiting
from tests.faults.conftest import Build
from tests.faults.harness import GRACE, RESUBMISSIONS, Scores, World, connection_to, plan
from tests.faults.invariants import unaccounted, violations

Patch = pytest.MonkeyPatch


def verdict_on(world: World, expected: Scores | None = None) -> list[str]:
    """What the checks say about a world driven to its end: empty when they notice nothing."""
    world.waiting = replace(world.waiting, timeout=3 * 3_600.0)
    try:
        code = world.finish(commands=4)
    except AssertionError as error:
        return [f"not finished: {error}"]
    noticed = list(violations(world)) if code == 0 else [f"exit code {code}"]
    if expected is not None and world.scores() != expected:
        noticed.append("other scores")
    return noticed + [f"unaccounted {name}" for name in unaccounted(world)]


# --- the guards, each as a scenario and the patch that removes it --------------------------------------


def lost_create(build: Build) -> World:
    """The reply to the first create is lost after the batch was made."""
    return build(faults=plan(http=[HttpFault(fault="lost_reply", method="POST", path="^/batches$", nth=(1,))]))


def no_intent(patch: Patch) -> None:
    """The state 'creating' is entered after the call instead of before it: a crash in between forgets the call."""
    move = batches.move

    def without_intent(database: Any, batch: Any, after: BatchState, **columns: Any) -> Any:
        if after is BatchState.CREATING and columns:
            return batch  # nothing committed before the call
        if after is BatchState.SUBMITTED and batch.state is BatchState.UPLOADED:
            batch = move(database, batch, BatchState.CREATING)
        return move(database, batch, after, **columns)

    patch.setattr(batches, "move", without_intent)
    patch.setattr(reconcile, "reconcile", lambda _session: True)
    patch.setattr("iwb_batch.workflow.advance.reconcile", lambda _session: True)


def no_adoption(patch: Patch) -> None:
    """Listed batches are not matched with the run's files."""
    patch.setattr(reconcile, "is_of", lambda _remote, _batch: False)


def no_grace(patch: Patch) -> None:
    """A lost create is repeated at once, without looking."""
    patch.setattr(lifecycle, "LISTINGS_BEFORE_CREATE", 0)
    patch.setattr(reconcile, "_settle", _back_at_once)


def _back_at_once(session: Session, batch: Any, _remote: Any) -> None:
    if batch.state is BatchState.CREATING:
        batches.move(session.database, batch, BatchState.UPLOADED)


def short_download(build: Build) -> World:
    """The first download of an output file ends early and announces no length."""
    faults = plan(http=[HttpFault(fault="silent_short", path="/content$", nth=(1,))])
    faults.batches = [BatchFault(fault="null_counts")]
    return build(faults=faults)


def no_length_check(patch: Patch) -> None:
    """The bytes that came are not compared with the bytes announced, cuts are not seen, counts not believed."""
    patch.setattr(download, "_announced_bytes", lambda _session, _file_id: None)
    patch.setattr(download, "_ends_inside_a_line", lambda _path: False)
    patch.setattr(lifecycle, "is_whole", lambda _end, **_more: True)


def separators(build: Build) -> World:
    """Reasons that hold raw U+2028 and U+0085."""
    return build(faults=plan(requests=[*RESUBMISSIONS, RequestFault(fault="u2028")]))


def splitlines(patch: Patch) -> None:
    """Result files are split as text, at every character Python takes for a line end."""

    def as_text(path: Path) -> Iterator[bytes]:
        for line in path.read_text(encoding="utf-8").splitlines():
            yield line.encode()

    patch.setattr(ingest, "lines_of", as_text)
    patch.setattr(download, "lines_of", as_text)


def dropped(build: Build) -> World:
    """Two lines are in neither file."""
    faults = plan(requests=[*RESUBMISSIONS, RequestFault(fault="dropped", match="-i[01]-c0-", times=1)])
    world = build(faults=faults)
    world.waiting = Waiting(grace=GRACE, settle=0.0, timeout=86_400.0)
    return world


def no_set_equality(patch: Patch) -> None:
    """Attempts without a line are not closed when their batch is collected."""
    patch.setattr(answers, "close_without_line", lambda *_args: 0)


def expired(build: Build) -> World:
    return build(faults=plan(batches=[BatchFault(fault="expired", share=0.6, nth=(1,))]))


def only_completed(patch: Patch) -> None:
    """The files of a batch that did not complete are not read."""
    both = vars(receive)["download_both"]

    def completed_only(session: Session, batch: Any) -> Any:
        return both(session, batch) if batch.remote_status == "completed" else download.Arrived()

    patch.setattr(receive, "download_both", completed_only)
    patch.setattr(lifecycle, "is_whole", lambda _end, **_more: True)


def unreachable_files(build: Build) -> World:
    """For two hours nobody answers when the files are asked for."""
    return build(faults=plan(http=[HttpFault(fault="reset_before", path="/content$", times=400)]))


def settle_without_answer(patch: Patch) -> None:
    """A file nobody answered for is treated like one that is not there."""
    both = vars(receive)["download_both"]

    def deaf(session: Session, batch: Any) -> Any:
        arrived = both(session, batch)
        arrived.wanting, arrived.unanswered = arrived.wanting or arrived.unanswered, None
        return arrived

    patch.setattr(receive, "download_both", deaf)


def duplicates(build: Build) -> World:
    return build(faults=plan(requests=[*RESUBMISSIONS, RequestFault(fault="duplicate_error", match="-c0-", times=1)]))


def last_line_wins(patch: Patch) -> None:
    """A later line of the same request beats an earlier good one."""
    read = ingest._Page._read

    def forgetful(self: Any, raw: Any, record: Any, replaced: bool) -> int:
        attempt = self._attempts.get(raw.custom_id)
        if attempt is not None:
            attempt.raw_line_id = None
        return read(self, raw, record, replaced)

    patch.setattr(ingest._Page, "_read", forgetful)


def shuffled(build: Build) -> World:
    return build()


def by_position(patch: Patch) -> None:
    """Answers are joined to requests by their order in the file."""
    find = answers.find_attempts

    def n_th(database: Any, custom_ids: Any) -> Any:
        found = find(database, custom_ids)
        in_file_order = sorted(found.values(), key=lambda attempt: attempt.attempt_id)
        return dict(zip((name for name in custom_ids if name in found), in_file_order, strict=True))

    patch.setattr(answers, "find_attempts", n_th)


MUTANTS: dict[str, tuple[Callable[[Build], World], Callable[[Patch], None]]] = {
    "adoption of a found batch": (lost_create, no_adoption),
    "looking before creating again": (lost_create, no_grace),
    "length of a download": (short_download, no_length_check),
    "lines end at \\n only": (separators, splitlines),
    "every attempt of a collected batch gets an outcome": (dropped, no_set_equality),
    "files of every ended batch are read": (expired, only_completed),
    "no answer is not an answer": (unreachable_files, settle_without_answer),
    "a good line beats an error line": (duplicates, last_line_wins),
    "answers are joined by custom_id": (shuffled, by_position),
}


@pytest.mark.parametrize(("scenario", "mutate"), MUTANTS.values(), ids=MUTANTS.keys())
def test_a_guard_that_is_turned_off_is_noticed(
    build: Build,
    expected: Scores,
    monkeypatch: Patch,
    scenario: Callable[[Build], World],
    mutate: Callable[[Patch], None],
) -> None:
    assert verdict_on(scenario(build), expected) == [], "with the guard nothing is to be noticed"
    mutate(monkeypatch)
    assert verdict_on(scenario(build), expected) != [], "the mutant lives"


def test_the_intent_committed_before_the_call(build: Build, expected: Scores, monkeypatch: Patch) -> None:
    """A process dies between the create call and its answer."""

    def die_in_create() -> World:
        world = build()
        world.crash("create_answered")
        return world

    assert verdict_on(die_in_create(), expected) == []
    no_intent(monkeypatch)
    assert verdict_on(die_in_create(), expected) != [], "the mutant lives"


def test_the_lock(build: Build, monkeypatch: Patch) -> None:
    """A second process enters while the first is between its create call and the answer."""

    def two_at_once() -> World:
        world = build()
        names: list[str] = []

        def second(name: str) -> None:
            names.append(name)
            if name == "create_intent" and names.count(name) == 1:
                world.boundary = no_boundary
                world.clock.sleep(10 * GRACE)
                for _ in range(2):
                    try:
                        world.collect(wait=0.0)
                    except LockHeld as error:
                        world.errors.append(error)

        world.boundary = second
        world.attempt()
        return world

    assert [type(error) for error in two_at_once().errors] == [LockHeld, LockHeld]
    monkeypatch.setattr(folders, "_try_lock", lambda _handle: True)
    world = two_at_once()
    noticed = [*verdict_on(world), *(error for error in world.errors if "no longer" in error.message)]
    assert noticed, "the mutant lives"


@pytest.mark.parametrize("path", ["^/batches$", "^/files$"], ids=["batches.create", "files.create"])
def test_the_sdk_s_own_retries_are_off_for_posts(build: Build, monkeypatch: Patch, path: str) -> None:
    """Over loopback, where the SDK would repeat a POST whose reply was lost by itself."""
    fault = HttpFault(fault="lost_reply", method="POST", path=path, nth=(1,))

    def posts() -> int:
        world = build(faults=FaultPlan(http=[fault]), n_items=1)
        with running(world.service) as url:
            world.adapter = OpenAIBatch(connection_to(url), read_retries=0)
            world.waiting = Waiting(wait=0.0, grace=GRACE)
            for _ in range(2):
                with suppress(Unreachable):
                    world.submit()
            made = len(world.service.batches_created) if "batches" in path else world.posts("/files")
            world.adapter.close()
        return made

    assert posts() == 1
    original = openai_client.sdk_client

    def with_retries(*args: Any, **more: Any) -> Any:
        return original(*args, **more | {"repeatable": True, "retries": 2})

    monkeypatch.setattr(openai_batch, "sdk_client", with_retries)
    assert posts() == 2, "the mutant lives"


def test_the_transaction_around_a_collected_batch(build: Build, expected: Scores, monkeypatch: Patch) -> None:
    """The process dies after the lines were stored and before the batch is marked collected."""

    def die_while_storing() -> list[str]:
        world = build()
        world.crash("stored_file")
        return [*violations(world), *verdict_on(world, expected)]

    assert die_while_storing() == []

    @contextmanager
    def none(_self: Any) -> Iterator[None]:
        yield

    monkeypatch.setattr(Database, "transaction", none)
    assert die_while_storing() != [], "the mutant lives"


def test_one_open_attempt_for_a_request(build: Build, expected: Scores) -> None:
    """Planning again while an attempt is under way is refused by the schema itself."""
    world = build()
    world.submit()
    with world.session() as session, pytest.raises(RunError, match="the request has an open attempt"):
        session.database.execute(
            "INSERT INTO attempt (request_id, attempt, custom_id, request_file_id, line, token_limit, n_tokens)"
            " VALUES (1, 2, 'again', 1, 99, 1, 1)"
        )


def test_the_list_in_the_documentation_names_every_mutant() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "reliability.md").read_text(encoding="utf-8")
    names: Iterable[str] = [*MUTANTS, *_other_mutants()]
    assert [name for name in names if name not in text] == []


def _other_mutants() -> list[str]:
    """Tests of this module that turn a guard off by themselves."""
    return [
        name
        for name, value in globals().items()
        if name.startswith("test_")
        and "monkeypatch" in inspect.signature(value).parameters
        and "scenario" not in inspect.signature(value).parameters
    ]
