"""The rubric protocol of WritingBench: one call for each item and criterion, a score from 1 to 10.

System and scoring prompt are those of Indic WritingBench v1, word for word. The first code fence of the
scoring prompt is never closed; it stays so, because the published scores were made with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Literal

from iwb_batch.benchmarks import Orders
from iwb_batch.benchmarks._reading import ItemReader, digest
from iwb_batch.core.lines import reason
from iwb_batch.core.row import Row
from iwb_batch.core.words import counted
from iwb_batch.model import Criterion, Item, Request

CRITERIA = 5
BANDS = ("1-2", "3-4", "5-6", "7-8", "9-10")
criterion_text = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""A criterion as the prompt shows it. ``json.dumps`` is the same and makes an encoder for each call."""

SYSTEM = "You are an expert evaluator with extensive experience in evaluating response of given query."

_RENDERINGS: dict[str, tuple[bool, bool | None]] = {
    "native": (False, False),
    "code_mixed": (True, None),
    "romanized": (False, True),
}
"""Variant -> expected (is_code_mixed, is_romanized); None: either (code-mixed text is in Roman script too)."""


@dataclass(frozen=True)
class RubricBenchmark:
    """A rubric benchmark: which keys of a row hold what. ``variant_key`` None: the data have no renderings."""

    name: str
    default_dataset: str | None
    domain_key: str
    subdomain_key: str
    language_key: str
    variant_key: str | None = None
    system: str = SYSTEM
    schema: str = "judgement.schema.json"
    request_schema: str = "judgement.request.schema.json"
    keyed_by_row: bool = False

    @property
    def protocol(self) -> Literal["rubric"]:
        """Responses of a model are scored against criteria."""
        return "rubric"

    @cached_property
    def template(self) -> str:
        """The scoring prompt: 51 lines, 2,504 characters, no final line end; places criteria, query, response."""
        content = resources.files("iwb_batch.benchmarks").joinpath("prompts", "writing_bench.txt").read_bytes()
        return content.decode("utf-8").replace("\r\n", "\n")

    def labels(self, row: Row, index: int) -> Mapping[str, object]:
        """Our names for the data's labels, and the index."""
        reader = ItemReader(row, index)
        return {
            "domain": reader.label(self.domain_key),
            "subdomain": reader.label(self.subdomain_key),
            "language": reader.label(self.language_key),
            "variant": reader.label(self.variant_key),
            "index": index,
            "id": reader.label("id") or str(index),
        }

    def item(self, row: Row, index: int) -> Item:
        """The item with its five criteria. InputError: query, checklist, a criterion or a band is not as it must be."""
        reader = ItemReader(row, index)
        query = reader.text("query")
        criteria = tuple(_criterion(reader, entry, n) for n, entry in enumerate(_checklist(reader), start=1))
        domain, subdomain = reader.label(self.domain_key), reader.label(self.subdomain_key)
        variant = reader.label(self.variant_key)
        _check_variant(reader, variant)
        if len({criterion.name for criterion in criteria}) < len(criteria):
            reader.note("same_criterion_name")
        return Item(
            index=index,
            item_id=reader.label("id") or str(index),
            query=query,
            cluster=digest([domain, subdomain, [c.json for c in criteria], row.values.get("reference")]),
            domain=domain,
            subdomain=subdomain,
            language=reader.label(self.language_key),
            variant=variant,
            criteria=criteria,
            notes=tuple(reader.notes),
        )

    def requests(self, item: Item, *, repeats: int = 1, orders: Orders = "both") -> Iterator[Request]:  # noqa: ARG002
        """One request for each repeat and criterion; ``orders`` is for pairs."""
        for repeat in range(1, repeats + 1):
            for place, criterion in enumerate(item.criteria):
                yield Request(item.index, repeat, criterion_index=place, criterion=criterion.name)

    def fields(self, item: Item, answer: str, request: Request) -> Mapping[str, str]:
        """criteria (JSON of the one criterion), query, response."""
        criterion = item.criteria[request.criterion_index or 0]
        return {"criteria": criterion.json, "query": item.query, "response": answer}

    def judged_texts(self, item: Item, answer: str) -> tuple[str, ...]:
        """The query and the response."""
        return item.query, answer


def _checklist(reader: ItemReader) -> list[Any]:
    """The checklist as a list of five entries: a list, its JSON text, or columns (how some loaders turn structs)."""
    value = reader.row.values.get("checklist")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise reader.wrong(f"'checklist' is text but not JSON: {reason(error)}") from None
    if isinstance(value, dict) and all(isinstance(column, list) for column in value.values()):
        rows = zip(*value.values(), strict=False)
        value = [dict(zip(value, cells, strict=True)) for cells in rows]
    if value is None:
        keys = ", ".join(list(reader.row.values)[:12])
        raise reader.wrong(f"'checklist' is missing; the row has: {keys}", hint="each row needs its five criteria")
    if not isinstance(value, list):
        raise reader.wrong("'checklist' is not a list")
    if len(value) != CRITERIA:
        raise reader.wrong(f"{counted(len(value), 'criterion', 'criteria')} instead of {CRITERIA}")
    return value


def _criterion(reader: ItemReader, entry: object, number: int) -> Criterion:
    """One entry, checked. Further keys stay, in the data's order; null ones go (Parquet fills them in)."""
    if not isinstance(entry, dict):
        raise reader.wrong(f"criterion {number} is not an object")
    name = entry.get("name")
    called = f"criterion {number} '{name}'" if isinstance(name, str) and name.strip() else f"criterion {number}"
    for key in ("name", "criteria_description", *BANDS):
        what = f"band {key}" if key in BANDS else key
        value = entry.get(key)
        if value is None:
            raise reader.wrong(f"{what} missing in {called}")
        if not isinstance(value, str):
            raise reader.wrong(f"{what} is not text in {called}")
        if not value.strip():
            raise reader.wrong(f"{what} is empty in {called}")
    kept = {key: value for key, value in entry.items() if value is not None}
    return Criterion(reader.clean(str(name)), reader.clean(criterion_text(kept)))


def _check_variant(reader: ItemReader, variant: str | None) -> None:
    if variant is None:
        return
    expected = _RENDERINGS.get(variant)
    if expected is None:
        reader.note("unknown_variant")
        return
    found = (reader.flag("is_code_mixed"), reader.flag("is_romanized"))
    if any(want is not None and got is not None and want != got for want, got in zip(expected, found, strict=True)):
        reader.note("variant_conflict")
