"""What ours is held against: scripts as users write them, the strong libraries, and the floors.

They run in children like ours. Each function prepares (imports, and reading where the work is rendering only) and
returns what is timed.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

SYSTEM = "You are an expert evaluator with extensive experience in evaluating response of given query."
PROMPT = Path(__file__).resolve().parents[2] / "iwb_batch" / "benchmarks" / "prompts" / "writing_bench.txt"
RUN_ID = "0123456789"


def read_inputs(items: str, responses: str) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """Rows and responses, as a script reads them."""
    with Path(items).open(encoding="utf-8") as source:
        rows = [json.loads(line) for line in source]
    with Path(responses).open(encoding="utf-8") as source:
        answers = (json.loads(line) for line in source)
        return rows, {row["index"]: row["response"] for row in answers}


def _request(index: int, number: int, prompt: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}]
    body = {"model": "gpt-5.4", "messages": messages, "max_completion_tokens": 8_000}
    name = f"{RUN_ID}-i{index}-c{number}-r1-a1"
    return {"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}


def naive_requests(items: str, responses: str, out: str, *, reading: bool) -> Callable[[], None]:
    """A list of requests in memory, ``json.dumps`` of each, one write. With ``reading`` the inputs are read in time."""
    template = PROMPT.read_text(encoding="utf-8")
    loaded = None if reading else read_inputs(items, responses)

    def work() -> None:
        rows, texts = read_inputs(items, responses) if loaded is None else loaded
        requests = []
        for row in rows:
            for number, criterion in enumerate(row["checklist"]):
                prompt = template.replace("{criteria}", json.dumps(criterion, ensure_ascii=False))
                prompt = prompt.replace("{query}", row["query"]).replace("{response}", texts[row["index"]])
                requests.append(_request(row["index"], number, prompt))
        Path(out).write_text("".join(json.dumps(request) + "\n" for request in requests), encoding="utf-8")

    return work


def orjson_requests(items: str, responses: str, out: str) -> Callable[[], None]:
    """Streamed: the prompt joined from the parts of the template, the whole line through orjson."""
    import orjson

    start, middle, query, response, end = _parts(PROMPT.read_text(encoding="utf-8"))
    rows, texts = read_inputs(items, responses)

    def work() -> None:
        with Path(out).open("wb") as target:
            for row in rows:
                for number, criterion in enumerate(row["checklist"]):
                    told = json.dumps(criterion, ensure_ascii=False)
                    asked = (start, told, middle, row["query"], query, texts[row["index"]], response, told, end)
                    target.write(orjson.dumps(_request(row["index"], number, "".join(asked))) + b"\n")

    return work


def _parts(template: str) -> tuple[str, str, str, str, str]:
    start, rest = template.split("{criteria}", 1)
    middle, rest = rest.split("{query}", 1)
    query, rest = rest.split("{response}", 1)
    response, end = rest.split("{criteria}", 1)
    return start, middle, query, response, end


def preformed_requests(lines: str, out: str) -> Callable[[], None]:
    """The floor: lines that are there already, written one by one."""
    with Path(lines).open("rb") as source:
        ready = source.readlines()

    def work() -> None:
        with Path(out).open("wb") as target:
            for line in ready:
                target.write(line)

    return work


SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["score", "reason"],
    "properties": {
        "score": {"type": "integer", "minimum": 1, "maximum": 10},
        "reason": {"type": "string", "minLength": 1},
    },
}

COLUMNS = {"score": int}
"""Left alone, the library takes the type of a column from the first row, which may have no score."""


def _content(record: dict[str, Any]) -> str | None:
    choices = record["response"]["body"].get("choices")
    return choices[0]["message"]["content"] if choices else None


def unfenced(content: str) -> str:
    """Without the code fence some judges put around their answer."""
    return content.strip().removeprefix("```json").removesuffix("```").strip()


def _row(record: dict[str, Any], content: str | None, verdict: dict[str, Any] | None) -> dict[str, Any]:
    name = record["custom_id"]
    _, item, criterion, *_ = name.split("-")
    score = None if verdict is None else verdict["score"]
    reason = None if verdict is None else verdict["reason"]
    place = {"item_index": int(item[1:]), "criterion_index": int(criterion[1:])}
    return {"custom_id": name, **place, "score": score, "explanation": reason, "content": content}


def typical_ingest(answers: str, database: str) -> Callable[[], None]:
    """Streamed ``json``, a validator built once, ``upsert_all`` in batches of 1,000 into one table."""
    import sqlite_utils
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(SCHEMA)

    def verdict(content: str | None) -> dict[str, Any] | None:
        try:
            value = json.loads(unfenced(content or ""))
        except ValueError:
            return None
        return value if validator.is_valid(value) else None

    def rows() -> Iterator[dict[str, Any]]:
        with Path(answers).open(encoding="utf-8") as source:
            for line in source:
                record = json.loads(line)
                content = _content(record)
                yield _row(record, content, verdict(content))

    def work() -> None:
        sqlite_utils.Database(database).table("scores").upsert_all(
            rows(), pk="custom_id", batch_size=1_000, columns=COLUMNS
        )

    return work


def naive_ingest(answers: str, database: str, lines: int) -> Callable[[], None]:
    """``jsonschema.validate`` and an upsert for each line; the first ``lines`` only, for it is slow."""
    import jsonschema
    import sqlite_utils

    def verdict(content: str | None) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = json.loads(unfenced(content or ""))
            jsonschema.validate(value, SCHEMA)
        except (ValueError, jsonschema.ValidationError):
            return None
        return value

    def work() -> None:
        table = sqlite_utils.Database(database).table("scores")
        with Path(answers).open(encoding="utf-8") as source:
            for line in islice(source, lines):
                record = json.loads(line)
                content = _content(record)
                table.upsert(_row(record, content, verdict(content)), pk="custom_id", columns=COLUMNS)

    return work


def parse_only(answers: str) -> Callable[[], int]:
    """The floor: orjson over each line and over the verdict in it."""
    import orjson

    def work() -> int:
        read = 0
        with Path(answers).open("rb") as source:
            for line in source:
                choices = orjson.loads(line)["response"]["body"].get("choices")
                try:
                    read += "score" in orjson.loads(choices[0]["message"]["content"]) if choices else 0
                except ValueError:
                    continue
        return read

    return work


def pandas_report(database: str) -> Callable[[], dict[str, Any]]:
    """Read the scores, then four groupings: mean of complete items, by domain, by language, histogram."""
    import sqlite3
    from contextlib import closing

    def work() -> dict[str, Any]:
        import pandas as pd

        with closing(sqlite3.connect(database)) as connection:
            scores = pd.read_sql("SELECT item_index, domain, language, criterion_index, score FROM score", connection)
        items = scores.groupby("item_index").agg(
            score=("score", "mean"), n=("score", "size"), domain=("domain", "first"), language=("language", "first")
        )
        complete = items[items.n == items.n.max()]
        return {
            "overall": float(complete.score.mean()),
            "domain": {str(k): float(v) for k, v in complete.groupby("domain").score.mean().items()},
            "language": {str(k): float(v) for k, v in complete.groupby("language").score.mean().items()},
            "histogram": {str(k): int(v) for k, v in scores.groupby("score").size().items()},
        }

    return work


def choice_loop(values: str, resamples: int) -> Callable[[], list[float]]:
    """One ``choice`` and one mean for each resample."""
    import numpy as np

    items = np.array(json.loads(Path(values).read_text(encoding="utf-8")))
    rng = np.random.default_rng(1)

    def work() -> list[float]:
        means = [rng.choice(items, size=len(items)).mean() for _ in range(resamples)]
        return [float(limit) for limit in np.percentile(means, (2.5, 97.5))]

    return work


def tiktoken_counts(texts: str, vocabulary: str) -> Callable[[], list[int]]:
    """OpenAI's own tokenizer, its vocabulary read from a folder."""
    import os

    os.environ["TIKTOKEN_CACHE_DIR"] = vocabulary
    encoding = importlib.import_module("tiktoken").get_encoding("o200k_base")
    listed: list[str] = json.loads(Path(texts).read_text(encoding="utf-8"))
    return lambda: [len(encoding.encode(text, disallowed_special=())) for text in listed]


