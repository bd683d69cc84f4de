"""Data, an emulated resource and the command line itself, for the tests of this folder."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from iwb_batch import schemas
from iwb_batch.cli import run as run_command
from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.http import HttpReply, HttpRequest
from iwb_batch.emulator.judge import Completion, Judge
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.model import Usage

ROOT = Path(__file__).resolve().parents[2]
KEY = "k3y-loopback-4711-only"
CRITERIA = ("Clarity", "भाषा", "结构", "Tone", "Completeness")
BANDS = ("1-2", "3-4", "5-6", "7-8", "9-10")
LANGUAGES = ("Hindi", "English", "Chinese")
DOMAINS = ("Education", "साहित्य", "数学")
QUERIES = (
    "वर्षा ऋतु पर एक छोटी कविता लिखिए",
    "Write a letter to a landlord about a leaking roof",
    "写一段关于秋天的文字",
)
ANSWERS = ("बादल आए, धरती हँसी", "Dear Mr Rao, the roof leaks again.", "秋风吹过金色的田野。")


def criterion(name: str, number: int = 0) -> dict[str, str]:
    """One rubric entry."""
    bands = {band: f"Band {band} of criterion {number}" for band in BANDS}
    return {"name": name, "criteria_description": f"How good is: {name}", **bands}


def item(index: int, **changes: Any) -> dict[str, Any]:
    """One row of the rubric benchmark, in Hindi, English or Chinese by its index."""
    place = index % 3
    row = {
        "index": index,
        "id": f"row-{index}",
        "domain": DOMAINS[place],
        "subdomain": f"kind {index % 2}",
        "language": LANGUAGES[place],
        "variant": "native",
        "is_code_mixed": False,
        "is_romanized": False,
        "query": f"{QUERIES[place]} ({index})",
        "reference": f"note {index}",
        "checklist": [criterion(name, number) for number, name in enumerate(CRITERIA)],
    }
    return {**row, **changes}


def items(n: int) -> list[dict[str, Any]]:
    """``n`` rows with the indexes from 0."""
    return [item(index) for index in range(n)]


def answer(index: int) -> str:
    """The response to an item; no two are equal."""
    return f"{ANSWERS[index % 3]} #{index}#"


def responses(n: int) -> list[dict[str, Any]]:
    """A response for each of ``items(n)``."""
    return [{"index": index, "response": answer(index)} for index in range(n)]


def jsonl(path: Path, rows: Iterable[Any]) -> Path:
    """Write rows as JSON lines in UTF-8."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


@dataclass
class Inputs:
    """A data file and a responses file."""

    data: Path
    answers: Path

    @property
    def options(self) -> list[str]:
        """The options that name them."""
        return ["--benchmark", "indic-writing-bench", "--dataset", str(self.data), "--responses", str(self.answers)]


def inputs(folder: Path, n: int = 2) -> Inputs:
    """``n`` items and their responses as files."""
    folder.mkdir(parents=True, exist_ok=True)
    return Inputs(jsonl(folder / "items.jsonl", items(n)), jsonl(folder / "model-x.jsonl", responses(n)))


