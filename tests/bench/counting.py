"""Section ``tokens``: counting them, beside counting bytes and OpenAI's own tokenizer."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles

from tests.bench import ours
from tests.bench.bench import Bench, Section, Target
from tests.bench.data import LARGE, Writer
from tests.bench.measure import Run, Table, Variant, in_turns

EXACT = "ours: the counter submit chooses"
ESTIMATE = "ours: the estimate it falls back to"
BYTES = "bytes / 4"
TIKTOKEN = "tiktoken"
VOCABULARY = "fb374d419588a4632f3f557e76b4b70aebbca790"
"""How tiktoken calls its cached file of o200k_base."""
LOOKUP = (
    "import importlib.util as u; s = [u.find_spec(n) for n in ('tiktoken', 'litellm')]; print(*(x.origin for x in s))"
)


def vocabulary_folder(packages: Path | None = None) -> Path | None:
    """A folder with tiktoken's file, where one is on this machine: in its cache, or in litellm's package."""
    named = [os.environ.get(name) for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")]
    folders = [*(Path(folder) for folder in named if folder), Path(tempfile.gettempdir()) / "data-gym-cache"]
    if packages is not None:
        folders += sorted({path.parent for path in (packages / "litellm").rglob(VOCABULARY)})
    return next((folder for folder in folders if (folder / VOCABULARY).is_file()), None)


def tiktoken_of(python: str | None) -> tuple[str, Path] | None:
    """An interpreter that has tiktoken and a vocabulary for it: this one, else the one given."""
    if importlib.util.find_spec("tiktoken") is not None:
        folder = vocabulary_folder()
        return None if folder is None else (sys.executable, folder)
    if python is None:
        return None
    done = subprocess.run([python, "-c", LOOKUP], capture_output=True, encoding="utf-8", check=False)
    found = vocabulary_folder(Path(done.stdout.split()[0]).parents[1]) if done.returncode == 0 else None
    return None if found is None else (python, found)


def section(bench: Bench) -> Section:
    """One table; the counts are compared text by text."""
    place, writer = bench.place("tokens"), Writer(bench.sizes.seed)
    listed = [writer.text(n, LARGE.response) for n in range(max(1, bench.sizes.tokens // LARGE.response))]
    texts = place / "texts.json"
    texts.write_text(json.dumps(listed), encoding="utf-8")
    kib = sum(len(text.encode()) for text in listed) // 1024
    table = Table("tokens", f"tokens: {kib / 1024:.1f} MiB of text no cache knows", "KiB", kib, EXACT, bench.cpu)
    bench.say(table.title)
    counts: dict[str, list[int]] = {}

    def variant(name: str, target: str, python: str = sys.executable, **more: object) -> Variant:
        def keep(_: Path, run: Run) -> None:
            counts[name] = run.value

        return Variant(name, target, lambda _: {"texts": str(texts), **more}, keep, python=python)

    variants = [
        variant(EXACT, "tests.bench.ours:count_tokens", exact=True),
        variant(ESTIMATE, "tests.bench.ours:count_tokens", exact=False),
        variant(BYTES, "tests.bench.baselines:byte_counts"),
    ]
    reference = tiktoken_of(bench.curator)
    if reference is not None:
        target, folder = "tests.bench.baselines:tiktoken_counts", str(reference[1])
        variants.append(variant(TIKTOKEN, target, reference[0], vocabulary=folder))
    in_turns(table, variants, bench.sizes.repeat, place)
    bench.done([place])
    found = Section("tokens", [table], notes=[f"counter: {ours.counter_label()}"])
    _compare(found, counts)
    return found


def _compare(found: Section, counts: dict[str, list[int]]) -> None:
    exact = ours.counter_label().startswith("exact")
    if TIKTOKEN not in counts:
        found.notes.append(f"{TIKTOKEN}: not measured, the package or its vocabulary file is not on this machine")
    differing = None
    if exact and TIKTOKEN in counts:
        differing = sum(one != other for one, other in zip(counts[EXACT], counts[TIKTOKEN], strict=True))
    found.targets.append(
        Target("tokens: texts counted otherwise than by tiktoken", 0, differing, "texts", at_most=True)
    )
    reference = counts.get(TIKTOKEN) or (counts[EXACT] if exact else None)
    for name in (ESTIMATE, BYTES):
        if reference is not None and len(reference) > 1:
            off = [abs(a - b) / b for a, b in zip(counts[name], reference, strict=True)]
            worst = quantiles(off, n=20)[-1]
            found.notes.append(
                f"{name}: off by {median(off):.1%} in the median, {worst:.1%} at 95 % of texts (made-up text)"
            )
