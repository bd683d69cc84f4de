"""Opening a run for work, and connecting to its provider."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from iwb_batch.errors import DamagedRun, UsageError
from iwb_batch.providers.base import BatchProvider
from iwb_batch.store import database as db
from iwb_batch.store import kept, views
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow.clock import Clock
from iwb_batch.workflow.folder import RunFolder
from iwb_batch.workflow.judging import Judging
from iwb_batch.workflow.progress import Progress
from iwb_batch.workflow.session import Boundary, Session, no_boundary
from iwb_batch.workflow.settings import Options, Waiting

Connect = Callable[[str, Options], BatchProvider]
"""From (provider, options) to an open provider; raises ProviderRefused without credentials."""


def connect_from(
    environ: Mapping[str, str], progress: Progress, at_end: Callable[[Callable[[], None]], object] | None = None
) -> Connect:
    """The real way to connect: credentials from environment variables, redacted from then on.

    ``at_end`` takes what closes the connections (``ExitStack.callback``); without it they last as long as the process.
    """

    def connect(provider: str, options: Options) -> BatchProvider:
        if provider == "files":
            from iwb_batch.providers.files import FilesProvider

            return FilesProvider()
        if not options.lanes:
            return open_one(provider, options, None)
        from iwb_batch.providers.lanes import Lanes

        return Lanes({lane: open_one(provider, options, lane) for lane in options.lanes})

    def open_one(provider: str, options: Options, lane: str | None) -> BatchProvider:
        from iwb_batch.providers.connection import from_environment
        from iwb_batch.providers.openai_batch import OpenAIBatch
        from iwb_batch.providers.redaction import install

        connection = from_environment(
            provider=provider,
            auth=options.auth,
            api_version=options.api_version,
            entra_scope=options.entra_scope,
            environ=environ,
            lane=lane,
        )
        install(connection.secrets)
        for warning in connection.warnings:
            progress.warn(warning)
        adapter = OpenAIBatch(connection)
        if at_end is not None:
            at_end(adapter.close)
        return adapter

    return connect


@contextmanager
def working(
    folder: RunFolder,
    *,
    connect: Connect,
    waiting: Waiting,
    clock: Clock,
    progress: Progress,
    fresh: bool = False,
    options: Callable[[Options], Options] = lambda stored: stored,
    boundary: Boundary = no_boundary,
) -> Iterator[Session]:
    """The run locked, opened for writing and connected; ``options`` may change what is stored.

    Ctrl-C leaves it with the run's name, for the message that says how to go on.
    """
    with folders.locked(folder):
        database = db.open_for_writing(folder.database)
        try:
            run = views.run(database)
            settings = options(Options.restored(run.options))
            provider = connect(run.provider, settings)
            _same_host(run, provider)
            yield Session(
                database=database,
                folder=folder,
                provider=provider,
                judging=Judging.of_plan(run.plan),
                options=settings,
                waiting=waiting,
                clock=clock,
                progress=progress,
                fresh=fresh,
                boundary=boundary,
            )
            kept.keep(database)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(folder.path.name) from stop
        finally:
            database.close()


def _same_host(run: views.Run, provider: BatchProvider) -> None:
    if provider.host != run.host:
        raise UsageError(
            f"this run belongs to {run.host}, the endpoint is {provider.host}",
            hint="File and batch ids belong to their resource: set the endpoint of the run, or submit a new run.",
        )


def check_prompt(session: Session) -> None:
    """Refuse to go on when this version of the program would render another prompt than the run's."""
    run = session.run
    if (session.judging.prompt_sha256, session.judging.schema_sha256) != (run.prompt_sha256, run.schema_sha256):
        raise DamagedRun(
            f"{session.folder.database}: made with another prompt or verdict schema than this version has",
            hint=f"Use iwb-batch {run.versions.get('iwb-batch')} for this run; reports need no judge and still work.",
        )
