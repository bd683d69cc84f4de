"""The evidence bundle: one zip with everything a number rests on, and its verification without the run.

Made from one consistent copy of run.db and exactly the files that copy names; nothing of the clock or the machine
goes in, so the same run gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from iwb_batch import __version__, schemas
from iwb_batch.errors import RunError
from iwb_batch.report.checks import Check, is_sound
from iwb_batch.report.formats import to_json
from iwb_batch.store import database as db
from iwb_batch.store import evidence, views
from iwb_batch.store.database import Database
from iwb_batch.workflow import looking, reparse, reporting, run_checks, unpacking
from iwb_batch.workflow.folder import RunFolder, explained, sync_folder

FORMAT = 1
CHUNK = 1 << 20
_GET_AGAIN = "Get the bundle again from where it was published, and compare the sha256 of the whole file."
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)
_FILE_MODE = 0o100644 << 16
_UNIX = 3
_REPORT_SCHEMAS = {
    "rubric": "report-rubric.schema.json",
    "pairwise": "report-pairs.schema.json",
    "pointwise": "report-pointwise.schema.json",
}
_WRITE: Literal["w"] = "w"
"""A member of a zip is bytes, whatever its mode."""


def write_bundle(folder: RunFolder, target: Path) -> str:
    """Write the bundle of a run; returns its sha256. Needs no lock: the copy of run.db says which files belong to it.

    RunError: a file that belongs to the run is missing or changed, or the target cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="iwb-batch-") as temporary:
        copy = RunFolder(Path(temporary))
        with looking.reading(folder) as database:
            evidence.copy_to(database, copy.database)
        _write(folder, copy, target, zipfile.ZIP_DEFLATED)
        if unpacking.is_dense(target):
            # Texts that repeat themselves without end: what verification would refuse is stored as it is.
            _write(folder, copy, target, zipfile.ZIP_STORED)
    return file_sha256(target)


def _write(folder: RunFolder, copy: RunFolder, target: Path, kind: int) -> None:
    with _whole_zip(target, kind) as archive, looking.reading(copy) as database:
        members = sorted(_members(folder, copy, database), key=lambda member: member[0])
        listed = [_add(archive, *member) for member in members]
        text = to_json(_manifest(copy, database, listed))
        _add(archive, unpacking.MANIFEST, text.encode("utf-8"), None)


def _members(folder: RunFolder, copy: RunFolder, database: Database) -> Iterator[tuple[str, Path | bytes, str | None]]:
    """(name, where its bytes are, sha256 it must have) of every member but the manifest."""
    yield "run.db", copy.database, None
    for stored in evidence.request_files(database):
        yield f"requests/{stored.name}", folder.requests / stored.name, stored.sha256
    for stored in evidence.raw_files(database):
        yield f"raw/{stored.name}", folder.raw / stored.name, stored.sha256
    for name in _schemas(views.run(database)):
        yield f"schemas/{name}", schemas.read_text(name).encode("utf-8"), None


def _schemas(run: views.Run) -> list[str]:
    names = ["run.sql"]
    judging = reparse.judging_of(run)
    if judging is not None:
        names += [judging.benchmark.schema, judging.benchmark.request_schema]
        names.append(_REPORT_SCHEMAS[run.protocol])
    return names


def _add(archive: zipfile.ZipFile, name: str, source: Path | bytes, sha256: str | None) -> dict[str, Any]:
    """Write one member; returns its entry in the manifest."""
    info = zipfile.ZipInfo(name, _FIRST_DATE)
    info.create_system, info.external_attr, info.compress_type = _UNIX, _FILE_MODE, archive.compression
    digest, n_bytes = hashlib.sha256(), 0
    with archive.open(info, _WRITE, force_zip64=True) as member:
        for chunk in _chunks(source):
            member.write(chunk)
            digest.update(chunk)
            n_bytes += len(chunk)
    if sha256 is not None and digest.hexdigest() != sha256:
        raise RunError(
            f"{name}: changed since run.db recorded it",
            hint="Run `iwb-batch doctor RUN`; evidence is only made of files that are as they were.",
        )
    return {"name": name, "sha256": digest.hexdigest(), "n_bytes": n_bytes}


