"""Step A: responses through the same engine, in a file that ``submit`` takes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.support import Cli, Emulation, Inputs, Scripted, inputs


def options(given: Inputs, out: Path, *more: str) -> list[str]:
    data = ["--benchmark", "indic-writing-bench", "--dataset", str(given.data)]
    return ["generate", *data, "--model", "writer", "--out", str(out), "--yes", "--wait", "0", *more]


def watched(given: Inputs, out: Path, *more: str) -> list[str]:
    return options(given, out, "--watch", "--poll-interval", "0.02", *more)


def test_the_file_holds_a_response_for_each_item_and_submit_takes_it(
    cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path
) -> None:
    emulate(judge=Scripted(lambda prompt: f"उत्तर \u2028 {prompt[-4:]}"))
    out = tmp_path / "writer.jsonl"
    done = cli(*watched(two, out))
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in out.read_bytes().split(b"\n") if line]
    assert [row["index"] for row in rows] == [0, 1]
    assert rows[0]["response"].startswith("उत्तर \u2028 ")
    emulate()
    given = Inputs(two.data, out)
    assert cli.submit(given, "--yes").code == 0


def test_the_query_is_the_one_message_with_the_sampling_of_the_seed(
    cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path
) -> None:
    emulate()
    cli(*options(two, tmp_path / "o.jsonl", "--token-parameter", "max_tokens"))
    body = cli.lines()[0]["body"]
    query = json.loads(two.data.read_text(encoding="utf-8").split("\n")[0])["query"]
    assert body["messages"] == [{"role": "user", "content": query}]
    assert {name: body[name] for name in ("temperature", "top_p", "max_tokens")} == {
        "temperature": 0.7,
        "top_p": 0.8,
        "max_tokens": 16_000,
    }
    assert "top_k" not in body
    assert "max_completion_tokens" not in body


def test_parameters_are_dropped_only_when_asked_and_that_is_recorded(
    cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path
) -> None:
    emulate()
    cli(*options(two, tmp_path / "o.jsonl", "--sampling", "none"))
    body = cli.lines()[0]["body"]
    assert not {"temperature", "top_p", "top_k"} & set(body)
    plan = json.loads(cli.query("select plan from run")[0]["plan"])
    assert plan["judge"]["sampling"] == "none"


def test_an_engine_reached_by_files_gets_top_k_too(cli: Cli, two: Inputs, tmp_path: Path) -> None:
    done = cli(*options(two, tmp_path / "o.jsonl", "--provider", "files"))
    assert done.code == 3
    assert cli.lines()[0]["body"]["top_k"] == 20
    assert not (tmp_path / "o.jsonl").exists()


def test_empty_and_cut_responses_are_asked_for_again(cli: Cli, emulate: Emulation, tmp_path: Path) -> None:
    given = inputs(tmp_path / "in", 4)
    faults = {
        "requests": [
            {"fault": "truncated", "match": "-i0-", "times": 1},
            {"fault": "truncated_empty", "match": "-i1-", "times": 1},
            {"fault": "empty", "match": "-i2-", "times": 1},
        ]
    }
    emulate(faults=faults, judge=Scripted(lambda _prompt: "A whole text of several words, no more."))
    out = tmp_path / "o.jsonl"
    done = cli(*watched(given, out))
    assert done.code == 0, done.err
    log = cli.query("select outcome, count(*) as n from attempt_log group by 1 order by 1")
    assert [(row["outcome"], row["n"]) for row in log] == [("empty", 1), ("truncated", 2), ("valid", 4)]
    limits = cli.query("select token_limit, changed from attempt_log where attempt = 2 order by request_id")
    assert [row["token_limit"] for row in limits] == [32_000, 32_000, 16_000]
    texts = [json.loads(line)["response"] for line in out.read_bytes().split(b"\n") if line]
    assert texts == ["A whole text of several words, no more."] * 4


def test_what_never_comes_is_missing_from_the_file_and_from_the_exit_code(
    cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path
) -> None:
    emulate(faults={"requests": [{"fault": "content_filter_input", "match": "-i1-"}]})
    out = tmp_path / "o.jsonl"
    done = cli(*watched(two, out))
    assert done.code == 4, done.err
    assert [json.loads(line)["index"] for line in out.read_bytes().split(b"\n") if line] == [0]


def test_a_batch_cancelled_by_somebody_else_leaves_no_half_file(
    cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path
) -> None:
    emulate(faults={"batches": [{"fault": "cancelled", "share": 0.5, "times": 1}]})
    out = tmp_path / "o.jsonl"
    done = cli(*watched(two, out))
    assert done.code == 4, done.err
    assert not out.exists(), "one text is there, the other was never asked for"
    assert "run the same command again" not in done.err
    assert f"submit --run {cli.folder.name}" in done.err
    assert cli("submit", "--run", cli.folder.name, "--yes").code == 0
    assert cli(*watched(two, out)).code == 0
    assert len(out.read_bytes().split(b"\n")) == 3


def test_the_same_command_again_sends_nothing_and_writes_the_same_bytes(
    cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path
) -> None:
    service = emulate().service
    out = tmp_path / "o.jsonl"
    cli(*watched(two, out))
    before, created = out.read_bytes(), service.batches_created
    assert cli(*watched(two, out)).code == 0
    assert (out.read_bytes(), service.batches_created) == (before, created)
    out.write_text("mine", encoding="utf-8")
    cli(*watched(two, out)).refused(2, "o.jsonl", "exists and differs")
    assert out.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["o.jsonl"]


def test_a_report_of_responses_is_refused(cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path) -> None:
    emulate()
    cli(*watched(two, tmp_path / "o.jsonl"))
    cli("report").refused(2, "holds responses")
    assert cli("show", "0").code == 0
    assert cli("status").code == 0


def test_pairs_have_no_responses_to_generate(cli: Cli, emulate: Emulation, two: Inputs, tmp_path: Path) -> None:
    emulate()
    data = ["--benchmark", "writing-preference-bench", "--dataset", str(two.data)]
    done = cli("generate", *data, "--model", "writer", "--out", str(tmp_path / "o.jsonl"), "--yes")
    done.refused(2, "no protocol 'generate'")
