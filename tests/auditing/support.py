"""Runs to audit: made once through the command line against the emulator, copied for each test."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.cli import run as command
from iwb_batch.emulator.app import running
from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.judge import Completion, Judge
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.model import Usage

KEY = "k3y-audit-0815-only"
RUN = "audited"
PAIRS = "pairs"
TEXTS = "texts"

BANDS = ("1-2", "3-4", "5-6", "7-8", "9-10")
CRITERIA = ("स्पष्टता", "结构", "Tone", "Detail", "Fit")
QUERIES = ("बारिश पर चार पंक्तियाँ लिखिए", "写一封请假信", "Write a note to a neighbour")
ANSWERS = ("बूँदें गिरीं, छत गा उठी।", "老师您好，我明天请假一天。", "Dear neighbour, the parcel came to us.")
REASONS = (
    '=HYPERLINK("http://example.org")',
    "कारण: सीधी भाषा",
    "理由\u2028充分",
    "@sum\tof lines",
    "plain\nand clear",
)

FAULTS: Mapping[str, Any] = {
    "requests": [
        {"fault": "invalid_json", "match": "-c3-", "times": 1},
        {"fault": "duplicate", "match": "-i0-c0-", "times": 1},
        {"fault": "unknown_id", "match": "-i1-c1-", "times": 1},
        {"fault": "malformed_line", "match": "-i2-c4-", "times": 1},
        {"fault": "server_error", "match": "-i2-c2-", "times": 1},
        {"fault": "fenced", "match": "-i0-c2-"},
        {"fault": "content_filter_input", "match": "-i1-c0-"},
    ]
}


class Marker:
    """A judge whose verdict follows from the prompt: every score and every reason occurs."""

    def answer(self, body: Mapping[str, Any]) -> Completion:
        """The completion for a body."""
        number = int.from_bytes(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[:4])
        reason = REASONS[number % len(REASONS)]
        prompt = str(body["messages"][-1]["content"])
        value: dict[str, Any] = {"score": 1 + number % 10}
        if '"preference"' in prompt:
            value = {"preference": "AB"[number % 2]}
        usage = Usage(prompt_tokens=100, cached_tokens=20, completion_tokens=30, reasoning_tokens=10)
        return Completion(
            json.dumps({**value, "reason": reason}, ensure_ascii=False), model="gpt-5.4-2026", usage=usage
        )


def clear_credentials(patch: pytest.MonkeyPatch) -> None:
    """Take away everything in the environment that names an endpoint or a key."""
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION", "OPENAI_BASE_URL"):
        patch.delenv(name, raising=False)
    patch.delenv("OPENAI_API_KEY", raising=False)


@contextmanager
def served(
    patch: pytest.MonkeyPatch,
    *,
    faults: Mapping[str, Any] | None = None,
    judge: Judge | None = None,
    clock: Callable[[], float] | None = None,
    **settings: Any,
) -> Iterator[Service]:
    """An emulated resource that answers at the address in the environment."""
    chosen = Settings(**{"key": KEY, "polls_per_stage": 0, "pending_polls": 0, **settings})
    plan = None if faults is None else FaultPlan.of(faults)
    timed: dict[str, Any] = {} if clock is None else {"clock": clock}
    with Service(chosen, judge=judge or Marker(), faults=plan, **timed) as service, running(service) as url:
        patch.setenv("AZURE_OPENAI_ENDPOINT", url)
        patch.setenv("AZURE_OPENAI_API_KEY", KEY)
        yield service


def write_jsonl(path: Path, rows: list[Any]) -> Path:
    """Write rows as JSON lines."""
    path.write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))
    return path


def rubric_inputs(folder: Path) -> list[str]:
    """Options of ``submit`` for three items with five criteria each."""
    items = [
        {
            "index": index,
            "id": f"row-{index}",
            "domain": ("शिक्षा", "=Work", "Home")[index],
            "subdomain": "letters",
            "language": ("Hindi", "Chinese", "English")[index],
            "variant": "native",
            "query": QUERIES[index],
            "checklist": [
                {"name": name, "criteria_description": f"Is it so: {name}", **{band: f"band {band}" for band in BANDS}}
                for name in CRITERIA
            ],
        }
        for index in range(3)
    ]
    answers = [{"index": index, "response": f"<think>so</think>\n\n{ANSWERS[index]}"} for index in range(3)]
    data, given = write_jsonl(folder / "items.jsonl", items), write_jsonl(folder / "model-x.jsonl", answers)
    return ["--benchmark", "indic-writing-bench", "--dataset", str(data), "--responses", str(given)]


def pair_inputs(folder: Path) -> list[str]:
    """Options of ``submit`` for three pairs."""

    def side(text: str, score: int) -> dict[str, Any]:
        return {"response": text, "score": score, "model": "m", "completion_tokens": 9, "prompt_tokens": 5}

    rows = [
        {
            "prompt": f"写一首短诗 {n}",
            "prompt_id": f"p-{n}",
            "tag": "诗歌",
            "chosen": side(f"雨夜里的灯 {n}", 3),
            "rejected": side(f"下雨 {n}", 1),
        }
        for n in range(3)
    ]
    path = folder / "pairs_zh.json"
    path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
    return ["--benchmark", "writing-preference-bench", "--dataset", str(path)]


def make_run(runs: Path, name: str, options: list[str]) -> None:
    """Submit and collect to the end; the emulator is in the environment."""
    start = ["--runs-dir", str(runs)]
    assert command([*start, "submit", *options, "--run", name, "--wait", "5", "--yes"]) == 0
    watch = ["--watch", "--poll-interval", "0.02", "--wait", "5", "--settle", "0", "--timeout", "60"]
    assert command([*start, "collect", name, *watch, "--yes"]) in (0, 4)


@contextmanager
def writing(run: Path, *, without_triggers: bool = False) -> Iterator[sqlite3.Connection]:
    """A run.db open to be tampered with: foreign keys off, and triggers put aside where asked."""
    with closing(sqlite3.connect(run / "run.db")) as connection:
        triggers = list(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
        if without_triggers:
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
        yield connection
        if without_triggers:
            for _, sql in triggers:
                connection.execute(sql)
        connection.commit()


def tamper(run: Path, *statements: str, without_triggers: bool = False) -> None:
    """Change run.db behind the program's back."""
    with writing(run, without_triggers=without_triggers) as connection:
        for statement in statements:
            connection.execute(statement)


def values(run: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query on run.db."""
    with closing(sqlite3.connect(run / "run.db")) as connection:
        return list(connection.execute(sql))


def flip(path: Path, place: int | bytes) -> None:
    """Change one byte of a file: at an offset, or the first one of some bytes it holds."""
    content = bytearray(path.read_bytes())
    at = place if isinstance(place, int) else content.index(place)
    content[at] ^= 1
    path.write_bytes(bytes(content))


def copied(made: Path, target: Path) -> Path:
    """A private copy of the runs folder."""
    shutil.copytree(made, target)
    return target


def members(path: Path) -> dict[str, bytes]:
    """Every member of a zip."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_zip(path: Path, content: Mapping[str, bytes]) -> Path:
    """A zip of these members."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def relisted(content: Mapping[str, bytes]) -> dict[str, bytes]:
    """The members with a manifest that fits them: what a careful forger would do."""
    manifest = json.loads(content["manifest.json"])
    manifest["members"] = [
        {"name": name, "sha256": hashlib.sha256(data).hexdigest(), "n_bytes": len(data)}
        for name, data in content.items()
        if name != "manifest.json"
    ]
    return {**content, "manifest.json": json.dumps(manifest, ensure_ascii=False).encode()}
