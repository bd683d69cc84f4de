"""``reparse``: stored answers read again; readings are added, never changed, all of them or none."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iwb_batch import __version__, schemas
from iwb_batch.workflow.folder import RunFolder, locked
from tests.auditing.support import PAIRS, RUN, TEXTS, tamper, values
from tests.cli.support import Cli

FIRST_VALID = "(SELECT min(reading_id) FROM judgement)"
READINGS = "SELECT * FROM reading ORDER BY reading_id"
JUDGEMENTS = "SELECT * FROM judgement ORDER BY reading_id"


@pytest.fixture
def strict_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation whose verdict schema takes scores up to 5 only."""
    folder = tmp_path / "schemas"
    shutil.copytree(schemas._FOLDERS[1], folder)
    path = folder / "judgement.schema.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    schema["properties"]["score"]["maximum"] = 5
    path.write_text(json.dumps(schema), encoding="utf-8")
    schemas.read_text.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(schemas, "_FOLDERS", (folder,))
        yield
    schemas.read_text.cache_clear()


def newest_event(run: Path) -> dict[str, Any]:
    ((detail,),) = values(run, "SELECT detail FROM event WHERE kind = 'reparsed' ORDER BY event_id DESC LIMIT 1")
    found: dict[str, Any] = json.loads(detail)
    return found


def status_counts(run: Path) -> dict[str, int]:
    return dict(values(run, "SELECT status, count(*) FROM request_status GROUP BY status"))


@pytest.mark.parametrize("name", [RUN, PAIRS, TEXTS])
def test_the_same_parser_reads_the_same(cli: Cli, name: str) -> None:
    run = cli.runs / name
    before = values(run, READINGS), values(run, JUDGEMENTS)
    (answers,) = values(run, "SELECT count(*) FROM raw_line WHERE kind = 'answer'")[0]
    done = cli("reparse", name)
    assert done.code == 0, done.err
    assert done.out.startswith(f"{answers} answers read again, 0 read otherwise, 0 verdicts changed")
    assert (values(run, READINGS), values(run, JUDGEMENTS)) == before
    event = newest_event(run)
    assert (event["read"], event["changed"], event["iwb-batch"]) == (answers, 0, __version__)
    assert values(run, "SELECT notes FROM run")[0][0].count("read again") == 0


def test_what_an_older_parser_could_not_read_is_read_now(cli: Cli, run: Path) -> None:
    """A scored request of three: the older parser found no JSON in its answer."""
    ((custom_id,),) = values(
        run,
        f"SELECT a.custom_id FROM reading r JOIN attempt a USING (attempt_id) WHERE r.reading_id = {FIRST_VALID}",
    )
    scores = values(run, "SELECT * FROM score ORDER BY custom_id")
    tamper(
        run,
        f"UPDATE reading SET outcome = 'invalid_json', detail = 'no JSON' WHERE reading_id = {FIRST_VALID}",
        f"DELETE FROM judgement WHERE reading_id = {FIRST_VALID}",
        "UPDATE policy SET allowed = 0 WHERE outcome = 'invalid_json'",
    )
    assert status_counts(run) == {"failed": 2, "scored": 13}
    done = cli("reparse", RUN)
    assert done.code == 0
    assert "1 read otherwise, 1 verdict changed" in done.out
    assert "invalid_json -> valid: 1" in done.out
    assert "requests: scored 13 -> 14, open 0 -> 0, failed 2 -> 1" in done.out
    assert status_counts(run) == {"failed": 1, "scored": 14}
    assert values(run, "SELECT * FROM score ORDER BY custom_id") == scores
    outcomes = values(
        run,
        "SELECT outcome FROM reading JOIN attempt USING (attempt_id)"
        f" WHERE custom_id = '{custom_id}' ORDER BY reading_id",
    )
    assert outcomes == [("invalid_json",), ("valid",)]
    assert cli("doctor", RUN).code == 0


