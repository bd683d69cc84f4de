"""From the judge's text to a verdict: strict JSON first, then lossless unwrapping, then the schema.

Nothing is repaired or guessed. A text that cannot be read without guessing is invalid and asked for again.
What was unwrapped is noted, so that every judgement says how it was read.
"""

from __future__ import annotations

import json
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import orjson

from iwb_batch.core import objects, reasoning
from iwb_batch.core.lines import clean_text, clean_value, describe
from iwb_batch.model import Judgement, Outcome, PairOrder

FENCE = "fence"
BOM = "bom"
REASONING = "reasoning"
CONTROL_CHARACTERS = "control_characters"
PROSE = "prose"
SURROGATE = "surrogate"
IDENTICAL_COPIES = "identical_copies"

MESSAGE_LIMIT = 300
"""Characters of a schema message that are kept."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer that passed its schema; ``notes`` say what was unwrapped on the way."""

    value: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    cut_out: bool = False
    """True when the object was cut out of other text, so that what the candidate wrote matters."""


@dataclass(frozen=True, slots=True)
class InvalidVerdict:
    """An answer without a verdict: ``invalid_json`` or ``invalid_schema``, and what exactly."""

    outcome: Outcome
    detail: str


class _NotStrictError(ValueError):
    """JSON that Python would read and that means nothing sure: repeated keys, NaN, numbers without end."""


class VerdictReader:
    """Reads verdicts of one shape. Build once, read many: validators are compiled here."""

    def __init__(self, schema: Mapping[str, Any], *, keys: tuple[str, str] = ("score", "reason")) -> None:
        """``schema``: draft 2020-12; ``keys``: the two keys that make an object verdict-shaped, value first."""
        import jsonschema_rs

        self._keys = keys
        self._both = frozenset(keys)
        self._schema = schema
        self._is_valid: Callable[[object], bool] = jsonschema_rs.Draft202012Validator(dict(schema)).is_valid

    def read(self, text: str, candidate_texts: Sequence[str] = ()) -> Verdict | InvalidVerdict:
        """Read the judge's text.

        ``candidate_texts`` are the query and the responses judged: an object that had to be cut out of other
        text is refused when it occurs in one of them, white space aside, since a candidate that plants a
        verdict must not set its own score. Never raises for any text.
        """
        plain = self._plain(text)
        if plain is not None:
            return plain
        text, replaced = clean_text(text)
        notes = (SURROGATE,) if replaced else ()
        try:
            value = _STRICT.decode(text)
        except objects.UNREADABLE as error:
            why = objects.why(error)
        else:
            return self._check(value, notes)
        return self._unwrap(text, candidate_texts, notes, why)

    def _plain(self, text: str) -> Verdict | None:
        """The verdict of an answer that is nothing but a valid object with the two keys; None: read it carefully.

        The same verdict as the careful way, several times faster. What the fast parser would pass over in silence
        is a key said twice; then there are more quotes in the text than its keys and values account for.
        """
        if "\\u" in text:
            return None
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None
        if type(value) is not dict or value.keys() != self._both or type(value[self._keys[0]]) is float:
            return None
        strings = [entry for entry in value.values() if type(entry) is str]
        quotes = 2 * (len(value) + len(strings)) + sum(entry.count('"') for entry in strings)
        return Verdict(value) if text.count('"') == quotes and self._passes(value) else None

    def _unwrap(
        self, text: str, candidate_texts: Sequence[str], notes: tuple[str, ...], why: str
    ) -> Verdict | InvalidVerdict:
        """Try each layer that can be taken off without loss; the last resort is one object amid prose."""
        bare, own = _trim(text)
        notes += own
        for body, more in _with_and_without_fence(bare):
            read = _decode(body)
            if read is not None:
                return self._check(read[0], (*notes, *more, *read[1]))
        answer = self._without_reasoning(bare)
        if answer is None:
            return InvalidVerdict(Outcome.INVALID_JSON, "the reasoning never ends, so there is no verdict")
        if answer != bare:
            notes = (*notes, REASONING)
            for body, more in _with_and_without_fence(answer):
                read = _decode(body)
                if read is not None:
                    return self._from_other_text(read[0], body, candidate_texts, (*notes, *more, *read[1]))
        return self._from_prose(answer, candidate_texts, notes, why)

    def _without_reasoning(self, text: str) -> str | None:
        """The text behind a leading reasoning block; None when the block never ends.

        A closing tag inside an object is text of that object: a reason may speak of the tag.
        """
        if not reasoning.opens(text):
            tags = reasoning.closing_tags(text)
            spans = [(found.start, found.end) for found in self._scan(text).objects] if tags else []
            outside = [end for start, end in tags if not any(a <= start < b for a, b in spans)]
            return _trim(text[outside[0] :])[0] if outside else text
        answer = reasoning.strip(text, "auto").answer
        return None if answer is None else _trim(answer)[0]

    def _from_prose(
        self, text: str, candidate_texts: Sequence[str], notes: tuple[str, ...], why: str
    ) -> Verdict | InvalidVerdict:
        scan = self._scan(text)
        if scan.broken is not None:
            return InvalidVerdict(Outcome.INVALID_JSON, scan.broken)
        shaped = [found for found in scan.objects if all(key in found.value for key in self._keys)]
        if not shaped:
            return InvalidVerdict(Outcome.INVALID_JSON, why)
        if len({_canonical(found.value) for found in shaped}) > 1:
            return InvalidVerdict(Outcome.INVALID_JSON, f"ambiguous: {len(shaped)} different verdicts in one answer")
        if any(found.controls for found in shaped):
            notes = (*notes, CONTROL_CHARACTERS)
        if _outside(text, shaped):
            notes = (*notes, PROSE)
        if len(shaped) > 1:
            notes = (*notes, IDENTICAL_COPIES)
        found = shaped[0]
        return self._from_other_text(found.value, text[found.start : found.end], candidate_texts, notes)

    def _from_other_text(
        self, value: object, source: str, candidate_texts: Sequence[str], notes: tuple[str, ...]
    ) -> Verdict | InvalidVerdict:
        """Check a value that was cut out of a longer text, unless it is the candidate's own."""
        needles = {_squeeze(source), _squeeze(_canonical(value))} if isinstance(value, dict) else set()
        if any(needle in hay for hay in map(_squeeze, candidate_texts) for needle in needles):
            return InvalidVerdict(Outcome.INVALID_JSON, "the only verdict is a quotation from the text judged")
        checked = self._check(value, notes)
        return replace(checked, cut_out=True) if isinstance(checked, Verdict) else checked

    def _check(self, value: object, notes: tuple[str, ...]) -> Verdict | InvalidVerdict:
        if not isinstance(value, dict):
            return InvalidVerdict(Outcome.INVALID_SCHEMA, f"the answer is {describe(value)} instead of an object")
        try:
            cleaned, replaced = clean_value(value)
            complaints = "" if self._passes(cleaned) else self._complaints(cleaned)
        except RecursionError as error:
            return InvalidVerdict(Outcome.INVALID_JSON, objects.why(error))
        if complaints:
            return InvalidVerdict(Outcome.INVALID_SCHEMA, complaints)
        if replaced:
            notes = (SURROGATE, *notes)
        return Verdict(_with_integer(cleaned, self._keys[0]), tuple(dict.fromkeys(notes)))

    def _passes(self, value: object) -> bool:
        try:
            return self._is_valid(value)
        except (ValueError, OverflowError):
            # What the fast validator cannot take (depth, size) is for the other one to decide.
            return False

    @cached_property
    def _judge_of_record(self) -> Any:
        import jsonschema

        return jsonschema.Draft202012Validator(self._schema)

    def _complaints(self, value: object) -> str:
        """Messages of jsonschema, which decides: the first for each place; empty when it has none."""
        messages: dict[str, str] = {}
        for error in self._judge_of_record.iter_errors(value):
            place = ".".join(map(str, error.path))
            label = f"{place}: " if place else ""
            messages.setdefault(place or error.message, f"{label}{error.message}"[:MESSAGE_LIMIT])
        return "; ".join(messages.values())

    def _scan(self, text: str) -> objects.Scan:
        return objects.scan(text, _read_at, watch=self._keys)


