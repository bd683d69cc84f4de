"""What bespokelabs-curator does of the same work, run by an interpreter that has it; the network is left out.

Its own classes make the request files and the bytes of the batches, and read the result lines into its data set. The
calls in between are not made.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.bench.baselines import PROMPT, SCHEMA, SYSTEM, read_inputs, unfenced

MODEL = "gpt-4o"
"""Its price table knows this one, so it prices answers, as it does for its users."""
BATCH = 2_000
QUIET = {
    "CURATOR_DISABLE_RICH_DISPLAY": "1",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "TELEMETRY_ENABLED": "false",
}


def _processor(folder: Path, parse: Callable[[Any, Any], dict[str, Any]] | None) -> Any:
    os.environ.update(QUIET)
    # Its telemetry keeps a file in the home folder.
    os.environ["HOME"] = str(folder)
    package = "bespokelabs.curator"
    config = import_module(f"{package}.request_processor.config").BatchRequestProcessorConfig(
        model=MODEL,
        api_key="none",
        batch_size=BATCH,
        require_all_responses=False,
        generation_params={"max_completion_tokens": 8_000},
    )
    import_module("logging").disable(import_module("logging").ERROR)
    module = import_module(f"{package}.request_processor.batch.openai_batch_request_processor")
    processor = module.OpenAIBatchRequestProcessor(config)
    processor.prompt_formatter = import_module(f"{package}.llm.prompt_formatter").PromptFormatter(
        MODEL, _prompt, parse, generation_params=config.generation_params, system_prompt=SYSTEM
    )
    processor.working_dir = str(folder / "work")
    return processor


_TEMPLATE = PROMPT.read_text(encoding="utf-8")


def _prompt(row: dict[str, Any]) -> str:
    prompt = _TEMPLATE.replace("{criteria}", row["criteria"])
    return prompt.replace("{query}", row["query"]).replace("{response}", row["response"])


def _dataset(items: str, responses: str) -> Any:
    rows, texts = read_inputs(items, responses)
    return import_module("datasets").Dataset.from_list(
        [
            {
                "name": f"i{row['index']}-c{number}",
                "criteria": json.dumps(criterion, ensure_ascii=False),
                "query": row["query"],
                "response": texts[row["index"]],
            }
            for row in rows
            for number, criterion in enumerate(row["checklist"])
        ]
    )


def build(items: str, responses: str, out: str) -> Callable[[], None]:
    """Its request files, and from them the bytes it would upload, written to a file."""
    processor = _processor(Path(out).parent, None)
    dataset = _dataset(items, responses)

    def work() -> None:
        files = processor.create_request_files(dataset)
        with Path(out).open("wb") as target:
            for file in sorted(files, key=lambda name: int(Path(name).stem.rpartition("_")[2])):
                requests = processor.requests_from_generic_request_file(file, set())
                target.write(processor.create_batch_file(requests) + b"\n")

    return work


def _verdict(row: dict[str, Any], content: Any) -> dict[str, Any]:
    """Raises for what is no verdict, which it counts as failed."""
    value = json.loads(unfenced(content))
    _validator().validate(value)
    return {"name": row["name"], "score": value["score"], "reason": value["reason"]}


_kept: list[Any] = []


def _validator() -> Any:
    if not _kept:
        _kept.append(import_module("jsonschema").Draft202012Validator(SCHEMA))
    return _kept[0]


class _Viewer:
    """Its web page, which takes nothing here."""

    hosted = False

    async def stream_response(self, *_: object) -> None:
        """Nothing."""

    async def session_completed(self) -> None:
        """Nothing."""


def ingest(items: str, responses: str, answers: str, out: str) -> Callable[[], None]:
    """Its reading of result files into response files, and of these into its data set; names and scores to a file."""
    folder = Path(out).parent
    processor = _processor(folder, _verdict)
    files = sorted(processor.create_request_files(_dataset(items, responses)))
    batches = [_batch(file, number) for number, file in enumerate(files)]
    contents = _contents(answers, len(files))
    processor.client = SimpleNamespace(files=_Contents(contents))
    tracker = import_module("bespokelabs.curator.status_tracker.batch_status_tracker").BatchStatusTracker
    processor.tracker = tracker(model=MODEL)
    processor.viewer_client = _Viewer()
    found: list[Any] = []

    async def read() -> None:
        processor.semaphore = asyncio.Semaphore(1)
        for batch in batches:
            lines = await processor.download_batch(batch)
            await processor.generic_response_file_from_responses(lines, batch)

    def work() -> None:
        asyncio.run(read())
        found.append(processor.create_dataset_files("bench"))
        found[0].select_columns(["name", "score"]).to_json(out)

    return work


class _Contents:
    """``client.files``."""

    def __init__(self, contents: list[str]) -> None:
        self._contents = contents

    async def content(self, file_id: str) -> SimpleNamespace:
        """The text of a result file."""
        return SimpleNamespace(text=self._contents[int(file_id)])


def _contents(answers: str, batches: int) -> list[str]:
    """The answers by the batches of their requests, named by the number of the row, as it expects them."""
    lines: list[list[str]] = [[] for _ in range(batches)]
    with Path(answers).open(encoding="utf-8") as source:
        for line in source:
            record = json.loads(line)
            _, item, criterion, *_ = record["custom_id"].split("-")
            number = 5 * int(item[1:]) + int(criterion[1:])
            record["custom_id"] = str(number)
            lines[number // BATCH].append(json.dumps(record, ensure_ascii=False) + "\n")
    return ["".join(part) for part in lines]


def _batch(file: str, number: int) -> Any:
    package = "bespokelabs.curator.types.generic_batch"
    counts = {"total": BATCH, "failed": 0, "succeeded": BATCH, "raw_request_counts_object": {}}
    raw = {
        "id": f"batch_{number}",
        "completion_window": "24h",
        "created_at": 1_790_000_000,
        "endpoint": "/v1/chat/completions",
        "input_file_id": "none",
        "object": "batch",
        "status": "completed",
        "output_file_id": str(number),
    }
    return import_module(package).GenericBatch(
        request_file=file,
        id=raw["id"],
        created_at=raw["created_at"],
        finished_at=raw["created_at"],
        status="finished",
        api_key_suffix="none",
        request_counts=counts,
        raw_status="completed",
        raw_batch=raw,
    )
