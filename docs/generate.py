"""Writes the generated pages: ``docs/audit.md`` from ``schemas/run.sql`` and ``docs/queries.sql``,
``docs/commands.md`` from the command line, and the lists of commands and pages in ``README.md``.

Run it with ``make docs``. ``tests/test_docs.py`` fails while a page on disk differs from what this makes.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from iwb_batch.model import BatchState

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"

MEANINGS = {
    "after": "state after",
    "allowed": "further attempts after the first",
    "at": "when",
    "attempt": "from 1; the n-th sending of the request",
    "attempt_id": "number of the attempt",
    "attempt_log.batch_id": "newest batch of that request file",
    "attempt_log.custom_id": "id of the attempt",
    "attempt_reading.custom_id": "id of the attempt",
    "attempt_reading.detail": "what exactly: schema message, filter category, `maybe_paid` ...",
    "attempt_reading.line": "line of the request file, from 1",
    "attempt_reading.n_tokens": "estimated input tokens",
    "attempt_reading.outcome": "of the newest reading; NULL while the attempt is open",
    "attempt_log.detail": "what exactly: schema message, filter category, `maybe_paid` ...",
    "attempt_log.outcome": "of the newest reading, see [verdicts.md](verdicts.md); NULL while the attempt is open",
    "batch.created_at": "when it was planned",
    "batch_id": "number of the batch in this run",
    "before": "state before",
    "budget": "name of the budget the outcome is counted against",
    "cached_tokens": "part of the prompt tokens",
    "collected_at": "when every attempt in it had an outcome",
    "completion_tokens": "as the provider counts; reasoning included",
    "count_completed": "as the provider counts",
    "count_failed": "as the provider counts",
    "created_at": "when it was planned",
    "custom_id": "of the attempt the judgement comes from",
    "detail": "more about it",
    "domain": "label of the data; NULL where it has none",
    "ended_at": "when the provider's final status was seen",
    "error_code": "the provider's error code",
    "error_file_id": "the provider's id of the errors",
    "event_id": "number of the event",
    "failure.attempts": "attempts made",
    "failure.detail": "what exactly: schema message, filter category, `maybe_paid` ...",
    "failure.outcome": "outcome of the last attempt",
    "finish_reason": "why the judge stopped, as the provider says",
    "http_status": "status of the line",
    "id": "always 1",
    "input_file_id": "the provider's id of the uploaded file",
    "item_index": "the data's index (pairs: row over all files)",
    "item_score.n_planned": "requests planned; 0 for an item that was left out",
    "item_score.n_scored": "requests with a judgement",
    "item_score.score": "mean of the criterion scores; NULL unless every planned request is scored",
    "item_score.score_sum": "sum of all its scores",
    "item_score.score_partial": "mean over the requests scored so far",
    "kind": "what happened, in one word",
    "language": "label of the data, or of its file or config",
    "means": "what the move means",
    "message": "the provider's words",
    "n_bytes": "size in bytes",
    "n_lines": "lines in it that are not blank",
    "n_requests": "requests in it",
    "notes": "what was noticed (JSON array)",
    "outcome": "what came of it; [verdicts.md](verdicts.md) lists all",
    "output_file_id": "the provider's id of the answers",
    "pair_order": "pairs: `chosen-first` or `rejected-first`",
    "preference.correct": "1 when the judge prefers the chosen text, else 0",
    "preferred": "pairs: the text the judge prefers, `chosen` or `rejected`",
    "price_cached": "see `price_input`; NULL: cached tokens are billed as input",
    "price_output": "see `price_input`",
    "prompt_tokens": "as the provider counts; NULL: not said",
    "protocol": "`rubric`, `pairwise`, `pointwise` or `generate`",
    "provider": "`azure`, `openai` or `files`",
    "raw_file.kind": "`output` or `error`",
    "raw_file_id": "number of the file",
    "raw_line.kind": "`answer`: read for its attempt; `duplicate`, `unknown`, `unreadable`: strays, kept and counted",
    "raw_line_id": "number of the line",
    "reading_id": "number of the reading",
    "reason": "the judge's reason",
    "reasoning_tokens": "part of the completion tokens",
    "received_at": "when it was downloaded",
    "remote_batch_id": "the provider's id of the batch",
    "remote_file_id": "the provider's id of the file",
    "repeat": "from 1",
    "request_file": "name of the request file",
    "request_file_id": "number of the request file",
    "request_id": "number of the request",
    "request_status.attempts": "attempts so far",
    "request_status.custom_id": "of the last planned attempt",
    "kept_count.name": "what was counted",
    "newest.last_request": "number of the newest request",
    "newest.last_attempt": "number of the newest attempt",
    "newest.last_reading": "number of the newest reading",
    "request_status.last_outcome": "outcome of the last attempt that has one",
    "request_status.status": "`scored`, `open` or `failed`",
    "response.sha256": "over reasoning and answer",
    "run.standing": "`running`; `stopped` by cancel or by the provider; `halted` by a systematic failure"
    " or a refused batch",
    "score": "1 to 10",
    "sha256": "of the bytes, in hex",
    "split": "split of the data set",
    "state": "our own state of the batch, see [moves of a batch](#moves-of-a-batch)",
    "subdomain": "label of the data; NULL where it has none",
    "submitted_at": "when the provider had accepted it",
    "subset": "config of the data set, or language of the rows; NULL when none was named",
    "system_fingerprint": "as the provider says",
    "usage.attempts": "answers in the class",
    "usage.class": "`good`, `resubmitted`, `wasted` or `unknown`",
    "usage.cost_usd": "at the run's prices; NULL: unknown",
    "variant": "`native`, `code_mixed` or `romanized`; NULL where the data have no renderings",
}
"""What columns mean, by `table.column` or, for every table and view, by `column`.

