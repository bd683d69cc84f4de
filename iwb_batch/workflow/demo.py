"""``demo``: submit, collect and report on bundled items against the embedded emulator. No key, no network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.judge import Rehearsal
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import UsageError
from iwb_batch.store import views
from iwb_batch.workflow import collect, opening, reporting, submit
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.folder import RunFolder
from iwb_batch.workflow.progress import Progress
from iwb_batch.workflow.settings import Inputs, JudgeSettings, Options, Waiting

MODELS = ("lekhak-7b", "vichar-8b")
KEY = "demo"
POLL_SECONDS = 0.2
# A tenth of the answers fails once, so that the demo shows what a resubmission looks like.
FAULTS = {
    "requests": [
        {"fault": "invalid_json", "probability": 0.05, "times": 1},
        {"fault": "server_error", "probability": 0.05, "times": 1},
    ]
}


EXAMPLE_QUERY = views.EXAMPLE_QUERY
"""What to ask a run first."""


@dataclass(frozen=True, slots=True)
class DemoRun:
    """One run of the demo, with its report."""

    folder: RunFolder
    text: str
    code: int


class _Hurried(Clock):
    """Nobody far away is waited for, so pauses are cut short."""

    def sleep(self, seconds: float) -> None:
        """Sleep a tenth of a second at most."""
        super().sleep(min(seconds, 0.1))


@contextmanager
def emulator() -> Iterator[str]:
    """The embedded emulator on loopback; yields its address. UsageError where its packages are missing."""
    try:
        from iwb_batch.emulator.app import running
    except ImportError as error:
        raise UsageError(
            f"the emulator needs the package {error.name}", hint="Install it with: pip install 'iwb-batch[emulator]'"
        ) from error
    plan = FaultPlan.of(FAULTS)
    with Service(Settings(key=KEY), judge=Rehearsal(), faults=plan) as service, running(service) as url:
        yield url


def demo(runs_dir: Path, progress: Progress) -> list[DemoRun]:
    """Judge both bundled models; returns their runs in order."""
    packaged = resources.files("iwb_batch") / "demo_data"
    with ExitStack() as stack:
        url, data = stack.enter_context(emulator()), stack.enter_context(resources.as_file(packaged))
        progress.say(f"emulator at {url}")
        environ = {"AZURE_OPENAI_ENDPOINT": url, "AZURE_OPENAI_API_KEY": KEY}
        connect = opening.connect_from(environ, progress, stack.callback)
        return [_one(model, data, runs_dir, connect, progress) for model in MODELS]


def _one(model: str, data: Path, runs_dir: Path, connect: opening.Connect, progress: Progress) -> DemoRun:
    clock = _Hurried()
    request = submit.SubmitRequest(
        inputs=Inputs(
            benchmark="indic-writing-bench",
            dataset=(str(data / "items.jsonl"),),
            responses=data / f"responses_{model}.jsonl",
            model_name=model,
        ),
        judge=JudgeSettings(judge="rehearsal-judge"),
        options=Options(),
        waiting=Waiting(wait=30.0),
        runs_dir=runs_dir,
        run=_free_name(runs_dir, f"demo-{model}"),
    )
    made = submit.submit(request, connect=connect, confirm=lambda _question: True, clock=clock, progress=progress)
    waiting = Waiting(wait=30.0, watch=True, poll_interval=POLL_SECONDS, timeout=300.0)
    with opening.working(made.folder, connect=connect, waiting=waiting, clock=clock, progress=progress) as session:
        collect.collect(session, collect.ByHand(), lambda _question: True)
    text, code = reporting.report(made.folder, "table")
    return DemoRun(made.folder, text, code)


def _free_name(runs_dir: Path, name: str) -> str:
    number = 1
    while (runs_dir / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return name if number == 1 else f"{name}-{number}"