def byte_counts(texts: str) -> Callable[[], list[int]]:
    """A quarter of the bytes, the usual guess."""
    listed: list[str] = json.loads(Path(texts).read_text(encoding="utf-8"))
    return lambda: [len(text.encode()) // 4 for text in listed]


def _sdk(address: str) -> Any:
    import openai

    return openai.OpenAI(api_key="loopback", base_url=f"{address}/openai/v1/", max_retries=0)


def sdk_upload(address: str, path: str) -> Callable[[], None]:
    """The SDK with a path, as its documentation shows."""
    client = _sdk(address)

    def work() -> None:
        client.files.create(file=Path(path), purpose="batch")

    return work


def sdk_download(address: str, out: str) -> Callable[[], None]:
    """The SDK's ``write_to_file``."""
    client = _sdk(address)

    def work() -> None:
        client.files.content("file-large").write_to_file(out)

    return work


def http_upload(address: str, path: str) -> Callable[[], None]:
    """The floor: the body alone, sent by ``http.client``."""
    import http.client

    def work() -> None:
        connection = http.client.HTTPConnection(address.removeprefix("http://"))
        with Path(path).open("rb") as body:
            length = str(Path(path).stat().st_size)
            connection.request("POST", "/openai/v1/files", body, {"Content-Length": length})
            connection.getresponse().read()

    return work


def http_download(address: str, out: str) -> Callable[[], None]:
    """The floor: copied from the socket to a file, which is flushed to disk like ours."""
    import http.client
    import os
    import shutil

    def work() -> None:
        connection = http.client.HTTPConnection(address.removeprefix("http://"))
        connection.request("GET", "/openai/v1/files/file-large/content")
        with Path(out).open("wb") as target:
            shutil.copyfileobj(connection.getresponse(), target, 1 << 16)
            target.flush()
            os.fsync(target.fileno())

    return work