`table.column` beats the comment in schemas/run.sql, which beats `column`."""

VIEWS_FOR_USERS = (
    "request_status",
    "score",
    "item_score",
    "preference",
    "attempt_log",
    "batch_log",
    "failure",
    "usage",
    "event_log",
)

_STATES = [state.value for state in BatchState]
_CREATE = re.compile(r"CREATE (TABLE|VIEW) (\w+)")
_COLUMN = re.compile(r"  ([a-z_0-9]+) (?:TEXT|INTEGER|REAL|BLOB)\b")


@dataclass(frozen=True)
class Query:
    """One entry of docs/queries.sql: its name, one sentence, and the SQL."""

    name: str
    about: str
    sql: str


@dataclass(frozen=True)
class Schema:
    """Comments of run.sql: of tables and views by name, of columns by (table, column)."""

    about: Mapping[str, str]
    columns: Mapping[tuple[str, str], str]


def queries() -> list[Query]:
    """The queries of docs/queries.sql, in order."""
    text = (DOCS / "queries.sql").read_text(encoding="utf-8")
    found = []
    for part in text.split("-- name: ")[1:]:
        name, about, sql = part.split("\n", 2)
        found.append(Query(name.strip(), about.removeprefix("-- ").strip(), sql.strip()))
    return found


def read_comments(sql: str) -> Schema:
    """Comments above each CREATE and behind each column (also where its definition goes over several lines)."""
    about: dict[str, str] = {}
    columns: dict[tuple[str, str], list[str]] = {}
    above: list[str] = []
    table = column = ""
    for line in sql.split("\n"):
        if line.startswith("--"):
            above.append(line.removeprefix("--").strip())
            continue
        created = _CREATE.match(line)
        if created:
            about[created[2]] = " ".join(text for text in above if not text.startswith("---"))
            table, column = (created[2], "") if created[1] == "TABLE" else ("", "")
        above = []
        named = _COLUMN.match(line)
        if table and named:
            column = named[1]
        if line.startswith(")"):
            table = column = ""
        code, mark, comment = line.partition("-- ")
        if table and column and mark and code.strip():
            columns.setdefault((table, column), []).append(comment.strip())
    return Schema(about, {place: " ".join(texts) for place, texts in columns.items()})


def audit_page() -> str:
    """docs/audit.md as text."""
    sql = (ROOT / "schemas" / "run.sql").read_text(encoding="utf-8")
    comments = read_comments(sql)
    database = sqlite3.connect(":memory:")
    try:
        database.executescript(sql)
        return "\n".join(_audit_lines(database, comments)) + "\n"
    finally:
        database.close()


def _audit_lines(database: sqlite3.Connection, comments: Schema) -> Iterator[str]:
    names = {kind: [name for (name,) in database.execute(_NAMES, (kind,))] for kind in ("table", "view")}
    views = [*VIEWS_FOR_USERS, *(name for name in names["view"] if name not in VIEWS_FOR_USERS)]
    yield AUDIT_HEAD
    yield "## Queries"
    yield ""
    yield "Each can be copied as it stands. The file is [queries.sql](queries.sql)."
    for query in queries():
        yield from ("", f"### {query.name}", "", query.about, "", "```sql", query.sql, "```")
    yield from ("", "## Views", "", VIEWS_HEAD)
    for name in views:
        yield from _object(database, name, comments, is_view=True)
    yield from ("", "## Tables")
    for name in names["table"]:
        yield from _object(database, name, comments, is_view=False)
    yield from ("", "## Moves of a batch", "", "Any other move is refused by a trigger.", "")
    moves = sorted(database.execute(_MOVES), key=lambda move: (_STATES.index(move[0]), _STATES.index(move[1])))
    yield from _table(("before", "after", "means"), ((f"`{a}`", f"`{b}`", why) for a, b, why in moves))


_NAMES = "SELECT name FROM sqlite_master WHERE type = ? AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
_MOVES = "SELECT before, after, means FROM batch_transition"


def _object(database: sqlite3.Connection, name: str, comments: Schema, *, is_view: bool) -> Iterator[str]:
    """Heading, meaning and columns of one table or view."""
    rows = database.execute(f"PRAGMA table_info({name})").fetchall()
    yield from ("", f"### {name}", "", comments.about.get(name, ""), "")
    if is_view:
        yield from _table(("column", "meaning"), ((f"`{row[1]}`", meaning(comments, name, row[1])) for row in rows))
        return
    yield from _table(
        ("column", "type", "meaning"),
        ((f"`{row[1]}`", _type(row), meaning(comments, name, row[1])) for row in rows),
    )


def _type(row: tuple[int, str, str, int, object, int]) -> str:
    _, _, kind, not_null, _, key = row
    if key:
        return f"{kind.lower()}, key"
    return kind.lower() if not_null else f"{kind.lower()} or NULL"


def meaning(comments: Schema, name: str, column: str) -> str:
    """What a column means: its own comment, what is said here, or the comment of a table's column of that name."""
    own = MEANINGS.get(f"{name}.{column}") or comments.columns.get((name, column)) or MEANINGS.get(column)
    if own:
        return own
    for (_, other), comment in comments.columns.items():
        if other == column:
            return comment
    raise SystemExit(
        f"{name}.{column} has no meaning: give it a comment in schemas/run.sql, or one in docs/generate.py"
    )


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


