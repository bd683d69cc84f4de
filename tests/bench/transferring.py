"""Section ``transfer``: a large file to the provider and back, over the SDK, on this machine."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.bench import Bench, Section, Target
from tests.bench.loopback import Server, serving
from tests.bench.measure import Run, Table, Variant, WrongOutput, in_turns

IDLE = "idle client"
UP, DOWN = "ours: upload", "ours: download, hashed and flushed"
SDK_UP, SDK_DOWN = "SDK: files.create(file=Path)", "SDK: content().write_to_file"
HTTP_UP, HTTP_DOWN = "floor: http.client up", "floor: http.client down, flushed"
BLOCK = 1 << 20
ENVELOPE = 10_000
"""Bytes an upload may have beside the file."""


def write_file(path: Path, n_bytes: int, seed: int) -> None:
    """A file without pattern."""
    draw = random.Random(seed)
    block = draw.randbytes(BLOCK)
    with path.open("wb") as out:
        for start in range(0, n_bytes, BLOCK):
            out.write(block[: min(BLOCK, n_bytes - start)])


def _check_upload(files: Server, _folder: Path, _run: Run) -> None:
    size = files.path.stat().st_size
    if not size <= files.taken[-1] <= size + ENVELOPE:
        raise WrongOutput(f"{files.taken[-1]} bytes taken of a file of {size}")


def _check_download(files: Server, folder: Path, _run: Run) -> None:
    if (folder / "out").read_bytes() != files.path.read_bytes():
        raise WrongOutput("another file came back")


def _variants(files: Server) -> list[Variant]:
    def up(_: Path) -> dict[str, Any]:
        return {"address": files.address, "path": str(files.path)}

    def down(folder: Path) -> dict[str, Any]:
        return {"address": files.address, "out": str(folder / "out")}

    taken, given = partial(_check_upload, files), partial(_check_download, files)
    own, base = "tests.bench.ours", "tests.bench.baselines"
    return [
        Variant(IDLE, f"{own}:idle", lambda _: {"address": files.address}, units=0),
        Variant(UP, f"{own}:upload", up, taken),
        Variant(SDK_UP, f"{base}:sdk_upload", up, taken),
        Variant(HTTP_UP, f"{base}:http_upload", up, taken),
        Variant(DOWN, f"{own}:download", down, given),
        Variant(SDK_DOWN, f"{base}:sdk_download", down, given),
        Variant(HTTP_DOWN, f"{base}:http_download", down, given),
    ]


def section(bench: Bench) -> Section:
    """One table in MB, up and down."""
    place, sizes = bench.place("transfer"), bench.sizes
    write_file(place / "file", sizes.upload, sizes.seed)
    megabytes = max(1, sizes.upload // 1_000_000)
    table = Table("transfer", f"transfer: {megabytes:,} MB on loopback", "MB", megabytes, HTTP_UP, bench.cpu)
    bench.say(table.title)
    with serving(place / "file") as files:
        in_turns(table, _variants(files), sizes.repeat, place)
    bench.done([place])
    idle = table.peak(IDLE)

    def above(name: str) -> float | None:
        peak = table.peak(name)
        return None if peak is None or idle is None else peak - idle

    found = {name: above(name) for name in (UP, SDK_UP, DOWN, SDK_DOWN)}
    notes = [f"{name}: {more:.1f} MiB above the idle client" for name, more in found.items() if more is not None]
    targets = [
        Target(f"{name.removeprefix('ours: ')}: memory above the idle client", 5.0, above(name), "MiB", at_most=True)
        for name in (UP, DOWN)
    ]
    return Section("transfer", [table], targets, notes)
