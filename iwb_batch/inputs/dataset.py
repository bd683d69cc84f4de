"""Opening a data set: a hub id, a folder with configs, or one or several files; numbering and selecting its rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iwb_batch.core.languages import language_in
from iwb_batch.core.row import Row
from iwb_batch.errors import InputError, UsageError
from iwb_batch.inputs.folder import DEFAULT, choose_config, folder_configs, refuse_saved_folder
from iwb_batch.inputs.hub import HUB_ID, load_hub
from iwb_batch.inputs.indexes import usable_index
from iwb_batch.inputs.rows import DATA_SUFFIXES, file_sha256, read_rows

LANGUAGE_KEYS = ("language", "lang")
Labels = Callable[[Row, int], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """The rows of one subset and where they come from.

    ``rows`` starts afresh at each call. ``name`` is the hub id, or a JSON array of
    ``{"file", "sha256"}``; ``notes`` are sentences about what was decided while opening.
    ``unselected``: ``rows`` are those of all languages, and the caller selects the subset.
    """

    rows: Callable[[], Iterator[Row]]
    name: str
    revision: str | None = None
    subset: str | None = None
    notes: tuple[str, ...] = ()
    unselected: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    path: Path
    label: str
    subset: str | None


def open_dataset(
    source: str | Sequence[str],
    *,
    subset: str | None = None,
    split: str = "test",
    revision: str | None = None,
    keep_all: bool = False,
) -> Dataset:
    """Open what ``--dataset`` names; rows are read when they are asked for.

    A path that exists is local; anything else must look like a hub id. Several sources must be
    local and are read one after the other. ``keep_all``: where no config answers to ``subset``, no row
    is left out for its language (``unselected``), so that rows keep their position over all files.
    UsageError: wrong or missing subset or split (those that exist are listed). InputError: missing,
    foreign or unreadable source.
    """
    sources = [source] if isinstance(source, str) else list(source)
    if not sources:
        raise UsageError("no data set is named", hint="pass --dataset: a hub id, a folder or a file")
    paths = [Path(name).expanduser() for name in sources]
    if len(sources) == 1 and not paths[0].exists():
        return _open_hub(sources[0], subset, split, revision)
    for path in paths:
        if not path.exists():
            raise _missing(str(path))
    if revision is not None:
        raise UsageError("--revision is for hub data sets, not for local files", hint="leave it out")
    return _open_local(paths, subset, split, keep_all=keep_all)


def _missing(name: str) -> InputError:
    return InputError(f"{Path(name).name}: no such file or folder", hint=f"looked for {name}")


def _open_hub(name: str, subset: str | None, split: str, revision: str | None) -> Dataset:
    if HUB_ID.fullmatch(name) is None or Path(name).suffix.lower() in DATA_SUFFIXES:
        raise _missing(name)
    table = load_hub(name, subset=subset, split=split, revision=revision)
    notes = (f"subset {table.subset}: the only one of {name}",) if table.only_config and subset is None else ()
    return Dataset(table.rows, name, table.revision, table.subset, notes)


def _open_local(paths: Sequence[Path], subset: str | None, split: str, *, keep_all: bool) -> Dataset:
    parts: list[_Part] = []
    notes: list[str] = []
    chosen: set[str] = set()
    for path in paths:
        found, name = _parts(path, subset, split, keep_all=keep_all)
        parts += found
        if name is not None:
            chosen.add(name)
            if subset is None:
                notes.append(f"subset {name}: the only one of {path.name}")
    filtered = subset is not None and not chosen
    if filtered and keep_all:
        # A file whose name says its language needs not to be told.
        parts = [p if language_in(p.path.name) else replace(p, subset=subset) for p in parts]
    label = json.dumps([{"file": p.label, "sha256": file_sha256(p.path)} for p in parts], ensure_ascii=False)
    known = ", ".join(path.name for path in paths)

    def rows() -> Iterator[Row]:
        stream = (row for p in parts for row in read_rows(p.path, name=p.label, subset=p.subset))
        return _of_language(stream, subset, known) if filtered and not keep_all and subset is not None else stream

    taken = subset if filtered else (chosen.pop() if len(chosen) == 1 else subset)
    return Dataset(rows, label, None, taken, tuple(notes), unselected=filtered and keep_all)


def _parts(path: Path, subset: str | None, split: str, *, keep_all: bool) -> tuple[list[_Part], str | None]:
    """Files of one local source, and the name of the config they form (None: no configs here)."""
    if not path.is_dir():
        return [_Part(path, path.name, None)], None
    configs = folder_configs(path, split)
    if set(configs) == {DEFAULT}:
        config, name = configs[DEFAULT], DEFAULT if subset == DEFAULT else None
        if subset not in (None, DEFAULT) and not keep_all:
            _refuse_subset_without_languages(config.files, str(subset), path.name)
    else:
        config = choose_config(configs, subset, path.name)
        name = config.name
    _refuse_mixed(path.name, config.files)
    if not config.files:
        _refuse_split(path.name, config.name, config.splits, split)
    for holder in {file.parent for file in config.files}:
        refuse_saved_folder(holder)
    return [_Part(file, file.relative_to(path).as_posix(), name) for file in config.files], name


def _refuse_subset_without_languages(files: Sequence[Path], subset: str, folder: str) -> None:
    for file in files:
        if any(key in row.values for row in read_rows(file) for key in LANGUAGE_KEYS):
            return
    raise UsageError(
        f"{folder} has no config '{subset}': files lying directly in a folder form the one config '{DEFAULT}'",
        hint="name the file itself: --dataset FILE, without --subset",
    )


def _refuse_split(folder: str, config: str, splits: Sequence[str], split: str) -> None:
    if splits:
        raise UsageError(
            f"{folder} has no split '{split}' in config '{config}'; it has: {', '.join(splits)}",
            hint="name one with --split",
        )
    raise InputError.at(folder, f"config '{config}' matches no file", hint="check the paths in README.md")


def _refuse_mixed(folder: str, files: Sequence[Path]) -> None:
    suffixes = sorted({file.suffix.lower() for file in files})
    if len(suffixes) > 1:
        what = f"holds the formats {', '.join(suffixes)} side by side"
        raise InputError.at(folder, what, hint="name the one file to read: --dataset FILE")


def _of_language(rows: Iterator[Row], subset: str, known: str) -> Iterator[Row]:
    """Rows whose language is ``subset`` in any case. UsageError at the end when there was none."""
    seen: dict[str, None] = {}
    found = False
    for row in rows:
        language = next((row.values[key] for key in LANGUAGE_KEYS if row.values.get(key) is not None), None)
        if language is None:
            continue
        if str(language).casefold() == subset.casefold():
            found = True
            yield row
        else:
            seen.setdefault(str(language))
    if not found:
        what = f"it has: {', '.join(seen)}" if seen else "no row names a language"
        raise UsageError(f"{known} has no rows of language '{subset}'; {what}", hint="choose --subset accordingly")


@dataclass(frozen=True, slots=True)
class Numbering:
    """Which index each row of the subset has.

    ``indexes`` holds them all; ``by_data`` tells whether they are the data's own; ``note`` says it in words.
    """

    indexes: Collection[int]
    by_data: bool
    note: str | None = None

    def apply(self, rows: Iterable[Row]) -> Iterator[tuple[int, Row]]:
        """(index, row) for the same rows in the same order."""
        for position, row in enumerate(rows):
            index = usable_index(row.values.get("index")) if self.by_data else position
            if index is None:
                raise InputError.at(row.where, "its index is gone: the file changed while it was read")
            yield index, row


def numbering(dataset: Dataset, *, by_row: bool = False) -> Numbering:
    """Read the subset once and decide: the data's ``index`` when every row has a unique integer one, else 0, 1, ...

    ``by_row``: number the rows without asking (pairs are keyed by row).
    """
    indexes: set[int] = set()
    problem: str | None = None
    count = 0
    for row in dataset.rows():
        count += 1
        if by_row or problem is not None:
            continue
        index = usable_index(row.values.get("index"))
        if index is None:
            problem = f"{row.where} has no integer 'index'"
        elif index in indexes:
            problem = f"index {index} occurs again at {row.where}"
        else:
            indexes.add(index)
    if by_row:
        return Numbering(range(count), by_data=False)
    if problem is not None:
        return Numbering(range(count), by_data=False, note=f"rows are numbered from 0: {problem}")
    return Numbering(frozenset(indexes), by_data=True)


def select(
    numbered: Iterable[tuple[int, Row]],
    where: Sequence[tuple[str, str]] = (),
    limit: int | None = None,
    labels: Labels | None = None,
) -> Iterator[tuple[int, Row]]:
    """The rows that meet ``--where``, then the first ``limit`` of them.

    Values of one key are alternatives, different keys must all hold; values are compared as text
    (true / false for booleans, JSON for lists and objects, "" for null). ``labels`` gives names a
    benchmark adds to the data's own keys (domain, language, ...). UsageError: no row has such a key.
    """
    if limit is not None and limit < 1:
        raise UsageError("--limit must be at least 1")
    wanted: dict[str, set[str]] = {}
    for key, value in where:
        wanted.setdefault(key, set()).add(value)
    keys: dict[str, None] = {}
    taken = 0
    for index, row in numbered:
        if wanted:
            values = {**labels(row, index), **row.values} if labels is not None else row.values
            keys.update(dict.fromkeys(values))
            if not all(key in values and as_text(values[key]) in texts for key, texts in wanted.items()):
                continue
        yield index, row
        taken += 1
        if taken == limit:
            return
    unknown = [key for key in wanted if key not in keys]
    if unknown:
        raise UsageError(f"--where: no row has '{unknown[0]}'; there are: {', '.join(keys)}", hint="use one of these")


def as_text(value: Any) -> str:
    """How a value of the data is compared with the text of an option."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool | int | float | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
