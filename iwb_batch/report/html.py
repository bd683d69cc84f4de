"""Reports as one self-contained page: no network, no foreign code, no text from data that could become code.

Three walls keep a hostile text a text. Tables are escaped by the template engine. The items travel
compressed as base64 inside a JSON block, and the page's script puts them on screen as text nodes. A
content security policy allows exactly one script and one style sheet, by hash, and no address.
The same input gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iwb_batch.report.charts import Chart
from iwb_batch.report.display import visible, whole
from iwb_batch.report.tables import Document, Number, Table

if TYPE_CHECKING:
    from jinja2 import Environment

ITEMS_IN_CHUNK = 25
"""Items packed together; opening one item unpacks its chunk."""
PACKED_LIMIT = 11_000_000
"""Characters of packed items a page may carry; what does not fit is left out, and the page says so."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The number at the top: ``value`` with its interval, and how much of the run it rests on."""

    label: str
    value: str
    interval: str
    coverage: str
    complete: bool


@dataclass(frozen=True, slots=True)
class PageItem:
    """One item of the drill-down: ``entry`` is what the list shows, ``detail`` what opening it shows."""

    entry: Mapping[str, Any]
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows. ``charts`` go beside the rows of the table of that title."""

    document: Document
    rehearsal: bool
    headline: Headline | None = None
    charts: Mapping[str, Chart] = field(default_factory=dict)
    items: Iterable[PageItem] | None = None
    run: str = ""


def render(page: Page) -> str:
    """The page as HTML text."""
    environment = _environment()
    style, script = _asset("page.css"), _asset("page.js") if page.items is not None else ""
    text = environment.get_template("page.html").render(
        title=visible(page.document.title),
        facts=[(visible(name), visible(value)) for name, value in page.document.facts],
        notes=[visible(note) for note in page.document.notes],
        tables=[_table(table, page.charts.get(table.title)) for table in page.document.tables],
        headline=page.headline,
        rehearsal=page.rehearsal,
        policy=_policy(style, script),
        style=_safe(style),
        script=_safe(script),
        data=_safe(_data(page)) if page.items is not None else "",
    )
    return whole(text)


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("iwb_batch.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _asset(name: str) -> str:
    from importlib import resources

    return (resources.files("iwb_batch.report") / "templates" / name).read_text(encoding="utf-8").strip()


def _safe(text: str) -> Any:
    """Mark our own text, or JSON without ``<``, as fit for the page; nothing else passes here."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 (the style sheet, the script, and JSON with every < escaped)


def _policy(style: str, script: str) -> str:
    """Content security policy: this one style sheet and this one script, nothing else, from nowhere."""
    scripts = _hash(script) if script else "'none'"
    return (
        f"default-src 'none'; script-src {scripts}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


@dataclass(frozen=True, slots=True)
class _Row:
    cells: Sequence[tuple[str, bool]]
    bar: Any


def _table(table: Table, chart: Chart | None) -> dict[str, Any]:
    drop = table.columns.index("bar") if chart is not None and "bar" in table.columns else None
    keep = [place for place in range(len(table.columns)) if place != drop]
    numeric = {place for place in keep if any(isinstance(row[place], Number) for row in table.rows)}
    bars = list(chart) if chart is not None else [None] * len(table.rows)
    return {
        "title": visible(table.title),
        "caption": visible(table.caption),
        "columns": [(visible(table.columns[place]), place in numeric) for place in keep],
        "chart": chart is not None,
        "rows": [
            _Row([(_cell(row[place]), place in numeric) for place in keep], drawn)
            for row, drawn in zip(table.rows, bars, strict=True)
        ],
    }


def _cell(cell: str | Number) -> str:
    return cell.text() if isinstance(cell, Number) else visible(cell)


def _data(page: Page) -> str:
    """The items as JSON: a plain list of entries, and their details packed in chunks."""
    entries: list[Mapping[str, Any]] = []
    chunks: list[str] = []
    size = left_out = 0
    for group in _grouped(page.items or (), ITEMS_IN_CHUNK):
        packed = pack([item.detail for item in group])
        if size + len(packed) > PACKED_LIMIT:
            left_out += len(group)
            continue
        entries += [item.entry for item in group]
        chunks.append(packed)
        size += len(packed)
    shape = {
        "run": page.run,
        "chunk_size": ITEMS_IN_CHUNK,
        "left_out": left_out,
        "entries": entries,
        "chunks": chunks,
    }
    return script_json(shape)


def _grouped(items: Iterable[PageItem], size: int) -> Iterator[list[PageItem]]:
    group: list[PageItem] = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def pack(value: Any) -> str:
    """JSON, compressed, as base64: there is no character in it that means anything to a browser."""
    raw = whole(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode("utf-8")
    return base64.b64encode(zlib.compress(raw, 9)).decode("ascii")


def script_json(value: Any) -> str:
    """JSON that cannot end its script element or start a comment in it."""
    text = whole(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})
