"""What tokens cost at batch price. Azure retail meters for Global Batch, USD per million tokens.

A price is known when the user gives it or when the deployment's name begins with a model of the table
(the longest match counts). Otherwise it is unknown, and so is every cost: unknown is never 0.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE_DATE = "2026-08-11"

_TABLE: dict[str, tuple[float, float | None, float]] = {
    "gpt-5.4-mini": (0.375, 0.0375, 2.25),
    "gpt-5.4": (1.25, 0.13, 7.50),
    "gpt-5.1": (0.625, 0.0625, 5.00),
    "gpt-5-mini": (0.125, 0.0125, 1.00),
    "gpt-5": (0.625, 0.0625, 5.00),
    "gpt-4.1-mini": (0.20, None, 0.80),
    "gpt-4.1-nano": (0.05, None, 0.20),
    "gpt-4.1": (1.00, None, 4.00),
    "o4-mini": (0.55, None, 2.20),
    "o3": (1.00, None, 4.00),
}
# The family's other members have other prices: a name that only begins alike must not borrow one.
_NOT_PRICED = (
    "gpt-5-nano",
    "gpt-5.2",
    "gpt-5.3",
    "gpt-5.5",
    "gpt-5.6",
    "gpt-5-pro",
    "gpt-5-codex",
    "gpt-5.1-codex",
    "o3-mini",
    "o3-pro",
)


@dataclass(frozen=True, slots=True)
class Prices:
    """USD per million tokens; ``cached`` None: billed as input. ``input`` or ``output`` None: unknown."""

    input: float | None = None
    cached: float | None = None
    output: float | None = None
    source: str | None = None

    @property
    def known(self) -> bool:
        """True when a cost can be computed."""
        return self.input is not None and self.output is not None

    def cost(self, input_tokens: float, output_tokens: float, cached_tokens: float = 0) -> float | None:
        """USD, None when unknown."""
        if self.input is None or self.output is None:
            return None
        cached = self.input if self.cached is None else self.cached
        return (
            (input_tokens - cached_tokens) * self.input + cached_tokens * cached + output_tokens * self.output
        ) / 1e6


def prices_for(
    deployment: str,
    *,
    price_input: float | None = None,
    price_cached: float | None = None,
    price_output: float | None = None,
    bundled: bool = True,
) -> Prices:
    """Prices of a deployment: the user's where given, else the bundled table's where the name is known."""
    listed = _listed(deployment) if bundled else None
    given = [
        name
        for name, value in (("input", price_input), ("cached", price_cached), ("output", price_output))
        if value is not None
    ]
    base, source = (None, None) if listed is None else listed
    if given:
        source = f"given: {', '.join(given)}" + (f"; rest {source}" if source and len(given) < 3 else "")
    return Prices(
        input=price_input if price_input is not None else (base[0] if base else None),
        cached=price_cached if price_cached is not None else (base[1] if base else None),
        output=price_output if price_output is not None else (base[2] if base else None),
        source=source,
    )


def _listed(deployment: str) -> tuple[tuple[float, float | None, float], str] | None:
    name = deployment.lower()
    if name.startswith(_NOT_PRICED):
        return None
    for model in sorted(_TABLE, key=len, reverse=True):
        if name == model or (name.startswith(model) and not name[len(model)].isalnum() and name[len(model)] != "."):
            return _TABLE[model], f"bundled table of {TABLE_DATE} for {model} (Global Batch)"
    return None
