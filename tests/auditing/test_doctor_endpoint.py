"""``doctor`` without a run: machine, endpoint, one file's way there and back; and ``--probe``."""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.emulator.judge import Completion, LineError
from iwb_batch.emulator.service import Service
from iwb_batch.workflow import doctor as use_case
from iwb_batch.workflow.settings import Options
from tests.auditing.support import KEY, served
from tests.cli.support import ROOT, Cli, Done


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path / "runs", capsys)


def doctor(cli: Cli, *more: str) -> Done:
    return cli("doctor", "--json", "--wait", "0.2", *more)


def files_left(service: Service) -> list[str]:
    """Names of uploads never deleted, told from the calls."""
    made = sum(1 for method, path, _ in service.calls if method == "POST" and path.endswith("/files"))
    gone = sum(1 for method, _, status in service.calls if method == "DELETE" and status == 200)
    return ["file"] * (made - gone)


def batches_made(service: Service) -> int:
    return len(service.batches_created)


def test_everything_is_well(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch, pending_polls=1) as service:
        done = doctor(cli, "--wait", "5")
    assert (done.code, done.broken, done.warned) == (0, {}, {})
    assert {"endpoint", "credentials", "list of batches", "upload of a file", "download of the file"} <= set(
        done.checks
    )
    assert {"expiry of files", "clock", "deletion of the file", "runs folder", "free space", "SQLite"} <= set(
        done.checks
    )
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    told = {name: check["message"] for name, check in done.checks.items() if name.startswith("extra ")}
    assert told.keys() == {f"extra {name}" for name in extras}
    assert all(message.startswith("installed, for ") for message in told.values()), told
    assert "write-ahead log" in done.checks["run.db can be made"]["message"]
    assert (files_left(service), batches_made(service)) == ([], 0)
    assert not cli.runs.exists()


def test_the_key_is_shown_nowhere(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch):
        for arguments in (("doctor", "--json"), ("-v", "doctor")):
            done = cli(*arguments)
            assert KEY not in done.out + done.err


def test_without_settings_nothing_is_called(cli: Cli) -> None:
    done = doctor(cli)
    assert (done.code, set(done.broken)) == (1, {"credentials"})
    assert "AZURE_OPENAI_API_KEY" in done.broken["credentials"]
    assert "export AZURE_OPENAI_ENDPOINT" in done.checks["credentials"]["next"]


SETTINGS: dict[str, tuple[dict[str, str], str, str, str]] = {
    "another suffix": ({"AZURE_OPENAI_ENDPOINT": "https://x.example.org"}, "endpoint spelling", "warn", "example.org"),
    "http off this machine": ({"AZURE_OPENAI_ENDPOINT": "http://x.openai.azure.com"}, "endpoint", "broken", "http://"),
    "address of a deployment": (
        {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/openai/deployments/d/chat/completions"},
        "endpoint",
        "broken",
        "one deployment",
    ),
    "key with a line break": ({"AZURE_OPENAI_API_KEY": "ab\ncd"}, "credentials", "broken", "line break"),
    "a version that is none": ({"OPENAI_API_VERSION": "latest"}, "endpoint", "broken", "API version"),
    "with the v1 path": ({"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com/openai/v1/"}, "endpoint", "ok", "v1"),
}


@pytest.mark.parametrize(("environ", "name", "status", "words"), SETTINGS.values(), ids=SETTINGS)
def test_settings_are_looked_at_before_anything_is_sent(
    environ: Mapping[str, str], name: str, status: str, words: str
) -> None:
    usual = {"AZURE_OPENAI_ENDPOINT": "https://x.openai.azure.com", "AZURE_OPENAI_API_KEY": "abc"}
    found, _ = use_case.connect(use_case.Asked("azure", Options()), {**usual, **environ})
    (check,) = [check for check in found if check.name == name]
    assert check.status == status
    assert words in check.message
    assert "ab\ncd" not in check.message


def test_a_wrong_key(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch):
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "wrong")
        done = doctor(cli)
    assert (done.code, set(done.broken)) == (1, {"list of batches"})
    assert "Access denied" in done.broken["list of batches"]
    assert "Check the key" in done.checks["list of batches"]["next"]


def test_nobody_at_the_address(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch):
        pass
    done = doctor(cli)
    assert (done.code, set(done.broken)) == (1, {"list of batches"})
    assert "network" in done.checks["list of batches"]["next"]


def test_an_old_api_version_keeps_no_expiry(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch) as service:
        done = doctor(cli, "--api-version", "2024-10-01-preview")
    assert (done.code, set(done.warned)) == (0, {"expiry of files"})
    assert "500" in done.warned["expiry of files"]
    assert files_left(service) == []


