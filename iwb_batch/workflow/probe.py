"""``doctor --probe``: one real request as a batch, to see what the deployment says. It is billed."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iwb_batch import benchmarks, schemas
from iwb_batch.core import lifecycle
from iwb_batch.core.lines import parse_object, split_lines
from iwb_batch.core.outcome import read_record
from iwb_batch.core.verdict import InvalidVerdict, VerdictReader, score_judgement
from iwb_batch.model import Judgement, Outcome, Reading
from iwb_batch.providers.base import Ambiguous, BatchProvider, CallFailed, RemoteBatch
from iwb_batch.report.checks import Check
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.doctor import EXPIRES_AFTER
from iwb_batch.workflow.roundtrip import Held, delete_remote_file, remote_trouble, upload_and_wait
from iwb_batch.workflow.session import words

CUSTOM_ID = "iwb-doctor-probe"
FIRST_PAUSE, LAST_PAUSE = 2.0, 60.0
_BENCHMARK = "indic-writing-bench"
_PROMPT = (
    "This checks a connection. Answer with this JSON object and nothing else:"
    ' {"score": 5, "reason": "The connection works."}'
)


@dataclass(frozen=True, slots=True)
class Probe:
    """What is asked of which deployment, and how long to wait for the batch, in seconds."""

    judge: str
    timeout: float
    max_completion_tokens: int = 8_000
    reasoning_effort: str | None = None
    structured_output: bool = False

    def line(self) -> bytes:
        """The request file: one line with the parameters ``submit`` would send."""
        body: dict[str, Any] = {
            "model": self.judge,
            "messages": [{"role": "user", "content": _PROMPT}],
            "max_completion_tokens": self.max_completion_tokens,
        }
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        if self.structured_output:
            schema = schemas.load(benchmarks.get(_BENCHMARK).request_schema)
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        record = {"custom_id": CUSTOM_ID, "method": "POST", "url": "/v1/chat/completions", "body": body}
        return json.dumps(record).encode("ascii") + b"\n"


def probe(provider: BatchProvider, asked: Probe, clock: Clock) -> Iterator[Check]:
    """Send one request as a batch, wait, and say what came back; deletes its files and leaves no batch running."""
    with tempfile.TemporaryDirectory(prefix="iwb-batch-") as folder:
        path = Path(folder) / "probe.jsonl"
        path.write_bytes(asked.line())
        sent = upload_and_wait(provider, path, expires_after=EXPIRES_AFTER, wait=asked.timeout, clock=clock)
    if sent.check.status != "ok":
        yield sent.check
    left = [] if sent.file is None else [sent.file.file_id]
    try:
        if sent.file is not None and sent.check.status == "ok":
            yield from _run(provider, sent.file.file_id, asked, clock, left)
    finally:
        deleted = [delete_remote_file(provider, file_id) for file_id in left]
    yield from (check for check in deleted if check.status != "ok")


def _run(provider: BatchProvider, input_file_id: str, asked: Probe, clock: Clock, left: list[str]) -> Iterator[Check]:
    try:
        batch = provider.create(input_file_id, {"iwb_doctor": "probe"})
    except Ambiguous as error:
        step = "Look at the provider's list of batches: it may be there, with metadata iwb_doctor."
        yield Check("batch", "broken", f"{provider.host}: {error.message}", step)
        return
    except CallFailed as error:
        yield _refused(words(error.errors, error.message), asked)
        return
    try:
        batch = _ended(provider, batch, asked, clock)
    except CallFailed as error:
        yield remote_trouble("batch", error, provider.host)
        return
    left += [file_id for file_id in (batch.output_file_id, batch.error_file_id) if file_id is not None]
    status = batch.status.lower()
    if not lifecycle.has_ended(status):
        yield _given_up(provider, batch, asked)
    elif status == "failed":
        yield _refused(words(batch.errors, "no reason given"), asked)
    else:
        yield Check("batch", "ok", f"{batch.batch_id} {status}")
        yield from _answer(provider, batch)


def _ended(provider: BatchProvider, batch: RemoteBatch, asked: Probe, clock: Clock) -> RemoteBatch:
    deadline = clock.monotonic() + asked.timeout
    pause = FIRST_PAUSE
    while not lifecycle.has_ended(batch.status) and clock.monotonic() < deadline:
        clock.sleep(min(pause, max(deadline - clock.monotonic(), 0.0)))
        pause = min(pause * 2, LAST_PAUSE)
        batch = provider.batch(batch.batch_id)
    return batch


def _given_up(provider: BatchProvider, batch: RemoteBatch, asked: Probe) -> Check:
    try:
        provider.cancel(batch.batch_id)
        end = "it is being cancelled"
    except CallFailed as error:
        end = f"and it could not be cancelled: {error.message}"
    return Check(
        "batch",
        "warn",
        f"{batch.batch_id} is {batch.status} after {asked.timeout:.0f} s; {end}",
        "Batches may take up to 24 hours; --timeout waits longer.",
    )


_STEPS: Mapping[str, str] = {
    "model_not_found": "--judge must be the name of a deployment of this resource, not of a model.",
    "deploymentnotfound": "--judge must be the name of a deployment of this resource, not of a model.",
    "globalbatch": "Deploy the model as Global Batch or Data Zone Batch; Standard deployments take no batches.",
    "sku": "Deploy the model as Global Batch or Data Zone Batch; Standard deployments take no batches.",
    "invalid_request": "Check that the deployment's type is Global Batch or Data Zone Batch.",
    "token_limit": "The deployment's queue is full: wait until other batches end, or raise its enqueued-token quota.",
    "enqueued": "The deployment's queue is full: wait until other batches end, or raise its enqueued-token quota.",
}


def _refused(said: str, asked: Probe) -> Check:
    text = said.lower().replace(" ", "")
    step = next((step for word, step in _STEPS.items() if word in text), "The provider's words say what it refused.")
    return Check("batch", "broken", f"refused for deployment {asked.judge}: {said}", step)


def _answer(provider: BatchProvider, batch: RemoteBatch) -> Iterator[Check]:
    try:
        record = _record(provider, batch)
    except CallFailed as error:
        yield remote_trouble("answer", error, provider.host)
        return
    if record is None:
        yield Check("answer", "broken", "the batch ended without a line for the request", "Run the probe again.")
        return
    reader = VerdictReader(schemas.load(benchmarks.get(_BENCHMARK).schema))

    def judge(content: str) -> Judgement | InvalidVerdict:
        verdict = reader.read(content)
        return verdict if isinstance(verdict, InvalidVerdict) else score_judgement(verdict)

    yield from _read(read_record(record, judge))


def _record(provider: BatchProvider, batch: RemoteBatch) -> Mapping[str, Any] | None:
    for file_id in (batch.output_file_id, batch.error_file_id):
        if file_id is None:
            continue
        held = Held()
        provider.download(file_id, held)
        for line in split_lines([held.content]):
            record = parse_object(line)
            if isinstance(record, dict) and record.get("custom_id") == CUSTOM_ID:
                return record
    return None


def _read(reading: Reading) -> Iterator[Check]:
    if reading.outcome is not Outcome.VALID:
        said = reading.message or reading.detail or "no words"
        code = f" ({reading.error_code})" if reading.error_code else ""
        yield Check("answer", "broken", f"{reading.outcome.value}{code}: {said}", _unsupported_step(reading))
        return
    usage = reading.usage
    tokens = f"{usage.prompt_tokens or '?'} tokens in, {usage.completion_tokens or '?'} out"
    yield Check("answer", "ok", f"a valid verdict, {tokens}")
    if reading.model is None:
        yield Check("model", "warn", "the answer names no model: a report cannot say who judged")
    else:
        yield Check("model", "ok", reading.model)


def _unsupported_step(reading: Reading) -> str:
    text = f"{reading.error_code} {reading.message}".lower()
    if "unsupported" in text or "unrecognized" in text or "not support" in text:
        return "The model does not take a parameter that is sent: leave that option out, or use another deployment."
    if reading.outcome is Outcome.TRUNCATED:
        return "The token limit is too small for this model's reasoning: raise --max-completion-tokens."
    return "The provider's words say what is wrong; submit would meet the same."
