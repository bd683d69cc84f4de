"""Published WritingPreferenceBench accuracies, for reading beside a run of one's own.

Source: the dataset card, and tables 1 and 2 of arXiv 2510.14616v2 (28 January 2026). Numbers as
printed there; ``Avg`` is worked out from the two columns the way the card does it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from iwb_batch.core.rounding import plain_mean


class PublishedRow(NamedTuple):
    """One published model: accuracy in per cent for English and Chinese; ``on_card`` when the card shows it."""

    model: str
    kind: str
    en: Decimal
    zh: Decimal
    on_card: bool

    @property
    def avg(self) -> Decimal:
        """Plain mean of the two languages, half up."""
        return plain_mean(self.en, self.zh)


def _row(model: str, kind: str, en: str, zh: str, *, on_card: bool = False) -> PublishedRow:
    return PublishedRow(model, kind, Decimal(en), Decimal(zh), on_card)


_SEQUENCE, _GENERATIVE, _JUDGE = "Sequence classifier", "Generative RM", "LLM judge, zero-shot"

PUBLISHED: tuple[PublishedRow, ...] = (
    _row("RM-R1-Qwen2.5-7B", _GENERATIVE, "81.8", "73.3", on_card=True),
    _row("RM-R1-DeepSeek-Qwen-14B", _GENERATIVE, "62.5", "62.6", on_card=True),
    _row("RM-R1-DeepSeek-Qwen-7B", _GENERATIVE, "56.8", "50.3"),
    _row("RM-Mistral-7B", _SEQUENCE, "62.6", "55.6", on_card=True),
    _row("Skywork-Llama-3.1-8B", _SEQUENCE, "53.1", "52.0"),
    _row("Nvidia/AceMath-7B", _SEQUENCE, "46.8", "53.5", on_card=True),
    _row("Skywork-Gemma-2-27B", _SEQUENCE, "46.8", "51.2"),
    _row("Doubao-1.5-Pro", _JUDGE, "68.7", "62.5", on_card=True),
    _row("Gemini-2.5-Pro", _JUDGE, "65.7", "62.7", on_card=True),
    _row("Claude-4-Opus-thinking", _JUDGE, "61.0", "56.0", on_card=True),
    _row("Doubao-1.6-thinking-agent", _JUDGE, "57.6", "56.2"),
    _row("Doubao-1.6-thinking", _JUDGE, "58.9", "54.2"),
    _row("Gemini-2.5-Flash", _JUDGE, "57.5", "52.2"),
    _row("Claude-4-Sonnet-thinking", _JUDGE, "55.7", "52.8"),
    _row("Doubao-1.5-Lite", _JUDGE, "53.7", "51.5"),
    _row("DeepSeek-R1", _JUDGE, "49.3", "52.0"),
    _row("OpenAI-o4-mini", _JUDGE, "56.6", "43.5"),
    _row("Qwen-3-235B", _JUDGE, "46.4", "50.5"),
    _row("Doubao-1.6-flash", _JUDGE, "49.3", "45.8"),
    _row("ByteDance-Seed-1.6", _JUDGE, "48.3", "45.5"),
    _row("OpenAI-o3-high", _JUDGE, "48.1", "42.0", on_card=True),
)

CAVEATS: tuple[str, ...] = (
    "the published judge prompt, the order of the two texts and the treatment of ties are not known: no repetition",
    "published totals are means over pairs; one published judge seems to leave missing outputs out of the denominator",
    "the published English rows of AceMath-7B and Skywork-Gemma-2-27B are nearly equal: perhaps a mistake there",
    "published judge numbers by genre group the tags in another way than the source's appendix: compare totals only",
)
