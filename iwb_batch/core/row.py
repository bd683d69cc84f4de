"""One row of a data file, as every reader hands it on and every benchmark takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Row:
    """One row, with the place it came from.

    ``values`` are JSON-ready except that strings may still hold lone surrogates; ``where`` is the
    place in words ("items.jsonl line 3", "items.parquet row 3"); ``number`` is that 1-based line or
    row; ``file`` is the file's name without its folder; ``subset`` is the config the row was read
    from, None where the source has no configs.
    """

    values: Mapping[str, Any]
    where: str
    number: int
    file: str = ""
    subset: str | None = None
