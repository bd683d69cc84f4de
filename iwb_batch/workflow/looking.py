"""Which run a command means, and opening it to look at: nothing here can change it or calls anybody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iwb_batch.errors import InputError, IwbError
from iwb_batch.store import database as db
from iwb_batch.store import views
from iwb_batch.store.database import Database
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.folder import RunFolder


def newest(runs_dir: Path) -> RunFolder:
    """The run created last, by run.db."""
    found = []
    for folder in folders.run_folders(runs_dir):
        try:
            with db.open_read_only(folder.database) as database:
                found.append((views.run(database).created_at, folder.path.name, folder))
        except IwbError:
            continue  # a damaged run is shown by `runs`, it is never the newest
    if not found:
        raise InputError(f"{runs_dir}: no runs", hint="`iwb-batch submit` makes one; --runs-dir names another folder.")
    return max(found, key=lambda entry: entry[:2])[2]


def choose(runs_dir: Path, name: str | None) -> RunFolder:
    """The named run, or the newest."""
    return newest(runs_dir) if name is None else folders.find_run(runs_dir, name)


@contextmanager
def reading(folder: RunFolder) -> Iterator[Database]:
    """The run's database, read-only; takes no lock."""
    database = db.open_read_only(folder.database)
    try:
        yield database
    finally:
        database.close()
