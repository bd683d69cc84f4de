"""``browse``: a run in the browser through Datasette, read-only, on a copy made for it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iwb_batch.core.words import counted
from iwb_batch.errors import UsageError
from iwb_batch.report.tables import REHEARSAL
from iwb_batch.store import browsable, views
from iwb_batch.store.facts import run_facts
from iwb_batch.workflow import looking
from iwb_batch.workflow.folder import RunFolder, explained

if TYPE_CHECKING:
    from datasette.app import Datasette  # type: ignore[import-untyped]

HOST = "127.0.0.1"
_SETTINGS = {
    "sql_time_limit_ms": 10_000,
    "facet_time_limit_ms": 2_000,
    "truncate_cells_html": 600,
    "allow_download": False,
}


@dataclass(frozen=True, slots=True)
class Browsable:
    """A prepared run: the application, and the name of its database in addresses."""

    application: Datasette
    name: str


@contextmanager
def prepared(folder: RunFolder) -> Iterator[Browsable]:
    """Copy the run, describe it, and hand it to Datasette; the copy goes when the block ends.

    UsageError: Datasette is not installed. RunError: no space for the copy.
    """
    try:
        from datasette.app import Datasette
    except ImportError as error:
        raise UsageError(
            f"browse needs the package {error.name}", hint="Install it with: pip install 'iwb-batch[browse]'"
        ) from error
    with tempfile.TemporaryDirectory(prefix="iwb-browse-") as place, looking.reading(folder) as database:
        target = Path(place) / f"{folder.path.name}.db"
        with explained(target):
            browsable.write_copy(database, target)
        run, counts = views.run(database), views.status_counts(database)
        mark = REHEARSAL if run_facts(database).rehearsal else ""
        described = browsable.metadata(
            database,
            target.stem,
            title=f"{mark}{run.name}",
            description=(
                f"{run.benchmark}, {run.model_name}, judged by {run.judge}: "
                f"{counts['scored']} of {counted(sum(counts.values()), 'request')} scored."
                " A copy; the run file is not touched."
            ),
        )
        yield Browsable(Datasette([], immutables=[str(target)], metadata=described, settings=_SETTINGS), target.stem)


def serve(found: Browsable, port: int) -> None:
    """Serve on loopback until interrupted; a request to end (SIGTERM) counts as an interruption, so the copy goes."""
    import asyncio
    import signal

    import uvicorn

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    asyncio.run(found.application.invoke_startup())
    uvicorn.run(found.application.app(), host=HOST, port=port, log_level="warning", lifespan="on")
