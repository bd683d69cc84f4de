"""Request files carried to another engine by hand, and its answers taken with ``collect --from``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Cli, Inputs, check_schema, inputs, verdict

Line = dict[str, Any]


def chat(score: int, model: str = "Qwen3-32B") -> Line:
    """A chat completion with a verdict."""
    message = {"role": "assistant", "reasoning": 'maybe {"score": 1, "reason": "draft"}', "content": verdict(score)}
    return {
        "id": "chatcmpl-1",
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
    }


def vllm(custom_id: str, place: int) -> Line:
    """vLLM: one mixed file, ``id`` first, errors as object or string with a null body."""
    base = {"id": f"vllm-{place}", "custom_id": custom_id}
    if place == 3:
        error = {"error": {"message": "The model does not exist.", "type": "NotFoundError", "param": None, "code": 404}}
        return {**base, "response": {"status_code": 404, "request_id": "r", "body": None}, "error": error}
    if place == 4:
        return {**base, "response": {"status_code": 400, "request_id": "r", "body": None}, "error": "URL not supported"}
    return {**base, "response": {"status_code": 200, "request_id": "r", "body": chat(1 + place % 10)}, "error": None}


def openai(custom_id: str, place: int) -> Line:
    """OpenAI: an ``id``, the error inside the body."""
    base = {"id": f"batch_req_{place}", "custom_id": custom_id, "error": None}
    if place in (3, 4):
        status, text = (404, "The model does not exist.") if place == 3 else (400, "URL not supported")
        body = {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}}
        return {**base, "response": {"status_code": status, "request_id": "r", "body": body}}
    return {**base, "response": {"status_code": 200, "request_id": "r", "body": chat(1 + place % 10)}}


def azure(custom_id: str, place: int) -> Line:
    """Azure: as OpenAI, without ``id`` and with filter results."""
    line = {key: value for key, value in openai(custom_id, place).items() if key != "id"}
    for choice in line["response"]["body"].get("choices", []):
        choice["content_filter_results"] = {"hate": {"filtered": False, "severity": "safe"}}
    return line


def answer(cli: Cli, path: Path, shape: Callable[[str, int], Line], only: range | None = None) -> Path:
    """Answer the only run's request lines in a shape, last line first."""
    lines = cli.lines()
    chosen = [shape(line["custom_id"], place) for place, line in enumerate(lines) if only is None or place in only]
    path.write_bytes(b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in reversed(chosen)))
    return path


def submitted(cli: Cli, given: Inputs) -> None:
    done = cli("submit", *given.options, "--provider", "files", "--judge", "local", "--yes")
    assert done.code == 0, done.err


def test_watching_does_not_hold_the_run_while_answers_are_carried_by_hand(cli: Cli, tmp_path: Path) -> None:
    submitted(cli, inputs(tmp_path, 1))
    done = cli("collect", "--watch", "--poll-interval", "0.02")
    assert done.code == 3
    assert "0 of 5 requests judged, 5 open, 0 failed; not finished: 0001.jsonl written" in done.err


