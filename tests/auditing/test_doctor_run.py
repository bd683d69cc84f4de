"""``doctor RUN``: a sound run passes, and each rule is shown to notice what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from iwb_batch.cli import run as command
from iwb_batch.store import database as db
from iwb_batch.store.checks import INVARIANTS, find
from tests.auditing.support import PAIRS, RUN, TEXTS, flip, make_run, rubric_inputs, served, tamper, values
from tests.cli.support import Cli


@pytest.mark.parametrize("name", [RUN, PAIRS, TEXTS])
def test_a_sound_run_passes_without_credentials(cli: Cli, name: str) -> None:
    done = cli("doctor", name, "--json")
    assert (done.code, done.broken, done.warned) == (0, {}, {})
    assert done.json()["ok"] is True
    assert {i.name for i in INVARIANTS} <= set(done.checks)
    assert all(done.checks[i.name]["count"] == 0 for i in INVARIANTS)


def test_the_audited_run_has_something_of_everything(run: Path) -> None:
    """Otherwise the checks above would pass over nothing."""
    kinds = dict(values(run, "SELECT kind, count(*) FROM raw_line GROUP BY kind"))
    assert set(kinds) == {"answer", "duplicate", "unknown", "unreadable"}
    assert values(run, "SELECT status, count(*) FROM request_status GROUP BY status ORDER BY status") == [
        ("failed", 1),
        ("scored", 14),
    ]
    assert values(run, "SELECT max(attempt) FROM attempt")[0][0] >= 2


def test_the_text_form_names_each_check_and_sums_up(cli: Cli, run: Path) -> None:
    assert "0 warnings, 0 broken" in cli("doctor", RUN).out
    tamper(run, "DELETE FROM judgement WHERE reading_id = (SELECT min(reading_id) FROM judgement)")
    done = cli("doctor", RUN)
    assert done.code == 1
    (line,) = [line for line in done.out.split("\n") if "judgements_of_valid_readings" in line]
    assert line.startswith("broken")
    assert "next: Restore run.db" in done.out


def test_checking_changes_nothing(cli: Cli, run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and "run.db-" not in path.name}
    cli("doctor", RUN)
    assert {path: path.read_bytes() for path in before} == before
    assert not list(run.glob("*.partial"))


@dataclass(frozen=True)
class Case:
    """Something done to run.db, and the checks that must notice it; words of the first one's message."""

    statements: tuple[str, ...]
    noticed: tuple[str, ...]
    words: str = ""
    without_triggers: bool = False


FIRST_VALID = "(SELECT min(reading_id) FROM judgement)"
FIRST_ANSWER = "(SELECT min(raw_line_id) FROM raw_line WHERE kind = 'answer')"
SECOND_ATTEMPT = "(SELECT min(attempt_id) FROM attempt WHERE attempt = 2)"
BOTH_ATTEMPTS = (
    "(SELECT attempt_id FROM attempt WHERE request_id ="
    " (SELECT request_id FROM attempt WHERE attempt = 2 ORDER BY attempt_id LIMIT 1))"
)
FALSE_JUDGEMENT = (
    "INSERT INTO judgement (reading_id, score, reason)"
    " SELECT min(reading_id), 10, 'good' FROM reading WHERE outcome = 'filtered'"
)
READING_WITHOUT_LINE = (
    "INSERT INTO reading (attempt_id, at, outcome)"
    f" SELECT attempt_id, at, 'missing' FROM reading WHERE reading_id = {FIRST_VALID}"
)
SECOND_VALID_ANSWER = (
    "INSERT INTO reading (attempt_id, raw_line_id, at, outcome) SELECT attempt_id, raw_line_id, at, 'valid'"
    " FROM reading WHERE attempt_id = (SELECT a.attempt_id FROM attempt a JOIN attempt b USING (request_id)"
    "  JOIN attempt_reading r ON r.attempt_id = b.attempt_id"
    "  WHERE a.attempt = 1 AND b.attempt = 2 AND r.outcome = 'valid' LIMIT 1)"
)

