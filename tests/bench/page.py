"""The measured part of ``docs/performance.md``, from what a run of the program found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.bench import Section, Target
from tests.bench.measure import Table
from tests.bench.printing import TARGET_HEADER, by, header_of, table_rows, target_rows, x_of

BEGIN = "<!-- From here on written by `make bench BENCH='--page docs/performance.md'`. -->"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    ruler = ["---", *("--:" for _ in header[1:])]
    return [f"| {' | '.join(cells)} |" for cells in (header, ruler, *rows)]


def _table(table: Table) -> list[str]:
    runs = max((len(found) for found in table.runs.values()), default=0)
    title = f"**{table.title}**; median of {runs}; x: {x_of(table)}"
    return [title, "", *_markdown(header_of(table.unit), table_rows(table)), ""]


def measured(facts: Mapping[str, Any], sections: Sequence[Section], targets: Sequence[Target]) -> str:
    """The part of the page: where and when, the targets, every table, what else was found."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    lines = [
        BEGIN,
        "",
        f"Measured on {facts['started'][:10]}: {facts['cores']} cores, shared with other work, {facts['machine']}.",
        f"Ratios are of {by(cpu=facts['ratios_of'] != 'clock')}.",
        f"{versions}.",
        "",
        "### Targets",
        "",
        *_markdown(TARGET_HEADER, target_rows(targets)),
        "",
    ]
    for section in sections:
        lines += [f"### {section.name.capitalize()}", ""]
        for table in section.tables:
            lines += _table(table)
        lines += [*(f"- {note}" for note in section.notes if note), *([""] if section.notes else [])]
    return "\n".join(lines).rstrip("\n") + "\n"


def renew(page: Path, text: str) -> None:
    """Put it in the place of what the page has from its mark on. ValueError: the page has no mark."""
    before, mark, _ = page.read_text(encoding="utf-8").partition(BEGIN)
    if not mark:
        raise ValueError(f"{page.name} has no line {BEGIN}")
    page.write_text(before + text, encoding="utf-8", newline="\n")
