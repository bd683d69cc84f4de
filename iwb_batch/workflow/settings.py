"""Settings of a run: what must not change while it lives (Plan), and what may (Options)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

StripMode = Literal["auto", "exact", "required", "off"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where items and responses come from, and which of them are judged."""

    benchmark: str
    dataset: tuple[str, ...] = ()
    subset: str | None = None
    split: str = "test"
    revision: str | None = None
    responses: Path | None = None
    model_name: str | None = None
    strip_reasoning: StripMode = "auto"
    where: tuple[tuple[str, str], ...] = ()
    limit: int | None = None
    allow_missing: bool = False
    empty_responses: Literal["judge", "exclude"] | None = None


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """The judge and what is asked of it."""

    judge: str = "gpt-5.4"
    provider: str = "azure"
    max_completion_tokens: int = 8_000
    reasoning_effort: str | None = None
    structured_output: bool = False
    repeats: int = 1
    orders: Literal["both", "chosen-first", "rejected-first", "random"] = "both"
    protocol: str | None = None
    """None: the benchmark's own."""
    lanes: tuple[tuple[str, str], ...] = ()
    """(lane, deployment) of each ``--lane``; empty: one resource, one deployment."""
    sampling: Literal["seed", "none"] = "none"
    token_parameter: Literal["max_tokens", "max_completion_tokens"] = "max_completion_tokens"  # noqa: S105 (tokens of text)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings that may differ when a run is continued. Prices in USD per million tokens at batch price."""

    max_resubmits: int = 3
    resubmit_filtered: int = 0
    max_requests_per_file: int = 50_000
    max_bytes_per_file: int = 190_000_000
    enqueued_token_limit: int | None = None
    price_input: float | None = None
    price_cached: float | None = None
    price_output: float | None = None
    budget: float | None = None
    pilot: int | None = None
    api_version: str | None = None
    auth: Literal["key", "entra"] = "key"
    entra_scope: str | None = None
    lanes: tuple[str, ...] = ()
    """Names of the lanes whose credentials are needed."""

    def stored(self) -> dict[str, Any]:
        """As run.db keeps them."""
        return dataclasses.asdict(self)

    @classmethod
    def restored(cls, values: Mapping[str, Any]) -> Options:
        """From run.db; keys of other versions are passed over."""
        known = {f.name for f in dataclasses.fields(cls)}
        restored = {name: value for name, value in values.items() if name in known}
        return cls(**{**restored, "lanes": tuple(restored.get("lanes", ()))})


@dataclass(frozen=True, slots=True)
class Waiting:
    """How long a command waits, in seconds. ``None`` for ``timeout``: as long as it takes."""

    wait: float = 60.0
    grace: float = 120.0
    settle: float = 1_800.0
    poll_interval: float = 60.0
    timeout: float | None = None
    watch: bool = False


def canonical(values: Mapping[str, Any]) -> str:
    """JSON text that is equal for equal values."""
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def sha256_text(text: str) -> str:
    """SHA-256 of a text as UTF-8, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """One setting in which an existing run and a new plan differ."""

    name: str
    run: Any
    asked: Any


def differences(stored: Mapping[str, Any], asked: Mapping[str, Any]) -> list[PlanDifference]:
    """What keeps a run from being continued; ``repeats`` may grow. Settings inside others are named ``outer.inner``."""
    found = []
    for name in sorted(stored.keys() | asked.keys()):
        was, now = stored.get(name), asked.get(name)
        grows = name == "repeats" and isinstance(was, int) and isinstance(now, int) and now >= was
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            found += [PlanDifference(f"{name}.{d.name}", d.run, d.asked) for d in differences(was, now)]
        elif was != now and not grows:
            found.append(PlanDifference(name, was, now))
    return found


@dataclass(frozen=True, slots=True)
class Measured:
    """What requests come to: files, requests, bytes, estimated input tokens."""

    files: int = 0
    requests: int = 0
    n_bytes: int = 0
    n_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a plan costs before anything is sent. ``cost_usd`` is None when a price is unknown."""

    size: Measured
    output_tokens: int
    cost_usd: float | None
    token_label: str
    price_source: str | None
    notes: tuple[str, ...] = field(default_factory=tuple)