@dataclass
class Done:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The lines that tell an error."""
        return [line for line in self.err.split("\n") if line.lower().startswith("error: ")]

    @property
    def hint(self) -> str:
        """The line after the error: what to do next."""
        lines = self.err.split("\n")
        at = next(number for number, line in enumerate(lines) if line.lower().startswith("error: "))
        return lines[at + 1].strip() if lines[at + 1].startswith("  ") else ""

    def refused(self, code: int, *words: str, hint: str = "") -> None:
        """Check the exit code, the one line that says what happened and where, and the next step."""
        assert self.code == code, self.err
        assert len(self.errors) == 1, self.err
        for word in words:
            assert word in self.errors[0]
        assert "Traceback" not in self.err
        assert hint in self.hint
        assert self.hint or "Usage:" in self.err, "no next step"

    def json(self) -> Any:
        """stdout as JSON."""
        return json.loads(self.out)

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        """The checks of ``doctor --json`` by name."""
        found: dict[str, dict[str, Any]] = {check["name"]: check for check in self.json()["checks"]}
        return found

    @property
    def broken(self) -> dict[str, str]:
        """Messages of the broken checks by name."""
        return {name: check["message"] for name, check in self.checks.items() if check["status"] == "broken"}

    @property
    def warned(self) -> dict[str, str]:
        """Messages of the warnings by name."""
        return {name: check["message"] for name, check in self.checks.items() if check["status"] == "warn"}


class Cli:
    """The command line in this process, with its own folder of runs."""

    def __init__(self, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.runs = runs
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Done:
        self._capsys.readouterr()
        code = run_command(["--runs-dir", str(self.runs), *map(str, arguments)])
        out, err = self._capsys.readouterr()
        return Done(code, out, err)

    def submit(self, given: Inputs, *more: str | Path) -> Done:
        """``submit`` without waiting longer than a call takes."""
        return self("submit", *given.options, "--wait", "0", *more)

    def collect(self, *more: str) -> Done:
        """``collect`` until done, polling fast."""
        return self("collect", "--watch", "--poll-interval", "0.02", "--wait", "0", "--timeout", "30", *more)

    def query(self, sql: str, run: str | None = None) -> list[dict[str, Any]]:
        """Rows of a query on a run file."""
        done = self("query", *([run] if run else []), sql, "--format", "json")
        assert done.code == 0, done.err
        rows: list[dict[str, Any]] = done.json()
        return rows

    @property
    def names(self) -> list[str]:
        """Everything in the folder of runs, hidden or not."""
        return sorted(path.name for path in self.runs.iterdir()) if self.runs.exists() else []

    @property
    def folder(self) -> Path:
        """The folder of the only run."""
        (name,) = self.names
        return self.runs / name

    def lines(self) -> list[dict[str, Any]]:
        """Every line of every request file of the only run, in order."""
        files = sorted((self.folder / "requests").iterdir())
        return [json.loads(line) for file in files for line in file.read_bytes().split(b"\n") if line]


class HeldService(Service):
    """A resource that can be made to hang at one kind of call, until it is released."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.hold: str | None = None
        self.entered = threading.Event()
        self.release = threading.Event()

    def handle(self, request: HttpRequest) -> HttpReply:
        if self.hold is not None and re.search(self.hold, f"{request.method} {request.path}"):
            self.entered.set()
            self.release.wait(30)
        return super().handle(request)


class Desk(Service):
    """One address for all tests: hands each call to the resource of the present test."""

    def __init__(self) -> None:
        super().__init__()
        self.resource: Service | None = None

    def handle(self, request: HttpRequest) -> HttpReply:
        return super().handle(request) if self.resource is None else self.resource.handle(request)


@dataclass
class Resource:
    """An emulated resource and its address."""

    service: HeldService
    url: str

    @property
    def posts(self) -> list[str]:
        """Paths of the calls that change something."""
        return [path for method, path, _ in self.service.calls if method != "GET"]


@dataclass
class Emulation:
    """Makes emulated resources; the newest one answers at the address in the environment."""

    desk: Desk
    url: str
    stack: ExitStack = field(default_factory=ExitStack)

    def __call__(
        self,
        *,
        faults: Mapping[str, Any] | None = None,
        judge: Judge | None = None,
        pending_polls: int = 0,
        polls_per_stage: int = 0,
        **settings: Any,
    ) -> Resource:
        chosen = Settings(key=KEY, pending_polls=pending_polls, polls_per_stage=polls_per_stage, **settings)
        plan = None if faults is None else FaultPlan.of(faults)
        service = self.stack.enter_context(HeldService(chosen, judge=judge, faults=plan))
        self.stack.callback(service.release.set)
        self.desk.resource = service
        return Resource(service, self.url)


