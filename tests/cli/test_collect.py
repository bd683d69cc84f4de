"""``collect``, ``cancel``, ``report``: passes, exit codes, and what each ending of a batch comes to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import (
    Cli,
    Emulation,
    Inputs,
    Resource,
    Scripted,
    check_schema,
    criterion,
    inputs,
    item,
    jsonl,
    own_score,
    responses,
    verdict,
)

ONE_PASS = ("collect", "--wait", "0")


@pytest.fixture
def one(tmp_path: Path) -> Inputs:
    """One item with its response: five requests."""
    return inputs(tmp_path / "one", 1)


def numbers(cli: Cli) -> tuple[int, int, int]:
    """Requests scored, open and failed."""
    status = cli("status", "--json").json()
    check_schema(status, "status.schema.json")
    assert status["planned"] == status["scored"] + status["open"] + status["failed"]
    return status["scored"], status["open"], status["failed"]


def test_a_pass_before_the_end_says_what_the_provider_says(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(polls_per_stage=2)
    assert cli.submit(two).code == 0
    done = cli(*ONE_PASS)
    assert done.code == 3, done.err
    assert re.search(r"10 open, 0 failed; not finished: 0001\.jsonl validating", done.err)
    assert cli("status").code == 0
    assert cli("report").code == 3
    assert cli.collect().code == 0
    assert cli("report").code == 0


def test_watching_ends_when_every_request_is_judged(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(polls_per_stage=1)
    assert cli.submit(two).code == 0
    done = cli.collect()
    assert done.code == 0, done.err
    assert "10 of 10 requests judged, 0 open, 0 failed" in done.err
    assert done.out == ""
    assert numbers(cli) == (10, 0, 0)
    assert resource.service.paid_twice() == []


def test_watching_gives_up_at_its_timeout(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(faults={"batches": [{"fault": "stuck"}]})
    assert cli.submit(two).code == 0
    done = cli("collect", "--watch", "--poll-interval", "0.02", "--wait", "0", "--timeout", "0.2")
    assert done.code == 3, done.err
    assert "not finished: 0001.jsonl in_progress" in done.err


def test_collecting_again_changes_nothing(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    calls, before = len(resource.service.calls), cli.query("select count(*) as n from event")
    assert cli(*ONE_PASS).code == 0
    assert len(resource.service.calls) == calls
    assert cli.query("select count(*) as n from event") == before


def test_a_rejected_request_ends_in_exit_4_with_everything_else_scored(
    cli: Cli, two: Inputs, emulate: Emulation
) -> None:
    resource = emulate(faults={"requests": [{"fault": "rejected", "match": "-i1-c2-"}]})
    assert cli.submit(two).code == 0
    done = cli.collect()
    assert done.code == 4, done.err
    assert "9 of 10 requests judged, 0 open, 1 failed" in done.err
    assert cli("report").code == 4
    assert cli("status").code == 0
    (failure,) = cli.query("select item_index, criterion_index, outcome, error_code, message, attempts from failure")
    assert (failure["item_index"], failure["criterion_index"], failure["attempts"]) == (1, 2, 1)
    assert (failure["outcome"], failure["error_code"]) == ("rejected", "unsupported_parameter")
    assert "max_completion_tokens" in failure["message"]
    assert cli(*ONE_PASS).code == 4
    assert len(resource.service.batches_created) == 1


def test_one_filtered_item_in_twenty_leaves_nineteen(cli: Cli, tmp_path: Path, emulate: Emulation) -> None:
    emulate(faults={"requests": [{"fault": "content_filter_input", "match": "-i11-"}]})
    assert cli.submit(inputs(tmp_path / "twenty", 20)).code == 0
    assert cli.collect().code == 4
    report = cli("report", "--format", "json")
    assert report.code == 4
    assert (report.json()["n_items"], report.json()["n_complete"]) == (20, 19)
    assert cli.query("select distinct item_index, outcome from failure") == [{"item_index": 11, "outcome": "filtered"}]
    assert "19 of 20" in cli("report").out


def test_when_every_line_is_refused_the_words_are_told_once_with_their_count(
    cli: Cli, one: Inputs, emulate: Emulation
) -> None:
    fault = {"fault": "all_errored", "kind": "rejected"}
    resource = emulate(faults={"batches": [fault]})
    assert cli.submit(one).code == 0
    cli.collect().refused(5, "5 of 5 requests", "rejected", "unsupported_parameter", "max_tokens", hint="--retry")
    assert numbers(cli) == (0, 0, 5)
    report = cli("report", "--format", "json")
    assert report.code == 4
    assert report.json()["overall"]["score"] is None
    check_schema(report.json(), "report-rubric.schema.json")

    answers = []
    for _ in range(5):
        done = cli(*ONE_PASS)
        assert done.code == 4
        answers.append((done.out, done.err, cli("status", "--json").out))
    assert len(set(answers)) == 1
    assert len(resource.service.batches_created) == 1


def test_a_halted_run_goes_on_with_retry(cli: Cli, one: Inputs, emulate: Emulation) -> None:
    emulate(faults={"batches": [{"fault": "all_errored", "kind": "rejected", "times": 1}]})
    assert cli.submit(one).code == 0
    assert cli.collect().code == 5
    cli.submit(one).refused(5, "is halted", "unsupported_parameter", hint="--retry")
    done = cli.collect("--retry", "rejected", "--yes")
    assert done.code == 0, done.err
    assert numbers(cli) == (5, 0, 0)


def test_retry_of_an_outcome_that_does_not_exist_lists_them(cli: Cli, one: Inputs, resource: Resource) -> None:
    assert cli.submit(one).code == 0
    cli(*ONE_PASS, "--retry", "broken").refused(2, "no outcome 'broken'", hint="rejected")


def test_an_expired_batch_keeps_its_answers_and_sends_only_the_rest(cli: Cli, one: Inputs, emulate: Emulation) -> None:
    fault = {"fault": "expired", "share": 0.6, "times": 1}
    resource = emulate(faults={"batches": [fault]})
    assert cli.submit(one, "--max-resubmits", "0").code == 0
    assert cli.collect().code == 0
    assert numbers(cli) == (5, 0, 0)
    assert [row["n_requests"] for row in cli.query("select n_requests from batch_log order by batch_id")] == [5, 2]
    assert cli("status", "--json").json()["outcomes"] == {"expired": 2, "valid": 5}
    assert resource.service.paid_twice() == []


def test_a_cancelled_batch_keeps_what_was_answered_and_the_rest_can_be_resumed(
    cli: Cli, one: Inputs, emulate: Emulation
) -> None:
    resource = emulate(polls_per_stage=2, cancel_share=0.4, judge=Scripted(lambda _: verdict(4)))
    assert cli.submit(one, "--run", "mine").code == 0
    for _ in range(2):
        assert cli(*ONE_PASS).code == 3
    assert cli("status", "--json").json()["batches"][0]["remote_status"] == "in_progress"
    done = cli("cancel", "--yes")
    assert done.code == 3, done.err
    assert "collect" in done.err
    ended = cli.collect()
    assert ended.code == 4, ended.err
    assert numbers(cli) == (2, 3, 0)
    assert cli("status", "--json").json()["state"] == "stopped"
    assert len(cli.query("select * from score where score = 4")) == 2
    cancelled = cli.query("select last_outcome from request_status where status = 'open'")
    assert cancelled == [{"last_outcome": "cancelled"}] * 3

    resumed = cli("submit", "--run", "mine", "--wait", "0")
    assert resumed.code == 0, resumed.err
    assert cli.collect().code == 0
    assert numbers(cli) == (5, 0, 0)
    assert resource.service.paid_twice() == []


def test_nothing_is_sent_in_a_stopped_run(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(pending_polls=50)
    assert cli.submit(two).code == 3
    assert cli("cancel", "--yes").code == 0
    posts = list(resource.posts)
    assert cli(*ONE_PASS).code == 4
    cli.submit(two).refused(1, "is stopped", hint="submit --run")
    assert resource.posts == posts


def test_cancel_without_a_terminal_needs_yes(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two).code == 0
    cli("cancel").refused(2, "cancel needs --yes")
    assert not any(path.endswith("/cancel") for path in resource.posts)


def test_lines_that_do_not_come_are_named_and_sent_again(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    faults = [
        {"fault": "dropped", "match": "-i(0-c4|1-c3)-", "times": 1},
        {"fault": "server_error", "match": "-i1-c0-", "times": 1},
    ]
    emulate(faults={"requests": faults})
    assert cli.submit(two).code == 0
    done = cli(*ONE_PASS, "--settle", "0")
    assert done.code == 3, done.err
    assert numbers(cli) == (7, 3, 0)
    missing = cli.query("select custom_id, detail from attempt_log where outcome = 'missing' order by 1")
    assert [re.sub("^[0-9a-f]{10}", "", row["custom_id"]) for row in missing] == ["-i0-c4-r1-a1", "-i1-c3-r1-a1"]
    assert {row["detail"] for row in missing} == {"maybe_paid"}
    assert cli("report").code == 3
    assert cli.collect("--settle", "0").code == 0
    assert numbers(cli) == (10, 0, 0)
    assert [row["n_requests"] for row in cli.query("select n_requests from batch_log order by batch_id")] == [10, 3]


def test_a_batch_refused_in_validation_is_told_with_its_lines(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    fault = {"fault": "failed", "code": "invalid_json_line", "message": "This line is not parseable.", "line": 2}
    resource = emulate(faults={"batches": [fault]})
    done = cli.submit(two, "--wait", "20")
    done.refused(5, "0001.jsonl refused", "invalid_json_line: line 2: This line is not parseable.", hint="Mend")
    assert [call[:2] for call in resource.service.calls if call[0] == "DELETE"] != [], "its input file stays behind"
    assert numbers(cli) == (0, 10, 0)


def test_answers_are_joined_by_key_whatever_their_order(cli: Cli, tmp_path: Path, emulate: Emulation) -> None:
    first_time = {"fault": "invalid_json", "match": "-i(?!2-|5-)", "times": 1}
    resource = emulate(judge=Scripted(own_score), faults={"requests": [first_time]})
    assert cli.submit(inputs(tmp_path / "ten", 10)).code == 0
    assert cli(*ONE_PASS).code == 3
    assert [row["item_index"] for row in cli.query("select item_index from item_score where score is not null")] == [
        2,
        5,
    ]
    assert cli.collect().code == 0
    rows = cli.query("select item_index, score from item_score order by item_index")
    assert [(row["item_index"], row["score"]) for row in rows] == [(index, index + 1.0) for index in range(10)]
    assert len(resource.service.batches_created) == 2


def test_identical_items_are_each_judged(cli: Cli, tmp_path: Path, emulate: Emulation) -> None:
    resource = emulate(faults={"batches": [{"fault": "expired", "share": 0.34, "times": 1}]})
    same = {"query": "एक ही प्रश्न", "id": "same", "checklist": [criterion("x") for _ in range(5)]}
    given = Inputs(
        jsonl(tmp_path / "items.jsonl", [item(index, **same) for index in range(3)]),
        jsonl(tmp_path / "m.jsonl", [{"index": index, "response": "same"} for index in range(3)]),
    )
    assert cli.submit(given).code == 0
    assert cli(*ONE_PASS).code == 3
    assert numbers(cli) == (5, 10, 0)
    assert cli.collect().code == 0
    assert numbers(cli) == (15, 0, 0)
    assert cli("report", "--format", "json").json()["n_complete"] == 3
    assert resource.service.paid_twice() == []


def test_an_answer_after_a_bad_one_is_one_row(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(faults={"requests": [{"fault": "invalid_json", "match": "-i1-c0-", "times": 2}]})
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    assert numbers(cli) == (10, 0, 0)
    assert cli.query("select count(*) as n from score") == [{"n": 10}]
    attempts = cli.query("select attempt, outcome from attempt_log where custom_id like '%-i1-c0-%' order by 1")
    assert [tuple(row.values()) for row in attempts] == [(1, "invalid_json"), (2, "invalid_json"), (3, "valid")]
    (status,) = cli.query("select attempts, status from request_status where item_index = 1 and criterion_index = 0")
    assert status == {"attempts": 3, "status": "scored"}


def test_answers_that_stay_bad_end_after_the_resubmissions(cli: Cli, one: Inputs, emulate: Emulation) -> None:
    resource = emulate(judge=Scripted(lambda _: '{"score": 11, "reason": "x"}'))
    assert cli.submit(one, "--max-resubmits", "2").code == 0
    assert cli.collect().code == 4
    assert numbers(cli) == (0, 0, 5)
    assert len(resource.service.batches_created) == 3
    assert cli("report", "--format", "json").json()["overall"]["score"] is None


def test_a_cut_answer_is_asked_for_again_with_more_tokens(cli: Cli, one: Inputs, emulate: Emulation) -> None:
    emulate(faults={"requests": [{"fault": "truncated", "times": 1}]})
    assert cli.submit(one, "--max-completion-tokens", "1000").code == 0
    assert cli.collect().code == 0
    limits = {line["custom_id"][-2:]: line["body"]["max_completion_tokens"] for line in cli.lines()}
    assert limits == {"a1": 1000, "a2": 2000}


def test_an_account_without_funds_stops_and_is_told(cli: Cli, one: Inputs, emulate: Emulation) -> None:
    emulate(faults={"requests": [{"fault": "account", "times": 1}]})
    assert cli.submit(one, "--run", "mine").code == 0
    cli.collect().refused(5, "exceeded your current quota", hint="submit --run")
    assert numbers(cli) == (0, 5, 0)
    assert cli("submit", "--run", "mine", "--wait", "0").code == 0
    assert cli.collect().code == 0


def test_a_lost_create_is_found_again_and_not_repeated(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    fault = {"fault": "lost_reply", "method": "POST", "path": "^/batches$", "nth": [1]}
    resource = emulate(faults={"http": [fault]})
    done = cli.submit(two)
    assert done.code == 3, done.err
    assert "no answer to the create call" in done.err
    assert "is ambiguous" in cli("status").out
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    assert len(resource.service.batches_created) == 1


def test_a_provider_that_stumbles_does_not_end_a_watch(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    faults = [
        {"fault": "status", "status": 503, "method": "GET", "path": "^/batches/", "nth": [1, 2, 3, 4]},
        {"fault": "html", "method": "GET", "path": "^/batches/", "nth": [5]},
        {"fault": "silent_short", "method": "GET", "path": "/content$", "nth": [1]},
    ]
    resource = emulate(faults={"http": faults})
    assert cli.submit(two).code == 0
    done = cli.collect()
    assert done.code == 0, done.err
    assert numbers(cli) == (10, 0, 0)
    assert not list(cli.folder.rglob("*.partial"))
    assert resource.service.paid_twice() == []


def test_a_batch_cancelled_by_somebody_else_stops_the_run(cli: Cli, one: Inputs, emulate: Emulation) -> None:
    emulate(faults={"batches": [{"fault": "cancelled", "share": 0.4, "times": 1}]})
    assert cli.submit(one, "--run", "mine").code == 0
    done = cli.collect()
    assert done.code == 4, done.err
    assert "cancelled at the provider" in done.err
    assert cli("submit", "--run", "mine", "--wait", "0").code == 0
    assert cli.collect().code == 0


@pytest.mark.parametrize("command", ["collect", "status", "report", "cancel --yes", "show 0", "query", "submit"])
def test_a_damaged_run_file_is_told_and_left_alone(cli: Cli, two: Inputs, resource: Resource, command: str) -> None:
    assert cli.submit(two, "--run", "mine").code == 0
    database = cli.folder / "run.db"
    for extra in cli.folder.glob("run.db-*"):
        extra.unlink()
    database.write_bytes(b"this is no database, whatever its name says")
    name, *rest = command.split()
    arguments = {"query": ["query", "mine", "select 1"], "show": ["show", "mine", "0"]}.get(name, [name, "mine", *rest])
    done = cli.submit(two, "--run", "mine") if name == "submit" else cli(*arguments)
    done.refused(1, "run.db: not a readable SQLite file", hint="Restore it from a copy")
    assert database.read_bytes().startswith(b"this is no database")
    assert "unreadable" in cli("runs").out


def test_deleting_at_the_provider_takes_only_this_runs_files(cli: Cli, two: Inputs, resource: Resource) -> None:
    assert cli.submit(two, "--run", "a").code == 0
    assert cli.submit(two, "--run", "b", "--model-name", "b").code == 0
    assert cli("collect", "a", "--wait", "0").code == 0
    assert cli("collect", "a", "--wait", "0", "--delete-remote", "--yes").code == 0
    deleted = [path for method, path, _ in resource.service.calls if method == "DELETE"]
    assert len(deleted) == 3
    assert cli("collect", "b", "--wait", "0").code == 0


def test_the_report_is_json_in_its_documented_shape(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(judge=Scripted(own_score))
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    report: dict[str, Any] = cli("report", "--format", "json").json()
    check_schema(report, "report-rubric.schema.json")
    assert report["overall"]["score"] == 1.5
    assert report["rehearsal"] is False
    assert json.loads(json.dumps(report)) == report


def test_unequal_responses_files_never_mix(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(judge=Scripted(own_score))
    assert cli.submit(two, "--run", "a").code == 0
    jsonl(two.answers, [{**row, "response": row["response"].replace("#", "#7", 1)} for row in responses(2)])
    assert cli.submit(two, "--run", "b").code == 0
    assert cli("collect", "b", "--wait", "0").code == 0
    assert cli("collect", "a", "--wait", "0").code == 0
    scores = {name: cli("report", name, "--format", "json").json()["overall"]["score"] for name in "ab"}
    assert scores == {"a": 1.5, "b": 1.5}


LOST = {"http": [{"fault": "lost_reply", "method": "POST", "path": "^/batches$", "nth": [1]}]}
NEVER = {"http": [{"fault": "reset_before", "method": "POST", "path": "^/batches$", "nth": [1]}]}


def test_a_lost_batch_can_be_adopted_by_hand(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(faults=LOST)
    assert cli.submit(two).code == 3
    (remote_id,) = resource.service.batches_created
    cli(*ONE_PASS, "--adopt", "1", "batch_of_nobody").refused(2, "does not know batch_of_nobody")
    assert cli(*ONE_PASS, "--adopt", "1", remote_id).code == 0
    assert resource.service.batches_created == [remote_id]


def test_a_lost_batch_is_created_again_only_by_hand_or_after_the_grace_period(
    cli: Cli, two: Inputs, emulate: Emulation
) -> None:
    resource = emulate(faults=NEVER)
    assert cli.submit(two).code == 3
    assert cli(*ONE_PASS).code == 3
    assert resource.service.batches_created == []
    assert cli(*ONE_PASS, "--recreate", "1", "--yes").code == 3
    assert len(resource.service.batches_created) == 1
    assert cli.collect().code == 0


@pytest.mark.parametrize("options", [["--adopt", "1", "batch_x"], ["--recreate", "1"], ["--adopt", "99", "batch_x"]])
def test_a_batch_that_is_not_ambiguous_is_left_alone(
    cli: Cli, two: Inputs, resource: Resource, options: list[str]
) -> None:
    assert cli.submit(two).code == 0
    cli(*ONE_PASS, *options).refused(2, f"batch {options[1]} is not ambiguous", hint="status")
    assert len(resource.service.batches_created) == 1
