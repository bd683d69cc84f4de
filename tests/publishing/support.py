"""Finished runs to publish: made once through the command line against the emulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.cli import run as command
from iwb_batch.emulator.app import running
from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.judge import Judge
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from tests.cli.support import KEY, Scripted, answer, item, jsonl, verdict
from tests.pairs.support import BENCHMARK, both_files, chinese, english, knows, scores_alone

HOSTILE = "</script><script>document.title='owned'</script>\" onmouseover=\"alert(1) <img src=x onerror=alert(2)>"
FORMULA = '=HYPERLINK("http://example.org")'
DOMAINS = ("<img src=x onerror=alert(3)>", "साहित्य", '数学 " onclick="alert(4)')
N = 12


def hostile_item(index: int, **changes: Any) -> dict[str, Any]:
    """An item whose labels try to become code."""
    return item(index, domain=DOMAINS[index % 3], **changes)


def scored_by(rule: Callable[[int, str], int], model: str = "gpt-5.4-2026") -> Scripted:
    """A judge that scores by the number of the response and the prompt, with a reason that tries to become code."""

    def content(prompt: str) -> str:
        found = re.search(r"#(\d+)#", prompt)
        assert found is not None
        number = int(found[1])
        reason = FORMULA if number == 5 else f"{HOSTILE} कारण {number}: लहजा आत्मीय है, 理由充分"
        return verdict(rule(number, prompt), reason)

    return Scripted(content, model=model)


def usual(number: int, _prompt: str) -> int:
    """Scores 2 to 9 by the number of the response."""
    return 2 + number % 8


def higher(number: int, _prompt: str) -> int:
    """One more than usual, except for every fourth response."""
    return 2 + number % 8 + (number % 4 != 0)


@contextmanager
def resource(patch: pytest.MonkeyPatch, judge: Judge | None, faults: Any = None) -> Iterator[None]:
    """An emulated resource that answers at the address in the environment."""
    plan = None if faults is None else FaultPlan.of(faults)
    settings = Settings(key=KEY, polls_per_stage=0, pending_polls=0)
    with Service(settings, judge=judge, faults=plan) as service, running(service) as url:
        patch.setenv("AZURE_OPENAI_ENDPOINT", url)
        patch.setenv("AZURE_OPENAI_API_KEY", KEY)
        yield


def make(runs: Path, name: str, *options: str | Path) -> None:
    """Submit and collect a run."""
    given = ["--runs-dir", str(runs)]
    assert command([*given, "submit", "--run", name, "--wait", "0", *map(str, options)]) == 0
    watch = ["collect", name, "--watch", "--poll-interval", "0.02", "--wait", "0", "--timeout", "60"]
    assert command([*given, *watch]) in (0, 4)


def rubric(folder: Path, model: str, n: int = N, **changes: Any) -> list[str]:
    """Options of ``submit`` for ``n`` items and the responses of a model."""
    folder.mkdir(parents=True, exist_ok=True)
    data = jsonl(folder / "items.jsonl", [hostile_item(index, **changes) for index in range(n)])
    given = jsonl(folder / f"{model}.jsonl", [{"index": i, "response": f"{answer(i)} {model}"} for i in range(n)])
    prices = ["--price-input", "1", "--price-output", "4"]
    return ["--benchmark", "indic-writing-bench", "--dataset", str(data), "--responses", str(given), *prices]


FAULTS = {
    "requests": [
        {"fault": "invalid_json", "match": "-i1-c0-", "times": 1},
        {"fault": "server_error", "match": "-i2-c1-", "times": 1},
        {"fault": "fenced", "match": "-i3-c0-"},
        {"fault": "content_filter_input", "match": "-i4-c2-"},
    ]
}


def make_all(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """All runs the tests of this folder read."""
    runs = folder / "runs"
    with resource(patch, scored_by(usual), FAULTS):
        make(runs, "first", *rubric(folder, "model-x"))
    with resource(patch, scored_by(higher)):
        make(runs, "second", *rubric(folder, "model-y"))
    with resource(patch, scored_by(usual)):
        make(runs, "third", *rubric(folder, "model-z"))
        make(runs, "elsewhere", *rubric(folder / "other", "model-x", query="Another question"))
    with resource(patch, scored_by(usual, model="gpt-5.5-2026")):
        make(runs, "other-judge", *rubric(folder, "model-y"))
    with resource(patch, None):
        make(runs, "rehearsal", *rubric(folder, "model-x"))
    en, zh = both_files(folder / "pairs")
    pairs = ("--benchmark", BENCHMARK, "--dataset", en, "--dataset", zh)
    with resource(patch, knows([*english(), *chinese()])):
        make(runs, "pairs", *pairs)
    with resource(patch, scores_alone(lambda text: 1 + len(text) % 10)):
        make(runs, "sides", *pairs, "--protocol", "pointwise")
    return runs
