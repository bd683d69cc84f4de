"""The batches of the emulated resource: create, list, cancel, and one step of life for each GET."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
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
from iwb_batch.emulator.refusals import check_create, not_found
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.state import State
from iwb_batch.emulator.validation import problem
from iwb_batch.emulator.workers import Workers

LEARN_MORE = "Learn more: https://aka.ms/aoai_batch/errors."
EXPIRED = ("batch_expired", "This request could not be executed before the completion window expired.")
CANCELLED = ("batch_cancelled", "This request was not executed: the batch was cancelled before.")


class Batches:
    """All batches of one service. Not locked: the service calls it under its own lock."""

    def __init__(
        self,
        *,
        files: Files,
        state: State,
        settings: Settings,
        judge: Judge,
        faults: FaultPlan,
        ledger: Ledger,
        clock: Callable[[], float],
    ) -> None:
        self._files = files
        self._state = state
        self._settings = settings
        self._judge = judge
        self._faults = faults
        self._ledger = ledger
        self._clock = clock
        self._batches: dict[str, Batch] = {}
        self._listing = Listing(20, settings.max_page)
        self._workers = Workers(settings.concurrency) if settings.concurrency else None

    def __len__(self) -> int:
        return len(self._batches)

    def restore(self) -> None:
        """Take in what an earlier service kept; what it left in the middle goes on. Raises IwbError."""
        found = [Batch.restored(value, self._state) for value in self._state.load("batch")]
        for batch in sorted(found, key=lambda one: one.number):
            self._batches[batch.key] = batch
            if batch.status not in TERMINAL:
                self._go_on(batch)

    def published(self) -> set[str]:
        """Ids of the files of all batches that have ended."""
        return {key for batch in self._batches.values() for key in (batch.output, batch.error) if key}

    def paths(self) -> Iterator[Path]:
        """What batches that have not ended read and write."""
        for batch in self._live_ones():
            yield batch.source.path
            if batch.order is not None:
                yield batch.order.journal

    def reads(self, file_id: str) -> bool:
        """Whether a batch that has not ended needs the input file."""
        return any(batch.source.key == file_id for batch in self._live_ones())

    @property
    def live(self) -> int:
        """Batches that have not ended."""
        return sum(1 for _ in self._live_ones())

    @property
    def running(self) -> int:
        """Lines at the judge."""
        return sum(batch.execution.running for batch in self._live_ones() if batch.execution is not None)

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
        self._save(batch)
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
            self._save(batch)
            raise not_found(batch_id)
        if batch.status in TERMINAL:
            batch.reads += 1
        else:
            self._live(batch)
        self._save(batch)
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
            begins = batch.execution is None and batch.status == "in_progress"
            self._enter(batch, "cancelling")
            if begins:
                self._begin(batch, self._settings.cancel_share)
            if batch.execution is not None:
                batch.execution.stop()
            self._save(batch)
        return shown(batch)

    def close(self) -> None:
        """Begin no further line, and wait for those at the judge."""
        executions = [batch.execution for batch in self._live_ones() if batch.execution is not None]
        for execution in executions:
            execution.interrupt()
        if self._workers is not None:
            self._workers.close()
        for execution in executions:
            execution.journal.close()

    def _live_ones(self) -> Iterator[Batch]:
        return (batch for batch in self._batches.values() if batch.status not in TERMINAL)

    def _save(self, batch: Batch) -> None:
        self._state.save("batch", batch.key, batch.record())

    def _go_on(self, batch: Batch) -> None:
        """Stand where the earlier service stood: the lines in its journal are answered, the others are due."""
        self._state.check_content(batch.source.path.name, batch.source.n_bytes)
        if batch.status != "validating":
            batch.spans = self._scan(batch).spans
        if batch.order is None:
            return
        execution = self._execute(batch, batch.order)
        if batch.status == "cancelling":
            execution.stop()

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
            self._end(batch, "completed")
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
            found = self._scan(batch)
            batch.errors, batch.spans, batch.total = found.errors, found.spans, len(found.spans)
        if batch.errors:
            self._end(batch, "failed")
            return
        self._enter(batch, "in_progress")
        if self._workers is not None and first(batch.faults, "stuck") is None:
            self._begin(batch, due_share(batch))

    def _scan(self, batch: Batch) -> validation.Scan:
        limit = self._settings.max_lines
        return validation.scan(batch.source.path, endpoint=batch.endpoint.removeprefix("/v1"), max_lines=limit)

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
        batch.order = Order(
            source=batch.source.path,
            journal=self._files.new_path(),
            share=share,
            shape=batch.shape,
            created=int(self._clock()),
            seed=f"{self._settings.seed}/{batch.number}",
            every_line=wrong.kind if wrong else None,
            checked=self._settings.checks_parameters,
        )
        self._save(batch)
        execution = self._execute(batch, batch.order)
        if self._workers is None:
            execution.run()

    def _execute(self, batch: Batch, order: Order) -> Execution:
        execution = Execution(order, batch.spans, self._judge, self._faults, self._ledger)
        batch.execution = execution
        if batch.status == "in_progress" and self._workers is not None:
            self._workers.add(execution)
        return execution

    def _progress(self, batch: Batch) -> None:
        if first(batch.faults, "stuck"):
            return
        ending = first(batch.faults, *ENDINGS)
        if batch.execution is None:
            self._begin(batch, due_share(batch))
        elif self._workers is None:
            batch.execution.run()
        if batch.execution is None or not batch.execution.done:
            return
        if batch.execution.broken is not None:
            batch.errors = [problem("internal_error", batch.execution.broken)]
            self._stop(batch, "failed", None)
        elif ending is None:
            self._enter(batch, "finalizing")
        elif ending.fault == "failed_midway":
            batch.errors = [problem(ending.code, ending.message)]
            self._stop(batch, "failed", None)
        else:
            dead = EXPIRED if ending.fault == "expired" else CANCELLED
            self._stop(batch, ending.fault, dead if ending.lines else None)

    def _stop(self, batch: Batch, status: str, dead: tuple[str, str] | None) -> None:
        """End before all lines ran; ``dead`` is the code and message of the lines that did not."""
        self._publish(batch, dead)
        self._end(batch, status)

    def _end(self, batch: Batch, status: str) -> None:
        """Let go of what only a running batch needs, after its record says that it has ended."""
        execution, batch.execution, batch.spans = batch.execution, None, []
        if execution is not None:
            batch.completed, batch.failed = execution.journal.completed, execution.journal.failed
            execution.journal.close()
        order, batch.order = batch.order, None
        self._enter(batch, status)
        self._save(batch)
        if order is not None:
            self._state.discard(order.journal)
        if not self.reads(batch.source.key):
            self._files.release(batch.source)

    def _publish(self, batch: Batch, dead: tuple[str, str] | None = None) -> None:
        """Turn what was answered into files; an empty output has no id, an empty error file has one on Azure."""
        if batch.execution is None:
            return
        output, error = self._files.new_path(), self._files.new_path()
        batch.execution.split(output, error, dead)
        if output.stat().st_size:
            fault = first(batch.faults, "short_output")
            reads, n_bytes = (fault.reads, whole_lines(output, fault.share)) if fault else (0, 0)
            name = f"{batch.key}_output.jsonl"
            batch.output = self._files.output(output, name, short_reads=reads, short_bytes=n_bytes).key
        always = batch.shape == "azure" and first(batch.faults, "no_error_file") is None
        if always or error.stat().st_size:
            batch.error = self._files.output(error, f"{batch.key}_error.jsonl").key
        for path, key in ((output, batch.output), (error, batch.error)):
            if key is None:
                self._state.discard(path)


def due_share(batch: Batch) -> float:
    """Share of the lines that run: all, unless a fault ends the batch earlier."""
    ending = first(batch.faults, *ENDINGS)
    return 1.0 if ending is None else ending.share


def whole_lines(path: Path, share: float) -> int:
    """Bytes of the first ``share`` of a file's lines."""
    with path.open("rb") as stream:
        sizes = [len(line) for line in stream]
    return sum(sizes[: int(share * len(sizes))])