CASES = {
    "a score": Case(
        (f"UPDATE judgement SET score = score % 10 + 1 WHERE reading_id = {FIRST_VALID}",),
        ("answers_read_again",),
        "judgement",
    ),
    "a reason": Case(
        (f"UPDATE judgement SET reason = 'better' WHERE reading_id = {FIRST_VALID}",), ("answers_read_again",), "-r1-a"
    ),
    "a token count": Case(
        (f"UPDATE reading SET completion_tokens = 1 WHERE reading_id = {FIRST_VALID}",),
        ("answers_read_again",),
        "usage",
    ),
    "an outcome": Case(
        (
            f"UPDATE reading SET outcome = 'empty' WHERE reading_id = {FIRST_VALID}",
            f"DELETE FROM judgement WHERE reading_id = {FIRST_VALID}",
        ),
        ("answers_read_again",),
        "empty -> valid",
    ),
    "a judgement taken away": Case(
        (f"DELETE FROM judgement WHERE reading_id = {FIRST_VALID}",),
        ("judgements_of_valid_readings", "item_scores_add_up"),
    ),
    "a judgement of a failed reading": Case((FALSE_JUDGEMENT,), ("judgements_of_valid_readings",)),
    "a preference in a rubric run": Case(
        (f"UPDATE judgement SET score = NULL, preferred = 'chosen' WHERE reading_id = {FIRST_VALID}",),
        ("judgements_fit_protocol", "item_scores_add_up"),
    ),
    "a reading taken away": Case(
        (
            "DELETE FROM reading WHERE outcome = 'filtered'",
            "DELETE FROM judgement WHERE reading_id NOT IN (SELECT reading_id FROM reading)",
        ),
        ("collected_is_closed", "answer_lines_are_read"),
    ),
    "a reading that is not of the answer line": Case(
        (READING_WITHOUT_LINE,),
        ("answer_lines_count",),
    ),
    "a reading moved to another line": Case(
        (f"UPDATE reading SET raw_line_id = raw_line_id + 1 WHERE reading_id = {FIRST_VALID}",),
        ("readings_match_lines",),
    ),
    "two open attempts": Case(
        (
            f"DELETE FROM reading WHERE attempt_id IN {BOTH_ATTEMPTS}",
            "DELETE FROM judgement WHERE reading_id NOT IN (SELECT reading_id FROM reading)",
            "DELETE FROM answer_text WHERE reading_id NOT IN (SELECT reading_id FROM reading)",
        ),
        ("one_open_attempt", "open_attempt_is_last"),
    ),
    "an attempt number": Case(
        (f"UPDATE attempt SET attempt = 5 WHERE attempt_id = {SECOND_ATTEMPT}",),
        ("attempts_numbered", "custom_ids_formed"),
    ),
    "a custom_id": Case(
        (f"UPDATE attempt SET custom_id = 'X' || custom_id WHERE attempt_id = {SECOND_ATTEMPT}",),
        ("custom_ids_formed", "raw_lines_are_matched", "request files"),
    ),
    "two answers of one attempt": Case(
        ("UPDATE raw_line SET kind = 'answer' WHERE kind = 'duplicate'",), ("custom_ids_unique",)
    ),
    "an answer called unknown": Case(
        (f"UPDATE raw_line SET kind = 'unknown' WHERE raw_line_id = {FIRST_ANSWER}",), ("raw_lines_are_matched",)
    ),
    "a duplicate of nothing": Case(
        ("UPDATE raw_line SET kind = 'duplicate' WHERE kind = 'unknown'",), ("raw_lines_are_matched",)
    ),
    "a stored line": Case(
        (f"UPDATE raw_line SET text = replace(text, 'score', 'sc0re') WHERE raw_line_id = {FIRST_ANSWER}",),
        ("raw files",),
        "is not what run.db holds",
    ),
    "a stray line taken away": Case(
        ("DELETE FROM raw_line WHERE kind = 'unreadable'",), ("raw_files_stored", "raw files")
    ),
    "an item left out": Case(
        ("UPDATE item SET left_out = 'no answer' WHERE item_index = 1",), ("items_accounted_for",)
    ),
    "a query": Case(("UPDATE item SET query = query || '!' WHERE item_index = 1",), ("items_as_planned",), "item 1"),
    "an item's hash": Case(("UPDATE item SET sha256 = 'x' WHERE item_index = 1",), ("items_as_planned",)),
    "a response": Case(
        ("UPDATE response SET answer = answer || '!' WHERE item_index = 2",), ("responses_as_planned",), "response 2"
    ),
    "the hash of all items": Case(("UPDATE run SET data_sha256 = 'x'",), ("items_as_planned",), "the rows, as a whole"),
    "a request file's length": Case(
        ("UPDATE request_file SET n_requests = n_requests + 1 WHERE request_file_id = 1",),
        ("request_files_filled", "request files"),
    ),
    "a batch's remote id": Case(("UPDATE batch SET remote_batch_id = NULL WHERE batch_id = 1",), ("batches_have_ids",)),
    "a batch given up": Case(
        (
            "UPDATE batch SET state = 'dropped' WHERE batch_id = 1",
            "DELETE FROM reading WHERE outcome = 'filtered'",
        ),
        ("open_attempts_have_a_batch",),
        without_triggers=True,
    ),
    "a row of nothing": Case(("DELETE FROM item WHERE item_index = 1",), ("foreign_key_check",), "request row"),
    "a view": Case(("DROP VIEW score", "CREATE VIEW score AS SELECT 10 AS score"), ("schema",), "view score"),
    "a trigger": Case(
        ("CREATE TRIGGER raise AFTER INSERT ON judgement BEGIN UPDATE judgement SET score = 10; END",),
        ("schema",),
        "trigger raise",
    ),
    "a trigger taken away": Case(("DROP TRIGGER event_kept_update",), ("schema",), "trigger event_kept_update"),
    "a column": Case(("ALTER TABLE judgement ADD COLUMN better INTEGER",), ("schema",), "table judgement"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_change_of_run_db_is_noticed(cli: Cli, run: Path, case: Case) -> None:
    tamper(run, *case.statements, without_triggers=case.without_triggers)
    done = cli("doctor", RUN, "--json")
    assert done.code == 1
    assert set(case.noticed) <= set(done.broken)
    assert case.words in done.broken[case.noticed[0]]
    assert done.checks[case.noticed[0]]["next"]


# Rules about views that only a changed view can break; a changed view ends the checks of a run before them.
ABOUT_VIEWS = {
    "requests_add_up": "SELECT request_id, 'waiting' AS status FROM request",
    "usage_adds_up": "SELECT 'good' AS class, 1 AS attempts, 1 AS prompt_tokens, 1 AS cached_tokens,"
    " 1 AS completion_tokens, 1 AS reasoning_tokens, 0 AS cost_usd",
}


@pytest.mark.parametrize(("name", "view"), [("requests_add_up", "request_status"), ("usage_adds_up", "usage")])
def test_rules_about_views_find_a_view_that_does_not_add_up(run: Path, name: str, view: str) -> None:
    tamper(run, f"DROP VIEW {view}", f"CREATE VIEW {view} AS {ABOUT_VIEWS[name]}")
    (invariant,) = [i for i in INVARIANTS if i.name == name]
    with closing(db.open_read_only(run / "run.db")) as database:
        assert find(database, invariant).count > 0


def test_every_rule_is_shown_to_notice_something() -> None:
    shown = {name for case in CASES.values() for name in case.noticed} | set(ABOUT_VIEWS)
    assert {i.name for i in INVARIANTS if i.severity == "broken"} <= shown


WARNINGS = {
    "paid twice": ((SECOND_VALID_ANSWER,), "nothing_paid_twice"),
    "ambiguous": (("UPDATE batch SET state = 'creating' WHERE batch_id = 1",), "batches_settled"),
}


@pytest.mark.parametrize(("statements", "name"), WARNINGS.values(), ids=WARNINGS)
def test_what_may_happen_and_should_be_known_is_a_warning(
    cli: Cli, run: Path, statements: tuple[str, ...], name: str
) -> None:
    tamper(run, *statements, without_triggers=True)
    assert name in cli("doctor", RUN, "--json").warned


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def add_line(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"{}\n")


FILES: list[tuple[str, Callable[[Path], None], str]] = [
    ("flipped", lambda path: flip(path, b"custom_id"), "another sha256, line 1 is not what run.db holds"),
    ("missing", remove, "is missing"),
    ("cut", cut, "bytes instead of"),
    ("longer", add_line, "lines instead of"),
]


@pytest.mark.parametrize(("change", "words"), [f[1:] for f in FILES], ids=[f[0] for f in FILES])
@pytest.mark.parametrize("file", ["requests/0001.jsonl", "raw/0001-b1-output.jsonl"])
def test_a_change_of_a_file_is_noticed(
    cli: Cli, run: Path, file: str, change: Callable[[Path], None], words: str
) -> None:
    change(run / file)
    done = cli("doctor", RUN, "--json")
    name = "request files" if file.startswith("requests") else "raw files"
    assert (done.code, set(done.broken)) == (1, {name})
    assert file in done.broken[name]
    assert words in done.broken[name]


def test_one_changed_byte_in_the_middle_of_a_line_names_the_line(cli: Cli, run: Path) -> None:
    path = run / "raw" / "0001-b1-output.jsonl"
    lines = path.read_bytes().split(b"\n")
    flip(path, sum(len(line) + 1 for line in lines[:3]) + 30)
    assert "line 4 is not what run.db holds" in cli("doctor", RUN, "--json").broken["raw files"]


def test_a_raw_file_that_run_db_does_not_know_points_at_the_log(cli: Cli, run: Path) -> None:
    (run / "raw" / "0009-b9-output.jsonl").write_bytes(b"{}\n")
    done = cli("doctor", RUN, "--json")
    assert (done.code, list(done.warned)) == (0, ["files run.db does not know"])
    assert "raw/0009-b9-output.jsonl" in done.warned["files run.db does not know"]
    assert "run.db-wal" in done.checks["files run.db does not know"]["next"]


def test_a_name_that_leaves_the_folder_is_not_followed(cli: Cli, run: Path) -> None:
    tamper(run, "UPDATE raw_file SET name = '../run.db' WHERE raw_file_id = 1")
    assert "is not a plain file name" in cli("doctor", RUN, "--json").broken["raw files"]


@pytest.mark.parametrize("place", [0, 30, 17], ids=["magic", "page count", "encoding area"])
def test_a_damaged_head_of_run_db_is_a_broken_check(cli: Cli, run: Path, place: int) -> None:
    for log in run.glob("run.db-*"):
        log.unlink()
    (run / "run.db").write_bytes(b"\xff" * (place + 1) + (run / "run.db").read_bytes()[place + 1 :])
    done = cli("doctor", RUN, "--json")
    assert (done.code, done.json()["ok"]) == (1, False)


def test_a_damaged_page_of_run_db_is_a_broken_check(cli: Cli, run: Path) -> None:
    for log in run.glob("run.db-*"):
        log.unlink()
    content = bytearray((run / "run.db").read_bytes())
    page = int.from_bytes(content[16:18])  # the size of a page, as the head of the file says
    content[3 * page : 3 * page + 64] = b"\xee" * 64
    (run / "run.db").write_bytes(bytes(content))
    done = cli("doctor", RUN, "--json")
    assert done.code == 1
    assert done.broken


def test_a_run_read_by_another_version_is_no_alarm(cli: Cli, run: Path) -> None:
    tamper(
        run,
        "UPDATE run SET versions = json_set(versions, '$.iwb-batch', '0.0.1')",
        f"UPDATE judgement SET notes = '[\"another\"]' WHERE reading_id = {FIRST_VALID}",
    )
    done = cli("doctor", RUN, "--json")
    assert (done.code, list(done.warned)) == (0, ["answers_read_again"])
    assert "reparse" in done.checks["answers_read_again"]["next"]


def test_a_run_in_flight_is_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(tmp_path / "runs", capsys)
    with served(monkeypatch, polls_per_stage=9):
        options = rubric_inputs(tmp_path)
        assert command(["--runs-dir", str(cli.runs), "submit", *options, "--run", RUN, "--wait", "0", "--yes"]) == 0
    done = cli("doctor", RUN, "--json")
    assert (done.code, done.broken) == (0, {})
    assert done.checks["batches in flight"]["count"] == 1
    assert done.checks["requests"]["message"].startswith("0 scored + 15 open + 0 failed = 15")


def test_the_newest_run_is_not_meant_without_a_name(cli: Cli) -> None:
    done = cli("doctor", "--json")
    assert done.code == 1
    assert "credentials" in done.broken


def test_an_unknown_run_is_an_error(cli: Cli) -> None:
    done = cli("doctor", "nobody")
    assert (done.code, done.out) == (1, "")
    assert "no such run" in done.err


def test_run_and_probe_exclude_each_other(cli: Cli) -> None:
    assert cli("doctor", RUN, "--probe").code == 2


def test_items_left_out_are_accounted_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(tmp_path / "runs", capsys)
    options = rubric_inputs(tmp_path)
    answers = tmp_path / "model-x.jsonl"
    answers.write_bytes(b"\n".join(answers.read_bytes().split(b"\n")[:2]) + b"\n")
    with served(monkeypatch):
        make_run(cli.runs, RUN, [*options, "--allow-missing"])
    done = cli("doctor", RUN, "--json")
    assert (done.code, done.warned) == (0, {})
    assert done.checks["requests"]["message"].startswith("10 scored")
