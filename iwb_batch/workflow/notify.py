"""``--notify COMMAND``: run once, when a run is done or waits for its user."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from iwb_batch.errors import ProviderRefused
from iwb_batch.store import batches
from iwb_batch.workflow.session import Session

NOTIFIED = "notified"
BY_THE_USER = ("running", "retry", "repeats")
"""Events of a user who goes on: from then on there is something to tell again."""
TIMEOUT_SECONDS = 60.0


@contextmanager
def on_halt(session: Session, command: str | None) -> Iterator[None]:
    """Around a command's work: what the provider refused is notified too, where the run sends nothing any more."""
    try:
        yield
    except ProviderRefused as error:
        if command is not None and not session.may_send:
            notify_once(session, command, error.exit_code)
        raise


def notify_once(session: Session, command: str, code: int) -> None:
    """Run the user's command with IWB_RUN, IWB_RUN_FOLDER and IWB_EXIT_CODE in its environment.

    Once until the user goes on. The event is committed first, so that a command is never run twice; its failure
    is told and changes nothing.
    """
    if batches.has_event_since(session.database, NOTIFIED, *BY_THE_USER):
        return
    session.event(NOTIFIED, f"exit code {code}")
    environment = {
        **os.environ,
        "IWB_RUN": session.run.name,
        "IWB_RUN_FOLDER": str(session.folder.path),
        "IWB_EXIT_CODE": str(code),
    }
    try:
        # The command is the user's own, given on this very command line.
        done = subprocess.run(command, shell=True, env=environment, timeout=TIMEOUT_SECONDS, check=False)  # noqa: S602
    except subprocess.TimeoutExpired:
        session.progress.warn(f"--notify: the command did not end within {TIMEOUT_SECONDS:.0f} s")
        return
    if done.returncode != 0:
        session.progress.warn(f"--notify: the command ended with {done.returncode}")
