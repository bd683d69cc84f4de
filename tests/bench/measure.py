"""Running variants in turns, each in a process of its own, and what their times come to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class WrongOutput(Exception):
    """A variant failed or made something else than it had to: its time means nothing."""


@dataclass(frozen=True)
class Run:
    """One run: seconds of the work alone and of the whole process, by the clock and of the processors; peak in MiB."""

    work: float
    work_cpu: float
    process: float
    process_cpu: float
    peak: float | None
    value: Any = None

    def seconds(self, *, whole: bool, cpu: bool) -> float:
        """One of the four."""
        if whole:
            return self.process_cpu if cpu else self.process
        return self.work_cpu if cpu else self.work


def nothing(folder: Path) -> dict[str, Any]:
    """No arguments."""
    return {}


def unchecked(folder: Path, run: Run) -> None:
    """Nothing to check."""


@dataclass(frozen=True)
class Variant:
    """One way to do the work.

    ``arguments`` makes those of ``target`` for a fresh folder, untimed; ``check`` looks at what the first run left in
    it and raises ``WrongOutput``. ``units``: how much work it is, where that is not the table's. ``command`` is run
    as it is in place of a target: only the process as a whole is timed then, and its memory is not known.
    """

    name: str
    target: str
    arguments: Callable[[Path], dict[str, Any]] = nothing
    check: Callable[[Path, Run], None] = unchecked
    units: int | None = None
    python: str = sys.executable
    command: Sequence[str] = ()


@dataclass
class Table:
    """Runs of variants that do the same work, in the order they are printed.

    ``base``: what ratios refer to; ``cpu``: they are of processor time, not of time by the clock; ``costs``: they are
    printed as how much a row takes of the base's time, not as how fast it is. No unit of work: no rate.
    """

    key: str
    title: str
    unit: str
    units: int
    base: str
    cpu: bool = False
    costs: bool = False
    names: list[str] = field(default_factory=list)
    runs: dict[str, list[Run]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, name: str, units: int | None = None) -> None:
        """A row; without runs it says that it was not measured."""
        self.names.append(name)
        self.runs[name] = []
        self.sizes[name] = self.units if units is None else units

    def seconds(self, name: str, *, whole: bool = False, cpu: bool = False) -> float | None:
        """Median seconds of a run; None: not measured."""
        runs = self.runs.get(name)
        return median(run.seconds(whole=whole, cpu=cpu) for run in runs) if runs else None

    def cost(self, name: str) -> float | None:
        """Median seconds of the work for one unit; None: not measured."""
        seconds = self.seconds(name, cpu=self.cpu)
        return None if seconds is None or not self.sizes[name] else seconds / self.sizes[name]

    def speedup(self, name: str, base: str, *, whole: bool = False) -> float | None:
        """How many times faster than ``base`` for each unit: median over the turns, each with its own ratio."""
        ours, theirs = self.runs.get(name), self.runs.get(base)
        if not ours or not theirs or not self.sizes[name]:
            return None
        scale = self.sizes[name] / self.sizes[base]
        pairs = [
            (a.seconds(whole=whole, cpu=self.cpu), b.seconds(whole=whole, cpu=self.cpu))
            for a, b in zip(ours, theirs, strict=False)
        ]
        return scale * median(b / max(a, 1e-6) for a, b in pairs)

    def peak(self, name: str) -> float | None:
        """Median peak memory in MiB; None: not measured or not told."""
        peaks = [run.peak for run in self.runs.get(name, []) if run.peak is not None]
        return median(peaks) if peaks else None


def environment(**more: str) -> dict[str, str]:
    """For children: this package can be found, and no setting of the user's changes what is measured."""
    own = ("IWB_BATCH_", "AZURE_", "OPENAI_", "PYTHON")  # PYTHONDONTWRITEBYTECODE: every start would compile everything
    kept = {k: v for k, v in os.environ.items() if not k.startswith(own)}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **more}


def once(variant: Variant, folder: Path) -> Run:
    """One run in ``folder``, which is its working folder too; stdout is kept there as ``stdout``."""
    folder.mkdir(parents=True)
    report = folder / "report.json"
    command = list(variant.command)
    if not command:
        arguments = json.dumps(variant.arguments(folder))
        command = [variant.python, "-m", "tests.bench.child", variant.target, arguments, str(report)]
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        started, used = time.perf_counter(), _children_cpu()
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder, env=environment(), check=False
        )
        process, cpu = time.perf_counter() - started, _children_cpu() - used
    if done.returncode or not (variant.command or report.is_file()):
        said = (folder / "stderr").read_text(encoding="utf-8", errors="replace")[-2_000:]
        raise WrongOutput(f"{variant.name}: ended with {done.returncode}\n{said}")
    if variant.command:
        return Run(process, cpu, process, cpu, None)
    told = json.loads(report.read_text(encoding="utf-8"))
    peak = None if told["peak_kib"] is None else told["peak_kib"] / 1024
    return Run(told["work"], told["work_cpu"], process, cpu, peak, told["value"])


def _children_cpu() -> float:
    if sys.platform == "win32":  # pragma: no cover
        return 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def in_turns(table: Table, variants: Sequence[Variant], repeat: int, folder: Path) -> Table:
    """Run every variant ``repeat`` times, forwards and backwards by turns, so that drift meets all alike."""
    for variant in variants:
        table.add(variant.name, variant.units)
    for turn in range(repeat):
        for variant in variants if turn % 2 == 0 else reversed(variants):
            place = folder / f"run-{turn}"
            run = once(variant, place)
            if turn == 0:
                variant.check(place, run)
            table.runs[variant.name].append(replace(run, value=None))
            shutil.rmtree(place)
    return table
