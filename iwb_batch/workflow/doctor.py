"""``doctor`` without a run: this machine, the endpoint, and one file's way to the provider and back. Costs nothing."""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from iwb_batch.core.words import counted
from iwb_batch.errors import IwbError, ProviderRefused
from iwb_batch.providers.base import BatchProvider, CallFailed, RemoteFile
from iwb_batch.report.checks import Check, Status
from iwb_batch.store import checks as rules
from iwb_batch.store import database as db
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.roundtrip import Held, delete_remote_file, remote_trouble, upload_and_wait
from iwb_batch.workflow.settings import Options

if TYPE_CHECKING:
    from iwb_batch.providers.connection import Connection

LEAST_SQLITE = (3, 37, 0)
"""The first SQLite with STRICT tables."""

LISTED = 200
"""Batches looked at; submit reads the list to its end."""

EXPIRES_AFTER = 14 * 24 * 3600
"""Seconds; the shortest life of a file that Azure documents. The file is deleted at once all the same."""

LARGE_CLOCK_DIFFERENCE = 120.0
LITTLE_SPACE, NO_SPACE = 1 << 30, 100 << 20

_EXTRAS = (
    ("emulator", ("starlette", "uvicorn", "python_multipart"), "`emulate` and `demo`"),
    ("entra", ("azure.identity",), "--auth entra"),
    ("tokens", ("toktok",), "exact token counts"),
    ("plots", ("matplotlib",), "`report --plots`"),
    ("browse", ("datasette",), "`browse`"),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which endpoint to look at and how long to wait for one file, in seconds."""

    provider: str
    options: Options
    wait: float = 60.0


def connect(asked: Asked, environ: Mapping[str, str]) -> tuple[list[Check], Connection | None]:
    """Checks of endpoint and credentials as they are set; the connection where they are usable. Nothing is sent."""
    from iwb_batch.providers.connection import from_environment
    from iwb_batch.providers.redaction import install

    options = asked.options
    try:
        connection = from_environment(
            provider=asked.provider,
            auth=options.auth,
            api_version=options.api_version,
            entra_scope=options.entra_scope,
            environ=environ,
        )
    except IwbError as error:
        name = "credentials" if isinstance(error, ProviderRefused) else "endpoint"
        return [Check(name, "broken", error.message, error.hint)], None
    install(connection.secrets)
    return list(_settings(connection)), connection


def _settings(connection: Connection) -> Iterator[Check]:
    surface = f"api-version {connection.api_version}" if connection.provider == "azure" else "OpenAI's API"
    yield Check("endpoint", "ok", f"{connection.host}, {surface}")
    for warning in connection.warnings:
        yield Check("endpoint spelling", "warn", warning, "Compare it with the resource's page in the Azure portal.")
    if connection.auth == "key":
        yield Check("credentials", "ok", "an API key is set")
    elif _is_installed("azure.identity"):
        yield Check("credentials", "ok", "Entra ID, by the default Azure credential")
    else:
        yield Check("credentials", "broken", "--auth entra needs azure-identity", "pip install 'iwb-batch[entra]'")


def remote_checks(provider: BatchProvider, asked: Asked, clock: Clock) -> Iterator[Check]:
    """List batches, then send a file and take it back. Ends at the first thing that makes the rest pointless."""
    try:
        listed = sum(1 for _ in islice(provider.batches(), LISTED))
    except CallFailed as error:
        yield remote_trouble("list of batches", error, provider.host)
        return
    seen = f"{LISTED} or more batches" if listed == LISTED else counted(listed, "batch", "batches")
    yield Check("list of batches", "ok", f"can be read, {seen}")
    with tempfile.TemporaryDirectory(prefix="iwb-batch-") as folder:
        path = Path(folder) / "doctor.jsonl"
        path.write_bytes(_HARMLESS)
        yield from _round_trip(provider, path, asked, clock)


# A well-formed line, so that a strict server takes the file; no batch is made of it.
_HARMLESS = (
    b'{"custom_id":"iwb-doctor","method":"POST","url":"/v1/chat/completions",'
    b'"body":{"model":"doctor","messages":[{"role":"user","content":"\xe0\xa4\xa8\xe6\x96\x87 file check"}]}}\n'
)


def _round_trip(provider: BatchProvider, path: Path, asked: Asked, clock: Clock) -> Iterator[Check]:
    before = clock.now()
    sent = upload_and_wait(provider, path, expires_after=EXPIRES_AFTER, wait=asked.wait, clock=clock)
    yield sent.check
    if sent.file is None:
        return
    try:
        if sent.check.status == "ok":
            yield _taken_back(provider, sent.file.file_id, path.read_bytes())
        yield from _expiry(sent.file, before)
    finally:
        deleted = delete_remote_file(provider, sent.file.file_id)
    yield deleted


def _taken_back(provider: BatchProvider, file_id: str, sent: bytes) -> Check:
    name = "download of the file"
    target = Held()
    try:
        provider.download(file_id, target)
    except CallFailed as error:
        if error.status in (400, 403, 404, 405):
            return Check(name, "ok", "this server gives no input file back; results are files of another kind")
        return remote_trouble(name, error, provider.host)
    if target.content == sent:
        return Check(name, "ok", f"the same {len(sent)} bytes came back")
    return Check(
        name,
        "broken",
        f"{len(target.content)} bytes came back that are not the {len(sent)} sent",
        "Something between here and the provider changes what passes: look for a proxy or a gateway.",
    )


def _expiry(file: RemoteFile, before: float) -> Iterator[Check]:
    if file.expires_at is None:
        yield Check(
            "expiry of files",
            "warn",
            "the server ignores expires_after: a resource holds 500 such files instead of 10,000",
            "Use --api-version v1 (or a newer date). submit works all the same: it deletes each file after collection.",
        )
        return
    yield Check("expiry of files", "ok", "the server keeps expires_after")
    difference = file.expires_at - EXPIRES_AFTER - before
    large = abs(difference) > LARGE_CLOCK_DIFFERENCE
    yield Check(
        "clock",
        "warn" if large else "ok",
        f"the server's clock is {abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} this machine's",
        "Let the machine set its clock by network time; tokens of Entra ID depend on it." if large else None,
    )


def local_checks(runs_dir: Path) -> Iterator[Check]:
    """The runs folder, its disk, SQLite, and which optional parts are installed."""
    place = runs_dir
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=place) as folder:
            yield Check("runs folder", "ok", f"{runs_dir} can be written")
            yield _journal(Path(folder) / "run.db")
    except OSError as error:
        yield Check(
            "runs folder",
            "broken",
            f"{runs_dir} cannot be written: {error.strerror or error}",
            "Check owner and permissions, or name another folder with --runs-dir.",
        )
    yield _space(place)
    yield _sqlite()
    yield from _extras()


def _journal(path: Path) -> Check:
    try:
        with db.create(path) as database:
            mode = rules.journal_mode(database)
    except IwbError as error:
        return Check("run.db can be made", "broken", error.message, error.hint)
    if mode == "wal":
        return Check("run.db can be made", "ok", "with a write-ahead log: it can be read while a command works")
    return Check(
        "run.db can be made",
        "warn",
        f"this file system has no write-ahead log (journal {mode}): readers wait while a command writes",
        "A local disk is faster and safer than a network folder.",
    )


def _space(place: Path) -> Check:
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Check("free space", "warn", f"unknown: {error.strerror or error}")
    status: Status = "broken" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    return Check(
        "free space",
        status,
        f"{free / 1e9:.1f} GB",
        "A run of 50,000 requests takes about 1 GB: free some, or use --runs-dir." if status != "ok" else None,
    )


def _sqlite() -> Check:
    if sqlite3.sqlite_version_info >= LEAST_SQLITE:
        return Check("SQLite", "ok", sqlite3.sqlite_version)
    least = ".".join(map(str, LEAST_SQLITE))
    return Check("SQLite", "broken", f"{sqlite3.sqlite_version}, {least} is needed", "Use a newer Python build.")


def _extras() -> Iterator[Check]:
    for extra, modules, purpose in _EXTRAS:
        missing = [module for module in modules if not _is_installed(module)]
        if missing:
            text = f"not installed ({', '.join(missing)}); needed for {purpose} only: pip install 'iwb-batch[{extra}]'"
        else:
            text = f"installed, for {purpose}"
        yield Check(f"extra {extra}", "ok", text)


def _is_installed(module: str) -> bool:
    parent = module.rpartition(".")[0]
    if parent and not _is_installed(parent):
        return False
    return importlib.util.find_spec(module) is not None
