"""``reward-accuracy``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from iwb_batch.cli import output
from iwb_batch.cli.params import PATH, TEXT, format_option
from iwb_batch.errors import UsageError

if TYPE_CHECKING:
    from iwb_batch.report.formats import Format as Form
    from iwb_batch.workflow.rewards import Invalid


@click.command("reward-accuracy")
@click.option(
    "--dataset", type=TEXT, multiple=True, help="The pairs: EN and ZH files (repeatable), their folder, or a hub id."
)
@click.option("--subset", type=TEXT, help="Only the pairs of this language (en, zh).")
@click.option(
    "--scores",
    type=PATH,
    help="Scores of the reward model: JSONL, JSON, CSV or Parquet with row (or prompt_id, chosen_model,"
    " rejected_model), chosen, rejected.",
)
@click.option(
    "--invalid",
    type=click.Choice(["refuse", "count", "drop"]),
    default="refuse",
    show_default=True,
    help="A pair without two finite scores: stop, count it as wrong, or leave it out of N.",
)
@format_option("How the report is written.")
def reward_accuracy(
    dataset: tuple[str, ...], subset: str | None, scores: Path | None, invalid: Invalid, form: Form
) -> int:
    """Accuracy of a reward model on preference pairs: how often it scores the chosen text above the rejected one."""
    from iwb_batch.workflow import rewards

    if not dataset:
        raise UsageError("--dataset is missing", hint="Name the files of the pairs, or their folder.")
    if scores is None:
        raise UsageError(
            "--scores is missing", hint='A file with one {"row": 0, "chosen": 1.5, "rejected": 0.2} a line.'
        )
    output.data(rewards.reward_accuracy(dataset, scores, invalid=invalid, form=form, subset=subset))
    return 0


COMMANDS = (reward_accuracy,)
