"""Unpacking a bundle from anywhere: names, kinds, sizes and ratios are checked before a byte is written."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from iwb_batch.errors import InputError
from iwb_batch.workflow.folder import explained

MANIFEST = "manifest.json"
MOST_MANIFEST_BYTES = 64 << 20
LARGEST_RATIO = 500
"""Times a member may grow; requests that share one long prompt come to some 50."""
SMALL = 16 << 20
"""Bytes below which the ratio is of no matter."""
MOST_MEMBERS = 100_000
CHUNK = 1 << 20

_NAME = re.compile(r"manifest\.json|run\.db|(?:requests|raw|schemas)/[A-Za-z0-9][A-Za-z0-9._-]{0,199}", re.ASCII)
_KINDS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A member as it was written: sha256 and size."""

    sha256: str
    n_bytes: int


def unpack(path: Path, folder: Path) -> tuple[Mapping[str, Any], Mapping[str, Unpacked]]:
    """Write a bundle's members into an empty folder: (manifest, members by name without the manifest).

    InputError: not a bundle, or one that is not safe to unpack; nothing outside ``folder`` is ever written.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file", hint="--verify takes a bundle of `iwb-batch export`.")
    try:
        with explained(path), zipfile.ZipFile(path) as archive:
            members = _checked(path, archive, folder)
            manifest = _manifest(path, archive, members.pop(MANIFEST))
            return manifest, {name: _write(path, archive, info, folder) for name, info in members.items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        _refuse(path, f"not a readable zip ({error})", cause=error)


def listed(manifest: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The manifest's members by name."""
    return {member["name"]: member for member in manifest["members"]}


def _checked(path: Path, archive: zipfile.ZipFile, folder: Path) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MOST_MEMBERS:
        _refuse(path, f"{len(infos)} members")
    members: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        fault = _fault(info) or ("is there twice" if info.filename in members else None)
        if fault is not None:
            _refuse(path, f"member {info.filename!r} {fault}")
        members[info.filename] = info
    if MANIFEST not in members:
        _refuse(path, f"holds no {MANIFEST}")
    total, packed = sum(info.file_size for info in infos), path.stat().st_size
    if _grows(total, packed):
        _refuse(path, f"unpacks {packed} bytes to {total}")
    free = shutil.disk_usage(folder).free
    if total > free:
        raise InputError(
            f"{path}: unpacks to {total} bytes, {free} are free", hint="Free some space in the folder TMPDIR names."
        )
    return members


def _grows(n_bytes: int, packed: int) -> bool:
    return n_bytes > SMALL and n_bytes > packed * LARGEST_RATIO


def is_dense(path: Path) -> bool:
    """True when a zip packs so well that ``unpack`` takes it for a bomb."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
    whole = _grows(sum(info.file_size for info in infos), path.stat().st_size)
    return whole or any(_grows(info.file_size, info.compress_size) for info in infos)


def _fault(info: zipfile.ZipInfo) -> str | None:
    """Why a member is not unpacked, None when it may be."""
    mode = info.external_attr >> 16
    faults = (
        (_NAME.fullmatch(info.filename) is None, "has a name no bundle has"),
        (stat.S_IFMT(mode) not in (0, stat.S_IFREG), "is not a regular file"),
        (bool(info.flag_bits & 0x1), "is encrypted"),
        (info.compress_type not in _KINDS, "is packed in a way no bundle is"),
        (_grows(info.file_size, info.compress_size), f"unpacks {info.compress_size} bytes to {info.file_size}"),
        (info.filename == MANIFEST and info.file_size > MOST_MANIFEST_BYTES, f"has {info.file_size} bytes"),
    )
    return next((words for holds, words in faults if holds), None)


def _refuse(path: Path, why: str, *, cause: BaseException | None = None) -> NoReturn:
    raise InputError(
        f"{path}: not a bundle that may be unpacked: {why}",
        hint="--verify takes a bundle that `iwb-batch export --format bundle` wrote.",
    ) from cause


def _manifest(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Mapping[str, Any]:
    try:
        manifest = json.loads(archive.read(info).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        _refuse(path, f"{MANIFEST} is no JSON ({error})", cause=error)
    entries = manifest.get("members") if isinstance(manifest, dict) else None
    if not isinstance(entries, list) or not all(_is_entry(entry) for entry in entries):
        _refuse(path, f"{MANIFEST} lists no members")
    assert isinstance(manifest, dict), "it has members"
    return manifest


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and {"name", "sha256", "n_bytes"} <= entry.keys() and isinstance(entry["name"], str)


def _write(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, folder: Path) -> Unpacked:
    target = folder / info.filename
    target.parent.mkdir(mode=0o700, exist_ok=True)
    digest, n_bytes = hashlib.sha256(), 0
    with archive.open(info) as source, target.open("xb") as written:
        while chunk := source.read(CHUNK):
            n_bytes += len(chunk)
            if n_bytes > info.file_size:
                _refuse(path, f"member {info.filename!r} is longer than it says")
            written.write(chunk)
            digest.update(chunk)
    return Unpacked(digest.hexdigest(), n_bytes)