def test_a_changed_verdict_is_counted_and_the_old_one_kept(cli: Cli, run: Path) -> None:
    ((score,),) = values(run, f"SELECT score FROM judgement WHERE reading_id = {FIRST_VALID}")
    tamper(run, f"UPDATE judgement SET score = {score % 10 + 1} WHERE reading_id = {FIRST_VALID}")
    done = cli("reparse", RUN)
    assert "1 read otherwise, 1 verdict changed" in done.out
    assert "valid -> valid: 1" in done.out
    kept = values(
        run,
        "SELECT j.score FROM judgement j JOIN reading r USING (reading_id) WHERE r.attempt_id ="
        f" (SELECT attempt_id FROM reading WHERE reading_id = {FIRST_VALID}) ORDER BY j.reading_id",
    )
    assert kept == [(score % 10 + 1,), (score,)]


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE judgement SET reason = 'x' WHERE reading_id = {FIRST_VALID}",
        f"UPDATE judgement SET notes = '[\"x\"]' WHERE reading_id = {FIRST_VALID}",
        f"UPDATE reading SET prompt_tokens = NULL WHERE reading_id = {FIRST_VALID}",
        "UPDATE reading SET detail = 'x' WHERE outcome = 'invalid_json'",
    ],
    ids=["reason", "notes", "tokens", "detail"],
)
def test_any_other_reading_is_added_without_a_verdict_changing(cli: Cli, run: Path, change: str) -> None:
    tamper(run, change)
    done = cli("reparse", RUN)
    assert " 0 read otherwise" not in done.out
    assert " 0 verdicts changed" in done.out
    assert cli("doctor", RUN).code == 0
    assert " 0 read otherwise" in cli("reparse", RUN).out


def test_another_schema_is_allowed_recorded_and_told_in_the_report(cli: Cli, run: Path, strict_schema: None) -> None:
    high = values(run, "SELECT count(*) FROM score WHERE score > 5")[0][0]
    assert high > 0
    done = cli("reparse", RUN)
    assert done.code == 0
    assert f"valid -> invalid_schema: {high}" in done.out
    assert "collect sends open requests again" in done.out
    event = newest_event(run)
    ((planned,),) = values(run, "SELECT schema_sha256 FROM run")
    assert event["run_schema_sha256"] == planned
    assert event["schema_sha256"] != planned
    assert event["outcomes"] == {"valid -> invalid_schema": high}
    assert values(run, "SELECT count(*) FROM score WHERE score > 5") == [(0,)]
    assert f"stored answers were read again with iwb-batch {__version__}" in cli("report", RUN).out


def test_the_first_schema_again_brings_the_scores_back(
    cli: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = values(run, "SELECT * FROM score ORDER BY custom_id")
    strict: Any = strict_schema.__wrapped__(tmp_path, monkeypatch)  # type: ignore[attr-defined]
    next(strict)
    cli("reparse", RUN)
    assert values(run, "SELECT * FROM score ORDER BY custom_id") != scores
    next(strict, None)
    assert "invalid_schema -> valid" in cli("reparse", RUN).out
    assert values(run, "SELECT * FROM score ORDER BY custom_id") == scores


def test_a_line_that_is_no_object_any_more_ends_it_and_nothing_is_added(cli: Cli, run: Path) -> None:
    tamper(
        run,
        f"UPDATE judgement SET reason = 'x' WHERE reading_id = {FIRST_VALID}",
        "UPDATE raw_line SET text = '[]' WHERE raw_line_id ="
        " (SELECT max(raw_line_id) FROM raw_line WHERE kind = 'answer')",
    )
    before = values(run, READINGS), values(run, "SELECT * FROM event")
    done = cli("reparse", RUN)
    assert (done.code, done.out) == (1, "")
    assert "is no JSON object" in done.err
    assert "doctor" in done.err
    assert (values(run, READINGS), values(run, "SELECT * FROM event")) == before


def test_it_waits_for_nobody_who_holds_the_run(cli: Cli, run: Path) -> None:
    with locked(RunFolder(run)):
        done = cli("reparse", RUN)
    assert done.code == 1
    assert f"process {os.getpid()} works on this run" in done.err


def test_the_newest_run_is_the_default(cli: Cli) -> None:
    assert cli("reparse").code == 0
    assert newest_event(cli.runs / PAIRS)["changed"] == 0
    assert values(cli.runs / RUN, "SELECT count(*) FROM event WHERE kind = 'reparsed'") == [(0,)]
