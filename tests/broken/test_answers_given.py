"""``collect --from`` given something else than one answer a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Cli, Inputs, verdict


def answer_lines(cli: Cli) -> list[bytes]:
    """A good answer to every request of the only run, as an engine writes it."""
    lines = []
    for request in cli.lines():
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": verdict(7)}}
        response = {"status_code": 200, "body": {"model": "m", "choices": [choice]}}
        lines.append(json.dumps({"custom_id": request["custom_id"], "response": response, "error": None}).encode())
    return lines


def test_a_request_file_is_not_taken_for_answers(cli: Cli, two: Inputs) -> None:
    assert cli.submit(two, "--provider", "files").code == 0
    cli("collect", "--from", cli.folder / "requests" / "0001.jsonl").refused(1, "0001.jsonl: holds requests")
    assert cli("collect").code == 3
    assert cli.query("select state from batch_log") == [{"state": "submitted"}]
    assert cli.query("select count(*) as n from attempt_log") == [{"n": 10}]


@pytest.mark.parametrize("key", ["custom_id", "response"])
def test_a_line_that_says_a_key_of_its_envelope_twice_is_kept_and_not_read(
    cli: Cli, two: Inputs, tmp_path: Path, key: str
) -> None:
    assert cli.submit(two, "--provider", "files").code == 0
    lines = answer_lines(cli)
    more = json.loads(lines[0])[key]
    lines[0] = lines[0][:-1] + f', "{key}": {json.dumps(more)}}}'.encode()
    given = tmp_path / "answers.jsonl"
    given.write_bytes(b"\n".join(lines) + b"\n")
    assert cli("collect", "--from", given).code == 3
    (kept,) = cli.query("select text, custom_id from raw_line where kind = 'unreadable'")
    assert kept == {"text": lines[0].decode(), "custom_id": None}
    assert "1 unreadable" in cli("status").out
    assert cli("collect", "--from", given, "--close", "--wait", "0").code == 3
    outcomes = cli.query("select outcome, count(*) as n from attempt_log where outcome is not null group by 1")
    assert outcomes == [{"outcome": "missing", "n": 1}, {"outcome": "valid", "n": 9}]