def test_the_openai_surface(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    with served(monkeypatch):
        monkeypatch.setenv("OPENAI_BASE_URL", os.environ["AZURE_OPENAI_ENDPOINT"] + "/v1")
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        done = doctor(cli, "--provider", "openai")
    assert (done.code, done.broken) == (0, {})


HTTP: dict[str, tuple[dict[str, Any], str, str]] = {
    "file never processed": ({"fault": "file_pending", "polls": None}, "upload of a file", "pending after"),
    "file that cannot be read": (
        {"fault": "file_error", "details": "Broken line 1."},
        "upload of a file",
        "Broken line 1.",
    ),
    "upload without an answer": ({"fault": "lost_reply", "method": "POST", "path": "^/files$"}, "upload of a file", ""),
    "short download": ({"fault": "silent_short", "path": "/content$"}, "download of the file", "bytes came back"),
    "list that breaks off": ({"fault": "status", "status": 503, "path": "^/batches"}, "list of batches", ""),
}


@pytest.mark.parametrize(("fault", "name", "words"), HTTP.values(), ids=HTTP)
def test_trouble_with_a_call_is_named_and_nothing_is_left(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any], name: str, words: str
) -> None:
    with served(monkeypatch, faults={"http": [fault]}) as service:
        done = doctor(cli)
    assert (done.code, set(done.broken)) == (1, {name})
    assert words in done.broken[name]
    assert done.checks[name]["next"]
    assert files_left(service) == []


def test_a_full_file_quota(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch, max_files_expiring=0):
        done = doctor(cli)
    assert "quotaExceeded" in done.broken["upload of a file"]
    assert "Delete old input files" in done.checks["upload of a file"]["next"]


def test_a_file_that_cannot_be_deleted_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"fault": "status", "status": 500, "method": "DELETE", "path": "^/files/"}
    with served(monkeypatch, faults={"http": [fault]}):
        done = doctor(cli)
    assert (done.code, set(done.warned)) == (0, {"deletion of the file"})
    assert "file-" in done.warned["deletion of the file"]


def test_a_server_that_gives_no_input_file_back_is_fine(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"fault": "status", "status": 400, "path": "/content$"}
    with served(monkeypatch, faults={"http": [fault]}):
        done = doctor(cli)
    assert (done.code, done.broken) == (0, {})
    assert "no input file back" in done.checks["download of the file"]["message"]


@pytest.mark.parametrize(("hours", "word"), [(2, "ahead of"), (-2, "behind")])
def test_a_clock_far_from_the_server_s(cli: Cli, monkeypatch: pytest.MonkeyPatch, hours: int, word: str) -> None:
    with served(monkeypatch, clock=lambda: time.time() + 3600 * hours):
        done = doctor(cli)
    assert set(done.warned) == {"clock"}
    assert word in done.warned["clock"]


def test_a_runs_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    done = doctor(Cli(tmp_path / "file" / "runs", capsys))
    assert "cannot be written" in done.broken["runs folder"]


