"""Reading all inputs into a staged run.db, and the plan that follows from them. Nothing is sent from here."""

from __future__ import annotations

import hashlib
import json
import platform
import secrets
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from iwb_batch import __version__, benchmarks
from iwb_batch.benchmarks import Benchmark, item_sha256
from iwb_batch.core import lifecycle, reasoning
from iwb_batch.core.prices import Prices
from iwb_batch.core.words import counted
from iwb_batch.errors import InputError
from iwb_batch.inputs.dataset import Dataset, Numbering, select
from iwb_batch.inputs.indexes import IndexCheck
from iwb_batch.inputs.responses import ResponseRow, read_responses
from iwb_batch.model import Item, Request, Response
from iwb_batch.store import plan
from iwb_batch.store.database import Database
from iwb_batch.store.plan import Size
from iwb_batch.workflow.items import of_subset, open_items
from iwb_batch.workflow.judging import Judging
from iwb_batch.workflow.progress import Progress
from iwb_batch.workflow.settings import Inputs, JudgeSettings, Options, canonical, sha256_text

REQUESTS_AT_ONCE = 500
CHARACTERS_AT_ONCE = 1 << 20

MISSING, EMPTY, UNANSWERED = "missing response", "empty response", "no answer"


@dataclass(slots=True)
class Prepared:
    """What the inputs came to."""

    plan: dict[str, Any]
    plan_sha256: str
    run_id: str
    model_name: str
    subset: str | None
    notes: tuple[str, ...]
    n_items: int


class _Loader:
    """Loads items and responses into a database, remembering what has to be said."""

    def __init__(self, database: Database, inputs: Inputs, benchmark: Benchmark, progress: Progress) -> None:
        self.database = database
        self.inputs = inputs
        self.progress = progress
        self.benchmark = benchmark
        self.notes: list[str] = []
        self._flagged: dict[str, int] = {}

    def load(self) -> Dataset:
        """Items, then responses, then what is left out."""
        inputs = self.inputs
        dataset, numbers = open_items(
            self.benchmark, inputs.dataset, subset=inputs.subset, split=inputs.split, revision=inputs.revision
        )
        self.notes += [*dataset.notes, *([numbers.note] if numbers.note else [])]
        with self.database.transaction():
            plan.add_items(self.database, self._items(dataset, numbers))
        if self.inputs.responses is not None:
            self._load_responses(self.inputs.responses, numbers)
        self.notes += [
            f"{counted(n, 'response')}: {_FLAG_WORDS.get(flag, flag)}" for flag, n in sorted(self._flagged.items())
        ]
        return dataset

    def _items(self, dataset: Dataset, numbers: Numbering) -> Iterator[tuple[Item, str]]:
        rows = of_subset(numbers.apply(dataset.rows()), dataset, self.benchmark)
        rows = select(rows, self.inputs.where, self.inputs.limit, self.benchmark.labels)
        noted: dict[str, int] = {}
        count = 0
        for index, row in rows:
            item = self.benchmark.item(row, index)
            for note in item.notes:
                noted[note] = noted.get(note, 0) + 1
            count += 1
            self.progress.count("reading items", count, len(numbers.indexes))
            yield item, item_sha256(item)
        self.notes += [f"{counted(n, 'item')}: {note.replace('_', ' ')}" for note, n in sorted(noted.items())]
        if count == 0:
            raise InputError(
                f"no item is left to judge: none of the {len(numbers.indexes)} in the data is selected",
                hint="Check --subset, --where and --limit.",
            )

    def _load_responses(self, path: Path, numbers: Numbering) -> None:
        selected = {index for index, _ in plan.fingerprints(self.database, "item")}
        check = IndexCheck(path.name, numbers.indexes, selected)
        empty: list[tuple[int, str]] = []
        with self.database.transaction():
            plan.add_responses(self.database, self._responses(read_responses(path), check, empty))
        summary = check.finish(allow_missing=self.inputs.allow_missing)
        if summary.n_skipped:
            skipped = counted(summary.n_skipped, "response belongs", "responses belong")
            self.notes.append(f"{skipped} to items outside the selection: skipped")
        if summary.missing:
            self.notes.append(f"{counted(len(summary.missing), 'item')} without a response: left out, --allow-missing")
        plan.leave_out(self.database, summary.missing, MISSING)
        self._decide_empty(path, empty)
        if next(plan.judged_items(self.database), None) is None:
            raise InputError(
                f"{path.name}: no item is left to judge: every one is without a response or an answer",
                hint="Check the file; --empty-responses judge sends empty answers as they are.",
            )

    def _responses(
        self, rows: Iterator[ResponseRow], check: IndexCheck, empty: list[tuple[int, str]]
    ) -> Iterator[tuple[Response, str]]:
        for row in rows:
            if not check.add(row.index, row.line):
                continue
            stripped = reasoning.strip(row.text, self.inputs.strip_reasoning)
            flags = (*row.flags, *stripped.flags)
            for flag in flags:
                self._flagged[flag] = self._flagged.get(flag, 0) + 1
            if stripped.answer is None:
                empty.append((row.index, UNANSWERED))
            elif reasoning.is_empty(stripped.answer):
                empty.append((row.index, EMPTY))
            response = Response(row.index, stripped.reasoning, stripped.answer, flags, row.line)
            yield response, sha256_text(f"{stripped.reasoning}\0{stripped.answer!r}")

    def _decide_empty(self, path: Path, empty: list[tuple[int, str]]) -> None:
        if not empty:
            return
        if self.inputs.empty_responses is None:
            n_empty = counted(len(empty), "response has", "responses have")
            first = ", ".join(f"{index} ({reason})" for index, reason in empty[:5])
            more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
            raise InputError(
                f"{path.name}: {n_empty} no answer to judge: index {first}{more}",
                hint="--empty-responses judge sends them as they are, --empty-responses exclude leaves them out;"
                " --strip-reasoning off keeps thoughts that never ended.",
            )
        if self.inputs.empty_responses == "exclude":
            for reason in (EMPTY, UNANSWERED):
                plan.leave_out(self.database, [index for index, why in empty if why == reason], reason)
        self.notes.append(
            f"{counted(len(empty), 'response')} without an answer: --empty-responses {self.inputs.empty_responses}"
        )


