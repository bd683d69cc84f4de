"""The documentation is true: commands run, pages are fresh, examples are read as they say, links and messages exist."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from iwb_batch import schemas
from iwb_batch.cli import cli
from iwb_batch.cli import run as run_command
from iwb_batch.cli.commands import COMMANDS
from iwb_batch.core.rubric_numbers import ItemRow, RubricData, rubric_report
from iwb_batch.core.run_facts import RunFacts
from iwb_batch.core.verdict import InvalidVerdict, VerdictReader
from iwb_batch.emulator.app import running
from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.judge import Completion
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.model import Usage
from iwb_batch.workflow.demo import demo
from iwb_batch.workflow.progress import Quiet

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
# Checked, not run: what needs a package index, and the environment it makes.
NOT_RUN = re.compile(r"make |\. \.venv/")
AZURE = "https://NAME.openai.azure.com"
DEMO = ROOT / "iwb_batch" / "demo_data"


def load_generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


GENERATE = load_generator()
QUERIES = GENERATE.queries()


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: what follows the back-ticks, and its text."""

    info: str
    body: str


def blocks(text: str) -> list[Block]:
    return [Block(found["info"].strip(), found["body"]) for found in BLOCK.finditer(text)]


def readme_lines() -> list[str]:
    """Every line of the README's sh blocks."""
    return [line for block in blocks(text_of(README)) if block.info == "sh" for line in block.body.split("\n") if line]


# ---------------------------------------------------------------- generated pages


@pytest.mark.parametrize("name", ["audit.md", "commands.md"])
def test_generated_pages_are_fresh(name: str) -> None:
    made = {"audit.md": GENERATE.audit_page, "commands.md": GENERATE.commands_page}[name]()
    assert text_of(ROOT / "docs" / name) == made, "run `make docs`"


def test_the_readme_lists_every_page() -> None:
    assert text_of(README) == GENERATE.readme(), "run `make docs`"


def test_every_command_has_its_section() -> None:
    page = GENERATE.commands_page()
    assert [title for title in re.findall(r"^## (.+)$", page, re.MULTILINE) if title in COMMANDS] == sorted(COMMANDS)


def test_comments_of_the_schema_reach_their_columns() -> None:
    sql = (
        "-- Above.\n-- More.\nCREATE TABLE t (\n  a TEXT NOT NULL,  -- first\n  b INTEGER DEFAULT 1\n"
        "    CHECK (b > 0),  -- second\n  c TEXT\n) STRICT;\n-- After.\nCREATE VIEW v AS SELECT a FROM t;\n"
    )
    found = GENERATE.read_comments(sql)
    assert found.about == {"t": "Above. More.", "v": "After."}
    assert found.columns == {("t", "a"): "first", ("t", "b"): "second"}


def test_a_column_without_a_meaning_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"t\.unheard_of"):
        GENERATE.meaning(GENERATE.read_comments(""), "t", "unheard_of")


def options() -> Iterator[tuple[str, click.Command, click.Option]]:
    for name, command in cli.load_all().items():
        for option in command.params:
            if isinstance(option, click.Option):
                yield name, command, option


def test_every_option_reads_the_variable_that_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = []
    for name, command, option in options():
        context = click.Context(command, info_name=name, auto_envvar_prefix=f"IWB_BATCH_{name}")
        written = max(option.opts, key=len).removeprefix("--")
        variable = f"IWB_BATCH_{name}_{written}".replace("-", "_").upper()
        monkeypatch.setenv(variable, "1")
        if option.resolve_envvar_value(context) is None or GENERATE.twin(option, name) != f"`{variable}`":
            wrong.append(variable)
        monkeypatch.delenv(variable)
    assert wrong == []


# ---------------------------------------------------------------- the README's commands


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def script(url: str) -> str:
    """The README's commands in order: the resource's address becomes the emulator's, and ``emulate`` goes on behind."""
    port = free_port()
    lines = [
        # 3 is "not finished", which is right where the README calls a command before the end.
        """trap 'code=$?; [ $code -eq 3 ] || { echo "exit $code: $BASH_COMMAND" >&2; exit 1; }' ERR""",
        "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT",
    ]
    for line in readme_lines():
        if NOT_RUN.match(line):
            continue
        changed = line.replace(AZURE, url).replace("8765", str(port))
        if line.startswith("iwb-batch emulate"):
            lines.append(f"{changed} 2> /dev/null &")
            lines.append(
                f"for try in $(seq 200); do (: < /dev/tcp/127.0.0.1/{port}) 2> /dev/null && break; sleep 0.1; done"
            )
        else:
            lines.append(changed)
    return "\n".join([*lines, ""])


