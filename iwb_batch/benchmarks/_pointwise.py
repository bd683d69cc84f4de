"""Pairs judged one text at a time: each side gets a score from 1 to 10, and the higher score is the preference.

The judge is used like a reward model: it never sees the two texts together, so no order of presentation can
sway it. The prompt is ours (``prompts/<benchmark>_pointwise.txt``) and asks for the same three qualities as
the pairwise one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Literal

from iwb_batch.benchmarks import Benchmark, Orders
from iwb_batch.core.row import Row
from iwb_batch.model import PAIR_SIDES, Item, Request

SYSTEM = (
    "You are an experienced editor of creative writing in English and Chinese. "
    "You judge one text by its literary quality alone."
)


@dataclass(frozen=True)
class PointwiseBenchmark:
    """The pairs of another benchmark under the pointwise protocol."""

    pairs: Benchmark
    system: str = SYSTEM
    schema: str = "judgement.schema.json"
    request_schema: str = "judgement.request.schema.json"

    @property
    def name(self) -> str:
        """The name of the benchmark whose pairs these are."""
        return self.pairs.name

    @property
    def protocol(self) -> Literal["pointwise"]:
        """The data bring both texts; each is scored on its own."""
        return "pointwise"

    @property
    def default_dataset(self) -> str | None:
        """That of the pairs."""
        return self.pairs.default_dataset

    @property
    def keyed_by_row(self) -> bool:
        """As for the pairs."""
        return self.pairs.keyed_by_row

    @cached_property
    def template(self) -> str:
        """Our prompt; places prompt, answer."""
        folder = resources.files("iwb_batch.benchmarks").joinpath("prompts")
        content = folder.joinpath(f"{self.name.replace('-', '_')}_pointwise.txt").read_bytes()
        return content.decode("utf-8").replace("\r\n", "\n")

    def labels(self, row: Row, index: int) -> Mapping[str, object]:
        """Those of the pairs."""
        return self.pairs.labels(row, index)

    def item(self, row: Row, index: int) -> Item:
        """The pair, checked as for the pairwise protocol."""
        return self.pairs.item(row, index)

    def requests(self, item: Item, *, repeats: int = 1, orders: Orders = "both") -> Iterator[Request]:  # noqa: ARG002
        """One request for each repeat and side; there is no order."""
        for repeat in range(1, repeats + 1):
            for side in PAIR_SIDES:
                yield Request(item.index, repeat, side=side)

    def fields(self, item: Item, answer: str, request: Request) -> Mapping[str, str]:  # noqa: ARG002
        """prompt, and as answer the text of the request's side."""
        return {"prompt": item.query, "answer": item.extra[request.side or "chosen"]}

    def judged_texts(self, item: Item, answer: str) -> tuple[str, ...]:
        """The prompt and both texts."""
        return self.pairs.judged_texts(item, answer)
