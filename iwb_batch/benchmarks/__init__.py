"""The benchmarks: one module each, found by file name. A new benchmark is one new file here.

A module ``my_bench.py`` holds ``BENCHMARK``, an object with everything ``Benchmark`` lists, and is then
known as ``my-bench``; it may hold ``OTHER_PROTOCOLS``, by name, when its items can be judged in other ways
too. Modules whose names begin with an underscore are shared parts.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Literal, Protocol, cast

from iwb_batch.core.row import Row
from iwb_batch.errors import UsageError
from iwb_batch.model import Item, Request

Orders = Literal["both", "chosen-first", "rejected-first", "random"]


class Benchmark(Protocol):
    """What the workflow needs to know about a benchmark. Objects are immutable and hold no data rows."""

    @property
    def name(self) -> str:
        """The name on the command line."""

    @property
    def protocol(self) -> Literal["rubric", "pairwise", "pointwise", "generate"]:
        """``rubric`` judges responses of a model; the others judge the data's own pairs, together or one by one."""

    @property
    def default_dataset(self) -> str | None:
        """Hub id used when ``--dataset`` is not given; None: it must be given."""

    @property
    def keyed_by_row(self) -> bool:
        """True: the item's index is the row's position, whatever the data's ``index`` says."""

    @property
    def system(self) -> str:
        """System prompt of the judge."""

    @property
    def template(self) -> str:
        """User prompt with ``{name}`` places, filled in one pass by ``core.render``."""

    @property
    def schema(self) -> str:
        """File in ``schemas/`` every verdict is validated against."""

    @property
    def request_schema(self) -> str:
        """File in ``schemas/`` with the response format of ``--structured-output``."""

    def labels(self, row: Row, index: int) -> Mapping[str, object]:
        """Names ``--where`` knows beyond the data's own keys, with this row's values."""

    def item(self, row: Row, index: int) -> Item:
        """The validated item. InputError names the row's place, its index, and what is wrong."""

    def requests(self, item: Item, *, repeats: int = 1, orders: Orders = "both") -> Iterator[Request]:
        """Every request planned for an item, the first repeat first."""

    def fields(self, item: Item, answer: str, request: Request) -> Mapping[str, str]:
        """Values for the places of the template; ``answer`` is unused for pairs."""

    def judged_texts(self, item: Item, answer: str) -> tuple[str, ...]:
        """Texts of the prompt somebody else wrote: a verdict that stands in one of them is not the judge's."""


def names() -> list[str]:
    """Names of all benchmarks, sorted, from the file names alone: no module is imported."""
    return sorted(m.name.replace("_", "-") for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def get(name: str, protocol: str | None = None) -> Benchmark:
    """The benchmark of that name, under ``protocol`` when given. UsageError lists what exists."""
    if name not in names():
        raise UsageError(f"there is no benchmark '{name}'; there are: {', '.join(names())}")
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    benchmark = cast("Benchmark", module.BENCHMARK)
    known = {benchmark.protocol: benchmark, **getattr(module, "OTHER_PROTOCOLS", {})}
    if protocol is None:
        return benchmark
    if protocol == "generate" and benchmark.protocol == "rubric":
        from iwb_batch.benchmarks._generation import Generation

        return Generation(benchmark)
    if protocol not in known:
        raise UsageError(
            f"{name} has no protocol '{protocol}'; it has: {', '.join(known)}", hint="leave --protocol out"
        )
    return cast("Benchmark", known[protocol])


def item_sha256(item: Item) -> str:
    """Hex sha256 over the item as judged: id, query, criteria, and for pairs the two texts.

    Runs are compared on items with equal hashes, so labels and notes do not count.
    """
    texts = [item.extra[key] for key in ("chosen", "rejected") if key in item.extra]
    judged = [item.item_id, item.query, [criterion.json for criterion in item.criteria], texts]
    return hashlib.sha256(json.dumps(judged, ensure_ascii=False).encode("utf-8")).hexdigest()
