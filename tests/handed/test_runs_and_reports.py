"""Judges, responses, labels and changed plans: what a whole run makes of them, and what its report says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import (
    Cli,
    Emulation,
    Inputs,
    Resource,
    Scripted,
    inputs,
    items,
    jsonl,
    nothing_sent,
    own_score,
    responses,
    verdict,
)
from tests.handed.support import change

# --- judges that always answer in one way --------------------------------------------------------------


def test_a_judge_that_always_fences_is_read_at_once_and_paid_once(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(judge=Scripted(lambda prompt: f"```json\n{own_score(prompt)}\n```"))
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    assert len(resource.service.batches_created) == 1
    assert set(resource.service.executions.values()) == {1}
    assert cli("report", "--format", "json").json()["overall"]["score"] == 1.5
    assert cli.query("select distinct notes from judgement") == [{"notes": '["fence"]'}]


PROSE = "Overall 6 out of 10 from me."
BAD = {
    "prose": (PROSE, "invalid_json"),
    "above the scale": ('{"score": 11, "reason": "above the scale"}', "invalid_schema"),
    "below the scale": ('{"score": 0, "reason": "below the scale"}', "invalid_schema"),
    "another key": ('{"rating": 8, "reason": "good"}', "invalid_schema"),
    "two scores": ('{"score": [7, 8], "reason": "two parts"}', "invalid_schema"),
    "text as score": ('{"score": "7.5", "reason": "between"}', "invalid_schema"),
    "true as score": ('{"score": true, "reason": "yes"}', "invalid_schema"),
    "not a number": ('{"score": NaN, "reason": "n/a"}', "invalid_json"),
}


@pytest.mark.parametrize(("content", "outcome"), BAD.values(), ids=BAD.keys())
def test_an_answer_that_is_no_verdict_is_counted_kept_and_never_a_number(
    cli: Cli, two: Inputs, emulate: Emulation, content: str, outcome: str
) -> None:
    """One item gets good verdicts, the other none: its mean is neither 0 nor 1, it has none."""
    emulate(judge=Scripted(lambda prompt: content if "#1#" in prompt else verdict(7)))
    assert cli.submit(two, "--max-resubmits", "1").code == 0
    assert cli.collect().code == 4
    report = cli("report", "--format", "json")
    assert report.code == 4
    found = report.json()
    assert (found["overall"]["score"], found["pooled_mean"]) == (7.0, 7.0)
    assert (found["n_complete"], found["n_items"], found["outcomes"][outcome]) == (1, 2, 10)
    assert cli.query("select score, score_partial, n_scored from item_score where item_index = 1") == [
        {"score": None, "score_partial": None, "n_scored": 0}
    ]
    kept = cli.query("select distinct content from attempt_log where outcome <> 'valid'")
    assert kept == [{"content": content}]
    assert content in cli("show", "1").out
    assert re.search(rf"\b{outcome}\b.*\b5\b", cli("report").out)


# --- responses ---------------------------------------------------------------------------------------


def test_answers_lost_in_thoughts_are_counted_named_and_decided_by_the_user(
    cli: Cli, tmp_path: Path, emulate: Emulation
) -> None:
    emulate(judge=Scripted(lambda _: verdict(8)))
    given = inputs(tmp_path / "in", 4)
    texts = ["<think>very long</think>", "<think>Good morning", "   \n", "Paris"]
    jsonl(given.answers, [{"index": n, "response": text} for n, text in enumerate(texts)])
    cli.submit(given).refused(1, "3 responses", "0 (empty response), 1 (no answer), 2 (empty response)")
    assert cli.submit(given, "--empty-responses", "exclude").code == 0
    assert cli.collect().code == 0
    left_out = cli.query("select item_index, left_out from item where left_out is not null order by 1")
    assert [tuple(row.values()) for row in left_out] == [
        (0, "empty response"),
        (1, "no answer"),
        (2, "empty response"),
    ]
    found = cli("report", "--format", "json").json()
    assert (found["n_items"], found["n_complete"], found["overall"]["score"]) == (4, 1, 8.0)
    table = cli("report").out
    assert "1 of 4 items complete" in table
    assert re.search(r"^empty response +2$", table, re.MULTILINE)
    assert re.search(r"^no answer +1$", table, re.MULTILINE)


def test_a_responses_file_without_one_answer_makes_no_run(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.answers, [{"index": 0, "response": "<think>Good morning"}, {"index": 1, "response": " "}])
    done = cli.submit(two, "--empty-responses", "exclude")
    done.refused(1, "model-x.jsonl: no item is left to judge", hint="--empty-responses judge")
    nothing_sent(cli, resource)


def test_every_request_about_an_item_shows_the_same_stripped_text(cli: Cli, two: Inputs, resource: Resource) -> None:
    jsonl(two.answers, [{"index": 0, "response": "<THINK>plan {x}</think>\n\nबादल #0#"}, responses(2)[1]])
    assert cli.submit(two, "--repeats", "2").code == 0
    shown = [line["body"]["messages"][-1]["content"] for line in cli.lines() if "-i0-" in line["custom_id"]]
    assert len(shown) == 10
    assert all(text.count("बादल #0#") == 1 and "plan {x}" not in text for text in shown)


# --- labels ------------------------------------------------------------------------------------------


def plain(column: Any) -> Any:
    return column


def categorical(column: Any) -> Any:
    return column.dictionary_encode()


def large(column: Any) -> Any:
    import pyarrow as pa  # type: ignore[import-untyped]

    return column.cast(pa.large_string())


@pytest.mark.parametrize("as_type", [plain, categorical, large])
def test_a_missing_label_is_a_row_whatever_the_type_of_its_column(
    cli: Cli, tmp_path: Path, emulate: Emulation, as_type: Callable[[Any], Any]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    emulate(judge=Scripted(own_score))
    labels = ["code 🔧", None, "数学", None]
    table = pa.Table.from_pylist(items(4)).drop_columns(["domain", "variant"])
    table = table.append_column("domain", as_type(pa.chunked_array([labels], pa.string())))
    table = table.append_column("variant", as_type(pa.chunked_array([[None] * 4], pa.string())))
    pq.write_table(table, tmp_path / "items.parquet")
    given = Inputs(tmp_path / "items.parquet", jsonl(tmp_path / "m.jsonl", responses(4)))
    assert cli.submit(given).code == 0
    assert cli.collect().code == 0
    found = cli("report", "--format", "json").json()
    assert [(row["label"], row["n_items"], row["score"]) for row in found["by"]["domain"]] == [
        ("code 🔧", 1, 1.0),
        ("数学", 1, 3.0),
        (None, 2, 3.0),
    ]
    assert found["by"]["variant"] == []
    assert any("no item has a variant" in note for note in found["notes"])
    assert "(none)" in cli("report").out


# --- changes -----------------------------------------------------------------------


def test_a_prompt_of_another_version_stops_the_resume_in_words(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(faults={"batches": [{"fault": "stuck"}]})
    assert cli.submit(two, "--run", "mine").code == 0
    change(
        cli.folder / "run.db",
        "UPDATE run SET prompt_sha256 = replace(prompt_sha256, substr(prompt_sha256, 1, 4), 'xxxx')",
    )
    posts = list(resource.posts)
    cli("submit", "--run", "mine", "--wait", "0").refused(1, "another prompt or verdict schema", hint="Use iwb-batch")
    assert resource.posts == posts
    assert cli("status").code == 0


def test_another_judge_without_a_key_gets_no_stale_or_empty_numbers(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    names, posts = cli.names, list(resource.posts)
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    cli.submit(two, "--judge", "gpt-5.1").refused(5, "AZURE_OPENAI_API_KEY is not set: nothing was sent")
    assert (cli.names, resource.posts) == (names, posts)


def test_repeats_are_asked_for_anew_and_add_no_item(cli: Cli, tmp_path: Path, emulate: Emulation) -> None:
    resource = emulate(judge=Scripted(own_score))
    assert cli.submit(inputs(tmp_path / "in", 10), "--repeats", "4").code == 0
    assert cli.collect().code == 0
    assert len(resource.service.executions) == 200
    assert set(resource.service.executions.values()) == {1}
    found = cli("report", "--format", "json").json()
    assert (found["n_items"], found["overall"]["n_clusters"]) == (10, 10)
    assert found["pooled_mean"] == found["overall"]["score"] == 5.5
