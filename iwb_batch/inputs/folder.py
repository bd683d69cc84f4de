"""Local folders as data sets: which configs they hold and which files belong to a split.

A folder names its configs in the YAML head of README.md (`configs:` with `config_name` and
`data_files` or `data_dir`, as dataset cards do), or has one sub-folder for each config, or holds
data files directly. Folders are always read afresh with our own readers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from iwb_batch.errors import InputError, UsageError
from iwb_batch.inputs.rows import DATA_SUFFIXES

SPLIT_WORDS = ("train", "training", "test", "testing", "validation", "valid", "val", "dev", "eval", "evaluation")
NOT_DATA = frozenset({"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Config:
    """One config of a folder: its files for the split wanted, in reading order, and the splits it has."""

    name: str
    files: tuple[Path, ...]
    splits: tuple[str, ...]


def folder_configs(folder: Path, split: str) -> dict[str, Config]:
    """Configs of a folder by name, in the order of the card (else by name).

    The single name ``default`` stands for data files lying directly in the folder.
    InputError: a `save_to_disk` folder, no data files, or a card that cannot be read.
    """
    refuse_saved_folder(folder)
    card = folder / "README.md"
    declared = _card_configs(card) if card.is_file() else []
    if declared:
        return {name: _declared(folder, name, entry, split) for name, entry in declared}
    own = _data_files(folder)
    if own:
        return {DEFAULT: _by_name(DEFAULT, own, split)}
    found = {sub.name: files for sub in _sub_folders(folder) if (files := _data_files(sub))}
    if not found:
        raise InputError.at(
            folder.name, "the folder holds no data files", hint=f"they end in {', '.join(DATA_SUFFIXES)}"
        )
    return {name: _by_name(name, files, split) for name, files in found.items()}


def refuse_saved_folder(folder: Path) -> None:
    """InputError when the folder was written by ``Dataset.save_to_disk``: its Arrow cache is no exchange format."""
    marks = [folder / "dataset_dict.json", folder / "state.json"]
    arrow = any(folder.glob("*.arrow"))
    if any(mark.is_file() for mark in marks) or arrow:
        is_dict = marks[0].is_file()
        pick = '["test"]' if is_dict else ""
        raise InputError.at(
            folder.name,
            "was written by save_to_disk, which only `datasets` can read back",
            hint=f'run datasets.load_from_disk("{folder.name}"){pick}.to_parquet("items.parquet")'
            " and pass --dataset items.parquet",
        )


def choose_config(configs: Mapping[str, Config], wanted: str | None, source: str) -> Config:
    """The config asked for; the only one when none is named. UsageError lists those that exist."""
    if wanted is None:
        if len(configs) == 1:
            return next(iter(configs.values()))
        raise UsageError(f"{source} has several configs: {', '.join(configs)}", hint="name one with --subset")
    name = match_name(list(configs), wanted)
    if name is not None:
        return configs[name]
    raise UsageError(
        f"{source} has no config '{wanted}'; it has: {', '.join(configs)}",
        hint="name one of these with --subset, or name the file with --dataset FILE",
    )


def match_name(names: Sequence[str], wanted: str) -> str | None:
    """The name equal to ``wanted``, else the only one equal to it in any case, else None."""
    if wanted in names:
        return wanted
    near = [name for name in names if name.casefold() == wanted.casefold()]
    return near[0] if len(near) == 1 else None


def _card_configs(card: Path) -> list[tuple[str, Mapping[str, Any]]]:
    import yaml

    text = card.read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    head = re.match(r"---\n(.*?)\n---(?:\n|$)", text, flags=re.DOTALL)
    if head is None:
        return []
    try:
        facts = yaml.safe_load(head.group(1))
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise InputError.at("README.md", f"its YAML head cannot be read: {reason}", hint="mend the head") from None
    entries = facts.get("configs") if isinstance(facts, dict) else None
    if not isinstance(entries, list):
        return []
    return [(str(e.get("config_name", DEFAULT)), e) for e in entries if isinstance(e, dict)]


def _declared(folder: Path, name: str, entry: Mapping[str, Any], split: str) -> Config:
    data_files, base = entry.get("data_files"), str(entry.get("data_dir") or "")
    by_split = list(_patterns(data_files))
    if not by_split:
        where = folder / _inside(base, name)
        return _by_name(name, _data_files(where) if where.is_dir() else [], split)
    splits = tuple(dict.fromkeys(s for s, _ in by_split if s is not None))
    wanted = [_joined(base, p) for s, p in by_split if s in (split, None)]
    files = [path for pattern in wanted for path in _matching(folder, _inside(pattern, name))]
    return Config(name, tuple(dict.fromkeys(files)), splits)


def _patterns(data_files: object) -> Iterator[tuple[str | None, str]]:
    """(split, glob) pairs of a card's ``data_files`` in each of its forms; split None: named by nobody."""
    if isinstance(data_files, str):
        yield None, data_files
    elif isinstance(data_files, list):
        for entry in data_files:
            if isinstance(entry, dict):
                yield from ((str(entry.get("split", "train")), p) for p in _texts(entry.get("path")))
            elif isinstance(entry, str):
                yield None, entry
    elif isinstance(data_files, dict):
        for split, paths in data_files.items():
            yield from ((str(split), p) for p in _texts(paths))


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []


def _joined(base: str, pattern: str) -> str:
    return f"{base.rstrip('/')}/{pattern}" if base else pattern


def _inside(pattern: str, config: str) -> str:
    path = PurePosixPath(pattern.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        what = f"config '{config}' names '{pattern}', which leaves the folder"
        raise InputError.at("README.md", what, hint="use paths relative to the folder")
    return str(path)


def _matching(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.is_file())


def _sub_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _data_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.iterdir()
        if path.is_file()
        and path.suffix.lower() in DATA_SUFFIXES
        and path.name not in NOT_DATA
        and not path.name.startswith(".")
    )


def _by_name(name: str, files: Sequence[Path], split: str) -> Config:
    """Split files by the word their names begin with; names without a split word belong to every split."""
    words = {path: _split_word(path, split) for path in files}
    splits = tuple(dict.fromkeys(word for word in words.values() if word is not None))
    chosen = [path for path in files if words[path] == split] if splits else list(files)
    return Config(name, tuple(chosen), splits)


def _split_word(path: Path, split: str) -> str | None:
    first = re.split(r"[-_.]", path.name, maxsplit=1)[0]
    return first if first == split or first in SPLIT_WORDS else None
