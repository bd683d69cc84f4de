"""The batches of the emulated resource: create, list, cancel, and one step of life for each GET."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from iwb_batch.emulator import validation
from iwb_batch.emulator.answers import Shape
from iwb_batch.emulator.batch import TERMINAL, Batch, shown
from iwb_batch.emulator.execution import Execution, Order
from iwb_batch.emulator.faults import ENDINGS, FaultPlan, HttpFault, first
from iwb_batch.emulator.files import Files, StoredFile
from iwb_batch.emulator.http import ApiError
from iwb_batch.emulator.judge import Judge
from iwb_batch.emulator.ledger import Ledger
from iwb_batch.emulator.listing import Listing
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.validation import problem

LEARN_MORE = "Learn more: https://aka.ms/aoai_batch/errors."
EXPIRED = ("batch_expired", "This request could not be executed before the completion window expired.")
CANCELLED = ("batch_cancelled", "This request was not executed: the batch was cancelled before.")


class Batches:
    """All batches of one service. Not locked: the service calls it under its own lock."""

    def __init__(
        self,
        *,
        files: Files,
        settings: Settings,
        judge: Judge,
        faults: FaultPlan,
        ledger: Ledger,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._settings = settings
        self._judge = judge
        self._faults = faults
        self._ledger = ledger
        self._clock = clock
        self._batches: dict[str, Batch] = {}
        self._listing = Listing(20, settings.max_page)

    def create(self, body: Mapping[str, Any], shape: Shape, http_faults: Iterable[HttpFault]) -> dict[str, Any]:
        """Create a batch over a processed file; raises ApiError for what is refused at once."""
        stored = self._input(body)
        endpoint = check_create(body)
        faults = self._faults.batch_faults(stored.filename)
        refusal = first(faults, "failed")
        if refusal is not None and refusal.when == "create":
            raise ApiError.listed(problem(refusal.code, refusal.message, line=refusal.line, param=refusal.param))
        lag = first(http_faults, "list_lag")
        batch = Batch(
            key=f"batch_{uuid.uuid4()}",
            number=len(self._batches) + 1,
            source=stored,
            endpoint=endpoint if shape == "azure" else str(body["endpoint"]),
            metadata=dict(body.get("metadata") or {}),
            shape=shape,
            created_at=self._clock(),
            visible_from=self._listing.hidden_for(lag.listings if lag else 0),
            faults=faults,
            deployment=validation.first_model(stored.path),
            stage_left=self._settings.polls_per_stage,
        )
        if self._settings.fail_fast and (refused := self._refused(batch)):
            raise ApiError.listed(refused)
        self._batches[batch.key] = batch
        self._ledger.batches_created.append(batch.key)
        return shown(batch)

    def get(self, batch_id: str) -> dict[str, Any]:
        """The batch after one step of its life; raises ApiError 404."""
        batch = self._find(batch_id)
        batch.polls += 1
        gone = first(batch.faults, "gone")
        if gone is not None and batch.polls > gone.polls:
            batch.hidden = True
            raise not_found(batch_id)
        if batch.status in TERMINAL:
            batch.reads += 1
        else:
            self._live(batch)
        return shown(batch)

    def list(self, query: Mapping[str, str]) -> dict[str, Any]:
        """One page of the listing; nothing moves by it."""
        return self._listing.page([batch for batch in self._batches.values() if not batch.hidden], query, shown)

    def cancel(self, batch_id: str) -> dict[str, Any]:
        """Ask a batch to stop; raises ApiError 400 when it has ended."""
        batch = self._find(batch_id)
        if batch.status in TERMINAL:
            message = f"Cannot cancel a batch with status '{batch.status}'."
            raise ApiError.of(400, "invalid_request", message)
        if batch.status != "cancelling":
            if batch.execution is None and batch.status == "in_progress":
                self._begin(batch, self._settings.cancel_share)
            if batch.execution is not None:
                batch.execution.stop()
            self._enter(batch, "cancelling")
        return shown(batch)

    def close(self) -> None:
        """Stop what runs in the background and wait for it."""
        for batch in self._batches.values():
            if batch.execution is not None:
                batch.execution.stop()
                batch.execution.join()

    def _find(self, batch_id: str) -> Batch:
        batch = self._batches.get(batch_id)
        if batch is None or batch.hidden:
            raise not_found(batch_id)
        return batch

    def _input(self, body: Mapping[str, Any]) -> StoredFile:
        file_id = body.get("input_file_id")
        if not isinstance(file_id, str) or not file_id:
            raise ApiError.of(400, "invalid_request", "The input file id is missing.", param="input_file_id")
        try:
            stored = self._files.get(file_id)
        except ApiError as error:
            message = f"The input file '{file_id}' cannot be found."
            raise ApiError.of(400, "invalid_request", message, param="input_file_id") from error
        if stored.status != "processed":
            message = (
                f"The input file '{file_id}' is in '{stored.status}' state. Only files with status 'Processed' are "
                "accepted for batch inferencing. Please check the file status and try again."
            )
            raise ApiError.of(400, "invalid_request", message, param="input_file_id")
        return stored

    def _live(self, batch: Batch) -> None:
        """One poll's worth of life; without polls between the stages, all of it."""
        if batch.stage_left > 1:
            batch.stage_left -= 1
            return
        before = None
        while batch.status not in TERMINAL and batch.status != before:
            before = batch.status
            self._step(batch)
            if self._settings.polls_per_stage:
                return

    def _step(self, batch: Batch) -> None:
        if batch.status == "validating":
            self._validate(batch)
        elif batch.status == "in_progress":
            self._progress(batch)
        elif batch.status == "finalizing":
            self._publish(batch)
            self._enter(batch, "completed")
        elif batch.execution is None or batch.execution.done:
            self._stop(batch, "cancelled", CANCELLED if batch.shape == "openai" else None)

    def _enter(self, batch: Batch, status: str) -> None:
        batch.status = status
        batch.times[status] = int(self._clock())
        batch.stage_left = self._settings.polls_per_stage

    def _validate(self, batch: Batch) -> None:
        fault = first(batch.faults, "failed")
        if fault is not None:
            batch.errors = [problem(fault.code, fault.message, line=fault.line, param=fault.param)]
        elif refused := self._refused(batch):
            batch.errors = [refused]
        else:
            limit = self._settings.max_lines
            found = validation.scan(batch.source.path, endpoint=batch.endpoint.removeprefix("/v1"), max_lines=limit)
            batch.errors, batch.spans = found.errors, found.spans
        self._enter(batch, "failed" if batch.errors else "in_progress")
        if not batch.errors and self._settings.concurrency:
            self._begin(batch, 1.0)

    def _refused(self, batch: Batch) -> dict[str, Any] | None:
        """Why the deployment does not take the batch: an unknown name, or too many tokens enqueued."""
        known = self._settings.deployments
        if known is None or batch.deployment is None:
            return None
        if batch.deployment not in known:
            names = ", ".join(known)
            message = (
                f"The provided model deployment '{batch.deployment}' does not exist in the AOAI resource. "
                f"Valid deployments are '{names}'. {LEARN_MORE}"
            )
            return problem("model_not_found", message)
        limit = known[batch.deployment]
        held = sum(
            other.tokens
            for other in self._batches.values()
            if other.deployment == batch.deployment and other.number < batch.number and other.status not in TERMINAL
        )
        if held + batch.tokens <= limit:
            return None
        message = (
            f"The enqueued tokens of the batches in progress reach the configured limit of {limit} for the deployment "
            f"'{batch.deployment}'. Please try again once some of them have ended. {LEARN_MORE}"
        )
        return problem("token_limit_exceeded", message)

    def _begin(self, batch: Batch, share: float) -> None:
        """Run ``share`` of the lines: at once, or in the background when the settings say so."""
        wrong = first(batch.faults, "all_errored")
        order = Order(
            source=batch.source.path,
            output=self._files.new_path(),
            error=self._files.new_path(),
            spans=batch.spans,
            share=share,
            shape=batch.shape,
            created=int(self._clock()),
            seed=f"{self._settings.seed}/{batch.number}",
            every_line=wrong.kind if wrong else None,
        )
        batch.execution = Execution(order, self._judge, self._faults, self._ledger)
        batch.paths = (order.output, order.error)
        if self._settings.concurrency:
            batch.execution.start(self._settings.concurrency)
        else:
            batch.execution.run()

    def _progress(self, batch: Batch) -> None:
        if first(batch.faults, "stuck"):
            return
        ending = first(batch.faults, *ENDINGS)
        if batch.execution is None:
            self._begin(batch, 1.0 if ending is None else ending.share)
        if batch.execution is None or not batch.execution.done:
            return
        if ending is None:
            self._enter(batch, "finalizing")
        elif ending.fault == "failed_midway":
            batch.errors = [problem(ending.code, ending.message)]
            self._publish(batch)
            self._enter(batch, "failed")
        else:
            dead = EXPIRED if ending.fault == "expired" else CANCELLED
            self._stop(batch, ending.fault, dead if ending.lines else None)

    def _stop(self, batch: Batch, status: str, dead: tuple[str, str] | None) -> None:
        """End before all lines ran; ``dead`` is the code and message of the lines that did not."""
        if dead is not None and batch.execution is not None:
            batch.execution.dead_lines(*dead)
        self._publish(batch)
        self._enter(batch, status)

    def _publish(self, batch: Batch) -> None:
        """Turn what was written into files; an empty output has no id, an empty error file has one on Azure."""
        if batch.paths is None:
            return
        output, error = batch.paths
        if output.stat().st_size:
            batch.output = self._files.output(output, f"{batch.key}_output.jsonl")
            self._shorten(batch, batch.output)
        always = batch.shape == "azure" and first(batch.faults, "no_error_file") is None
        if always or error.stat().st_size:
            batch.error = self._files.output(error, f"{batch.key}_error.jsonl")

    def _shorten(self, batch: Batch, output: StoredFile) -> None:
        fault = first(batch.faults, "short_output")
        if fault is not None:
            output.short_reads = fault.reads
            output.short_bytes = whole_lines(output.path, fault.share)