def test_the_text_form_has_the_next_step(cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 1
    assert "next: set with: export AZURE_OPENAI_ENDPOINT" in done.out
    assert done.out.rstrip("\n").endswith("1 broken")


# --- the probe ---------------------------------------------------------------------------------------


class Refusing:
    """A judge that ends each line in an HTTP error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.error = {"error": {"code": code, "message": message, "type": "invalid_request_error", "param": "p"}}

    def answer(self, body: Mapping[str, Any]) -> Completion:
        raise LineError(self.status, self.error)


class Saying:
    """A judge that says one thing and keeps what it was asked."""

    def __init__(self, content: str) -> None:
        self.content = content
        self.bodies: list[Mapping[str, Any]] = []

    def answer(self, body: Mapping[str, Any]) -> Completion:
        self.bodies.append(body)
        return Completion(self.content, model="gpt-5.4-2026-03-05")


@contextmanager
def fast_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Waiting takes no time: the clock the command uses goes on by itself."""
    from iwb_batch.workflow import clock

    now = [0.0]

    def sleep(_clock: clock.Clock, seconds: float) -> None:
        now[0] += max(seconds, 0.001)

    with monkeypatch.context() as patch:
        patch.setattr(clock.Clock, "sleep", sleep)
        patch.setattr(clock.Clock, "monotonic", lambda _clock: now[0])
        yield


def probe(cli: Cli, monkeypatch: pytest.MonkeyPatch, *more: str) -> Done:
    with fast_clock(monkeypatch):
        return cli("doctor", "--json", "--probe", "--judge", "judge-1", *more)


def test_the_probe_sends_one_request_and_names_the_model(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Saying('{"score": 5, "reason": "The connection works."}')
    with served(monkeypatch, judge=judge, polls_per_stage=1) as service:
        done = probe(cli, monkeypatch, "--reasoning-effort", "low", "--structured-output")
    assert (done.code, done.broken, done.warned) == (0, {}, {})
    assert done.checks["model"]["message"] == "gpt-5.4-2026-03-05"
    assert (batches_made(service), len(judge.bodies)) == (1, 1)
    body = judge.bodies[0]
    assert (body["model"], body["reasoning_effort"], body["max_completion_tokens"]) == ("judge-1", "low", 8000)
    assert body["response_format"]["type"] == "json_schema"
    assert not {"temperature", "top_p", "max_tokens"} & set(body)
    deleted = sum(1 for method, _, status in service.calls if (method, status) == ("DELETE", 200))
    assert deleted == 4  # the file of the round trip; input, output and error file of the probe
    assert "one request to judge-1" in done.err


FAILED: dict[str, tuple[dict[str, Any], str, str]] = {
    "a standard deployment": (
        {
            "fault": "failed",
            "code": "invalid_request",
            "message": "The deployment SKU must be GlobalBatch to run batches.",
        },
        "GlobalBatch",
        "Deploy the model as Global Batch",
    ),
    "no such deployment": ({"fault": "failed", "code": "model_not_found"}, "model_not_found", "name of a deployment"),
    "a full queue": ({"fault": "failed", "code": "token_limit_exceeded"}, "token_limit_exceeded", "queue is full"),
    "a full queue at once": (
        {"fault": "failed", "code": "token_limit_exceeded", "when": "create"},
        "token_limit_exceeded",
        "queue is full",
    ),
}


@pytest.mark.parametrize(("fault", "words", "step"), FAILED.values(), ids=FAILED)
def test_a_refused_probe_has_the_provider_s_words_and_a_next_step(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, fault: dict[str, Any], words: str, step: str
) -> None:
    with served(monkeypatch, faults={"batches": [fault]}) as service:
        done = probe(cli, monkeypatch)
    assert (done.code, set(done.broken)) == (1, {"batch"})
    assert words in done.broken["batch"]
    assert step in done.checks["batch"]["next"]
    assert files_left(service) == []


@pytest.mark.parametrize("at_once", [True, False])
def test_an_unknown_deployment(cli: Cli, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    with served(monkeypatch, deployments={"other": 10**9}, fail_fast=at_once):
        done = probe(cli, monkeypatch)
    assert "judge-1" in done.broken["batch"]
    assert "name of a deployment" in done.checks["batch"]["next"]


def test_a_parameter_the_model_does_not_take(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Refusing(400, "unsupported_parameter", "Unsupported parameter: 'reasoning_effort'.")
    with served(monkeypatch, judge=judge) as service:
        done = probe(cli, monkeypatch)
    assert set(done.broken) == {"answer"}
    assert "reasoning_effort" in done.broken["answer"]
    assert "leave that option out" in done.checks["answer"]["next"]
    assert files_left(service) == []


ANSWERS = {"no verdict": ("I would rather not.", "invalid_json"), "another shape": ('{"ok": 1}', "invalid_schema")}


@pytest.mark.parametrize(("content", "outcome"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer_that_is_no_verdict(cli: Cli, monkeypatch: pytest.MonkeyPatch, content: str, outcome: str) -> None:
    with served(monkeypatch, judge=Saying(content)):
        done = probe(cli, monkeypatch)
    assert done.broken["answer"].startswith(outcome)


def test_a_batch_that_does_not_end_in_time_is_cancelled(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch, faults={"batches": [{"fault": "stuck"}]}) as service:
        done = probe(cli, monkeypatch, "--timeout", "30")
    assert (done.code, set(done.warned)) == (0, {"batch"})
    assert "after 30 s" in done.warned["batch"]
    assert any(path.endswith("/cancel") for _, path, _ in service.calls)


def test_a_create_call_without_an_answer_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = {"fault": "lost_reply", "method": "POST", "path": "^/batches$"}
    with served(monkeypatch, faults={"http": [fault]}):
        done = probe(cli, monkeypatch)
    assert set(done.broken) == {"batch"}
    assert "iwb_doctor" in done.checks["batch"]["next"]


def test_no_probe_where_the_round_trip_is_broken(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch, max_files_expiring=0) as service:
        done = probe(cli, monkeypatch)
    assert done.code == 1
    assert batches_made(service) == 0


def test_the_probe_asks_and_no_means_no(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    from iwb_batch.cli import output

    asked: list[str] = []

    def no(text: str, **_: object) -> bool:
        asked.append(text)
        return False

    monkeypatch.setattr(output, "is_interactive", lambda: True)
    monkeypatch.setattr(click, "confirm", no)
    with served(monkeypatch) as service:
        done = probe(cli, monkeypatch)
    assert (done.code, batches_made(service)) == (0, 0)
    assert "billed" in asked[0]
    assert "judge-1" in asked[0]


def test_the_harmless_line_is_one_a_strict_server_takes() -> None:
    from iwb_batch.core.render import check_request_line

    assert check_request_line(use_case._HARMLESS.rstrip(b"\n")) is None
    assert json.loads(use_case._HARMLESS)["body"]["messages"][0]["content"] == "न文 file check"
