"""Which category of a content filter fired, in the places where Azure says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

DETAIL_LIMIT = 300
"""Characters of the categories that are kept."""

_PLACES = ("content_filter_result", "content_filter_results")


def fired(nearest: object, body: object) -> str | None:
    """Name the categories that fired, for example ``violence/medium``; None when none is named.

    ``nearest``: the error or the choice; only when it names nothing are the prompt's results in ``body`` read.
    """
    for source in (_results(nearest), _prompt_results(body)):
        found = list(source)
        names = [_name(key, entry) for results in found for key, entry in results.items() if _is(entry, "filtered")]
        names = names or [
            _name(key, entry) for results in found for key, entry in results.items() if _is(entry, "detected")
        ]
        if names:
            return ", ".join(dict.fromkeys(names))[:DETAIL_LIMIT]
    return None


def _results(holder: object) -> Iterator[Mapping[str, Any]]:
    if not isinstance(holder, dict):
        return
    for source in (holder.get("innererror"), holder):
        if isinstance(source, dict):
            for place in _PLACES:
                results = source.get(place)
                if isinstance(results, dict):
                    yield results


def _prompt_results(body: object) -> Iterator[Mapping[str, Any]]:
    prompts = body.get("prompt_filter_results") if isinstance(body, dict) else None
    for prompt in prompts if isinstance(prompts, list) else []:
        yield from _results(prompt)


def _is(entry: object, word: str) -> bool:
    if isinstance(entry, list):
        return any(_is(one, word) for one in entry if not isinstance(one, list))
    return isinstance(entry, dict) and entry.get(word) is True


def _name(category: str, entry: object) -> str:
    severity = entry.get("severity") if isinstance(entry, dict) else None
    return f"{category}/{severity}" if isinstance(severity, str) and severity else category