_FLAG_WORDS = {
    "surrogate": "a lone surrogate became U+FFFD",
    "nul": "hold a NUL character",
    "unclosed": "a chain of thought was opened and never closed",
    "damaged_tag": "a damaged <think> tag",
    "orphan_close": "a closing </think> without an opening tag",
    "multiple_close": "further </think> tags were kept",
    "no_closing_tag": "no closing </think> tag",
}


def prepare(
    database: Database,
    inputs: Inputs,
    settings: JudgeSettings,
    options: Options,
    *,
    host: str,
    prices: Prices,
    created_at: str,
    progress: Progress,
) -> Prepared:
    """Load, check and plan everything into an empty database. Raises on the first input that is wrong."""
    loader = _Loader(database, inputs, benchmarks.get(inputs.benchmark, settings.protocol), progress)
    dataset = loader.load()
    judging = Judging(loader.benchmark, settings)
    covered = _covered(database, inputs, settings, dataset, judging, host)
    prepared = Prepared(
        plan=covered,
        plan_sha256=sha256_text(canonical(covered)),
        run_id=secrets.token_hex(5),
        model_name=covered["model_name"],
        subset=dataset.subset,
        notes=tuple(loader.notes),
        n_items=plan.count_items(database),
    )
    row = _run_row(prepared, inputs, settings, options, dataset, prices, created_at, judging)
    with database.transaction():
        plan.set_run(database, row, lifecycle.policy(options.max_resubmits, options.resubmit_filtered))
        plan.add_lanes(database, _lanes(settings, host))
        plan.add_requests(database, planned_requests(database, judging, settings, prepared.run_id))
    return prepared


