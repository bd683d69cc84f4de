"""Who judged: changes of the judge within a run, and a judge that may prefer its own family's texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from iwb_batch.core.words import counted

MAKERS: tuple[tuple[str, str], ...] = (
    ("OpenAI", r"gpt|chatgpt|o[1-9]|davinci"),
    ("Anthropic", r"claude"),
    ("Google", r"gemini|gemma|palm"),
    ("Meta", r"llama"),
    ("Alibaba", r"qwen|qwq"),
    ("DeepSeek", r"deepseek"),
    ("Mistral AI", r"mistral|mixtral|ministral|magistral"),
    ("ByteDance", r"doubao|seed"),
    ("Zhipu AI", r"glm|chatglm"),
    ("Moonshot AI", r"kimi|moonshot"),
    ("xAI", r"grok"),
    ("Microsoft", r"phi"),
    ("Cohere", r"command|aya"),
    ("Sarvam AI", r"sarvam"),
)
"""Makers and the words their models' names begin with."""


class Answers(NamedTuple):
    """Answers of one judge in a row: its model, system fingerprint, and how many."""

    model: str | None
    fingerprint: str | None
    n: int


def maker(name: str) -> str | None:
    """Who makes a model, by a word of its name; None when no word is known."""
    words = [word for word in re.split(r"[^a-z0-9.]+", name.lower()) if word]
    for who, pattern in MAKERS:
        if any(re.match(rf"(?:{pattern})(?![a-z])", word) for word in words):
            return who
    return None


def same_maker(writer: str, judges: Iterable[str]) -> str | None:
    """The maker that writer and a judge share, None when there is none or it is not known."""
    who = maker(writer)
    return who if who is not None and any(maker(judge) == who for judge in judges) else None


def change_note(stretches: Sequence[Answers]) -> str | None:
    """What to say when the judge was not the same all the time: each stretch in order, with its answers."""
    known = [s for s in stretches if s.model is not None or s.fingerprint is not None]
    if len({(s.model, s.fingerprint) for s in known}) < 2:
        return None
    if len(known) <= _SHOWN:
        told = [f"{_name(s)}: {counted(s.n, 'answer')}" for s in known]
        return f"the judge changed within the run: {', then '.join(told)}"
    totals: dict[str, int] = {}
    for stretch in known:
        totals[_name(stretch)] = totals.get(_name(stretch), 0) + stretch.n
    told = [
        f"{name}: {counted(n, 'answer')}" for name, n in sorted(totals.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
    return f"the judge changed to and fro within the run: {', '.join(told)}"


_SHOWN = 6
"""Stretches told one by one; more of them are a to and fro, of which the totals are told."""


def _name(answers: Answers) -> str:
    model = answers.model or "unnamed model"
    return model if answers.fingerprint is None else f"{model} ({answers.fingerprint})"
