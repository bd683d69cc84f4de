"""Checks as ``doctor`` and ``export --verify`` show them: one line each, with what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from iwb_batch.core.words import counted
from iwb_batch.report.display import padded, visible, width

Status = Literal["ok", "warn", "broken"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. ``count`` is how many places break the rule, where it is a rule with places."""

    name: str
    status: Status
    message: str
    next_step: str | None = None
    count: int | None = None


def is_sound(checks: Sequence[Check]) -> bool:
    """True when no check is broken."""
    return all(check.status != "broken" for check in checks)


def to_text(checks: Sequence[Check]) -> str:
    """A line for each check, its next step below it, and a summary last."""
    name_width = max((width(check.name) for check in checks), default=0)
    lines = []
    for check in checks:
        lines.append(f"{padded(check.status, 6)}  {padded(check.name, name_width)}  {visible(check.message)}")
        if check.next_step and check.status != "ok":
            lines.append(f"{'':6}  {'':{name_width}}  next: {visible(check.next_step)}")
    return "\n".join([*lines, "", summary(checks)])


def summary(checks: Sequence[Check]) -> str:
    """How many checks there are, and how many are not ok."""
    warned = sum(check.status == "warn" for check in checks)
    broken = sum(check.status == "broken" for check in checks)
    sound = len(checks) - warned - broken
    return f"{counted(len(checks), 'check')}: {sound} ok, {counted(warned, 'warning')}, {broken} broken"


def shape(checks: Sequence[Check]) -> dict[str, Any]:
    """``{"ok": bool, "checks": [{"name", "status", "message", "next", "count"}]}``."""
    return {
        "ok": is_sound(checks),
        "checks": [
            {"name": c.name, "status": c.status, "message": c.message, "next": c.next_step, "count": c.count}
            for c in checks
        ],
    }
