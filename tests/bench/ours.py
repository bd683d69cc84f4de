"""What children run of iwb-batch: its commands, and single parts of its work. Each function prepares and returns it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def command(arguments: list[str], codes: list[int]) -> Callable[[], int]:
    """A command of the tool, as its console script runs it; its exit code has to be one of ``codes``."""
    from iwb_batch.cli import run

    def work() -> int:
        code = run(arguments)
        if code not in codes:
            sys.exit(f"{arguments}: exit code {code}")
        return code

    return work


def render(items: str, responses: str, out: str, *, count: bool) -> Callable[[], int]:
    """Lines of request files from rows in memory, which nobody checks here, as no script checks them.

    They are written some at a time, as ``submit`` writes them. With ``count`` their tokens are counted too.
    Returns the tokens.
    """
    from iwb_batch import benchmarks
    from iwb_batch.benchmarks._rubric import criterion_text
    from iwb_batch.core.render import custom_id
    from iwb_batch.model import Criterion, Item
    from iwb_batch.workflow.judging import Judging
    from iwb_batch.workflow.request_files import BYTES_AT_ONCE
    from iwb_batch.workflow.settings import JudgeSettings
    from tests.bench.baselines import RUN_ID, read_inputs

    rows, texts = read_inputs(items, responses)
    benchmark = benchmarks.get("indic-writing-bench", None)
    judging = Judging(benchmark, JudgeSettings(provider="files"))

    def work() -> int:
        tokens = held = 0
        lines: list[bytes] = []
        with Path(out).open("wb") as target:
            for row in rows:
                criteria = tuple(Criterion(c["name"], criterion_text(c)) for c in row["checklist"])
                item = Item(row["index"], row["id"], row["query"], cluster="", criteria=criteria)
                answer = texts[item.index]
                requests = [(request, benchmark.fields(item, answer, request)) for request in benchmark.requests(item)]
                tokens += sum(judging.tokens.count([fields for _, fields in requests])) if count else 0
                for request, fields in requests:
                    lines.append(judging.renderer.line(custom_id(RUN_ID, request, 1), fields, 8_000))
                    held += len(lines[-1])
                    if held >= BYTES_AT_ONCE:
                        target.write(b"".join(lines))
                        lines, held = [], 0
            target.write(b"".join(lines))
        return tokens

    return work


def request_files(run: Path) -> list[Path]:
    """Request files of a run, in order."""
    return sorted((run / "requests").glob("*.jsonl"))


def dump(value: Any) -> str:
    """JSON for looking at in an error."""
    return json.dumps(value, ensure_ascii=False)[:300]


def loaded(names: list[str]) -> Callable[[], list[str]]:
    """Which packages are loaded when ``--help`` has been printed."""
    from iwb_batch.cli import run

    def work() -> list[str]:
        run(["--help"])
        return [name for name in names if name in sys.modules]

    return work


def bootstrap(values: str, resamples: int) -> Callable[[], tuple[float, float]]:
    """The interval of a mean over items, each its own cluster."""
    import numpy as np

    from iwb_batch.core import statistics

    sums = np.array(json.loads(Path(values).read_text(encoding="utf-8")))
    counts = np.ones(len(sums))
    return lambda: statistics.bootstrap_ratio(sums, counts, statistics.stream(1, "bench"), resamples=resamples)


def count_tokens(texts: str, *, exact: bool) -> Callable[[], list[int]]:
    """Tokens of each text, by the counter ``submit`` chooses or by the estimate it falls back to."""
    from iwb_batch.core import tokens

    listed: list[str] = json.loads(Path(texts).read_text(encoding="utf-8"))
    counter = tokens.best_counter() if exact else tokens.ScriptEstimate()
    counter.count(["the vocabulary is loaded at the first count"])
    return lambda: counter.count(listed)


def counter_label() -> str:
    """How ``submit`` counts here."""
    from iwb_batch.core import tokens

    return tokens.best_counter().label


def _adapter(address: str) -> Any:
    from iwb_batch.providers.connection import from_environment
    from iwb_batch.providers.openai_batch import OpenAIBatch

    environ = {"AZURE_OPENAI_ENDPOINT": address, "AZURE_OPENAI_API_KEY": "loopback"}
    return OpenAIBatch(
        from_environment(provider="azure", auth="key", api_version=None, entra_scope=None, environ=environ)
    )


def idle(address: str) -> Callable[[], None]:
    """The provider adapter made, and one small call: what a client takes before it moves anything."""
    adapter = _adapter(address)

    def work() -> None:
        adapter.file("file-small")
        adapter.close()

    return work


def upload(address: str, path: str) -> Callable[[], None]:
    """The adapter's upload, as ``submit`` calls it."""
    adapter = _adapter(address)

    def work() -> None:
        adapter.upload(Path(path), "bench.jsonl", expires_after=30 * 86_400)
        adapter.close()

    return work


def download(address: str, out: str) -> Callable[[], None]:
    """The adapter's download into a file that is hashed and on disk at the end, as ``collect`` does it."""
    from iwb_batch.workflow.folder import WholeFile

    adapter = _adapter(address)

    def work() -> None:
        with WholeFile(Path(out)) as whole:
            adapter.download("file-large", whole)
            whole.commit()
        adapter.close()

    return work