def run_script(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "bin").mkdir()
    program = folder / "bin" / "iwb-batch"
    start = f"#!{sys.executable}\nfrom iwb_batch.cli import main\nmain()\n"
    program.write_text(start, encoding="utf-8")
    program.chmod(0o755)
    (folder / "iwb_batch").symlink_to(ROOT / "iwb_batch")
    (folder / "tests").symlink_to(ROOT / "tests")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AZURE_", "OPENAI_", "IWB_"))}
    environment = kept | {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "IWB_BATCH_COLLECT_POLL_INTERVAL": "0.05",
    }
    bash = shutil.which("bash")
    assert bash is not None, "the README's commands need bash"
    return subprocess.run(
        [bash, "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def states(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert run_command(["--runs-dir", str(folder), "runs", "--json"]) == 0
    return [run["state"] for run in json.loads(capsys.readouterr().out)]


def test_the_commands_of_the_readme_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Service(Settings(key="KEY")) as service, running(service) as url:
        done = run_script(tmp_path, script(url))
    assert done.returncode == 0, done.stderr
    assert states(tmp_path / "runs", capsys) == ["complete"] * 4
    assert states(tmp_path / "rehearsals", capsys) == ["complete"]
    report = json.loads(text_of(tmp_path / "report.json"))
    assert (report["n_complete"], report["n_items"]) == (15, 15)
    assert text_of(tmp_path / "report.md").startswith("# REHEARSAL")


def test_a_command_of_the_readme_that_fails_is_noticed(tmp_path: Path) -> None:
    first = script("http://127.0.0.1:9").split("\n")[0]
    done = run_script(tmp_path, f"{first}\niwb-batch query no-such-run 'select 1'\necho reached\n")
    assert done.returncode == 1
    assert "reached" not in done.stdout
    assert "no-such-run" in done.stderr


def test_make_targets_of_the_docs_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"(?:`|^ *)make ([a-z-]+)", text_of(page), re.MULTILINE)}
    assert {"demo", "test", "docs"} <= named
    assert named <= targets


def test_extras_of_the_docs_exist() -> None:
    known = set(re.findall(r"^(\w+) = \[", text_of(ROOT / "pyproject.toml"), re.MULTILINE))
    named = {
        extra
        for page in PAGES
        for extras in re.findall(r"(?:iwb-batch|\.)\[([a-z,]+)\]", text_of(page))
        for extra in extras.split(",")
    }
    assert "emulator" in named
    assert named <= known


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    (excerpt,) = [block for block in blocks(text_of(README)) if "REHEARSAL" in block.body]
    printed = demo(tmp_path, Quiet())[-1].text.split("\n")
    assert [line for line in excerpt.body.split("\n") if line not in printed] == []


# ---------------------------------------------------------------- what the pages name


def commands_named() -> Iterator[tuple[str, str, list[str]]]:
    """(page, command, options) for each call of iwb-batch in code of a page."""
    call = re.compile(r"iwb-batch((?: --?[a-z-]+(?: [\w./-]+)?)*?) ([a-z][a-z-]+)\b([^`\n]*)")
    for page in PAGES:
        text = text_of(page)
        code = [block.body for block in blocks(text)] + re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))
        for part in code:
            for found in call.finditer(part):
                yield page.name, found[2], re.findall(r"(?<!\w)--[a-z][a-z-]*", found[3].split('"')[0])


def test_commands_and_their_options_exist() -> None:
    known = {name: {opt for p in command.params for opt in p.opts} for name, command in cli.load_all().items()}
    found = list(commands_named())
    assert {"submit", "collect", "report", "query", "cancel", "emulate"} <= {name for _, name, _ in found}
    wrong = [
        f"{page}: {name} {' '.join(given)}"
        for page, name, given in found
        if name not in known or not set(given) <= known[name] | {"--help"}
    ]
    assert wrong == []


def test_options_named_alone_exist() -> None:
    known = {opt for _, _, option in options() for opt in option.opts} | {opt for p in cli.params for opt in p.opts}
    wrong = [
        f"{page.name}: {name}"
        for page in PAGES
        for name in re.findall(r"`(--[a-z][a-z-]*)", text_of(page))
        if name not in known
    ]
    assert wrong == []


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", BLOCK.sub("", text_of(page)), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", text_of(page))):
            if target.startswith("https://"):
                continue
            name, _, anchor = target.partition("#")
            file = page.parent / name if name else page
            if not file.is_file() or (anchor and anchor not in anchors(file)):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def strings_of_the_code() -> str:
    """Every string of the package, the parts of f-strings each on a line of its own."""
    trees = [ast.parse(text_of(path)) for path in sorted((ROOT / "iwb_batch").rglob("*.py"))]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return "\n".join(node.value for node in nodes if isinstance(node.value, str))


