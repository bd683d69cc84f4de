"""``emulate`` and ``demo``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import PATH, TEXT, Whole
from iwb_batch.core.words import counted
from iwb_batch.errors import IwbError, UsageError

if TYPE_CHECKING:
    from iwb_batch.emulator.service import Service

UPSTREAM = ("upstream_model", "upstream_token_parameter")


@click.command()
@click.option("--host", type=TEXT, default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=Whole(), default=8765, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option("--key", type=TEXT, help="Key that clients must send. [default: every key is taken]")
@click.option(
    "--state", type=PATH, help="Folder that keeps files and batches over a restart. [default: a temporary one]"
)
@click.option("--judge", type=TEXT, default="rehearsal", show_default=True, help="Who answers.")
@click.option("--upstream", type=TEXT, help="Send every line to this OpenAI-compatible chat endpoint instead.")
@click.option("--upstream-key-env", type=TEXT, help="Name of the environment variable with the endpoint's key.")
@click.option("--upstream-model", type=TEXT, help="Model to ask the endpoint for. [default: the one in the line]")
@click.option(
    "--upstream-token-parameter",
    type=click.Choice(["max_tokens", "max_completion_tokens"]),
    help="Name under which the endpoint reads the token limit. [default: the one in the line]",
)
@click.option(
    "--concurrency", type=Whole(1), default=8, show_default=True, help="Lines at the upstream endpoint at once."
)
@click.option("--faults", type=PATH, help="Fault plan (JSON); docs/emulator.md describes it.")
@click.option("--seed", type=Whole(), default=0, show_default=True, help="Seed of faults and line order.")
def emulate(host: str, port: int, **given: Any) -> int:
    """Run a local server that behaves like Azure OpenAI Batch, for rehearsals."""
    from iwb_batch.emulator.build import build_service
    from iwb_batch.providers.connection import is_loopback

    if not is_loopback(host) and given["key"] is None:
        raise UsageError(f"--host {host} is not loopback: --key must be given", hint="Choose a key for your clients.")
    upstream_key = _upstream_key(given, os.environ)
    try:
        from iwb_batch.emulator import app
    except ImportError as error:
        raise UsageError(
            f"the emulator needs the package {error.name}", hint="Install it with: pip install 'iwb-batch[emulator]'"
        ) from error
    listener = app.bind(host, port)
    names = ("key", "judge", "faults", "seed", "state", "concurrency")
    try:
        service = build_service(
            **{name: given[name] for name in names + UPSTREAM}, upstream=given["upstream"], upstream_key=upstream_key
        )
    except IwbError:
        listener.close()
        raise
    _announce(service, app.address(listener), given)
    return _serve(service, lambda: app.serve(service, listener), kept=given["state"] is not None)


def _upstream_key(given: Mapping[str, Any], environ: Mapping[str, str]) -> str | None:
    """The key for the upstream endpoint. No message shows the name given: it may be the key itself."""
    if given["upstream"] is None:
        for name in ("upstream_key_env", *UPSTREAM):
            if given[name] is not None:
                raise UsageError(f"--{name.replace('_', '-')} goes with --upstream", hint="Add --upstream URL.")
    if given["upstream_key_env"] is None:
        return None
    key = environ.get(given["upstream_key_env"], "").strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UsageError(
            "--upstream-key-env: the environment variable of that name is not set or holds no usable key",
            hint="Give the name of a variable, not the key: export UPSTREAM_KEY=..., --upstream-key-env UPSTREAM_KEY.",
        )
    return key


def _announce(service: Service, address: str, given: Mapping[str, Any]) -> None:
    output.message(f"emulator on {address}  (Ctrl-C ends it)")
    output.message(f"  AZURE_OPENAI_ENDPOINT={address} AZURE_OPENAI_API_KEY={'...' if given['key'] else 'any'}")
    if given["upstream"] is not None:
        output.message(f"  lines go to {given['upstream']}, at most {given['concurrency']} at once")
    if given["state"] is not None:
        known, live = service.n_batches
        held = f"{counted(service.n_files, 'file')}, {counted(known, 'batch', 'batches')}"
        output.message(f"  state in {given['state']}: {held}, {live} of them to go on")


def _serve(service: Service, serving: Callable[[], None], *, kept: bool) -> int:
    """Serve until interrupted; answers on their way are waited for unless interrupted again."""
    # A plain kill ends it as Ctrl-C does: the temporary folder holds users' texts and must go.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        serving()
    if service.running:
        output.message(
            f"waiting for the last {counted(service.running, 'answer')} of the endpoint; Ctrl-C again gives up"
        )
    with suppress(KeyboardInterrupt):
        service.close()
    output.message("emulator ended" + ("; the same --state goes on from here" if kept else ""))
    return 130


@click.command()
@click.pass_context
def demo(context: click.Context) -> int:
    """Run the whole path on bundled items against the emulator: no key needed."""
    from iwb_batch.workflow import demo as use_case

    done = use_case.demo(Path(context.obj.runs_dir), output.Console())
    last = done[-1]
    output.data(last.text)
    output.data("")
    output.data("Two runs were made; each run.db holds everything about one:")
    for run in done:
        output.data(f"  {run.folder.database}")
    output.data("Ask it, for example:")
    program, name = _program(context.obj.runs_dir), last.folder.path.name
    output.data(f"  {program} query {name} '{use_case.EXAMPLE_QUERY}'")
    output.data(f"  {program} show {name} 0")
    return last.code


def _program(runs_dir: Path) -> str:
    """How this very program is called from here, for commands to copy."""
    called = sys.argv[0] if os.sep in sys.argv[0] and Path(sys.argv[0]).name == "iwb-batch" else "iwb-batch"
    with suppress(ValueError):
        called = os.path.relpath(called) if os.path.isabs(called) else called  # noqa: PTH117 (a path as typed)
    return called if runs_dir == Path("runs") else f"{called} --runs-dir {runs_dir}"


COMMANDS = (emulate, demo)
