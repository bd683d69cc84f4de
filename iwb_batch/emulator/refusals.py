"""What the batch calls refuse: unknown ids and create calls that are wrong in form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iwb_batch.emulator.http import ApiError


def not_found(batch_id: str) -> ApiError:
    """The refusal for a batch id the resource does not know."""
    return ApiError.of(404, "404", f"The batch '{batch_id}' does not exist in this resource.")


def check_create(body: Mapping[str, Any]) -> str:
    """Check a create call; returns the endpoint without ``/v1``. Raises ApiError 400."""
    endpoint = str(body.get("endpoint") or "").removeprefix("/v1")
    if endpoint != "/chat/completions":
        raise ApiError.of(400, "invalid_value", "The endpoint must be '/chat/completions'.", param="endpoint")
    if body.get("completion_window") != "24h":
        raise ApiError.of(400, "invalid_value", "The completion window must be '24h'.", param="completion_window")
    metadata = body.get("metadata")
    if metadata is not None and not _good_metadata(metadata):
        message = "Metadata holds at most 16 pairs of text: keys up to 64 characters, values up to 512."
        raise ApiError.of(400, "invalid_value", message, param="metadata")
    return endpoint


def _good_metadata(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and len(value) <= 16
        and all(len(key) <= 64 and isinstance(text, str) and len(text) <= 512 for key, text in value.items())
    )
