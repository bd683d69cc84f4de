"""Gates of a pilot: whether the first N requests went well enough to send the rest."""

from __future__ import annotations

from dataclasses import dataclass

from iwb_batch.core.words import counted

VALID_SHARE = 0.95
TRUNCATED_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class PilotOutcome:
    """What the pilot's first attempts came to. Costs in USD; None: unknown or no budget."""

    attempts: int
    valid: int
    truncated: int
    projected_cost: float | None = None
    budget: float | None = None


def failed_gates(pilot: PilotOutcome) -> list[str]:
    """The gates that do not hold, in words; empty: the rest may be sent."""
    if pilot.attempts == 0:
        return ["no request of the pilot was sent"]
    found = []
    answers = counted(pilot.attempts, "answer is", "answers are")
    if pilot.valid < VALID_SHARE * pilot.attempts:
        found.append(f"{pilot.valid} of {answers} valid, {VALID_SHARE:.0%} are needed")
    if pilot.truncated > TRUNCATED_SHARE * pilot.attempts:
        found.append(f"{pilot.truncated} of {answers} cut, {TRUNCATED_SHARE:.0%} are allowed")
    if pilot.budget is not None and (pilot.projected_cost is None or pilot.projected_cost > pilot.budget):
        cost = "unknown" if pilot.projected_cost is None else f"{pilot.projected_cost:.2f} USD"
        found.append(f"the whole run is projected to cost {cost}, the budget is {pilot.budget:.2f} USD")
    return found