CODE = strings_of_the_code()
# What stands for something else in the message of a table: names, numbers, a column.
PLACES = re.compile(r"\.\.\.|\b[\w-]+\.jsonl|'response'|\d+")


def messages() -> list[tuple[str, str]]:
    """(page, message) from the first column of the tables of messages."""
    tables = [README, ROOT / "docs" / "troubleshooting.md"]
    return [
        (page.name, found)
        for page in tables
        for found in re.findall(
            r"^\| `([^`]+)`[^|]* \|", text_of(page).partition("## Troubleshooting")[2] or text_of(page), re.MULTILINE
        )
    ]


def is_in_code(words: str) -> bool:
    """Whether the words stand in a string of the code, or in two that are put together at a blank."""
    if words in CODE:
        return True
    at = [place for place, letter in enumerate(words) if letter == " "]
    return any(words[:place] in CODE and words[place + 1 :] in CODE for place in at)


def test_the_readme_explains_enough_messages() -> None:
    assert sum(page == "README.md" for page, _ in messages()) >= 12


@pytest.mark.parametrize(("page", "message"), messages())
def test_messages_of_the_docs_are_the_codes_own(page: str, message: str) -> None:
    parts = [part.strip(" :;,()") for part in PLACES.split(message)]
    assert any(len(part) >= 3 for part in parts), page
    assert [part for part in parts if not is_in_code(part)] == []


def test_a_message_that_the_code_does_not_have_is_noticed() -> None:
    assert not is_in_code("the provider is on holiday until further notice")


def test_environment_variables_of_the_readme_are_read() -> None:
    table = text_of(README).partition("## Environment")[2].partition("\n## ")[0]
    named = {name for name in re.findall(r"`([A-Z][A-Z_]+)`", table) if not name.startswith(("HF_", "HTTPS_", "NO_"))}
    assert {"AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION", "OPENAI_BASE_URL"} <= named
    twins = {GENERATE.twin(option, name).strip("`") for name, _, option in options()}
    foreign = {"OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS"}  # named because they are not sent
    assert [name for name in sorted(named - twins - foreign) if name not in CODE] == []


# ---------------------------------------------------------------- queries


class Moody:
    """A judge that gives another score each time it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, body: Mapping[str, Any]) -> Completion:
        self.asked += 1
        content = json.dumps({"score": self.asked % 10 + 1, "reason": "The quality of the ending is mixed."})
        return Completion(content, model="gpt-5.4-2026", usage=Usage(prompt_tokens=100, completion_tokens=20))


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run that has a bit of everything: failures, duplicates, repeats, wrapped answers."""
    folder = tmp_path_factory.mktemp("audited")
    faults = {
        "requests": [
            {"fault": "content_filter_input", "match": "-i3-c0-"},
            {"fault": "invalid_json", "nth": [2, 9], "times": 1},
            {"fault": "fenced", "nth": [4, 12]},
            {"fault": "prose", "nth": [5]},
            {"fault": "duplicate", "nth": [6]},
            {"fault": "unknown_id", "nth": [7]},
        ]
    }
    files = ["--dataset", str(DEMO / "items.jsonl"), "--responses", str(DEMO / "responses_vichar-8b.jsonl")]
    service = Service(Settings(pending_polls=0, polls_per_stage=0), judge=Moody(), faults=FaultPlan.of(faults))
    with pytest.MonkeyPatch.context() as patch, service, running(service) as url:
        patch.setenv("AZURE_OPENAI_ENDPOINT", url)
        patch.setenv("AZURE_OPENAI_API_KEY", "any")
        submit = ["submit", "--benchmark", "indic-writing-bench", *files, "--repeats", "2", "--wait", "0"]
        assert run_command(["--runs-dir", str(folder), *submit]) == 0
        collect = ["collect", "--watch", "--poll-interval", "0.02", "--wait", "0", "--timeout", "60"]
        assert run_command(["--runs-dir", str(folder), *collect]) == 4
    return folder


