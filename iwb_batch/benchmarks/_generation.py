"""Step A of a rubric benchmark: each item's query as the one user message to the model under test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from iwb_batch.benchmarks import Benchmark, Orders
from iwb_batch.core.row import Row
from iwb_batch.model import Item, Request


@dataclass(frozen=True)
class Generation:
    """The items of another benchmark, to be answered instead of judged."""

    base: Benchmark

    protocol: Literal["generate"] = "generate"
    system: str = ""
    template: str = "{query}"
    keyed_by_row: bool = False

    @property
    def name(self) -> str:
        """The benchmark whose items these are."""
        return self.base.name

    @property
    def default_dataset(self) -> str | None:
        """As of the benchmark."""
        return self.base.default_dataset

    @property
    def schema(self) -> str:
        """Nothing is validated against it; it stands for what the responses will be judged by."""
        return self.base.schema

    @property
    def request_schema(self) -> str:
        """As of the benchmark; never sent."""
        return self.base.request_schema

    def labels(self, row: Row, index: int) -> Mapping[str, object]:
        """As of the benchmark."""
        return self.base.labels(row, index)

    def item(self, row: Row, index: int) -> Item:
        """As of the benchmark, checks included: a bad item is found before its response is paid for."""
        return self.base.item(row, index)

    def requests(self, item: Item, *, repeats: int = 1, orders: Orders = "both") -> Iterator[Request]:
        """One request for each item."""
        del orders
        for repeat in range(1, repeats + 1):
            yield Request(item_index=item.index, repeat=repeat)

    def fields(self, item: Item, answer: str, request: Request) -> Mapping[str, str]:
        """The query alone."""
        del answer, request
        return {"query": item.query}

    def judged_texts(self, item: Item, answer: str) -> tuple[str, ...]:
        """Nothing is judged."""
        del item, answer
        return ()