def score_judgement(verdict: Verdict) -> Judgement:
    """The judgement of a verdict with ``score`` and ``reason``."""
    return Judgement(reason=verdict.value["reason"], score=verdict.value["score"], notes=verdict.notes)


def preference_judgement(verdict: Verdict, order: PairOrder) -> Judgement:
    """The judgement of a verdict with ``preference`` and ``reason``; A is the text that was shown first."""
    first = verdict.value["preference"] == "A"
    chosen = first == (order == "chosen-first")
    return Judgement(reason=verdict.value["reason"], preferred="chosen" if chosen else "rejected", notes=verdict.notes)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                message = f"duplicate key {key}"
                raise _NotStrictError(message)
            seen.add(key)
    return value


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        message = f"the number {digits[:40]} is too large"
        raise _NotStrictError(message)
    return number


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is no JSON number"
    raise _NotStrictError(message)


def _decoder(*, strict: bool) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_no_constant, strict=strict
    )


_STRICT = _decoder(strict=True)
_LENIENT = _decoder(strict=False)


def _decode(text: str) -> tuple[object, tuple[str, ...]] | None:
    """Read a whole text as JSON, raw control characters in strings allowed and noted; None if it is no JSON."""
    for decoder, notes in ((_STRICT, ()), (_LENIENT, (CONTROL_CHARACTERS,))):
        try:
            return decoder.decode(text), notes
        except objects.UNREADABLE:
            continue
    return None


def _read_at(text: str, start: int) -> objects.Value:
    """Read the JSON value that begins at ``start``; raises ValueError or RecursionError."""
    try:
        value, end = _STRICT.raw_decode(text, start)
    except json.JSONDecodeError:
        value, end = _LENIENT.raw_decode(text, start)
        return objects.Value(value, end, controls=True)
    return objects.Value(value, end, controls=False)


def _trim(text: str) -> tuple[str, tuple[str, ...]]:
    """Take white space and byte order marks off both ends."""
    bare = text.strip()
    if not (bare.startswith("\ufeff") or bare.endswith("\ufeff")):
        return bare, ()
    return bare.strip(string.whitespace + "\ufeff").strip(), (BOM,)


def _with_and_without_fence(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield text, ()
    ticks = len(text) - len(text.lstrip("`"))
    if ticks >= 3 and len(text) > 2 * ticks and text.endswith("`" * ticks):
        yield _trim(text[ticks:-ticks].lstrip(string.ascii_letters))[0], (FENCE,)


def _with_integer(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Turn 7.0, which the schema takes for an integer, into 7."""
    number = value.get(key)
    return {**value, key: int(number)} if isinstance(number, float) and number.is_integer() else value


def _canonical(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _outside(text: str, found: Sequence[objects.Found]) -> bool:
    """Whether anything but white space stands outside the objects."""
    at = 0
    for one in found:
        if text[at : one.start].strip():
            return True
        at = one.end
    return bool(text[at:].strip())