@dataclass
class Scripted:
    """A judge that answers what ``content`` makes of the prompt."""

    content: Callable[[str], str]
    model: str = "gpt-5.4-2026"

    def answer(self, body: Mapping[str, Any]) -> Completion:
        """The completion for a body."""
        prompt = body["messages"][-1]["content"]
        usage = Usage(prompt_tokens=100, cached_tokens=0, completion_tokens=20, reasoning_tokens=5)
        return Completion(self.content(prompt), model=self.model, usage=usage)


def verdict(score: int, reason: str = "A fair text.") -> str:
    """The content of a good answer."""
    return json.dumps({"score": score, "reason": reason}, ensure_ascii=False)


def own_score(prompt: str) -> str:
    """A verdict that follows from the number of the response judged: 1 + index modulo 10."""
    found = re.search(r"#(\d+)#", prompt)
    assert found is not None
    return verdict(1 + int(found[1]) % 10)


def nothing_sent(cli: Cli, resource: Resource) -> None:
    """Check that the provider was asked to do nothing and no folder is left behind."""
    assert resource.posts == []
    assert cli.names == []


def check_schema(value: Any, name: str) -> None:
    """Check a value against a file of ``schemas/``."""
    jsonschema.Draft202012Validator(schemas.load(name)).validate(value)


# A shell's background work hands down an ignored SIGINT: here Ctrl-C has to mean what it means at a terminal.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from iwb_batch.cli import main; main()"
)


START_SEVERAL = """
import json, sys
from iwb_batch.cli import run
runs, commands, sys.argv = sys.argv[1], json.loads(sys.argv[2]), ["iwb-batch"]
codes = [run(["--runs-dir", runs, *arguments]) for arguments in commands]
sys.exit(next((code for code in codes if code), 0))
"""


def environment(**more: str) -> dict[str, str]:
    """The environment of a separate process."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default", **more}


def command(runs: Path, *arguments: str | Path, python: Sequence[str] = ()) -> list[str]:
    """The command line as a process of its own."""
    return [sys.executable, *python, "-c", START, "--runs-dir", str(runs), *map(str, arguments)]


def process(
    runs: Path,
    *arguments: str | Path,
    python: Sequence[str] = (),
    encoding: str = "utf-8",
    stdin: int | None = subprocess.DEVNULL,
    **more: str,
) -> Done:
    """Run a command in a process of its own."""
    done = subprocess.run(
        command(runs, *arguments, python=python),
        stdin=stdin,
        capture_output=True,
        env=environment(**more),
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))


def in_a_row(runs: Path, commands: Iterable[Sequence[str | Path]], *, python: Sequence[str] = ()) -> list[str]:
    """Commands one after the other in one process; its exit code is the first that is not 0."""
    listed = json.dumps([list(map(str, arguments)) for arguments in commands])
    return [sys.executable, *python, "-c", START_SEVERAL, str(runs), listed]


def several(
    runs: Path,
    commands: Iterable[Sequence[str | Path]],
    *,
    python: Sequence[str] = (),
    encoding: str = "utf-8",
    **more: str,
) -> Done:
    """Run commands in a row."""
    done = subprocess.run(
        in_a_row(runs, commands, python=python),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(**more),
        timeout=60,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding))


class Background:
    """A command at work in a process of its own; stderr is read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.said: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.said.append(line.decode("utf-8").rstrip("\n"))
                self._changed.notify_all()

    def wait_for(self, words: str) -> None:
        """Wait until stderr says something."""
        with self._changed:
            told = self._changed.wait_for(lambda: any(words in line for line in self.said), timeout=30)
        assert told, self.said

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> Done:
        """Wait for the end."""
        code = self.process.wait(30)
        self._reader.join(30)
        assert self.process.stdout is not None
        return Done(code, self.process.stdout.read().decode("utf-8"), "\n".join(self.said) + "\n")


@contextmanager
def background(runs: Path, *arguments: str | Path, **more: str) -> Iterator[Background]:
    """Start a command and make sure it ends."""
    with subprocess.Popen(
        command(runs, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**more),
    ) as started:
        try:
            yield Background(started)
        finally:
            if started.poll() is None:
                started.kill()


def stored(database: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a run file, read without the program under test."""
    connection = sqlite3.connect(database)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()
