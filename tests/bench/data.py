"""Items, responses and answers made from a seed: text in four scripts that no word cache knows by heart.

Some common words of each language and many made of its syllables are drawn with the frequencies of a natural text
(Zipf); in every second sentence or so one word is new. Nothing is downloaded; the same seed gives the same bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from tests.bench.words import COMMON, ONSETS, RIMES, STOPS, SYLLABLES

BANDS = ("1-2", "3-4", "5-6", "7-8", "9-10")
LANGUAGES = (("Hindi", "Deva"), ("Tamil", "Taml"), ("English", "Latn"), ("Chinese", "Hani"))
DOMAINS = 12
VOCABULARY = 20_000
SENTENCE = 11
NEW_WORD = 16


@dataclass(frozen=True)
class Shape:
    """Bytes of the texts: query, response, description of a criterion, each of its bands, the judge's reason."""

    name: str
    query: int
    response: int
    description: int
    band: int
    reason: int = 1_600


LARGE = Shape("large", query=3_000, response=20_000, description=260, band=80)
SMALL = Shape("small", query=200, response=450, description=60, band=20)
TINY = Shape("tiny", query=80, response=160, description=30, band=8, reason=160)


class Words:
    """Running text of one script."""

    def __init__(self, script: str, seed: int) -> None:
        self._random = random.Random(f"{seed} {script}")
        self._onsets, self._rimes, self._length = ONSETS[script], RIMES[script], SYLLABLES[script]
        self._glue = "" if script == "Hani" else " "
        self._stops = STOPS[script]
        common = COMMON[script].split()
        self._known = common + [self._new() for _ in range(VOCABULARY - len(common))]
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(VOCABULARY)))
        sample = self._random.choices(self._known, cum_weights=self._weights, k=2_000)
        self._word_bytes = sum(len((word + self._glue).encode()) for word in sample) / len(sample)

    def _new(self) -> str:
        draw = self._random
        return "".join(draw.choice(self._onsets) + draw.choice(self._rimes) for _ in range(draw.randint(*self._length)))

    def text(self, n_bytes: int) -> str:
        """About so many bytes as UTF-8: sentences, line breaks, and now and then what JSON has to escape."""
        draw, left, parts = self._random, max(1, round(n_bytes / self._word_bytes)), []
        while left > 0:
            words = draw.choices(self._known, cum_weights=self._weights, k=min(left, SENTENCE))
            left -= len(words)
            if draw.random() * NEW_WORD < len(words):
                words[draw.randrange(len(words))] = self._new()
            end = draw.random()
            if end < 0.03:
                words[0] = f'"{words[0]}"'
            parts.append(self._glue.join(words) + draw.choice(self._stops) + ("\n\n" if end > 0.92 else self._glue))
        return "".join(parts).strip()


class Writer:
    """Texts of all scripts; an Indian or Chinese text has English sentences in it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._words = {script: Words(script, seed) for _, script in LANGUAGES}

    def text(self, place: int, n_bytes: int) -> str:
        """A text in the language of item ``place``, up to a fifth longer or shorter than ``n_bytes``."""
        script = LANGUAGES[place % len(LANGUAGES)][1]
        size = round(n_bytes * self.random.uniform(0.8, 1.2))
        if script == "Latn" or size < 100:
            return self._words[script].text(size)
        return f"{self._words[script].text(size * 9 // 10)} {self._words['Latn'].text(size // 10)}"


@dataclass(frozen=True)
class Data:
    """A file of items, one of responses, and how many requests they make."""

    items: Path
    responses: Path
    requests: int

    @cached_property
    def options(self) -> list[str]:
        """What ``submit`` is told about them."""
        names = ["--dataset", str(self.items), "--responses", str(self.responses)]
        return ["--benchmark", "indic-writing-bench", *names]


def item(writer: Writer, shape: Shape, index: int) -> dict[str, Any]:
    """One row of the benchmark, its five criteria in the language of the item."""
    language = LANGUAGES[index % len(LANGUAGES)][0]
    checklist = []
    for number in range(5):
        criterion = {"name": f"{writer.text(index, 24)} {number}"}
        criterion["criteria_description"] = writer.text(index, shape.description)
        checklist.append({**criterion, **{band: writer.text(index, shape.band) for band in BANDS}})
    domain = writer.random.randrange(DOMAINS)
    labels = {"domain": f"Domain {domain}", "subdomain": f"Kind {index % 40}", "language": language}
    query = writer.text(index, shape.query)
    return {"index": index, "id": f"i{index}", **labels, "variant": "native", "query": query, "checklist": checklist}


def write_items(folder: Path, shape: Shape, requests: int, seed: int) -> Data:
    """Items and responses for so many requests, five for each item."""
    folder.mkdir(parents=True, exist_ok=True)
    writer, n_items = Writer(seed), max(1, requests // 5)
    data = Data(folder / "items.jsonl", folder / "model.jsonl", n_items * 5)
    with data.items.open("wb") as items, data.responses.open("wb") as responses:
        for index in range(n_items):
            items.write(_line(item(writer, shape, index)))
            responses.write(_line({"index": index, "response": writer.text(index, shape.response)}))
    return data


def _line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def lines_of(*paths: Path) -> Iterator[bytes]:
    """Lines of files, one file after the other."""
    for path in paths:
        with path.open("rb") as source:
            yield from source
