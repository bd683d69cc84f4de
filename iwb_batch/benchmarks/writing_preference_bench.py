"""WritingPreferenceBench: which of two answers to one prompt is the better writing, judged in both orders.

The benchmark publishes no judge prompt; ours is in ``prompts/writing_preference_bench.txt`` and asks for
creativity, emotional resonance and stylistic flair, the three qualities its authors name. Rows are in the
released layout (prompt, prompt_id, tag, chosen {response, score, model, ...}, rejected {...}); ``chosen``
and ``rejected`` may also be plain texts. ``prompt_id`` repeats, so pairs are keyed by row.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Any, Literal

from iwb_batch.benchmarks import Orders
from iwb_batch.benchmarks._genres import macro_domain
from iwb_batch.benchmarks._pointwise import PointwiseBenchmark
from iwb_batch.benchmarks._reading import ItemReader, digest
from iwb_batch.core.languages import language_code, language_in
from iwb_batch.core.row import Row
from iwb_batch.model import PAIR_ORDERS, Item, PairOrder, Request

SYSTEM = (
    "You are an experienced editor of creative writing in English and Chinese. "
    "You compare two texts and decide by their literary quality alone."
)
CJK_SHARE = 0.3

_CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]")
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class PreferenceBenchmark:
    """The pairwise protocol on the released pairs."""

    name: str = "writing-preference-bench"
    default_dataset: str | None = None
    system: str = SYSTEM
    schema: str = "preference.schema.json"
    request_schema: str = "preference.request.schema.json"
    keyed_by_row: bool = True

    @property
    def protocol(self) -> Literal["pairwise"]:
        """The data bring both texts; no responses file is read."""
        return "pairwise"

    @cached_property
    def template(self) -> str:
        """Our prompt; places prompt, first, second."""
        folder = resources.files("iwb_batch.benchmarks").joinpath("prompts")
        content = folder.joinpath("writing_preference_bench.txt").read_bytes()
        return content.decode("utf-8").replace("\r\n", "\n")

    def labels(self, row: Row, index: int) -> Mapping[str, object]:
        """domain, language, index and id beside the data's own keys."""
        reader = ItemReader(row, index)
        language = _language(reader)
        domain = macro_domain(reader.label("tag"))
        return {"domain": domain, "language": language, "index": index, "id": f"{language}:{index}"}

    def item(self, row: Row, index: int) -> Item:
        """The pair. InputError: no prompt, or one of the two texts is missing or empty.

        Notes: equal_texts, no_score_gap (chosen not scored above rejected), unknown_tag, language_guessed.
        """
        reader = ItemReader(row, index)
        prompt = reader.text("prompt")
        chosen, rejected = _side(reader, "chosen"), _side(reader, "rejected")
        tag = reader.label("tag")
        domain = macro_domain(tag)
        language = _language(reader)
        if chosen["text"] == rejected["text"]:
            reader.note("equal_texts")
        if tag is not None and domain is None:
            reader.note("unknown_tag")
        if _is_number(chosen["score"]) and _is_number(rejected["score"]) and chosen["score"] <= rejected["score"]:
            reader.note("no_score_gap")
        extra = {"chosen": chosen["text"], "rejected": rejected["text"], "prompt_id": reader.label("prompt_id")}
        for key in ("model", "score"):
            extra[f"chosen_{key}"], extra[f"rejected_{key}"] = chosen[key], rejected[key]
        return Item(
            index=index,
            item_id=f"{language}:{index}",
            query=prompt,
            cluster=digest([prompt]),
            domain=domain,
            language=language,
            tag=tag,
            extra=extra,
            notes=tuple(reader.notes),
        )

    def requests(self, item: Item, *, repeats: int = 1, orders: Orders = "both") -> Iterator[Request]:
        """One request for each repeat and order; ``random`` draws one order a row from a hash of its id."""
        chosen_orders = self._orders(item, orders)
        for repeat in range(1, repeats + 1):
            for order in chosen_orders:
                yield Request(item.index, repeat, pair_order=order)

    def fields(self, item: Item, answer: str, request: Request) -> Mapping[str, str]:  # noqa: ARG002
        """prompt, first, second, the latter two by the request's order."""
        texts = (item.extra["chosen"], item.extra["rejected"])
        first, second = texts if request.pair_order == "chosen-first" else texts[::-1]
        return {"prompt": item.query, "first": first, "second": second}

    def judged_texts(self, item: Item, answer: str) -> tuple[str, ...]:  # noqa: ARG002
        """The prompt and both texts."""
        return item.query, item.extra["chosen"], item.extra["rejected"]

    def _orders(self, item: Item, orders: Orders) -> tuple[PairOrder, ...]:
        if orders == "both":
            return PAIR_ORDERS
        if orders == "random":
            draw = hashlib.sha256(item.item_id.encode("utf-8")).digest()[0]
            return (PAIR_ORDERS[draw % 2],)
        return (orders,)


def _side(reader: ItemReader, key: str) -> dict[str, Any]:
    """One side of a pair: text, model and score (the last two None where the data have none)."""
    value = reader.row.values.get(key)
    if value is None:
        raise reader.wrong(f"'{key}' is missing: a pair needs both texts")
    side = {"response": value} if isinstance(value, str) else value
    if not isinstance(side, dict):
        raise reader.wrong(f"'{key}' is neither an object nor text")
    text = side.get("response")
    if not isinstance(text, str) or not text.strip():
        raise reader.wrong(f"'{key}' has no response text: a pair needs both texts")
    model, score = side.get("model"), side.get("score")
    return {
        "text": reader.clean(text),
        "model": reader.clean(model) if isinstance(model, str) else None,
        "score": score if _is_number(score) else None,
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _language(reader: ItemReader) -> str:
    """``en`` or ``zh`` from the row, the subset or the file's name; else guessed from the prompt, which is noted."""
    named = reader.label("language") or reader.label("lang")
    if named is not None:
        return language_code(named)
    told = language_in(reader.row.subset) or language_in(reader.row.file)
    if told is not None:
        return told
    reader.note("language_guessed")
    text = str(reader.row.values.get("prompt") or "")
    letters = len(_LETTER.findall(text))
    return "zh" if letters and len(_CJK.findall(text)) / letters >= CJK_SHARE else "en"


BENCHMARK = PreferenceBenchmark()
OTHER_PROTOCOLS = {"pointwise": PointwiseBenchmark(BENCHMARK)}
