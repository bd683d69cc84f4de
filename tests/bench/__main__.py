"""``python -m tests.bench``: measure, print, and write every raw time as JSON where asked."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from tests.bench import building, counting, curating, growing, ingesting, reporting, resampling, starting, transferring
from tests.bench.bench import Bench, Section, Sizes
from tests.bench.measure import WrongOutput
from tests.bench.page import measured, renew
from tests.bench.printing import section_lines, target_lines

SECTIONS: dict[str, Callable[[Bench], Section]] = {
    "build": building.section,
    "ingest": ingesting.section,
    "transfer": transferring.section,
    "growth": growing.section,
    "report": reporting.section,
    "start": starting.section,
    "bootstrap": resampling.section,
    "tokens": counting.section,
    "curator": curating.section,
}
QUICK = Sizes(
    requests=1_000,
    repeat=1,
    naive_lines=50,
    upload=20_000_000,
    scores=5_000,
    growth=(1_000, 5_000),
    clusters=1_000,
    resamples=1_000,
    tokens=400_000,
)
PACKAGES = (
    "iwb-batch",
    "datasets",
    "jsonschema",
    "jsonschema-rs",
    "numpy",
    "openai",
    "orjson",
    "pandas",
    "sqlite-utils",
)


def versions() -> dict[str, str]:
    """Versions of what took part."""
    found = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for name in (*PACKAGES, "tiktoken", "toktok-rs"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def measure(bench: Bench, names: list[str], page: Path | None = None) -> dict[str, Any]:
    """Run sections, print what each found, then the targets; returns everything for the JSON file.

    A wrong output ends its section; the others go on. ``page``: its measured part is written anew.
    """
    started, sections, errors = datetime.now(UTC), [], {}
    for name in names:
        try:
            sections.append(SECTIONS[name](bench))
        except WrongOutput as wrong:
            errors[name] = str(wrong)
            click.echo(f"error: {name}: {wrong}", err=True)
        else:
            click.echo("\n".join(section_lines(sections[-1])))
    targets = [target for section in sections for target in section.targets]
    if targets:
        click.echo("\n".join(target_lines(targets)))
    facts = {
        "format": 1,
        "started": started.isoformat(timespec="seconds"),
        "ratios_of": "processor time" if bench.cpu else "clock",
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "versions": versions(),
        "sizes": dataclasses.asdict(bench.sizes),
        "errors": errors,
    }
    if page is not None:
        renew(page, measured(facts, sections, targets))
    return {
        **facts,
        "sections": [dataclasses.asdict(section) for section in sections],
        "targets": [{**dataclasses.asdict(target), "reached": target.reached} for target in targets],
    }


def _names(text: str | None) -> list[str]:
    names = list(SECTIONS) if text is None else [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        raise click.BadParameter(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}", param_hint="--only")
    return names


@click.command()
@click.option("--only", metavar="NAME,...", help=f"Sections, of: {', '.join(SECTIONS)}.")
@click.option("--requests", type=click.IntRange(min=10), help="Requests to build and to ingest.  [10000]")
@click.option("--large", is_flag=True, help="Build only lines of some 29 KB.")
@click.option("--small", is_flag=True, help="Build only lines of some 4 KB.")
@click.option("--repeat", type=click.IntRange(min=1), help="Runs of each variant.  [5]")
@click.option("--scores", type=click.IntRange(min=500), help="Requests of the run that is reported on.  [100000]")
@click.option("--growth", metavar="N,...", help="Sizes at which growth is measured.  [10000,100000]")
@click.option("--curator", metavar="PYTHON", help="Interpreter of an environment with bespokelabs-curator.")
@click.option("--quick", is_flag=True, help="Everything once, small: shows that it works, measures little.")
@click.option("--cpu", is_flag=True, help="Ratios of processor time: for a machine that has other work to do.")
@click.option("--json", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write every raw time there.")
@click.option(
    "--page",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Renew the measured part of that page.",
)
@click.option(
    "--work", type=click.Path(file_okay=False, path_type=Path), help="Folder for the data.  [a temporary one]"
)
def main(
    only: str | None,
    requests: int | None,
    repeat: int | None,
    scores: int | None,
    growth: str | None,
    curator: str | None,
    target: Path | None,
    page: Path | None,
    work: Path | None,
    *,
    large: bool,
    small: bool,
    quick: bool,
    cpu: bool,
) -> None:
    """Measure iwb-batch beside naive scripts, strong libraries and floors; print ratios."""
    shapes = tuple(name for name, asked in (("large", large), ("small", small)) if asked)
    given: dict[str, Any] = {"requests": requests, "repeat": repeat, "shapes": shapes or None, "scores": scores}
    given["growth"] = None if growth is None else tuple(int(size) for size in growth.split(","))
    sizes = dataclasses.replace(QUICK if quick else Sizes(), **{k: v for k, v in given.items() if v is not None})
    names = _names(only)
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="iwb-bench-", dir=work))
    try:
        found = measure(Bench(sizes, folder, lambda line: click.echo(line, err=True), cpu, curator), names, page)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if target is not None:
        target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    sys.exit(1 if found["errors"] else 0)


if __name__ == "__main__":
    main()
