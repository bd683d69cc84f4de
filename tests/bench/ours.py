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
    """Lines of request files from rows in memory; with ``count`` their tokens are counted too. Returns the tokens."""
    from iwb_batch import benchmarks
    from iwb_batch.core.render import custom_id
    from iwb_batch.core.row import Row
    from iwb_batch.workflow.judging import Judging
    from iwb_batch.workflow.settings import JudgeSettings
    from tests.bench.baselines import RUN_ID, read_inputs

    rows, texts = read_inputs(items, responses)
    benchmark = benchmarks.get("indic-writing-bench", None)
    judging = Judging(benchmark, JudgeSettings(provider="files"))

    def work() -> int:
        tokens = 0
        with Path(out).open("wb") as target:
            for row in rows:
                item, answer = benchmark.item(Row(row, "items", 1), row["index"]), texts[row["index"]]
                for request in benchmark.requests(item):
                    fields = benchmark.fields(item, answer, request)
                    tokens += judging.tokens.count(fields) if count else 0
                    target.write(judging.renderer.line(custom_id(RUN_ID, request, 1), fields, 8_000))
        return tokens

    return work


def request_files(run: Path) -> list[Path]:
    """Request files of a run, in order."""
    return sorted((run / "requests").glob("*.jsonl"))


def only_run(runs: Path) -> Path:
    """The folder of the only run in a folder of runs."""
    (found,) = (path for path in runs.iterdir() if (path / "run.db").is_file())
    return found


def dump(value: Any) -> str:
    """JSON for looking at in an error."""
    return json.dumps(value, ensure_ascii=False)[:300]
