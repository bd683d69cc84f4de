"""``compare`` and ``browse``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import NEW_FILE, Whole, format_option, run_argument, run_names

if TYPE_CHECKING:
    from iwb_batch.report.formats import Format as Form


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", shell_complete=run_names)
@format_option("How the comparison is written.")
@click.option("--html", "page", type=NEW_FILE, help="Also write the comparison as one self-contained page.")
@click.option("--force", is_flag=True, help="Compare although judge or data differ; the difference is printed.")
@click.pass_context
def compare(context: click.Context, runs: tuple[str, ...], form: Form, page: Path | None, *, force: bool) -> int:
    """Compare runs on the items they share: paired differences, tests corrected for their number, a leaderboard."""
    from iwb_batch.report import comparison as text
    from iwb_batch.workflow import comparing

    found = comparing.compare(context.obj.runs_dir, runs, force=force)
    for line in found.forced:
        output.message(f"forced: not the same judge: {line}")
    if page is not None:
        from iwb_batch.workflow import publishing

        publishing.write_comparison_page(found, page)
        output.message(f"wrote {page}")
    output.data(text.render(found, form))
    return 0


@click.command()
@run_argument
@click.option("--port", type=Whole(), default=8001, show_default=True, help="Port on this machine.")
@click.pass_context
def browse(context: click.Context, run: str | None, *, port: int) -> int:
    """Open a run in Datasette, read-only: described tables, facets, ready queries, search over reasons."""
    from iwb_batch.workflow import browsing, looking

    with browsing.prepared(looking.choose(context.obj.runs_dir, run)) as found:
        output.message(f"http://{browsing.HOST}:{port}/{found.name}  (Ctrl-C ends it)")
        with suppress(KeyboardInterrupt):
            browsing.serve(found, port)
    return 0


COMMANDS = (compare, browse)
