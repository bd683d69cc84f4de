"""The enqueued-token quota of a lane, in the tokens we count: what the user says, what refusals and answers teach.

A provider may count more tokens than we do. Its answers say how many it counted, so from the first of them on its
limit is read in our tokens: everything else of the ledger is.
"""

from __future__ import annotations

from collections.abc import Iterable

from iwb_batch.core import lifecycle
from iwb_batch.store import batches
from iwb_batch.store.batches import BatchRow
from iwb_batch.workflow.session import Session


def limit(session: Session, lane: str) -> int | None:
    """Tokens that may be in the queue of a lane at once, None while nothing is known."""
    return smallest((session.options.enqueued_token_limit, learned(session, lane)))


def learned(session: Session, lane: str) -> int | None:
    """The part of it that was learned: from refusals, or from answers about the limit the user gave."""
    given = session.options.enqueued_token_limit
    read = None if given is None else _in_our_count(session, given)
    return smallest((batches.learned_limit(session.database, lane), read if read != given else None))


def smallest(limits: Iterable[int | None]) -> int | None:
    """The smallest of the limits that are known, None where none is."""
    return min((limit for limit in limits if limit is not None), default=None)


def _in_our_count(session: Session, tokens: int) -> int:
    counted, estimated = batches.tokens_counted(session.database)
    return lifecycle.in_our_count(tokens, counted=counted, estimated=estimated)


def queue_full(session: Session, batch: BatchRow, said: str) -> None:
    """Learn from a refusal for enqueued tokens: back off, and assume a limit. Costs no budget."""
    refusals = batch.refusals + 1
    named = lifecycle.limit_named(said)
    found = lifecycle.learned_limit(
        None if named is None else _in_our_count(session, named),
        limit(session, batch.lane),
        in_flight=batches.tokens_in_flight(session.database, batch.lane),
        n_tokens=batch.n_tokens,
        refusals=refusals,
    )
    wait = lifecycle.back_off(refusals)
    with session.database.transaction():
        batches.note(session.database, batch, refusals=refusals, not_before=session.later(wait), error=said)
        if found is not None:
            batches.learn_limit(session.database, batch.lane, found)
            session.event("limit_learned", f"{found} enqueued tokens: {said}", batch.batch_id)
    session.progress.say(f"{batch.file_name}: the deployment's queue is full ({said}); next try in {wait:.0f} s")
