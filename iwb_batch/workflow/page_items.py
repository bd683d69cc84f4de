"""Items of a run for the drill-down of a page: what the list shows, and what opening an item shows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from iwb_batch.core.words import counted
from iwb_batch.report.html import PageItem
from iwb_batch.report.tables import Number
from iwb_batch.store.details import ItemDetail

TEXT_LIMIT = 20_000
"""Code points of one text on a page; run.db and ``show`` have the whole."""

_LABELS = ("domain", "subdomain", "language", "variant", "tag")
_FACTS = (
    ("detail", "detail"),
    ("http_status", "HTTP status"),
    ("error_code", "error code"),
    ("finish_reason", "finish reason"),
    ("model", "model"),
    ("system_fingerprint", "system fingerprint"),
    ("prompt_tokens", "prompt tokens"),
    ("cached_tokens", "cached tokens"),
    ("completion_tokens", "completion tokens"),
    ("reasoning_tokens", "reasoning tokens"),
    ("request_file", "request file"),
    ("batch_id", "batch"),
    ("changed", "changed"),
)


def page_items(found: Iterable[ItemDetail]) -> Iterator[PageItem]:
    """Items in the order given."""
    for detail in found:
        requests = [_request(row, detail.item) for row in detail.requests]
        yield PageItem(_entry(detail, requests), _detail(detail.item, requests))


def _entry(detail: ItemDetail, requests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    item = detail.item
    value, shown = _value(detail, requests)
    return {
        "index": item["item_index"],
        "id": clipped(item["item_id"], 200),
        "labels": [clipped(item[name], 200) for name in _LABELS if item[name] is not None],
        "value": value,
        "shown": shown,
        "state": "" if item["left_out"] is None else f"left out: {item['left_out']}",
        "again": any(row["attempts"] > 1 for row in detail.requests),
    }


def _value(detail: ItemDetail, requests: Sequence[Mapping[str, Any]]) -> tuple[float | None, str]:
    """Item score, or for pairs the share of right verdicts; ``None`` unless complete."""
    scored, planned = sum(row["status"] == "scored" for row in detail.requests), len(detail.requests)
    if planned == 0 or scored < planned:
        return None, f"{scored} of {planned} scored"
    if detail.item["score"] is not None:
        return detail.item["score"], Number(detail.item["score"]).text()
    scores = {side: [r["verdict"] for r in requests if r["side"] == side] for side in ("chosen", "rejected")}
    if scores["chosen"] and scores["rejected"]:
        chosen, rejected = (sum(scores[side]) / len(scores[side]) for side in ("chosen", "rejected"))
        return float(chosen > rejected), f"{Number(chosen).text()} against {Number(rejected).text()}"
    right = sum(row["verdict"] == "chosen" for row in requests)
    return right / planned, f"{right} of {planned} right"


def _detail(item: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    texts = [
        ("query", item["query"]),
        ("response judged", item["answer"]),
        ("reasoning, not judged", item["reasoning"]),
    ]
    texts += [(name, text) for name, text in item["extra"].items() if isinstance(text, str)]
    return {
        "requests": requests,
        "texts": [(title, clipped(text)) for title, text in texts if text],
        "notes": [*item["notes"], *item["flags"]],
    }


def _request(row: Mapping[str, Any], item: Mapping[str, Any]) -> dict[str, Any]:
    valid = next((a for a in row["attempts_made"] if a["outcome"] == "valid"), None)
    verdict = None if valid is None else valid["score"] if valid["score"] is not None else valid["preferred"]
    return {
        "label": _label(row),
        "side": row["side"],
        "status": row["status"],
        "verdict": verdict,
        "reason": None if valid is None else clipped(valid["reason"]),
        "notes": [] if valid is None else json.loads(valid["notes"]),
        "criterion": _criterion(row, item),
        "attempts": [_attempt(a) for a in row["attempts_made"]],
    }


def _label(row: Mapping[str, Any]) -> str:
    what = next((row[name] for name in ("pair_order", "side", "criterion") if row[name] is not None), "request")
    return str(what) if row["repeat"] == 1 else f"{what}, repeat {row['repeat']}"


def _criterion(row: Mapping[str, Any], item: Mapping[str, Any]) -> str | None:
    place = row["criterion_index"]
    if place is None or place >= len(item["criteria"]):
        return None
    criterion = item["criteria"][place]
    if not isinstance(criterion, dict):
        return clipped(str(criterion))
    return clipped("\n".join(f"{name}: {text}" for name, text in criterion.items()))


def _attempt(found: Mapping[str, Any]) -> dict[str, Any]:
    plain = found["outcome"] == "valid" and found["notes"] == "[]"
    return {
        "attempt": found["attempt"],
        "custom_id": found["custom_id"],
        "outcome": found["outcome"],
        "facts": [(words, str(found[name])) for name, words in _FACTS if found[name] is not None],
        "message": None if found["message"] is None else clipped(found["message"]),
        # A plain valid answer holds nothing beyond the verdict shown above it.
        "content": None if plain or found["content"] is None else clipped(found["content"]),
    }


def clipped(text: str, limit: int = TEXT_LIMIT) -> str:
    """The text, cut to ``limit`` code points with a remark about what is missing."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[... {counted(len(text) - limit, 'more character')} in run.db]"
