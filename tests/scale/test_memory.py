"""Ten times the requests take the same memory: nothing that grows with their number is held."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from iwb_batch.emulator.app import running
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from tests.cli.support import KEY, ROOT, criterion

SMALL, LARGE = 1_000, 10_000
"""Items; five requests each."""

MEASURED = """
import sys
from iwb_batch.cli import run
code = run(sys.argv[1:])
with open("/proc/self/status", encoding="ascii") as status:
    peak = next(line for line in status if line.startswith("VmHWM"))
print(code, peak.split()[1])
"""

pytestmark = pytest.mark.xdist_group("scale")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with Service(Settings(key=KEY, pending_polls=0, polls_per_stage=0)) as service, running(service) as url:
        yield url


def inputs(folder: Path, n: int) -> list[str]:
    folder.mkdir()
    checklist = [criterion(f"मानदंड {number}", number) for number in range(5)]
    with (
        (folder / "items.jsonl").open("w", encoding="utf-8") as items,
        (folder / "model.jsonl").open("w", encoding="utf-8") as responses,
    ):
        for index in range(n):
            row = {"index": index, "id": f"i{index}", "domain": f"D{index % 5}", "language": "Hindi"}
            query = f"प्रश्न {index}: " + "एक पत्र लिखिए। " * 15
            items.write(json.dumps({**row, "query": query, "checklist": checklist}, ensure_ascii=False) + "\n")
            text = f"उत्तर {index}: " + "यह उत्तर है। " * 15
            responses.write(json.dumps({"index": index, "response": text}, ensure_ascii=False) + "\n")
    names = ["--dataset", str(folder / "items.jsonl"), "--responses", str(folder / "model.jsonl")]
    return ["--benchmark", "indic-writing-bench", *names]


def peak(endpoint: str, runs: Path, *arguments: str) -> int:
    """Peak resident memory of one command in KiB, read by the process itself (a child's usage would tell ours)."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "AZURE_OPENAI_ENDPOINT": endpoint,
        "AZURE_OPENAI_API_KEY": KEY,
    }
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, "--runs-dir", str(runs), *arguments],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    code, kib = done.stdout.rsplit("\n", 2)[-2].split()
    assert code == "0", done.stderr
    return int(kib)


def test_building_and_ingesting_50_000_requests_takes_the_memory_of_5_000(endpoint: str, tmp_path: Path) -> None:
    peaks: dict[int, dict[str, int]] = {}
    for n in (SMALL, LARGE):
        given, runs = inputs(tmp_path / str(n), n), tmp_path / f"runs{n}"
        peaks[n] = {
            "submit": peak(endpoint, runs, "submit", *given, "--yes"),
            "collect": peak(endpoint, runs, "collect", "--watch", "--poll-interval", "0.1", "--settle", "0"),
        }
    for command in ("submit", "collect"):
        assert peaks[LARGE][command] <= 1.15 * peaks[SMALL][command], peaks
