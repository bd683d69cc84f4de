"""A made-up judge: result files for request files, as Azure writes them, from a seed.

Of a hundred answers two stand in a code fence, one is cut off, one has a score out of range and one request was
stopped by the content filter; the others are plain verdicts. They come back in another order than they were sent.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tests.bench.data import Shape, Writer, lines_of

SHUFFLED = 10_000
"""Lines that are mixed among themselves; more are never held."""
REASONS = 400
"""Different reasons; each answer begins with words of its own."""

UNJUDGED = 2
"""Of a hundred kinds those from 0 to this one are none: filtered, cut off, out of range."""

SAFE = {"filtered": False, "severity": "safe"}
FILTERS = dict.fromkeys(("hate", "protected_material_text", "self_harm", "sexual", "violence"), SAFE)
REFUSED = {
    "error": {
        "code": "content_filter",
        "message": "The response was filtered due to the prompt triggering the content management policy.",
        "param": "prompt",
        "type": None,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": FILTERS},
    }
}


@dataclass(frozen=True)
class Written:
    """Lines of a result file, and how many of them hold a verdict that counts."""

    lines: int
    valid: int


def write_answers(requests: Sequence[Path], target: Path, shape: Shape, seed: int) -> Written:
    """Answer every line of the request files in one result file."""
    draw, writer = random.Random(seed), Writer(seed)
    reasons = [writer.text(n, round(shape.reason * draw.uniform(0.3, 1.8))) for n in range(REASONS)]
    names = (json.loads(line)["custom_id"] for line in lines_of(*requests))
    lines = valid = 0
    with target.open("wb") as out:
        for names_now in iter(lambda: list(islice(names, SHUFFLED)), []):
            draw.shuffle(names_now)
            for line, counts in _lines(names_now, reasons, draw):
                out.write(line)
                lines += 1
                valid += counts
    return Written(lines, valid)


def _lines(names: Sequence[str], reasons: Sequence[str], draw: random.Random) -> Iterator[tuple[bytes, bool]]:
    for name in names:
        kind = draw.randrange(100)
        reason = f"{name.partition('-')[2]} {draw.getrandbits(64):016x}: {reasons[draw.randrange(REASONS)]}"
        body = REFUSED if kind == 0 else _completion(_content(kind, draw.randint(1, 10), reason), draw)
        response = {
            "body": body,
            "request_id": f"{draw.getrandbits(128):032x}",
            "status_code": 400 if kind == 0 else 200,
        }
        record = {"custom_id": name, "response": response, "error": None}
        yield json.dumps(record, ensure_ascii=False).encode() + b"\n", kind > UNJUDGED


def _content(kind: int, score: int, reason: str) -> str:
    text = json.dumps({"score": score, "reason": reason}, ensure_ascii=False)
    if kind == 1:
        return text[:-20]
    if kind == 2:
        return json.dumps({"score": 11, "reason": reason}, ensure_ascii=False)
    return f"```json\n{text}\n```" if kind in (3, 4) else text


def _completion(content: str, draw: random.Random) -> dict[str, Any]:
    tokens = 40 + len(content) // 3
    message: dict[str, Any] = {"annotations": [], "content": content, "refusal": None, "role": "assistant"}
    choice = {"content_filter_results": FILTERS, "finish_reason": "stop", "index": 0, "logprobs": None}
    details = {
        "accepted_prediction_tokens": 0,
        "audio_tokens": 0,
        "reasoning_tokens": 128,
        "rejected_prediction_tokens": 0,
    }
    usage = {
        "completion_tokens": tokens + 128,
        "completion_tokens_details": details,
        "prompt_tokens": 2_900,
        "prompt_tokens_details": {"audio_tokens": 0, "cached_tokens": 1_024},
        "total_tokens": tokens + 3_028,
    }
    return {
        "choices": [{**choice, "message": message}],
        "created": 1_790_000_000,
        "id": f"chatcmpl-{draw.getrandbits(96):024x}",
        "model": "gpt-5.4-2026-03-05",
        "object": "chat.completion",
        "prompt_filter_results": [{"content_filter_results": FILTERS, "prompt_index": 0}],
        "service_tier": "default",
        "system_fingerprint": None,
        "usage": usage,
    }
