"""Section ``start``: how long short commands take, and what they load."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.bench import Bench, Section, Target
from tests.bench.growing import name_of, run_of, whole_items
from tests.bench.measure import Table, Variant, in_turns, once

BASE = "python -c pass"
HEAVY = ("openai", "datasets", "pandas", "numpy", "pyarrow", "sqlite_utils", "jsonschema")
SMALL_RUN = 100
MORE = 4
"""Turns here for one elsewhere: milliseconds vary, and cost little."""
SCRIPT = "import sys; from iwb_batch.cli import main; sys.exit(main())"


def command(*words: str) -> list[str]:
    """The console script where there is one beside the interpreter, else what it does."""
    script = Path(sys.executable).with_name("iwb-batch")
    return [*([str(script)] if script.is_file() else [sys.executable, "-c", SCRIPT]), *words]


def section(bench: Bench) -> Section:
    """One table; the numbers of requests are those of the two runs asked about."""
    large = whole_items(bench.sizes.scores)
    runs = {size: run_of(bench, size) for size in (SMALL_RUN, large)}
    place = bench.place("start")
    table = Table("start", "start-up", "starts", 1, BASE, bench.cpu, costs=True)
    status = {size: f"status, run of {name_of(size)}" for size in runs}
    variants = [
        Variant(BASE, "", command=[sys.executable, "-c", "pass"]),
        Variant("import click", "", command=[sys.executable, "-c", "import click"]),
        Variant("--help", "", command=command("--help")),
        Variant("--version", "", command=command("--version")),
        *(
            Variant(status[size], "", command=command("--runs-dir", str(folder), "status", "bench"))
            for size, folder in runs.items()
        ),
    ]
    bench.say(table.title)
    in_turns(table, variants, bench.sizes.repeat * MORE + 1, place)
    loaded = once(Variant("modules", "tests.bench.ours:loaded", lambda _: {"names": list(HEAVY)}), place / "loaded")
    bench.done([place])
    targets = [
        Target(f"{name}: times {BASE}", bound, _times(table, name), at_most=True)
        for name, bound in (("--help", 5.0), ("--version", 5.0), (status[large], 12.0))
    ]
    targets.append(Target("--help: heavy packages loaded", 0, len(loaded.value), "packages", at_most=True))
    note = f"loaded for --help: {', '.join(loaded.value) or 'none'} of {', '.join(HEAVY)}"
    return Section("start", [table], targets, [note])


def _times(table: Table, name: str) -> float | None:
    return table.speedup(BASE, name)
