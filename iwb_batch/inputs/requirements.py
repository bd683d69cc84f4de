"""WritingBench's requirement lists: which items and criteria are about style, format or length.

The original's ``requirement/`` folder has ``<name>/<name>_subset.jsonl`` (items whose prompt asks for it) and
``<name>/<name>_subset_C.jsonl`` (the same items, with only the criteria that are about it) for each requirement.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iwb_batch.core.compat import REQUIREMENTS, Requirements, requirements_from_rows
from iwb_batch.errors import InputError
from iwb_batch.inputs.rows import read_rows


@dataclass(frozen=True, slots=True)
class ListedItem:
    """One row of a list: its place in words, and the sha256 of its query where the row has one."""

    where: str
    query_sha256: str | None


@dataclass(frozen=True, slots=True)
class RequirementFolder:
    """The lists of a folder. ``listed`` has every row by item index; ``absent`` names the files that are not there."""

    lists: Requirements
    listed: Mapping[int, tuple[ListedItem, ...]]
    absent: tuple[str, ...]


def query_sha256(query: str) -> str:
    """Hex sha256 of a query: lists of another version of the data have other queries under the same index."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass")).hexdigest()


def read_requirements(folder: Path) -> RequirementFolder:
    """Read the lists. An empty file is an empty list; a missing one is named in ``absent``.

    InputError: no such folder, none of the six files, a bad row (with its line), or an index twice in one file.
    """
    if not folder.is_dir():
        raise InputError(f"{folder.name}: no such folder", hint=f"looked for {folder}")
    files = {name: folder / f"{name.removesuffix('_C')}" / _file_name(name) for name in _list_names()}
    present = {name: path for name, path in files.items() if path.is_file()}
    if not present:
        raise InputError.at(
            folder.name,
            "holds no requirement list",
            hint="name the original's requirement/ folder; it has style/style_subset.jsonl and five more",
        )
    listed: dict[int, list[ListedItem]] = {}
    lists = requirements_from_rows({name: _rows(path, listed) for name, path in present.items()})
    absent = tuple(path.name for name, path in files.items() if name not in present)
    return RequirementFolder(lists, {index: tuple(rows) for index, rows in listed.items()}, absent)


def _list_names() -> Iterator[str]:
    for requirement in REQUIREMENTS:
        yield requirement
        yield f"{requirement}_C"


def _file_name(name: str) -> str:
    requirement, _, kind = name.partition("_")
    return f"{requirement}_subset{'_C' if kind else ''}.jsonl"


def _rows(path: Path, listed: dict[int, list[ListedItem]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if path.stat().st_size == 0:
        return
    places: dict[int, str] = {}
    for row in read_rows(path):
        index, query = row.values.get("index"), row.values.get("query")
        if isinstance(index, int) and not isinstance(index, bool):
            first = places.setdefault(index, row.where)
            if first != row.where:
                raise InputError.at(row.where, f"index {index} is listed already at {first}", hint="remove one of them")
            digest = query_sha256(query) if isinstance(query, str) else None
            listed.setdefault(index, []).append(ListedItem(row.where, digest))
        yield row.where, row.values
