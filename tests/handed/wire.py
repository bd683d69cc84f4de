"""A provider whose batches end as a test has written them down, byte for byte, whatever the emulator would do.

Uploads, creation and everything else stay with the emulated resource; only what is told of a batch and what its
files hold is taken from the test. So the shapes read here owe nothing to the emulator's own idea of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.http import HttpReply, HttpRequest, json_reply
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from tests.cli.support import KEY

Line = tuple[int, Mapping[str, Any]]
"""Place of a request in its file, and what is answered to it (``response`` and ``error`` of the line)."""

NO_BATCH = {"error": {"code": "NotFound", "message": "The batch was not found."}}


@dataclass(frozen=True)
class Ending:
    """One batch: the status words of successive polls (the last one stays), and the lines of its two files.

    ``counts`` is (total, completed, failed). A status of ``gone`` is a 404 that never goes away.
    """

    statuses: Sequence[str]
    output: Sequence[Line] | bytes | None = None
    error: Sequence[Line] | None = None
    counts: tuple[int, int, int] = (0, 0, 0)
    errors: Mapping[str, Any] | None = None


class Wire(Service):
    """An emulated resource; batch n of it ends as the n-th ending says, the last ending for all that follow."""

    def __init__(self, *endings: Ending) -> None:
        stuck = FaultPlan.of({"batches": [{"fault": "stuck"}]})
        super().__init__(Settings(key=KEY, pending_polls=0, polls_per_stage=0), faults=stuck)
        self.endings = endings
        self.polls: dict[str, int] = {}
        self.inputs: dict[str, list[str]] = {}

    @property
    def posts(self) -> list[str]:
        """Paths of the calls that change something."""
        return [path for method, path, _ in self.calls if method != "GET"]

    def handle(self, request: HttpRequest) -> HttpReply:
        found = re.fullmatch(r"(.*)/(batches|files)/([^/]+)(/content)?", request.path)
        if request.method != "GET" or found is None:
            return super().handle(request)
        if found[2] == "batches":
            return self._batch(request, found[3])
        planted = re.fullmatch(r"file-(output|error)-(\d+)", found[3])
        if planted is None:
            return super().handle(request)
        content = self._content(planted[1], int(planted[2]))
        if found[4]:
            return HttpReply(200, {"content-type": "application/octet-stream"}, content)
        about = {"object": "file", "bytes": len(content), "filename": "x.jsonl", "purpose": "batch_output"}
        return json_reply({**about, "id": found[3], "status": "processed", "created_at": 1_800_000_000})

    def _ending(self, number: int) -> Ending:
        return self.endings[min(number, len(self.endings) - 1)]

    def _batch(self, request: HttpRequest, key: str) -> HttpReply:
        real = super().handle(request).json()
        number = self.batches_created.index(key)
        ending = self._ending(number)
        poll = self.polls[key] = self.polls.get(key, 0) + 1
        status = ending.statuses[min(poll, len(ending.statuses)) - 1]
        if status == "gone":
            return json_reply(NO_BATCH, 404)
        ended = poll >= len(ending.statuses)
        total, completed, failed = ending.counts
        # Told like Azure does: no times of the steps, an empty place for a file that is not there.
        return json_reply(
            {
                "id": key,
                "object": "batch",
                "endpoint": "/chat/completions",
                "completion_window": "24h",
                "status": status,
                "input_file_id": real["input_file_id"],
                "output_file_id": f"file-output-{number}" if ended and ending.output is not None else None,
                "error_file_id": f"file-error-{number}" if ended and ending.error is not None else None,
                "created_at": real["created_at"],
                "expires_at": real["created_at"] + 86_400,
                "request_counts": {"total": total, "completed": completed, "failed": failed},
                "errors": ending.errors,
                "metadata": real["metadata"],
            }
        )

    def _content(self, kind: str, number: int) -> bytes:
        ending = self._ending(number)
        lines = ending.output if kind == "output" else ending.error
        ids = self._custom_ids(self.batches_created[number])
        if isinstance(lines, bytes):
            for place, custom_id in enumerate(ids):
                lines = lines.replace(f"@{place}@".encode(), custom_id.encode())
            return lines
        told = [{"custom_id": ids[place], **answer} for place, answer in lines or ()]
        return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in told)

    def _custom_ids(self, key: str) -> list[str]:
        """Ids of a batch's requests in the order of its file; read once, since an input file may be deleted."""
        if key not in self.inputs:
            source = self._ask(
                f"/openai/v1/files/{self._ask(f'/openai/v1/batches/{key}').json()['input_file_id']}/content"
            )
            self.inputs[key] = [json.loads(line)["custom_id"] for line in source.read().split(b"\n") if line]
        return self.inputs[key]

    def _ask(self, path: str) -> HttpReply:
        return super().handle(HttpRequest("GET", path, {}, {"api-key": KEY}))


def answered(content: str | None, finish: str = "stop", *, usage: Any = ..., **message: Any) -> dict[str, Any]:
    """A line of status 200; ``usage`` None is null, left out entirely with ``usage=False``."""
    counts = {"prompt_tokens": 120, "completion_tokens": 40, "total_tokens": 160} if usage is ... else usage
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_800_000_000,
        "model": "gpt-5.4-2026",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
    }
    if counts is not False:
        body["usage"] = counts
    return {"response": {"request_id": "r", "status_code": 200, "body": body}, "error": None}


def scored(score: int, reason: str = "ठीक है") -> dict[str, Any]:
    """A line with a good verdict."""
    return answered(json.dumps({"score": score, "reason": reason}, ensure_ascii=False))


def refused(status: int, code: str, message: str, **more: Any) -> dict[str, Any]:
    """A line that ended in an HTTP error, told in the body."""
    body = {"error": {"code": code, "message": message, **more}}
    return {"response": {"request_id": "r", "status_code": status, "body": body}, "error": None}


def not_executed(code: str) -> dict[str, Any]:
    """A line that never ran."""
    return {"response": None, "error": {"code": code, "message": "Not executed before the window closed."}}


def good(n: int = 5) -> Ending:
    """A batch of ``n`` lines that all come back with a verdict."""
    return Ending(["completed"], [(place, scored(6)) for place in range(n)], counts=(n, n, 0))
