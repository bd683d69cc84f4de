"""One batch as the service keeps it, and the object the API shows for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from iwb_batch.emulator.answers import Shape
from iwb_batch.emulator.execution import Execution, Order
from iwb_batch.emulator.faults import BatchFault, first
from iwb_batch.emulator.files import StoredFile
from iwb_batch.emulator.state import State
from iwb_batch.emulator.validation import Span

TERMINAL = frozenset({"completed", "failed", "expired", "cancelled"})
STAGES = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
WINDOW = 24 * 3600
"""Seconds from creation to ``expires_at``."""

BYTES_PER_TOKEN = 4
"""The enqueued-token count of a file is its bytes divided by this: a stand-in, not Azure's own count."""


@dataclass(slots=True)
class Batch:
    """A batch; times are Unix seconds."""

    key: str
    number: int
    source: StoredFile
    endpoint: str
    metadata: dict[str, str]
    shape: Shape
    created_at: float
    visible_from: int
    faults: Sequence[BatchFault]
    deployment: str | None
    stage_left: int
    """Polls until the next step."""
    status: str = "validating"
    hidden: bool = False
    polls: int = 0
    reads: int = 0
    """GETs since it ended."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    """Its lines, from validation until it ends."""
    total: int = 0
    completed: int = 0
    """As published; until then the execution counts."""
    failed: int = 0
    order: Order | None = None
    """How its lines run; None before they do."""
    execution: Execution | None = None
    output: str | None = None
    """Id of the output file."""
    error: str | None = None
    """Id of the error file."""

    @property
    def tokens(self) -> int:
        """Tokens the batch holds in the queue until it ends."""
        return self.source.n_bytes // BYTES_PER_TOKEN

    def record(self) -> dict[str, Any]:
        """As plain data, without what a restart can find out again: the lines and what came of them so far."""
        value: dict[str, Any] = {name: getattr(self, name) for name in PLAIN}
        return value | {
            "source": self.source.record(),
            "faults": [asdict(fault) for fault in self.faults],
            "order": self.order.record() if self.order else None,
        }

    @classmethod
    def restored(cls, value: Mapping[str, Any], state: State) -> Batch:
        """From plain data; every listing shows it."""
        source, order = StoredFile.restored(value["source"], state), value["order"]
        return cls(
            **{name: value[name] for name in PLAIN},
            source=source,
            visible_from=0,
            faults=[BatchFault(**fault | {"nth": tuple(fault["nth"])}) for fault in value["faults"]],
            order=Order.restored(order, source.path, state.content(order["journal"])) if order else None,
        )


PLAIN = (
    *("key", "number", "endpoint", "metadata", "shape", "created_at", "deployment", "stage_left", "status", "hidden"),
    *("polls", "reads", "errors", "times", "total", "completed", "failed", "output", "error"),
)
"""Fields that are plain data already."""


def shown(batch: Batch) -> dict[str, Any]:
    """The batch object of the API, bent by the faults of its form."""
    nothing = "" if first(batch.faults, "empty_ids") else None
    output, error = batch.output, batch.error
    if _late(batch):
        output = error = None
    value = {
        "object": "batch",
        "id": batch.key,
        "endpoint": batch.endpoint,
        "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
        "input_file_id": batch.source.key,
        "completion_window": "24h",
        "status": _status(batch),
        "output_file_id": output or nothing,
        "error_file_id": error or nothing,
        "created_at": int(batch.created_at),
        "expires_at": int(batch.created_at) + WINDOW,
        "request_counts": _counts(batch),
        "metadata": batch.metadata,
    }
    value |= {f"{stage}_at": batch.times.get(stage) for stage in STAGES}
    return _iso(value) if first(batch.faults, "iso_times") else value


def _late(batch: Batch) -> bool:
    fault = first(batch.faults, "late_output")
    return fault is not None and (fault.reads is None or batch.reads < fault.reads)


def _status(batch: Batch) -> str:
    word = first(batch.faults, "unknown_status")
    if word is not None and batch.polls <= word.polls:
        return word.word
    return batch.status.capitalize() if first(batch.faults, "capitalised") else batch.status


def _counts(batch: Batch) -> dict[str, int | None]:
    if first(batch.faults, "null_counts"):
        return {"total": None, "completed": None, "failed": None}
    run = batch.execution
    completed, failed = (run.journal.completed, run.journal.failed) if run else (batch.completed, batch.failed)
    lie = first(batch.faults, "wrong_counts")
    return {
        "total": batch.total + (lie.total if lie else 0),
        "completed": completed + (lie.completed if lie else 0),
        "failed": failed + (lie.failed if lie else 0),
    }


def _iso(value: Mapping[str, Any]) -> dict[str, Any]:
    """Times as ISO text, as some of Azure's samples show them."""
    return {
        name: datetime.fromtimestamp(item, UTC).isoformat() if name.endswith("_at") and item is not None else item
        for name, item in value.items()
    }
