"""``show``: one item with all that was sent, answered and read about it."""

from __future__ import annotations

import json
from typing import Any

from iwb_batch.errors import InputError
from iwb_batch.report.display import visible
from iwb_batch.store import plan, views
from iwb_batch.store.database import Database
from iwb_batch.workflow.judging import Judging


def item(database: Database, index: int, criterion: int | None) -> dict[str, Any]:
    """Everything the run knows about an item (of one criterion when given). InputError: no such item, or criterion."""
    found = views.item(database, index)
    if found is None:
        raise InputError(
            f"index {index}: the run has no such item",
            hint='`iwb-batch query "select item_index from item_score"` lists them.',
        )
    judging = Judging.of_plan(views.run(database).plan)
    judged, answer = plan.judged(database, index)
    requests = []
    for row in views.item_requests(database, index):
        if criterion is not None and row["criterion_index"] != criterion:
            continue
        request = plan.request_by_id(database, row["request_id"])
        attempts = views.request_attempts(database, row["request_id"])
        requests.append({**row, "messages": judging.messages(judged, answer, request), "attempt_log": attempts})
    found["criteria"] = json.loads(found["criteria"])
    if criterion is not None and criterion >= len(found["criteria"]):
        raise InputError(
            f"criterion {criterion}: item {index} has {len(found['criteria'])}, counted from 0",
            hint="Leave --criterion out to see all of them.",
        )
    found["extra"] = json.loads(found["extra"])
    return {**found, "requests": requests}


_LABELS = ("domain", "subdomain", "language", "variant", "tag")


def to_text(found: dict[str, Any]) -> str:
    """An item for reading in a terminal; text of data is shown with control characters escaped, line by line."""
    lines = [f"item {found['item_index']} ({visible(found['item_id'])})"]
    lines += [f"{name}: {visible(found[name])}" for name in _LABELS if found[name]]
    if found["left_out"]:
        lines.append(f"left out: {found['left_out']}")
    lines += ["", "query", *_block(found["query"])]
    if found["reasoning"]:
        lines += ["", "reasoning (not judged)", *_block(found["reasoning"])]
    if found["answer"] is not None:
        lines += ["", f"response (line {found['response_line']})", *_block(found["answer"])]
    for request in found["requests"]:
        lines += ["", *_request(request)]
    return "\n".join(lines)


def _block(text: str) -> list[str]:
    return ["  " + visible(line.rstrip("\r")) for line in text.split("\n")]


_SAID = ("detail", "error_code", "message", "changed")


def _request(request: dict[str, Any]) -> list[str]:
    what = (
        request["criterion"]
        if request["criterion_index"] is not None
        else request["pair_order"] or request["side"] or "response"
    )
    number = "" if request["criterion_index"] is None else f"criterion {request['criterion_index']}: "
    lines = [f"{number}{visible(str(what))}, repeat {request['repeat']}: {request['status']}"]
    for attempt in request["attempt_log"]:
        head = f"  attempt {attempt['attempt']} ({attempt['custom_id']}): {attempt['outcome'] or 'open'}"
        verdict = attempt["score"] if attempt["score"] is not None else attempt["preferred"]
        lines.append(head + (f", {verdict}" if verdict is not None else ""))
        lines += [f"    {name}: {visible(str(attempt[name]))}" for name in _SAID if attempt[name]]
        if attempt["reason"]:
            lines += ["    reason:", *("  " + line for line in _block(attempt["reason"]))]
        elif attempt["content"]:
            lines += ["    content:", *("  " + line for line in _block(attempt["content"]))]
    return lines