def whole_lines(path: Path, share: float) -> int:
    """Bytes of the first ``share`` of a file's lines."""
    with path.open("rb") as stream:
        sizes = [len(line) for line in stream]
    return sum(sizes[: int(share * len(sizes))])


def not_found(batch_id: str) -> ApiError:
    """The refusal for a batch id the resource does not know."""
    return ApiError.of(404, "404", f"The batch '{batch_id}' does not exist in this resource.")


def check_create(body: Mapping[str, Any]) -> str:
    """Check a create call; returns the endpoint without ``/v1``. Raises ApiError 400."""
    endpoint = str(body.get("endpoint") or "").removeprefix("/v1")
    if endpoint != "/chat/completions":
        raise ApiError.of(400, "invalid_value", "The endpoint must be '/chat/completions'.", param="endpoint")
    if body.get("completion_window") != "24h":
        raise ApiError.of(400, "invalid_value", "The completion window must be '24h'.", param="completion_window")
    metadata = body.get("metadata")
    if metadata is not None and not _good_metadata(metadata):
        message = "Metadata holds at most 16 pairs of text: keys up to 64 characters, values up to 512."
        raise ApiError.of(400, "invalid_value", message, param="metadata")
    return endpoint


def _good_metadata(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) <= 16
        and all(len(key) <= 64 and isinstance(text, str) and len(text) <= 512 for key, text in value.items())
    )