def _chunks(source: Path | bytes) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with explained(source), source.open("rb") as stream:
        yield from iter(lambda: stream.read(CHUNK), b"")


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file, streamed."""
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _whole_zip(target: Path, kind: int) -> Iterator[zipfile.ZipFile]:
    """A zip that appears under its name only when it is complete."""
    partial = target.with_name(target.name + ".partial")
    try:
        with explained(target.parent):
            handle = os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b")
        with handle:
            with zipfile.ZipFile(handle, "w", kind, compresslevel=6) as archive:
                yield archive
            with explained(target.parent):
                handle.flush()
                os.fsync(handle.fileno())
        with explained(target.parent):
            partial.replace(target)
            sync_folder(target.parent)
    finally:
        partial.unlink(missing_ok=True)


def _manifest(copy: RunFolder, database: Database, members: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "made_by": {"iwb-batch": __version__, "schema_version": db.SCHEMA_VERSION},
        "run": asdict(views.run(database)),
        "counts": evidence.counts(database) | {"requests": views.count_statuses(database)},
        "report": report_of(copy),
        "members": members,
    }


def report_of(folder: RunFolder) -> dict[str, Any] | None:
    """The JSON report of a run, None for a run of generated texts."""
    with looking.reading(folder) as database:
        if views.run(database).protocol == "generate":
            return None
    report: dict[str, Any] = json.loads(reporting.report(folder, "json")[0])
    return report


def verify(path: Path) -> list[Check]:
    """Check a bundle on its own: hashes, run.db's rules, files against run.db, answers read again, the report.

    InputError: no such file, or not a zip that may be unpacked.
    """
    with tempfile.TemporaryDirectory(prefix="iwb-batch-") as temporary:
        folder = RunFolder(Path(temporary))
        manifest, members = unpacking.unpack(path, folder.path)
        found = [_format(manifest), *_hashes(manifest, members)]
        if not folder.database.is_file():
            return [*found, Check("run.db", "broken", "the bundle holds no run.db", _GET_AGAIN)]
        found += run_checks.run_checks(folder)
        if is_sound(found):
            found += _content(folder, manifest)
        else:
            step = "Repair the above first, or export again."
            found.append(Check("report", "broken", "not recomputed, since checks above are broken", step))
    return found


def _format(manifest: Mapping[str, Any]) -> Check:
    if manifest.get("format") != FORMAT:
        what = f"format {manifest.get('format')}, this program reads {FORMAT}"
        return Check("manifest", "broken", what, "Install the iwb-batch that wrote it.")
    return Check("manifest", "ok", f"format {FORMAT}")


def _hashes(manifest: Mapping[str, Any], members: Mapping[str, unpacking.Unpacked]) -> Iterator[Check]:
    listed = unpacking.listed(manifest)
    changed = []
    for name, member in members.items():
        wanted = listed.get(name)
        if wanted is None:
            changed.append(f"{name} is not in the manifest")
        elif (member.sha256, member.n_bytes) != (wanted["sha256"], wanted["n_bytes"]):
            changed.append(f"{name} has another sha256 than the manifest says")
    changed += [f"{name} is missing" for name in listed if name not in members]
    if changed:
        yield Check("members", "broken", "; ".join(changed), _GET_AGAIN, len(changed))
    else:
        yield Check("members", "ok", f"{len(listed)} files have the sha256 and size of the manifest", count=0)


def _content(folder: RunFolder, manifest: Mapping[str, Any]) -> Iterator[Check]:
    with looking.reading(folder) as database:
        run = json.loads(json.dumps(asdict(views.run(database))))
        yield _same("settings", run, manifest.get("run"), "run.db and manifest name the same settings and hashes")
        counts = evidence.counts(database) | {"requests": views.count_statuses(database)}
        yield _same("counts", counts, manifest.get("counts"), "run.db holds what the manifest counts")
        yield from _verdict_schema(folder, views.run(database))
    yield _same("report", report_of(folder), manifest.get("report"), "the report computed afresh equals the manifest's")


def _same(name: str, have: Any, claimed: Any, rule: str) -> Check:
    place = difference(claimed, have)
    if place is None:
        return Check(name, "ok", rule)
    return Check(name, "broken", f"does not hold: {rule}; first difference at {place}", _GET_AGAIN)


def difference(claimed: Any, have: Any, place: str = "$") -> str | None:
    """Where ``have`` first differs from what is claimed, None if nowhere. Keys beyond the claimed ones do not count.

    Numbers may differ in the last digits: a mean may be summed otherwise on another processor.
    """
    if isinstance(claimed, dict) and isinstance(have, dict):
        pairs = [(f"{place}.{key}", value, have.get(key, _ABSENT)) for key, value in claimed.items()]
    elif isinstance(claimed, list) and isinstance(have, list) and len(claimed) == len(have):
        pairs = [(f"{place}[{i}]", *both) for i, both in enumerate(zip(claimed, have, strict=True))]
    elif _is_number(claimed) and _is_number(have):
        return None if math.isclose(claimed, have, rel_tol=1e-9, abs_tol=1e-12) else place
    else:
        return None if type(claimed) is type(have) and claimed == have else place
    return next((found for where, a, b in pairs if (found := difference(a, b, where)) is not None), None)


_ABSENT = object()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _verdict_schema(folder: RunFolder, run: views.Run) -> Iterator[Check]:
    judging = reparse.judging_of(run)
    if judging is None:
        return
    path = folder.path / "schemas" / judging.benchmark.schema
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == run.schema_sha256:
        yield Check("verdict schema", "ok", f"schemas/{path.name} is the one the run was judged with")
    else:
        yield Check(
            "verdict schema",
            "warn",
            f"schemas/{path.name} is not the one the run was planned with",
            f"The bundle was made by a later iwb-batch than {run.versions.get('iwb-batch')}, which made the run.",
        )
