"""Rendering requests as lines of a request file, and checking such lines.

A line is put together from JSON fragments that were escaped once: the fixed text of the template
when the renderer is made, long fields once for each item. JSON escapes code point by code point,
so the pieces joined are the same bytes as the whole message escaped at once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import orjson

from iwb_batch.core.lines import UnreadableLine, parse_object
from iwb_batch.errors import UsageError
from iwb_batch.model import CustomId, Request

Made = TypeVar("Made")

URL = "/v1/chat/completions"
REMEMBERED_TEXTS = 8
MAX_CUSTOM_ID = 64

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_RUN_ID = re.compile(r"([0-9a-f]{10})-i[0-9]")
_ORDER_CODES = {"chosen-first": "cf", "rejected-first": "rf"}
_LINE_BREAKS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))


def custom_id(run_id: str, request: Request, attempt: int) -> CustomId:
    """Name of one attempt: ``<run_id>-i<index>-c<criterion>|-o<cf|rf>|-s<c|r>-r<repeat>-a<attempt>``, at most 64 ASCII.

    Requests without criterion, order and side (generation) leave that part out. ValueError: it would be longer.
    """
    part = ""
    if request.criterion_index is not None:
        part = f"-c{request.criterion_index}"
    elif request.pair_order is not None:
        part = f"-o{_ORDER_CODES[request.pair_order]}"
    elif request.side is not None:
        part = f"-s{request.side[0]}"
    name = f"{run_id}-i{request.item_index}{part}-r{request.repeat}-a{attempt}"
    if len(name) > MAX_CUSTOM_ID or not name.isascii():
        raise ValueError(f"custom_id {name!r} is longer than {MAX_CUSTOM_ID} ASCII characters")
    return CustomId(name)


def run_id_of(name: str) -> str | None:
    """The run a custom_id belongs to, or None when it has another form."""
    match = _RUN_ID.match(name)
    return match.group(1) if match else None


class Template:
    """A text with ``{name}`` places, filled in one pass: values are never looked at again."""

    def __init__(self, text: str) -> None:
        """Find the places: braces around lower-case letters and underscores, nothing else."""
        parts = _PLACEHOLDER.split(text)
        self.text = text
        self.literals: tuple[str, ...] = tuple(parts[0::2])
        self.names: tuple[str, ...] = tuple(parts[1::2])

    def fill(self, fields: Mapping[str, str]) -> str:
        """The text with its places filled. KeyError: a field is missing."""
        pieces = [self.literals[0]]
        for name, literal in zip(self.names, self.literals[1:], strict=True):
            pieces += (fields[name], literal)
        return "".join(pieces)


class Lately(Generic[Made]):
    """A function of texts that remembers what it made of the last few.

    They are known again by identity: to look a long text up by its value costs as much as to escape it, and
    the requests of one item are made one after the other from the very same objects.
    """

    def __init__(self, make: Callable[[str], Made]) -> None:
        """Nothing is made yet."""
        self._make = make
        self._made: deque[tuple[str, Made]] = deque(maxlen=REMEMBERED_TEXTS)

    def __call__(self, text: str) -> Made:
        """What ``make`` returns for the text."""
        for known, made in self._made:
            if known is text:
                return made
        made = self._make(text)
        self._made.appendleft((text, made))
        return made


class LineRenderer:
    """Renders requests of one run as lines of a request file."""

    def __init__(
        self,
        system: str | None,
        template: str,
        *,
        model: str,
        token_parameter: str = "max_completion_tokens",  # noqa: S107  (the name of a body key)
        extra_body: Mapping[str, Any] | None = None,
        url: str = URL,
    ) -> None:
        """Escape everything the lines of the run share. UsageError: no line can be made of it.

        ``system`` None or "" leaves the system message out; ``extra_body`` (response_format,
        reasoning_effort, sampling parameters) goes into the body after the token limit, as it is.
        """
        self._system = system
        self._template = Template(template)
        system_message = b'{"role":"system","content":"' + escape(system) + b'"},' if system else b""
        literals = [escape(literal) for literal in self._template.literals]
        opening = (
            b'","method":"POST","url":"' + escape(url) + b'","body":{"model":"' + escape(model) + b'","messages":['
            + system_message + b'{"role":"user","content":"'
        )  # fmt: skip
        self._pieces = [b'{"custom_id":"', b"", opening + literals[0]]
        for literal in literals[1:]:
            self._pieces += (b"", literal)
        self._places = [
            (name, [3 + 2 * n for n, other in enumerate(self._template.names) if other == name])
            for name in dict.fromkeys(self._template.names)
        ]
        self._pieces[-1] += b'"}],"' + escape(token_parameter) + b'":'
        self._closing = b"," + _one_line(orjson.dumps(dict(extra_body)))[1:] + b"}\n" if extra_body else b"}}\n"
        self._escaped = Lately(escape)
        # A line is what all lines share and texts that are escaped one by one; so one line is enough to check.
        fault = check_request_line(self.line("a", dict.fromkeys(self._template.names, ""), 1))
        if fault is not None:
            raise UsageError(f"no request can be made for the judge {model!r}: {fault}", hint="Check --judge.")

    @property
    def prompt_sha256(self) -> str:
        """Hex sha256 over the system prompt and the template, as a JSON array of the two."""
        texts = json.dumps([self._system or "", self._template.text], ensure_ascii=False)
        return hashlib.sha256(texts.encode("utf-8")).hexdigest()

    def line(self, custom_id: str, fields: Mapping[str, str], token_limit: int) -> bytes:
        """One line, ending in its only ``\\n``: UTF-8, only U+2028, U+2029, U+0085 escaped beyond JSON's needs.

        Keys in the order custom_id, method, url, body; in the body model, messages, the token
        parameter, extras. ValueError: a field holds a lone surrogate. KeyError: a field is missing.
        """
        pieces, escaped = self._pieces.copy(), self._escaped
        pieces[1] = escape(custom_id)
        for name, places in self._places:
            text = escaped(fields[name])
            for place in places:
                pieces[place] = text
        pieces += (b"%d" % token_limit, self._closing)
        return b"".join(pieces)

    def fault(self, custom_id: str, line: bytes) -> str | None:
        """What is wrong with a line that was to be written, or None.

        One that begins and ends as every line does, with escaped texts in between, needs no closer look.
        """
        begin, end = self._pieces[0] + escape(custom_id) + self._pieces[2], self._closing
        if line.startswith(begin) and line.endswith(end) and line.find(b"\n") == len(line) - 1:
            return None
        fault = check_request_line(line)
        if fault is None and line.find(b"\n") != len(line) - 1:
            fault = "a line end that is not its end"
        if fault is None and orjson.loads(line)["custom_id"] != custom_id:
            fault = "the custom_id of another request"
        return fault

    def messages(self, fields: Mapping[str, str]) -> list[dict[str, str]]:
        """The messages of one request as objects, for showing them or sending them online."""
        user = {"role": "user", "content": self._template.fill(fields)}
        return [{"role": "system", "content": self._system}, user] if self._system else [user]


def escape(text: str) -> bytes:
    """Inside of the JSON string for a text, without the quotes. ValueError: it holds a lone surrogate."""
    try:
        encoded = orjson.dumps(text)[1:-1]
    except orjson.JSONEncodeError:
        place = next(i for i, c in enumerate(text) if 0xD800 <= ord(c) <= 0xDFFF)
        raise ValueError(f"lone surrogate at character {place + 1} of a text to be sent") from None
    # Looking for one character in a str is some 50 times faster than for its bytes in the encoded text.
    if "\u2028" in text or "\u2029" in text or "\u0085" in text:
        return _one_line(encoded)
    return encoded


def _one_line(encoded: bytes) -> bytes:
    """Escape the line separators that naive readers cut at; their bytes occur in UTF-8 as nothing else."""
    for raw, escaped in _LINE_BREAKS:
        encoded = encoded.replace(raw, escaped)
    return encoded


def check_request_line(line: bytes) -> str | None:
    """What is wrong with one line of a request file, or None."""
    record = parse_object(line)
    if isinstance(record, UnreadableLine):
        return f"not an object: {record.why}"
    for key in ("custom_id", "method", "url", "body"):
        if key not in record:
            return f"missing {key}"
        if not record[key]:
            return f"empty {key}"
    body = record["body"]
    if not isinstance(record["custom_id"], str) or not isinstance(body, dict):
        return "custom_id must be text and body an object"
    return next((f"missing body.{key}" for key in ("model", "messages") if not body.get(key)), None)
