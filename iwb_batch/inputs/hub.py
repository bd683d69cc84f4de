"""Data sets of the Hugging Face hub, through the ``datasets`` package.

Its offline modes (``HF_HUB_OFFLINE``, ``HF_DATASETS_OFFLINE``) are respected: then only what is cached is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iwb_batch.core.row import Row
from iwb_batch.errors import InputError, UsageError
from iwb_batch.inputs.folder import match_name

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_REVISION = re.compile(r"(?:@|/)([0-9a-f]{40})(?:/|$)")


@dataclass(frozen=True, slots=True)
class HubTable:
    """A loaded split: ``table`` yields a dict for each row; ``revision`` is the commit, where known."""

    hub_id: str
    subset: str
    revision: str | None
    only_config: bool
    table: Any

    def rows(self) -> Iterator[Row]:
        """Stream the rows, from the first, each time it is called."""
        for number, values in enumerate(self.table, start=1):
            yield Row(values, f"{self.hub_id} row {number}", number, self.hub_id, self.subset)


def load_hub(hub_id: str, *, subset: str | None, split: str, revision: str | None) -> HubTable:
    """Load one config and split of a hub data set.

    UsageError: no such config or split, or several configs and none named (they are listed).
    InputError: the data set cannot be found or the hub cannot be reached.
    """
    import datasets  # type: ignore[import-untyped]
    from datasets.exceptions import DatasetsError  # type: ignore[import-untyped]

    try:
        names = [str(name) for name in datasets.get_dataset_config_names(hub_id, revision=revision)]
        chosen = _config(hub_id, names, subset)
        table = datasets.load_dataset(hub_id, chosen, split=split, revision=revision)
    except (OSError, ValueError, DatasetsError) as error:
        raise _explained(error, hub_id, split) from None
    return HubTable(hub_id, chosen, _commit(table) or revision, len(names) == 1, table)


def _config(hub_id: str, names: list[str], subset: str | None) -> str:
    if subset is None and len(names) == 1:
        return names[0]
    if subset is None:
        raise UsageError(f"{hub_id} has several configs: {', '.join(names)}", hint="name one with --subset")
    name = match_name(names, subset)
    if name is None:
        raise UsageError(
            f"{hub_id} has no config '{subset}'; it has: {', '.join(names)}", hint="name one of these with --subset"
        )
    return name


def _explained(error: Exception, hub_id: str, split: str) -> InputError | UsageError:
    """The user's words for what ``datasets`` raised."""
    reason = " ".join(str(error).split())[:300]
    if "nknown split" in reason:
        return UsageError(f"{hub_id} has no split '{split}': {reason}", hint="name one with --split")
    if isinstance(error, FileNotFoundError) or "doesn't exist" in reason:
        return InputError(f"{hub_id}: no such data set on the hub, or it is private: {reason}", hint=_HINT_ACCESS)
    if isinstance(error, ConnectionError) or "OfflineMode" in reason or "reach" in reason:
        return InputError(f"{hub_id}: the hub cannot be reached: {reason}", hint=_HINT_NETWORK)
    return InputError(f"{hub_id}: cannot be loaded: {reason}", hint=_HINT_COPY)


_HINT_COPY = "try a downloaded copy: --dataset FILE or FOLDER"
_HINT_ACCESS = "check the id, or log in with `hf auth login`; a local copy works too: --dataset FILE or FOLDER"
_HINT_NETWORK = "try again, unset HF_HUB_OFFLINE, or pass a downloaded copy: --dataset FILE or FOLDER"


def _commit(table: Any) -> str | None:
    """Commit hash the rows came from, as recorded in the download's addresses or the cache's path."""
    places = [str(place) for place in getattr(table, "download_checksums", None) or ()]
    places += [str(entry.get("filename", "")) for entry in getattr(table, "cache_files", None) or ()]
    found = {match.group(1) for place in places for match in _REVISION.finditer(place.replace("\\", "/"))}
    return found.pop() if len(found) == 1 else None
