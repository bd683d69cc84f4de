"""``collect --finish-online``: the last few requests through chat completions, at the online price.

They are written as a request file like any other and their answers as a raw file like any other, so that
validation, audit and reports are the same. Each answer is on disk before the next request is made; a call
that was cut off by a crash is the one thing that may be made twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from iwb_batch.core import lifecycle
from iwb_batch.core.lines import parse_object
from iwb_batch.core.words import counted
from iwb_batch.errors import Declined, RunError, UsageError
from iwb_batch.model import BatchState
from iwb_batch.providers.base import Ambiguous, CallFailed, ChatReply, Rejected, Unavailable
from iwb_batch.store import batches, plan
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow.folder import WholeFile, explained
from iwb_batch.workflow.ingest import CHUNK, Download, lines_of
from iwb_batch.workflow.judging import MARK
from iwb_batch.workflow.receive import CANCEL_ASKED, take_online
from iwb_batch.workflow.request_files import Route, measure_open, write_request_files
from iwb_batch.workflow.send import expected_cost
from iwb_batch.workflow.session import Session

STATUS = "online"
COMPLETED, CANCELLED = "completed", "cancelled"
"""How a file of requests made online ends, in the words of batches."""
PRICE_FACTOR = 2.0
"""The standard price is twice the batch price."""
FAILURES_IN_A_ROW = 5
LONGEST_PAUSE = 120.0
"""Seconds; a server that asks for more is left alone until the next command."""


def finish_online(session: Session, deployment: str, confirm: Callable[[str], bool]) -> None:
    """Ask every request that waits for another attempt online, then store and read the answers.

    Only requests that are not under way anywhere are taken. Raises Declined, or UsageError when the provider
    has no chat endpoint.
    """
    check(session)
    patience = _Patience(session)
    if not session.may_send or not _answer_all(session, patience) or not session.may_send:
        return
    if plan.mark_sendable(session.database) == 0:
        return
    route = Route(session.judging.through(deployment), by=f"online {deployment}")
    measured = measure_open(session)
    cost = expected_cost(session, measured.requests, measured.n_tokens)
    price = "cost unknown" if cost is None else f"about {cost * PRICE_FACTOR:.2f} USD at the online price"
    if not confirm(f"send {counted(measured.requests, 'request')} online to {deployment}, {price}?"):
        raise Declined("nothing was sent online")
    while session.may_send and write_request_files(session, route):
        if not _answer_all(session, patience):
            return


def take_ended(session: Session) -> None:
    """Read the answers of files whose asking ended and whose process died before they were stored."""
    for batch in batches.in_state(session.database, BatchState.ENDED, online=True):
        _collect(session, batch, batch.remote_status or COMPLETED)


def let_go(session: Session) -> None:
    """A cancelled run asks nothing more: what was answered online is kept, the rest of its files ends cancelled."""
    for batch in _unfinished(session):
        begun = _begin(session, batch)
        session.event(CANCEL_ASKED, begun.remote_batch_id, begun.batch_id)
        _collect(session, begun, CANCELLED)
        session.progress.say(f"{batch.file_name}: asked no further")


class _Patience:
    """Waits after calls that failed for a passing reason; comes to its end when several fail in a row."""

    def __init__(self, session: Session) -> None:
        self.ended = False
        self._session = session
        self._failed = 0

    def reward(self) -> None:
        """A call was answered."""
        self._failed = 0

    def try_on(self, error: CallFailed) -> None:
        """Wait, longer each time, or end where asking on makes no sense now."""
        self._failed += 1
        pause = self._session.pause(lifecycle.back_off(self._failed))
        if self._failed < FAILURES_IN_A_ROW and pause <= LONGEST_PAUSE:
            self._session.clock.sleep(pause)
            return
        self.ended = True
        self._session.progress.warn(f"asking online is given up for now: {error.message}; run the command again")


def _answer_all(session: Session, patience: _Patience) -> bool:
    """False when the endpoint does not answer: what is left is asked by the next command."""
    for batch in _unfinished(session):
        if not _answer(session, batch, patience):
            return False
    return not patience.ended


def _unfinished(session: Session) -> list[BatchRow]:
    states = (BatchState.PLANNED, BatchState.UPLOADING, BatchState.UPLOADED, BatchState.CREATING, BatchState.SUBMITTED)
    return batches.in_state(session.database, *states, online=True)


def _answer(session: Session, batch: BatchRow, patience: _Patience) -> bool:
    """Make every request of a file that has no answer on disk yet, then collect the file; False: not all made."""
    batch = _begin(session, batch)
    target = _answers(session, batch)
    answered = {name for name in _names(target) if name is not None}
    requests = session.folder.requests / batch.file_name
    with (
        explained(target.parent),
        os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0) as out,
    ):
        for number, line in enumerate(lines_of(requests), start=1):
            request = orjson.loads(line)
            if request["custom_id"] not in answered:
                answer = None if patience.ended else _line(session, request, patience)
                if answer is None:
                    return False
                out.write(answer)
                os.fsync(out.fileno())
                session.boundary("online_answer")
            session.progress.count("asking online", number, batch.n_requests)
    _collect(session, batch, COMPLETED)
    return True


def _answers(session: Session, batch: BatchRow) -> Path:
    """Where the answers to a file are kept until it is collected."""
    return session.folder.raw / f"{Path(batch.file_name).stem}-answers.jsonl"


def _names(path: Path) -> Iterator[str | None]:
    """custom_ids of the answers on disk."""
    _drop_cut_line(path)
    for line in lines_of(path) if path.is_file() else ():
        record = parse_object(line)
        yield record.get("custom_id") if isinstance(record, dict) else None


def _begin(session: Session, batch: BatchRow) -> BatchRow:
    steps = (BatchState.UPLOADING, BatchState.UPLOADED, BatchState.CREATING)
    order = [BatchState.PLANNED, *steps]
    with session.database.transaction():
        for step in steps:
            if batch.state in order and order.index(batch.state) < order.index(step):
                batch = batches.move(session.database, batch, step)
        if batch.state is BatchState.CREATING:
            batch = batches.move(
                session.database,
                batch,
                BatchState.SUBMITTED,
                remote_batch_id=f"{STATUS}:{session.run.run_id}:{batch.file_name}",
                remote_status=STATUS,
                submitted_at=session.clock.stamp(),
            )
    return batch


def _line(session: Session, request: dict[str, object], patience: _Patience) -> bytes | None:
    """One request made; its answer, or what went wrong, as a line in the batch output format. None: nobody answers."""
    body = request["body"]
    assert isinstance(body, dict), "request files are ours"
    reply: ChatReply | None = None
    while reply is None:
        try:
            with session.call():
                reply = session.provider.chat(body)
            patience.reward()
        except Rejected as error:
            reply = _failed(error)
        except (Unavailable, Ambiguous) as error:
            patience.try_on(error)
            if isinstance(error, Ambiguous):  # it may have been answered, and billed: its attempt is spent
                reply = _failed(error)
            elif patience.ended:
                return None
    record = {
        "custom_id": request["custom_id"],
        "response": {"status_code": reply.status, "request_id": None, "body": reply.body},
        "error": None,
        MARK: True,
    }
    return json.dumps(record, ensure_ascii=True).encode("ascii") + b"\n"


def _failed(error: CallFailed) -> ChatReply:
    first = error.errors[0] if error.errors else None
    details = {"message": error.message, "code": first.code if first else None, "param": first.param if first else None}
    return ChatReply(error.status or 0, {"error": details})


def _drop_cut_line(path: Path) -> None:
    """A last line that was cut off by a crash is no answer."""
    whole = path.read_bytes() if path.is_file() else b""
    if whole and not whole.endswith(b"\n"):
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])


def _collect(session: Session, batch: BatchRow, status: str) -> None:
    answers = _answers(session, batch)
    _drop_cut_line(answers)
    with WholeFile(answers.with_name(f"{Path(batch.file_name).stem}-b{batch.batch_id}-output.jsonl")) as whole:
        with answers.open("ab+") as source:
            source.seek(0)
            while block := source.read(CHUNK):
                whole.write(block)
        sha256 = whole.commit()
    n_lines = sum(1 for line in lines_of(whole.target) if line.strip())
    take_online(session, batch, Download("output", whole.target, None, sha256, whole.n_bytes, n_lines), status)
    answers.unlink()


def check(session: Session) -> None:
    """UsageError or RunError where requests cannot be made online."""
    if session.run.protocol == "generate":
        raise UsageError("--finish-online is for judging", hint="Run generate again to go on.")
    if session.run.host == "files":
        raise RunError("this run has no endpoint to ask online", hint="Give the answers with collect --from.")