AUDIT_HEAD = """\
<!-- Made by docs/generate.py from schemas/run.sql and docs/queries.sql. Change those, then run `make docs`. -->

# Auditing a run with SQL

Each run has one SQLite file, `runs/<run>/run.db`. It holds the plan, everything that was sent, everything that came
back verbatim, what each answer was read as, and every verdict. `iwb-batch query` opens it read-only:

```sh
iwb-batch query "select status, count(*) from request_status group by status"
iwb-batch query --format jsonl "select * from score limit 5"
```

`iwb-batch query RUN SQL` names a run; without a name the newest one is meant. `--format csv`, `json` and `jsonl` are
for other programs. Any SQLite client can open the file too; open it read-only while a command works on the run.

Two things to know before counting:

- **Answers are joined by `custom_id` only.** Output files come in any order, and one id may come twice.
- **The newest reading counts.** An attempt can have several readings (a late line, an answer read again); the views
  show the newest, the table `reading` keeps all.

Times are UTC. Columns said to hold JSON can be taken apart with SQLite's `json_extract` and `json_each`.
"""

VIEWS_HEAD = (
    "Views are the public surface: names and the order of columns stay, further columns may come at the end. "
    "Behind those named here come building blocks of the others."
)


def commands_page() -> str:
    """docs/commands.md as text."""
    from iwb_batch.cli import cli

    lines = [COMMANDS_HEAD]
    root = click.Context(cli, info_name="iwb-batch")
    lines += ["## iwb-batch", "", "```text", f"iwb-batch {_usage(cli, root)}", "```", "", *_options(cli, "")]
    for name, command in cli.load_all().items():
        usage = _usage(command, click.Context(command, info_name=name, parent=root))
        lines += ["", f"## {name}", "", "```text", f"iwb-batch {name} {usage}", "```", "", _sentence(command.help)]
        lines += ["", *_options(command, name)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _usage(command: click.Command, context: click.Context) -> str:
    return " ".join(command.collect_usage_pieces(context))


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split())


