"""``emulate`` and ``demo``."""

from __future__ import annotations

from pathlib import Path

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import PATH, TEXT, Whole
from iwb_batch.errors import UsageError


@click.command()
@click.option("--host", type=TEXT, default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=Whole(), default=8765, show_default=True, help="Port to listen on.")
@click.option("--key", type=TEXT, help="Key that clients must send. [default: any]")
@click.option("--judge", type=TEXT, default="rehearsal", show_default=True, help="Who answers.")
@click.option("--upstream", type=TEXT, help="Send every line to this OpenAI-compatible chat endpoint instead.")
@click.option("--faults", type=PATH, help="Fault plan (JSON); docs/emulator.md describes it.")
@click.option("--seed", type=Whole(), default=0, show_default=True, help="Seed of faults and line order.")
def emulate(
    host: str, port: int, key: str | None, judge: str, upstream: str | None, faults: Path | None, seed: int
) -> int:
    """Run a local server that behaves like Azure OpenAI Batch, for rehearsals."""
    from iwb_batch.emulator.build import build_service
    from iwb_batch.providers.connection import is_loopback

    if not is_loopback(host) and key is None:
        raise UsageError(f"--host {host} is not loopback: --key must be given", hint="Choose a key for your clients.")
    try:
        from iwb_batch.emulator.app import serve
    except ImportError as error:
        raise UsageError(
            f"the emulator needs the package {error.name}", hint="Install it with: pip install 'iwb-batch[emulator]'"
        ) from error
    service = build_service(key=key, judge=judge, faults=faults, seed=seed, state=None, upstream=upstream)
    output.message(f"emulator on http://{host}:{port}  (Ctrl-C ends it)")
    output.message(f"  AZURE_OPENAI_ENDPOINT=http://{host}:{port} AZURE_OPENAI_API_KEY={'...' if key else 'any'}")
    serve(service, host, port)
    return 0


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
    name = last.folder.path.name
    output.data(f"  iwb-batch query {name} '{use_case.EXAMPLE_QUERY}'")
    output.data(f"  iwb-batch show {name} 0")
    return last.code


COMMANDS = (emulate, demo)