@pytest.mark.parametrize("shape", [vllm, openai, azure])
def test_every_format_gives_the_same_judgements(
    shape: Callable[[str, int], Line], cli: Cli, two: Inputs, tmp_path: Path
) -> None:
    submitted(cli, two)
    done = cli("collect", "--from", answer(cli, tmp_path / "answers.jsonl", shape))
    assert done.code == 4, done.err
    rows = cli.query("select item_index, criterion_index, score from score order by 1, 2")
    expected = [(p // 5, p % 5, 1 + p % 10) for p in range(10) if p not in (3, 4)]
    assert [(r["item_index"], r["criterion_index"], r["score"]) for r in rows] == expected
    failures = cli.query("select outcome, message from failure order by criterion_index")
    assert [f["outcome"] for f in failures] == ["rejected", "rejected"]
    assert failures[0]["message"] == "The model does not exist."
    assert failures[1]["message"] == "URL not supported"


def test_no_key_is_needed_and_nothing_is_sent(cli: Cli, two: Inputs) -> None:
    submitted(cli, two)
    assert cli("collect").code == 3
    status = cli("status", "--json").json()
    check_schema(status, "status.schema.json")
    assert (status["state"], status["open"]) == ("running", 10)
    assert status["batches"][0]["remote_status"] == "written"


def test_answers_may_come_in_pieces_and_again(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    first = answer(cli, tmp_path / "first.jsonl", openai, range(3))
    done = cli("collect", "--from", first)
    assert done.code == 3
    assert "7 answers awaited" in done.err
    again = cli("collect", "--from", first)
    assert "taken before" in again.err
    last = answer(cli, tmp_path / "last.jsonl", lambda name, place: openai(name, place + 10), range(3, 10))
    done = cli("collect", "--from", first, last)
    assert done.code == 0, done.err
    assert cli.query("select count(*) as n from raw_file") == [{"n": 2}]


def first_answers(cli: Cli, folder: Path, n: int) -> Path:
    """A file with the answers to the first requests only."""
    return answer(cli, folder / "part.jsonl", lambda name, place: openai(name, place + 10), range(n))


def test_closing_gives_up_what_is_awaited_and_sends_it_again(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    part = first_answers(cli, tmp_path, 8)
    done = cli("collect", "--from", part, "--close")
    assert done.code == 3, done.err
    rows = cli.query("select attempt, outcome, count(*) as n from attempt_log group by 1, 2 order by 1, 2")
    assert [(r["attempt"], r["outcome"], r["n"]) for r in rows] == [
        (1, "missing", 2),
        (1, "valid", 8),
        (2, None, 2),
    ]


def test_closing_needs_no_further_file(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    part = first_answers(cli, tmp_path, 8)
    assert cli("collect", "--from", part).code == 3
    done = cli("collect", "--close")
    assert done.code == 3, done.err
    assert "0001.jsonl: collected, 2 given up as missing" in done.err
    assert [row["n_requests"] for row in cli.query("select n_requests from batch_log order by 1")] == [2, 10]


def test_cancelling_ends_the_waiting_and_the_run_can_be_resumed(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    part = first_answers(cli, tmp_path, 7)
    assert cli("collect", "--from", part).code == 3
    done = cli("cancel", "--yes")
    assert done.code == 0, done.err
    assert "0001.jsonl: 3 answers no longer awaited" in done.err
    assert "minutes" not in done.err
    assert cli.query("select outcome, count(*) as n from attempt_log group by 1 order by 1") == [
        {"outcome": "cancelled", "n": 3},
        {"outcome": "valid", "n": 7},
    ]
    assert cli("status", "--json").json()["state"] == "stopped"
    assert cli("collect").code == 4
    assert cli("submit", "--run", cli.folder.name, "--yes").code == 0
    again = [line for line in cli.lines() if line["custom_id"].endswith("-a2")]
    assert len(again) == 3


def test_an_answer_that_comes_after_cancelling_still_counts(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    whole = answer(cli, tmp_path / "whole.jsonl", lambda name, place: openai(name, place + 10))
    assert cli("cancel", "--yes").code == 0
    assert cli("collect", "--from", whole).code == 0
    assert cli("status", "--json").json()["state"] == "complete"


def test_an_answer_that_comes_after_closing_still_counts(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    whole = answer(cli, tmp_path / "whole.jsonl", lambda name, place: openai(name, place + 10))
    part = first_answers(cli, tmp_path, 8)
    cli("collect", "--from", part, "--close")
    done = cli("collect", "--from", whole)
    assert cli.query("select count(*) as n from score") == [{"n": 10}], done.err


def test_a_file_of_another_run_is_refused_naming_both(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    mine = cli.query("select run_id from run")[0]["run_id"]
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_bytes(json.dumps(openai("0123456789-i0-c0-r1-a1", 0)).encode() + b"\n")
    good = answer(cli, tmp_path / "good.jsonl", openai)
    done = cli("collect", "--from", good, foreign)
    done.refused(1, "foreign.jsonl", mine, "0123456789")
    assert cli.query("select count(*) as n from raw_line") == [{"n": 0}], "nothing of the good file was stored either"


def test_strays_and_bad_lines_cost_one_line_each(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    submitted(cli, two)
    path = answer(cli, tmp_path / "answers.jsonl", lambda name, place: openai(name, place + 10))
    path.write_bytes(path.read_bytes() + b'{"custom_id": "x", "response": null}\n{"cut": \n')
    assert cli("collect", "--from", path).code == 0
    rows = cli.query("select kind, count(*) as n from raw_line group by kind order by kind")
    assert [(r["kind"], r["n"]) for r in rows] == [("answer", 10), ("unknown", 1), ("unreadable", 1)]


def test_from_is_refused_where_answers_are_fetched(cli: Cli, two: Inputs, resource: object, tmp_path: Path) -> None:
    assert cli.submit(two, "--yes").code == 0
    path = tmp_path / "answers.jsonl"
    path.write_text("{}\n", encoding="utf-8")
    cli("collect", "--from", path).refused(2, "--provider files")
    cli("collect", "--close").refused(2, "--close is for runs of --provider files")


def test_the_environment_names_one_file_a_line(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(cli, inputs(tmp_path / "in", 2))
    one = answer(cli, tmp_path / "a:b.jsonl", lambda name, place: openai(name, place + 10), range(5))
    two = answer(cli, tmp_path / "c.jsonl", lambda name, place: openai(name, place + 10), range(5, 10))
    monkeypatch.setenv("IWB_BATCH_COLLECT_FROM", f"{one}\n{two}")
    assert cli("collect").code == 0