def _options(command: click.Command, name: str) -> Iterator[str]:
    options = [p for p in command.params if isinstance(p, click.Option) and not _is_version(p)]
    if not options:
        yield "No options of its own."
        return
    yield from _table(
        ("option", "meaning", "default", "environment"),
        ((_written(p), _sentence(p.help).split(" [default:")[0], _default(p), twin(p, name)) for p in options),
    )


def _is_version(option: click.Option) -> bool:
    return option.is_eager and not option.expose_value


def _written(option: click.Option) -> str:
    names = ", ".join(sorted(option.opts, key=len))
    if option.is_flag:
        return f"`{names}`"
    choices = getattr(option.type, "choices", None)
    value = option.metavar or ("|".join(map(str, choices)) if choices else option.type.name.upper())
    return f"`{names} {value}`" + (", repeatable" if option.multiple else "")


def _default(option: click.Option) -> str:
    told = re.search(r"\[default: (.*)\]", option.help or "")
    if told:
        return told[1]
    if option.is_flag or not option.show_default:
        return ""
    value = option.default
    return f"`{int(value) if isinstance(value, float) and value.is_integer() else value}`"


def twin(option: click.Option, command: str) -> str:
    """The environment variable that stands for an option."""
    if isinstance(option.envvar, str):
        return f"`{option.envvar}`"
    return "" if not command else f"`IWB_BATCH_{command}_{option.name}`".upper()


COMMANDS_HEAD = """\
<!-- Made by docs/generate.py from the command line itself. Change the options, then run `make docs`. -->

# Commands

What `iwb-batch COMMAND --help` says, with the environment variable that stands for each option. A repeatable option
takes one value a line from its variable; a flag takes `1`. The command line counts before the environment.

Where a command takes `[RUN]`, the name of a run folder is meant; without it the newest run. Data goes to stdout,
messages and progress go to stderr. Exit codes are in the [README](../README.md#exit-codes).

A shell completes commands, options and names of runs once its start-up file has this line (`zsh_source` for zsh; for
fish pipe what `_IWB_BATCH_COMPLETE=fish_source iwb-batch` prints into `source`):

```bash
eval "$(_IWB_BATCH_COMPLETE=bash_source iwb-batch)"
```
"""


def pages() -> str:
    """The list of pages for the README, by title."""
    found = []
    for path in sorted(DOCS.glob("*.md")):
        title = re.search(r"^# (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        found.append(f"- [{title[1] if title else path.stem}](docs/{path.name})")
    return "\n".join(found)


def commands() -> str:
    """The table of commands for the README."""
    from iwb_batch.cli import cli

    rows = ((f"`{name}`", _sentence(command.help)) for name, command in cli.load_all().items())
    return "\n".join(_table(("command", "what it does"), rows))


def readme() -> str:
    """README.md with its lists of commands and pages renewed."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, made in (("commands", commands()), ("pages", pages())):
        begin, end = f"<!-- {name}: made by docs/generate.py -->", f"<!-- end of {name} -->"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n\n{made}\n\n{end}{rest.partition(end)[2]}"
    return text


def main() -> None:
    """Write the generated pages."""
    for name, text in (("audit.md", audit_page()), ("commands.md", commands_page())):
        (DOCS / name).write_text(text, encoding="utf-8", newline="\n")
    (ROOT / "README.md").write_text(readme(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
