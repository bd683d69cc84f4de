"""``submit``: the dry run, what is sent, and the same command again."""

from __future__ import annotations

import json
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest

from iwb_batch.core import lifecycle
from tests.cli.support import (
    Cli,
    Emulation,
    Inputs,
    Resource,
    answer,
    check_schema,
    inputs,
    item,
    jsonl,
    nothing_sent,
    responses,
    stored,
)


def facts(text: str) -> dict[str, str]:
    """The lines of a dry run by their names."""
    return {line[:14].strip(): line[14:] for line in text.strip().split("\n")}


def test_a_dry_run_tells_everything_and_leaves_nothing(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    done = cli.submit(two, "--dry-run", "--max-requests-per-file", "4")
    assert done.code == 0, done.err
    told = facts(done.out)
    assert (told["items"], told["requests"], told["request files"]) == ("2", "10", "3")
    assert int(told["bytes"].replace(",", "")) > 10_000
    assert "(" in told["input tokens"], "the estimator is named"
    assert int(told["input tokens"].split()[0].replace(",", "")) > 1_000
    assert told["output tokens"].startswith("10,000")
    assert told["cost"].endswith(" USD")
    assert "bundled table" in told["prices"]
    assert resource.service.calls == []
    assert cli.names == []
    assert list(temporary.iterdir()) == []


def test_a_dry_run_needs_no_credentials_and_no_network(cli: Cli, two: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("a dry run opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    done = cli.submit(two, "--dry-run")
    assert done.code == 0, done.err
    assert cli.names == []


def test_a_dry_run_counts_the_bytes_that_are_sent(cli: Cli, two: Inputs, resource: Resource) -> None:
    told = facts(cli.submit(two, "--dry-run").out)
    assert cli.submit(two).code == 0
    written = sum(path.stat().st_size for path in (cli.folder / "requests").iterdir())
    assert int(told["bytes"].replace(",", "")) == written


def test_a_dry_run_with_an_unknown_price_says_unknown(cli: Cli, two: Inputs) -> None:
    told = facts(cli.submit(two, "--dry-run", "--judge", "my-own-deployment").out)
    assert told["cost"].startswith("unknown")
    assert "--price-input" in told["cost"]


def test_a_dry_run_uses_the_prices_given(cli: Cli, two: Inputs) -> None:
    options = ["--judge", "own", "--price-input", "0", "--price-output", "100"]
    assert facts(cli.submit(two, "--dry-run", *options).out)["cost"] == "1.00 USD"


def test_what_is_sent_is_the_documented_request(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    lines = cli.lines()
    assert len(lines) == 10
    for line in lines:
        assert set(line) == {"custom_id", "method", "url", "body"}
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert set(line["body"]) == {"model", "messages", "max_completion_tokens"}
        assert line["body"]["model"] == "gpt-5.4"
        assert line["body"]["max_completion_tokens"] == 8000
    assert len({line["custom_id"] for line in lines}) == 10


def test_structured_output_and_effort_are_sent_when_asked_for(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--structured-output", "--reasoning-effort", "high").code == 0
    for line in cli.lines():
        assert line["body"]["reasoning_effort"] == "high"
        assert line["body"]["response_format"]["type"] == "json_schema"
    assert cli.collect().code == 0


def test_a_finished_run_sends_nothing_more(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    posts, files = list(resource.posts), sorted(cli.folder.rglob("*"))
    for _ in range(3):
        done = cli.submit(two)
        assert done.code == 0, done.err
        assert done.out == f"{cli.folder}\n"
    assert resource.posts == posts
    assert sorted(cli.folder.rglob("*")) == files
    assert cli("report").code == 0


def test_a_submitted_run_sends_nothing_twice(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(polls_per_stage=1)
    assert cli.submit(two).code == 0
    for _ in range(3):
        assert cli.submit(two).code == 0
    assert len(resource.service.batches_created) == 1
    assert cli.collect().code == 0
    assert resource.service.paid_twice() == []


def test_files_above_the_quota_wait_and_collect_sends_them(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(polls_per_stage=1)
    done = cli.submit(two, "--max-requests-per-file", "5", "--enqueued-token-limit", "5000")
    assert done.code == 3, done.err
    assert "1 of 2 request files sent; collect sends the rest" in done.err
    assert "waits for the enqueued-token limit" in done.err
    assert len(resource.service.batches_created) == 1
    assert cli.collect().code == 0
    assert len(resource.service.batches_created) == 2
    assert cli("status", "--json").json()["scored"] == 10


def test_a_full_queue_at_the_provider_is_waited_for(
    cli: Cli, two: Inputs, emulate: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "BACK_OFF_FIRST", 0.05)
    resource = emulate(deployments={"gpt-5.4": 8000}, fail_fast=True, polls_per_stage=1)
    done = cli.submit(two, "--max-requests-per-file", "5")
    assert done.code == 3, done.err
    assert "token_limit_exceeded" in done.err
    assert "1 of 2 request files sent" in done.err
    assert cli.collect().code == 0
    assert cli("status", "--json").json()["outcomes"] == {"valid": 10}
    assert resource.service.paid_twice() == []


def test_a_file_still_pending_is_waited_for_and_then_sent(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(pending_polls=2)
    done = cli.submit(two, "--wait", "20")
    assert done.code == 0, done.err
    assert [path for path in resource.posts if path.endswith("/batches")] == ["/openai/v1/batches"]


def test_without_waiting_a_pending_file_is_left_to_collect(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(pending_polls=2)
    done = cli.submit(two)
    assert done.code == 3, done.err
    assert "0 of 1 request file sent; collect sends the rest" in done.err
    assert "file status is pending" in done.err
    assert cli.collect().code == 0
    assert len([path for path in resource.posts if path.endswith("/files")]) == 1


def test_a_file_that_never_becomes_ready_is_told_after_the_wait(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(faults={"http": [{"fault": "file_pending", "method": "POST", "path": "^/files$"}]})
    done = cli.submit(two, "--wait", "0.3")
    assert done.code == 3, done.err
    assert "file status is pending" in done.err
    assert resource.service.batches_created == []


def test_a_file_the_provider_cannot_read_is_sent_afresh_once(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    fault = {"fault": "file_error", "method": "POST", "path": "^/files$", "details": "The file is damaged."}
    resource = emulate(faults={"http": [fault]})
    done = cli.submit(two, "--wait", "20")
    done.refused(5, "0001.jsonl", "The file is damaged.", "again after a fresh upload", hint="doctor")
    assert len([path for path in resource.posts if path.endswith("/files")]) == 2
    assert resource.service.batches_created == []


def test_large_responses_are_split_by_bytes(cli: Cli, tmp_path: Path, resource: Resource) -> None:
    given = inputs(tmp_path / "four", 4)
    jsonl(given.answers, [{"index": index, "response": answer(index) + "x" * 80_000} for index in range(4)])
    done = cli.submit(given, "--max-bytes-per-file", "200000")
    assert done.code == 0, done.err
    sizes = [path.stat().st_size for path in sorted((cli.folder / "requests").iterdir())]
    assert len(sizes) == 10
    assert max(sizes) <= 200_000
    assert cli.collect().code == 0
    assert cli("report", "--format", "json").json()["n_complete"] == 4


def test_items_with_one_id_stay_apart(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.data, [item(0, id="same"), item(1, id="same")])
    assert cli.submit(two).code == 0
    assert len({line["custom_id"] for line in cli.lines()}) == 10
    assert cli.collect().code == 0
    assert cli.query("select item_index, item_id, n_scored from item_score order by 1") == [
        {"item_index": 0, "item_id": "same", "n_scored": 5},
        {"item_index": 1, "item_id": "same", "n_scored": 5},
    ]


def test_a_run_is_readable_by_its_owner_only(cli: Cli, two: Inputs, resource: Resource) -> None:
    before = os.umask(0)
    try:
        assert cli.submit(two).code == 0
        assert cli.collect().code == 0
        assert cli("report").code == 0
    finally:
        os.umask(before)
    for path in [cli.folder, *cli.folder.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), (path.name, oct(mode))


def test_metadata_names_the_run_and_nothing_local(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    (run_id,) = stored(cli.folder / "run.db", "select run_id from run")[0]
    listed = resource.service.calls and resource_batches(resource)
    assert listed == [
        {
            "iwb_run": run_id,
            "iwb_name": "mine",
            "iwb_file": "0001.jsonl",
            "iwb_sha256": stored(cli.folder / "run.db", "select sha256 from request_file")[0][0],
        }
    ]


def resource_batches(resource: Resource) -> list[dict[str, str]]:
    """Metadata of every batch at the resource."""
    from iwb_batch.emulator.http import HttpRequest
    from tests.cli.support import KEY

    reply = resource.service.handle(HttpRequest("GET", "/openai/v1/batches", {}, {"api-key": KEY}))
    return [entry["metadata"] for entry in reply.json()["data"]]


def test_a_response_that_names_the_template_places_is_not_filled_in(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.answers, [{"index": 0, "response": "{criteria}{query}"}, responses(2)[1]])
    assert cli.submit(two).code == 0
    prompts = [line["body"]["messages"][-1]["content"] for line in cli.lines()]
    assert sum("{criteria}{query}" in prompt for prompt in prompts) == 5


def test_a_run_folder_taken_by_something_else_is_not_touched(cli: Cli, two: Inputs, resource: Resource) -> None:
    (cli.runs / "mine").mkdir(parents=True)
    (cli.runs / "mine" / "notes.txt").write_text("keep", encoding="utf-8")
    done = cli.submit(two, "--run", "mine")
    done.refused(1, "mine: exists already")
    assert cli.names == ["mine"]
    assert [path.name for path in (cli.runs / "mine").iterdir()] == ["notes.txt"]
    assert resource.posts == []


def test_a_folder_of_runs_that_is_a_file_is_told(cli: Cli, two: Inputs, resource: Resource) -> None:
    cli.runs.write_bytes(b"")
    done = cli.submit(two)
    assert done.code == 1
    assert "runs" in done.errors[0]
    assert done.hint
    assert resource.posts == []


def test_a_dry_run_is_no_run(cli: Cli, two: Inputs) -> None:
    assert cli.submit(two, "--dry-run").code == 0
    cli("status").refused(1, "no runs", hint="submit")
    assert cli("runs").out == "no runs\n"


def test_a_run_that_waits_is_valid_for_status(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(pending_polls=5)
    assert cli.submit(two).code == 3
    done = cli("status", "--json")
    assert done.code == 0
    check_schema(done.json(), "status.schema.json")
    assert done.json()["open"] == 10
    assert json.loads(done.out)["state"] in ("planned", "running")


def test_nothing_is_left_when_the_question_is_answered_no(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iwb_batch.cli import output

    asked: list[str] = []

    def say_no(question: str, **_: Any) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr(output, "is_interactive", lambda: True)
    monkeypatch.setattr(click, "confirm", say_no)
    done = cli.submit(two)
    done.refused(1, "nothing was sent", hint="Run the same command again")
    assert "10 requests in 1 request file" in asked[0]
    assert "USD. Send?" in asked[0]
    nothing_sent(cli, resource)
    assert cli.submit(two, "--yes").code == 0
    assert len(asked) == 1