def _covered(
    database: Database, inputs: Inputs, settings: JudgeSettings, dataset: Dataset, judging: Judging, host: str
) -> dict[str, Any]:
    """Everything a number depends on: what the plan hash covers, and what may not change while the run lives."""
    return {
        "benchmark": inputs.benchmark,
        # Of pairs the judge itself is measured.
        "model_name": inputs.model_name or (inputs.responses.stem if inputs.responses else settings.judge),
        "protocol": judging.benchmark.protocol,
        "provider": settings.provider,
        "host": host,
        "judge": {
            "deployment": settings.judge,
            "max_completion_tokens": settings.max_completion_tokens,
            "reasoning_effort": settings.reasoning_effort,
            "structured_output": settings.structured_output,
            "sampling": settings.sampling,
            "token_parameter": settings.token_parameter,
            "lanes": dict(settings.lanes),
        },
        "strip_reasoning": inputs.strip_reasoning,
        "empty_responses": inputs.empty_responses,
        "orders": settings.orders,
        "repeats": settings.repeats,
        "prompt_sha256": judging.prompt_sha256,
        "schema_sha256": judging.schema_sha256,
        "data_sha256": _hash_of(database, "item"),
        "responses_sha256": _hash_of(database, "response"),
        "subset": dataset.subset,
        "split": inputs.split,
    }


def _lanes(settings: JudgeSettings, host: str) -> list[tuple[str, str, str]]:
    """(lane, deployment, host); the host of several lanes reads ``west=host1 east=host2``."""
    if not settings.lanes:
        return [("", settings.judge, host)]
    hosts = dict(part.split("=", 1) for part in host.split(" ") if "=" in part)
    return [(lane, deployment, hosts.get(lane, host)) for lane, deployment in settings.lanes]


def planned_requests(
    database: Database, judging: Judging, settings: JudgeSettings, run_id: str
) -> Iterator[tuple[Request, Size]]:
    """Every request of the judged items with its size, by item; tokens of many are counted at once, on all cores."""
    page: list[tuple[Request, Mapping[str, str]]] = []
    held = 0
    for item, answer in plan.judged_items(database):
        requests = judging.benchmark.requests(item, repeats=settings.repeats, orders=settings.orders)
        page += ((request, judging.benchmark.fields(item, answer, request)) for request in requests)
        held += len(item.query) + len(answer)
        if len(page) >= REQUESTS_AT_ONCE or held >= CHARACTERS_AT_ONCE:
            yield from _sized(judging, run_id, page)
            page, held = [], 0
    yield from _sized(judging, run_id, page)


def _sized(
    judging: Judging, run_id: str, page: Sequence[tuple[Request, Mapping[str, str]]]
) -> Iterator[tuple[Request, Size]]:
    return zip((request for request, _ in page), judging.sizes(run_id, page), strict=True)


def _hash_of(database: Database, table: str) -> str:
    whole = hashlib.sha256()
    for index, sha256 in plan.fingerprints(database, table):
        whole.update(f"{index} {sha256}\n".encode("ascii"))
    return whole.hexdigest()


def _run_row(
    prepared: Prepared,
    inputs: Inputs,
    settings: JudgeSettings,
    options: Options,
    dataset: Dataset,
    prices: Prices,
    created_at: str,
    judging: Judging,
) -> dict[str, Any]:
    return {
        "id": 1,
        "run_id": prepared.run_id,
        "name": "",
        "created_at": created_at,
        "benchmark": inputs.benchmark,
        "protocol": judging.benchmark.protocol,
        "dataset": dataset.name,
        "revision": dataset.revision,
        "subset": dataset.subset,
        "split": inputs.split,
        "model_name": prepared.model_name,
        "responses_file": inputs.responses.name if inputs.responses else None,
        "judge": settings.judge,
        "provider": settings.provider,
        "host": prepared.plan["host"],
        "plan_sha256": prepared.plan_sha256,
        "prompt_sha256": judging.prompt_sha256,
        "schema_sha256": judging.schema_sha256,
        "data_sha256": prepared.plan["data_sha256"],
        "responses_sha256": prepared.plan["responses_sha256"],
        "plan": canonical(prepared.plan),
        "options": canonical(options.stored()),
        "notes": json.dumps(prepared.notes, ensure_ascii=False),
        "versions": canonical(versions()),
        "price_input": prices.input,
        "price_cached": prices.cached,
        "price_output": prices.output,
        "price_source": prices.source,
    }


def versions() -> dict[str, str]:
    """Versions of what took part in making a run."""
    found = {"iwb-batch": __version__, "python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in ("openai", "datasets", "jsonschema", "jsonschema-rs", "orjson", "pyarrow", "toktok-rs"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
