"""What the service checks before a batch runs: one pass over the input file, line by line.

The pass keeps for each line where it is, not what it says, so memory does not grow with the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

BOM = b"\xef\xbb\xbf"
MAX_ERRORS = 100
"""Errors reported for one file; reading goes no further."""

NO_MODEL = (
    "Validation failed: A valid model deployment name couldn't be extracted from the input file. Please ensure that "
    "each row in the input file has a valid deployment name specified in the 'model' field, and that the deployment "
    "name is consistent across all rows."
)

MESSAGES: Mapping[str, str] = {
    "invalid_json_line": "This line is not parseable as valid JSON.",
    "too_many_tasks": "The number of requests in the file is above the maximum of 100,000.",
    "url_mismatch": "The url of this row differs from the other rows or from the endpoint of the batch.",
    "model_not_found": "The provided model deployment does not exist in the AOAI resource.",
    "duplicate_custom_id": "The custom_id of this row is already used in the file.",
    "empty_file": "The input file holds no requests.",
    "model_mismatch": "The model deployment of this row differs from the other rows.",
    "invalid_request": "The row does not fit the schema of a batch request.",
    "input_modified": "The input changed after the batch had been created.",
    "input_no_permissions": "The input cannot be read with the permissions given.",
    "token_limit_exceeded": "Enqueued token limit reached. Please try again once some in_progress batches have ended.",
}
"""The documented codes with a plain message each."""


class Span(NamedTuple):
    """Where one request line is in the input file."""

    number: int
    offset: int
    length: int
    custom_id: str


@dataclass(slots=True)
class Scan:
    """What a pass over an input file found."""

    spans: list[Span] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    model: str | None = None


def problem(
    code: str, message: str | None = None, *, line: int | None = None, param: str | None = None
) -> dict[str, Any]:
    """One entry of a batch's ``errors.data``."""
    return {"code": code, "message": message or MESSAGES.get(code, code), "line": line, "param": param}


def first_model(path: Path) -> str | None:
    """The deployment named on the first line; None when it cannot be read."""
    with path.open("rb") as stream:
        line = stream.readline()
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    body = value.get("body") if isinstance(value, dict) else None
    model = body.get("model") if isinstance(body, dict) else None
    return model if isinstance(model, str) else None


def scan(path: Path, *, endpoint: str, max_lines: int) -> Scan:
    """Validate a file; ``endpoint`` without a leading ``/v1``."""
    return _Pass(endpoint, max_lines).over(path)


class _Pass:
    def __init__(self, endpoint: str, max_lines: int) -> None:
        self._endpoint = endpoint
        self._max_lines = max_lines
        self._url: str | None = None
        self._seen: set[str] = set()
        self._found = Scan()

    def over(self, path: Path) -> Scan:
        found = self._found
        offset = 0
        with path.open("rb") as stream:
            for number, raw in enumerate(stream, start=1):
                if number == 1 and raw.startswith(BOM):
                    found.errors.append(problem("invalid_request", NO_MODEL))
                    return found
                if len(found.spans) >= self._max_lines:
                    message = f"The file has more than {self._max_lines} requests."
                    found.errors.append(problem("too_many_tasks", message))
                    return found
                self._line(number, offset, raw)
                offset += len(raw)
                if len(found.errors) >= MAX_ERRORS:
                    return found
        if not found.spans and not found.errors:
            found.errors.append(problem("empty_file"))
        return found

    def _line(self, number: int, offset: int, raw: bytes) -> None:
        error = self._check(number, raw)
        if isinstance(error, str):
            self._found.spans.append(Span(number, offset, len(raw), error))
        else:
            self._found.errors.append(error)

    def _check(self, number: int, raw: bytes) -> str | dict[str, Any]:
        """The line's custom_id, or what is wrong with it."""
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return problem("invalid_json_line", line=number)
        if not isinstance(value, dict):
            return problem("invalid_request", "A row must be a JSON object.", line=number)
        for key, kind in (("custom_id", str), ("method", str), ("url", str), ("body", dict)):
            if not isinstance(value.get(key), kind) or not value[key]:
                return problem("invalid_request", f"Missing required parameter: '{key}'.", line=number, param=key)
        return self._agrees(number, value)

    def _agrees(self, number: int, value: Mapping[str, Any]) -> str | dict[str, Any]:
        custom_id, url, model = str(value["custom_id"]), str(value["url"]), value["body"].get("model")
        if value["method"] != "POST":
            return problem("invalid_request", "The method must be 'POST'.", line=number, param="method")
        if custom_id in self._seen:
            return problem("duplicate_custom_id", f"The custom_id '{custom_id}' occurs twice.", line=number)
        self._seen.add(custom_id)
        if url.removeprefix("/v1") != self._endpoint or url != (self._url or url):
            return problem("url_mismatch", line=number, param="url")
        self._url = url
        if not isinstance(model, str) or not model:
            return problem("invalid_request", NO_MODEL, line=number, param="model")
        if model != (self._found.model or model):
            return problem("model_mismatch", line=number, param="model")
        self._found.model = model
        return custom_id
