"""Which commands there are, and where: a module is imported when its command is asked for.

A shell that asks for ``--help`` or ``status`` should not wait for the options of sixteen other commands.
"""

from __future__ import annotations

import importlib

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "browse": ("publishing", "Open a run in Datasette, read-only."),
    "cancel": ("collecting", "Stop the run and cancel its remote batches."),
    "collect": ("collecting", "Bring verdicts home, validate them, resubmit what failed."),
    "compare": ("publishing", "Compare runs on the items they share."),
    "demo": ("emulating", "Run the whole path against the emulator; no key needed."),
    "doctor": ("auditing", "Check the endpoint, free of charge; with RUN, that run."),
    "emulate": ("emulating", "Run a local server that behaves like Azure OpenAI Batch."),
    "export": ("auditing", "Write an evidence bundle or judgements; verify a bundle."),
    "generate": ("generating", "Let a model write responses to the items, in batches."),
    "query": ("reading", "Run SQL on a run file, read-only."),
    "reparse": ("auditing", "Read the stored raw outputs again; no calls."),
    "report": ("reading", "Print the numbers of a run."),
    "reward-accuracy": ("scoring", "Accuracy of a reward model on preference pairs."),
    "runs": ("reading", "List the runs."),
    "show": ("reading", "Show one item: prompt, response, attempts, verdicts."),
    "status": ("reading", "Show how far a run is."),
    "submit": ("submitting", "Check inputs, plan a run and send it; again: continue it."),
}
"""Name -> (module of this package, what ``--help`` says in one line of a narrow terminal)."""


class Commands(click.Group):
    """The commands of the table, loaded one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, None when there is none."""
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            module = importlib.import_module(f"iwb_batch.cli.{COMMANDS[cmd_name][0]}")
            for command in module.COMMANDS:
                _name_twins(command)
                self.add_command(command)
        return self.commands.get(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command named first. An unknown name is compared with all names, so all are loaded for the message."""
        if args[0] not in COMMANDS:
            self.load_all()
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, said) for name, (_, said) in sorted(COMMANDS.items())])

    def load_all(self) -> dict[str, click.Command]:
        """Every command by name: for the documentation, and for tests that hold for all of them."""
        context = click.Context(self)
        return {name: command for name in sorted(COMMANDS) if (command := self.get_command(context, name)) is not None}


def _name_twins(command: click.Command) -> None:
    """Let environment twins follow the option as users write it: --format, whatever its parameter is called."""
    for option in command.params:
        if isinstance(option, click.Option) and option.envvar is None:
            written = max(option.opts, key=len).strip("-")
            option.envvar = f"IWB_BATCH_{command.name}_{written}".upper().replace("-", "_")