@pytest.mark.parametrize("query", QUERIES, ids=[query.name for query in QUERIES])
def test_the_queries_return_rows(audited: Path, capsys: pytest.CaptureFixture[str], query: Any) -> None:
    capsys.readouterr()
    assert run_command(["--runs-dir", str(audited), "query", "--format", "json", query.sql]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows
    assert all(len(row) >= 3 for row in rows)
    assert query.about.endswith(".")


def test_there_are_at_least_ten_queries_with_names_of_their_own() -> None:
    assert len({query.name for query in QUERIES}) == len(QUERIES) >= 10


def test_the_raw_output_query_gives_the_line_as_it_came(audited: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    (raw,) = [query for query in QUERIES if query.name == "The raw output of one request"]
    assert run_command(["--runs-dir", str(audited), "query", "--format", "json", raw.sql]) == 0
    for row in json.loads(capsys.readouterr().out):
        (run,) = audited.iterdir()
        lines = (run / "raw" / row["raw_file"]).read_bytes().split(b"\n")
        assert lines[row["line"] - 1].decode("utf-8") == row["text"]


# ---------------------------------------------------------------- examples


@dataclass(frozen=True)
class Example:
    """An answer of docs/verdicts.md and what the page says it is read as."""

    title: str
    answer: str
    judged: str
    outcome: str
    score: str
    notes: str


def examples() -> list[Example]:
    pattern = re.compile(
        BLOCK.pattern
        + r"\n\nRead as: `(?P<outcome>\w+)`(?:, score (?P<score>\d+))?(?:, noted `(?P<notes>[\w, `]+)`)?\.$",
        re.MULTILINE | re.DOTALL,
    )
    found = []
    text = text_of(ROOT / "docs" / "verdicts.md").partition("## Outcomes")[0]
    for part in text.split("\n### ")[1:]:
        judged = "".join(block.body for block in blocks(part) if block.info == "text judged")
        for number, one in enumerate(
            pattern.finditer(re.sub(r"^```text judged\n.*?^```\n", "", part, flags=re.M | re.S))
        ):
            answer = json.loads(one["body"]) if one["info"] == "json" else one["body"].removesuffix("\n")
            title = f"{part.partition(chr(10))[0]} {number + 1}"
            found.append(Example(title, answer, judged, one["outcome"], one["score"] or "", one["notes"] or ""))
    return found


EXAMPLES = examples()


def test_every_example_of_the_page_is_read() -> None:
    page = text_of(ROOT / "docs" / "verdicts.md")
    assert len(EXAMPLES) == page.count("\nRead as: ") >= 15


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.title for example in EXAMPLES])
def test_answers_are_read_as_the_page_says(example: Example) -> None:
    reader = VerdictReader(schemas.load("judgement.schema.json"))
    found = reader.read(example.answer, [example.judged] if example.judged else [])
    if isinstance(found, InvalidVerdict):
        assert (found.outcome.value, "", "") == (example.outcome, example.score, example.notes)
    else:
        assert ("valid", str(found.value["score"]), ", ".join(found.notes)) == (
            example.outcome,
            example.score,
            example.notes,
        )


def worked_example() -> RubricData:
    """The items of the worked example in docs/numbers.md, read from its table."""
    page = text_of(ROOT / "docs" / "numbers.md").partition("### A worked example")[2]
    rows = []
    histogram: dict[int, int] = {}
    pattern = r"^\| ([A-D]) \| (\w+) \| (\w+) \| ([\d -]+) \|$"
    for index, (_, prompt, domain, scores) in enumerate(re.findall(pattern, page, re.MULTILINE)):
        values = [int(score) for score in scores.split() if score != "-"]
        for value in values:
            histogram[value] = histogram.get(value, 0) + 1
        mean = sum(values) / 5 if len(values) == 5 else None
        rows.append(ItemRow(index, domain, None, None, str(index), prompt, None, 5, len(values), sum(values), mean, 1))
    facts = RunFacts("run", "indic-writing-bench", "m", "j", False, "", n_planned=20, n_scored=19, n_failed=1)
    return RubricData(facts, rows, histogram)


def test_the_worked_example_is_what_the_report_computes() -> None:
    page = text_of(ROOT / "docs" / "numbers.md")
    report = rubric_report(worked_example())
    overall = report.overall
    assert f"| Overall | {overall.score:.2f}, {report.n_complete} of {report.n_items} items |" in page
    assert f"| interval | {overall.low:.2f} to {overall.high:.2f}, few clusters |" in page
    assert overall.n_clusters == 3
    assert f"| worst, best | {report.worst:.2f}, {report.best:.2f} |" in page
    assert f"| macro mean | {report.macro_mean:.2f} |" in page
    assert f"| pooled mean | {report.pooled_mean:.2f} |" in page
