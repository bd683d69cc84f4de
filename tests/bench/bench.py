"""What every section is given, and what it gives back."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.measure import Table


@dataclass(frozen=True)
class Sizes:
    """How much of everything; see the options of the program."""

    requests: int = 10_000
    shapes: tuple[str, ...] = ("large", "small")
    repeat: int = 5
    naive_lines: int = 500
    upload: int = 200_000_000
    scores: int = 100_000
    growth: tuple[int, ...] = (10_000, 100_000)
    clusters: int = 5_000
    resamples: int = 10_000
    tokens: int = 4_000_000
    curator_lines: int = 2_000
    seed: int = 20_261_130


@dataclass(frozen=True)
class Target:
    """A figure of ours that has to reach a bound: at least it, or at most it. ``measured`` None: not measured."""

    what: str
    bound: float
    measured: float | None
    unit: str = "x"
    at_most: bool = False

    @property
    def reached(self) -> bool | None:
        """None where nothing was measured."""
        if self.measured is None:
            return None
        return self.measured <= self.bound if self.at_most else self.measured >= self.bound


@dataclass
class Section:
    """What one section found: tables, targets, and lines that are neither."""

    name: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class Bench:
    """Sizes, a folder to work in, and where to say what is going on."""

    sizes: Sizes
    folder: Path
    say: Callable[[str], None]
    cpu: bool = False
    """Ratios of processor time, for a machine that has other work."""
    curator: str | None = None
    grown: dict[int, Path] = field(default_factory=dict)
    """Runs folders of collected runs by their number of requests: made by one section, read by another."""

    def place(self, name: str) -> Path:
        """A new folder."""
        place = self.folder / name
        place.mkdir(parents=True)
        return place

    def done(self, places: Iterable[Path]) -> None:
        """Free the disk."""
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
