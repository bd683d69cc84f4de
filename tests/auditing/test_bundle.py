"""``export``: the evidence bundle, its verification elsewhere, hostile bundles; judgements as CSV and JSON lines."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import shutil
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.cli import run as command
from iwb_batch.workflow import unpacking
from iwb_batch.workflow.bundle import difference
from tests.auditing.support import (
    KEY,
    PAIRS,
    REASONS,
    RUN,
    TEXTS,
    flip,
    members,
    relisted,
    rubric_inputs,
    served,
    tamper,
    values,
    write_zip,
)
from tests.cli.support import Cli, Done


@pytest.fixture
def bundle(cli: Cli, tmp_path: Path) -> Path:
    """A bundle of the rubric run."""
    path = tmp_path / "evidence.zip"
    done = cli("export", RUN, "--out", path)
    assert done.code == 0, done.err
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line where no run is."""
    return Cli(tmp_path / "elsewhere" / "runs", capsys)


def verify(cli: Cli, path: Path) -> Done:
    return cli("export", "--verify", path, "--json")


def test_the_bundle_holds_everything_and_names_it(bundle: Path, run: Path) -> None:
    found = members(bundle)
    manifest = json.loads(found["manifest.json"])
    files = {f"{folder}/{path.name}" for folder in ("requests", "raw") for path in (run / folder).iterdir()}
    schemas = {"run.sql", "judgement.schema.json", "judgement.request.schema.json", "report-rubric.schema.json"}
    assert set(found) == {"manifest.json", "run.db"} | files | {f"schemas/{name}" for name in schemas}
    assert {m["name"] for m in manifest["members"]} == set(found) - {"manifest.json"}
    for member in manifest["members"]:
        data = found[member["name"]]
        assert (member["sha256"], member["n_bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert all(found[name] == (run / name).read_bytes() for name in files)
    assert manifest["counts"]["requests"] == {"scored": 14, "open": 0, "failed": 1}
    assert manifest["run"]["judge"] == "gpt-5.4"
    assert manifest["report"]["n_items"] == 3


def test_the_report_inside_is_the_report(cli: Cli, bundle: Path) -> None:
    assert json.loads(members(bundle)["manifest.json"])["report"] == cli("report", RUN, "--format", "json").json()


def test_the_same_run_gives_the_same_bytes(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    cli("status", RUN)
    done = cli("export", RUN, "--out", tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == bundle.read_bytes()
    assert hashlib.sha256(bundle.read_bytes()).hexdigest() in done.out
    with zipfile.ZipFile(bundle) as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        names = archive.namelist()
    assert names == [*sorted(names[:-1]), "manifest.json"]


def test_the_copy_of_run_db_is_whole_without_a_log(bundle: Path, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    path.write_bytes(members(bundle)["run.db"])
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        for table in ("judgement", "reading", "answer_text", "raw_line", "event"):
            query = f"SELECT * FROM {table} ORDER BY 1"
            assert list(connection.execute(query)) == values(run, query)


def test_answers_that_are_only_in_the_log_are_in_the_bundle(cli: Cli, run: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(run / "run.db")) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("INSERT INTO event (at, kind) VALUES ('2026-01-01T00:00:00.000Z', 'late')")
        writer.commit()
        assert (run / "run.db-wal").stat().st_size > 0
        assert cli("export", RUN, "--out", tmp_path / "e.zip").code == 0
    (tmp_path / "copy.db").write_bytes(members(tmp_path / "e.zip")["run.db"])
    assert b"late" in (tmp_path / "copy.db").read_bytes()


def test_no_secret_and_no_local_place_is_inside(bundle: Path, cli: Cli) -> None:
    words = [KEY, str(cli.runs.parent), str(Path.cwd()), *[name for name in [platform.node()] if len(name) > 5]]
    for name, data in members(bundle).items():
        for word in words:
            assert word.encode() not in data, (name, word)
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", [RUN, PAIRS, TEXTS])
def test_a_bundle_verifies_where_no_run_is(cli: Cli, elsewhere: Cli, tmp_path: Path, name: str) -> None:
    path = tmp_path / "e.zip"
    cli("export", name, "--out", path)
    shutil.rmtree(cli.runs)
    done = verify(elsewhere, path)
    assert (done.code, done.broken, done.warned) == (0, {}, {})
    assert {"members", "settings", "counts", "report", "verdict schema", "answers_read_again"} <= set(done.checks)
    assert not elsewhere.runs.exists()


def test_a_bundle_of_a_run_in_flight_verifies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cli = Cli(tmp_path / "runs", capsys)
    with served(monkeypatch, polls_per_stage=9):
        options = rubric_inputs(tmp_path)
        assert command(["--runs-dir", str(cli.runs), "submit", *options, "--run", RUN, "--wait", "0", "--yes"]) == 0
    assert cli("export", RUN, "--out", tmp_path / "e.zip").code == 0
    assert verify(cli, tmp_path / "e.zip").code == 0


def test_the_default_name_is_that_of_the_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("export", RUN)
    assert done.out.startswith(f"{RUN}.zip  sha256 ")
    assert (tmp_path / f"{RUN}.zip").is_file()


@pytest.mark.parametrize("file", ["requests/0001.jsonl", "raw/0001-b1-output.jsonl"])
def test_a_run_whose_files_changed_is_not_exported(cli: Cli, run: Path, tmp_path: Path, file: str) -> None:
    flip(run / file, b"custom_id")
    done = cli("export", RUN, "--out", tmp_path / "e.zip")
    assert (done.code, done.out) == (1, "")
    assert file in done.err
    assert list(tmp_path.glob("e.zip*")) == []


def test_what_packs_too_well_to_be_believed_is_stored_and_verifies(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "SMALL", 1000)
    monkeypatch.setattr(unpacking, "LARGEST_RATIO", 2)
    path = tmp_path / "e.zip"
    assert cli("export", RUN, "--out", path).code == 0
    with zipfile.ZipFile(path) as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    assert verify(cli, path).code == 0


def test_a_bundle_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    done = cli("export", RUN, "--out", tmp_path / "no" / "e.zip")
    assert done.code == 1
    assert "no" in done.err


# --- what verification notices -----------------------------------------------------------------------


def changed(name: str, edit: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda content: {**content, name: edit(content[name])}


def without(name: str) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda content: {key: data for key, data in content.items() if key != name}


def one_bit(data: bytes) -> bytes:
    at = data.index(b"custom_id") if b"custom_id" in data else len(data) // 2
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def sql(*statements: str) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(data)
            for statement in statements:
                connection.execute(statement)
            connection.commit()
            return bytes(connection.serialize())

    return edit


def manifest(*path: str | int, to: Any) -> Callable[[bytes], bytes]:
    def edit(data: bytes) -> bytes:
        value = json.loads(data)
        place = value
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to
        return json.dumps(value).encode()

    return edit


SCORE = sql("UPDATE judgement SET score = score % 10 + 1 WHERE reading_id = (SELECT min(reading_id) FROM judgement)")
REQUESTS, RAW = "requests/0001.jsonl", "raw/0001-b1-output.jsonl"
Edit = Callable[[dict[str, bytes]], dict[str, bytes]]

# Something changed without care for the manifest: the hashes notice, and name the file.
CARELESS: dict[str, tuple[Edit, str]] = {
    "a request file": (changed(REQUESTS, one_bit), f"{REQUESTS} has another sha256"),
    "a raw file": (changed(RAW, one_bit), f"{RAW} has another sha256"),
    "a score in run.db": (changed("run.db", SCORE), "run.db has another sha256"),
    "a schema": (changed("schemas/run.sql", lambda data: data + b"\n"), "schemas/run.sql has another sha256"),
    "a file missing": (without(RAW), f"{RAW} is missing"),
    "a file more": (lambda content: {**content, "raw/more.jsonl": b"{}\n"}, "raw/more.jsonl is not in the manifest"),
}


@pytest.mark.parametrize(("edit", "words"), CARELESS.values(), ids=CARELESS)
def test_a_changed_member_is_named(elsewhere: Cli, bundle: Path, tmp_path: Path, edit: Edit, words: str) -> None:
    done = verify(elsewhere, write_zip(tmp_path / "t.zip", edit(members(bundle))))
    assert done.code == 1
    assert words in done.broken["members"]


# The same with a manifest that fits: what the parts say about each other notices.
CAREFUL: dict[str, tuple[Edit, str, str]] = {
    "a request file": (changed(REQUESTS, one_bit), "request files", f"{REQUESTS}: another sha256"),
    "a raw file": (changed(RAW, one_bit), "raw files", f"{RAW}: another sha256, line 1 is not what run.db holds"),
    "a raw file missing": (without(RAW), "raw files", f"{RAW} is missing"),
    "a score": (changed("run.db", SCORE), "answers_read_again", "judgement"),
    "a score and its raw line": (
        changed(
            "run.db",
            lambda data: SCORE(
                sql(
                    "UPDATE raw_line SET text = replace(text, 'score', 'scorf') WHERE raw_line_id ="
                    " (SELECT min(raw_line_id) FROM raw_line WHERE kind = 'answer')"
                )(data)
            ),
        ),
        "raw files",
        "is not what run.db holds",
    ),
    "a view": (
        changed("run.db", sql("DROP VIEW item_score", "CREATE VIEW item_score AS SELECT 10 AS score")),
        "schema",
        "view item_score",
    ),
    "a response": (changed("run.db", sql("UPDATE response SET answer = 'x'")), "responses_as_planned", "response 0"),
    "no run.db": (without("run.db"), "run.db", "holds no run.db"),
    "a run.db that is none": (
        changed("run.db", lambda _: b"not SQLite at all" * 300),
        "run.db opens",
        "not a readable",
    ),
    "the overall score": (
        changed("manifest.json", manifest("report", "overall", "score", to=9.9)),
        "report",
        "$.overall.score",
    ),
    "the number of items": (changed("manifest.json", manifest("report", "n_items", to=4)), "report", "$.n_items"),
    "the judge": (changed("manifest.json", manifest("run", "judge", to="gpt-6")), "settings", "$.judge"),
    "a count": (changed("manifest.json", manifest("counts", "judgement", to=99)), "counts", "$.judgement"),
    "the format": (changed("manifest.json", manifest("format", to=2)), "manifest", "format 2"),
}


@pytest.mark.parametrize(("edit", "name", "words"), CAREFUL.values(), ids=CAREFUL)
def test_a_careful_forger_is_noticed(
    elsewhere: Cli, bundle: Path, tmp_path: Path, edit: Edit, name: str, words: str
) -> None:
    done = verify(elsewhere, write_zip(tmp_path / "t.zip", relisted(edit(members(bundle)))))
    assert (done.code, done.json()["ok"]) == (1, False)
    assert "members" not in done.broken
    assert words in done.broken[name]


def test_only_last_digits_may_differ() -> None:
    claimed = {"a": [1.0, {"b": None}], "c": "x", "n": 3}
    assert difference(claimed, {"a": [1.0 + 1e-12, {"b": None}], "c": "x", "n": 3, "new": 1}) is None
    assert difference(claimed, {"a": [1.001, {"b": None}], "c": "x", "n": 3}) == "$.a[0]"
    assert difference(claimed, {"a": [1.0, {"b": 0}], "c": "x", "n": 3}) == "$.a[1].b"
    assert difference(claimed, {"a": [1.0], "c": "x", "n": 3}) == "$.a"
    assert difference(claimed, {"a": [1.0, {"b": None}], "n": 3}) == "$.c"
    assert difference(claimed, {"a": [1.0, {"b": None}], "c": "x", "n": True}) == "$.n"


# --- hostile bundles ---------------------------------------------------------------------------------


def named(name: str, data: bytes = b"x", *, mode: int = 0) -> Callable[[zipfile.ZipFile], None]:
    def add(archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, data)

    return add


def packed(kind: int, data: bytes) -> Callable[[zipfile.ZipFile], None]:
    return lambda archive: archive.writestr("raw/a.jsonl", data, kind)


def many_small_bombs(archive: zipfile.ZipFile) -> None:
    for number in range(40):
        archive.writestr(f"raw/{number}.jsonl", b"0" * (1 << 20), zipfile.ZIP_DEFLATED)


HOSTILE: dict[str, tuple[Callable[[zipfile.ZipFile], None], str]] = {
    "absolute": (named("/etc/iwb-evil"), "has a name no bundle has"),
    "parent": (named("../evil"), "has a name no bundle has"),
    "parent inside": (named("raw/../../evil"), "has a name no bundle has"),
    "dots": (named("raw/.."), "has a name no bundle has"),
    "drive": (named("C:/evil"), "has a name no bundle has"),
    "stream": (named("raw/a.jsonl:b"), "has a name no bundle has"),
    "deep": (named("raw/a/b.jsonl"), "has a name no bundle has"),
    "hidden": (named("raw/.evil"), "has a name no bundle has"),
    "other file": (named("run.db-wal"), "has a name no bundle has"),
    "folder": (named("raw/a/"), "has a name no bundle has"),
    "line break": (named("raw/a\nb"), "has a name no bundle has"),
    "symlink": (named("raw/a.jsonl", b"/etc/passwd", mode=stat.S_IFLNK | 0o777), "is not a regular file"),
    "device": (named("raw/a.jsonl", mode=stat.S_IFCHR | 0o666), "is not a regular file"),
    "bomb": (packed(zipfile.ZIP_DEFLATED, b"0" * (64 << 20)), "unpacks"),
    "many bombs": (many_small_bombs, "unpacks"),
    "bzip2": (packed(zipfile.ZIP_BZIP2, b"x"), "packed in a way no bundle is"),
    "lzma": (packed(zipfile.ZIP_LZMA, b"x"), "packed in a way no bundle is"),
}


@pytest.mark.parametrize(("add", "words"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_bundle_is_refused_before_anything_is_unpacked(
    elsewhere: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    add: Callable[[zipfile.ZipFile], None],
    words: str,
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    path = tmp_path / "hostile.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", b'{"format": 1, "members": []}')
        add(archive)
    before = sorted(tmp_path.rglob("*"))
    done = elsewhere("export", "--verify", path)
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert len([line for line in done.err.split("\n") if line.lower().startswith("error:")]) == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_member_that_is_there_twice_is_refused(elsewhere: Cli, bundle: Path, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "t.zip", members(bundle))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("run.db", b"another")
    done = elsewhere("export", "--verify", path)
    assert done.code == 1
    assert "'run.db' is there twice" in done.err


def test_an_encrypted_member_is_refused(elsewhere: Cli, bundle: Path, tmp_path: Path) -> None:
    data = bytearray(bundle.read_bytes())
    head = data.index(b"PK\x01\x02")
    data[head + 8] |= 1
    (tmp_path / "t.zip").write_bytes(bytes(data))
    done = elsewhere("export", "--verify", tmp_path / "t.zip")
    assert done.code == 1
    assert "is encrypted" in done.err


NO_BUNDLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no zip": (lambda path: path.write_bytes(b"hello"), "not a readable zip"),
    "empty": (lambda path: path.write_bytes(b""), "not a readable zip"),
    "no manifest": (lambda path: write_zip(path, {"run.db": b"x"}), "holds no manifest.json"),
    "manifest no JSON": (lambda path: write_zip(path, {"manifest.json": b"{"}), "is no JSON"),
    "manifest not UTF-8": (lambda path: write_zip(path, {"manifest.json": b"\xff"}), "is no JSON"),
    "manifest too deep": (lambda path: write_zip(path, {"manifest.json": b"[" * 100_000}), "is no JSON"),
    "manifest a list": (lambda path: write_zip(path, {"manifest.json": b"[]"}), "lists no members"),
    "manifest of other members": (
        lambda path: write_zip(path, {"manifest.json": b'{"members": [{"name": 1}]}'}),
        "lists no members",
    ),
    "missing": (lambda path: None, "no such file"),
}


@pytest.mark.parametrize(("make", "words"), NO_BUNDLES.values(), ids=NO_BUNDLES)
def test_what_is_no_bundle_is_said_in_one_line(
    elsewhere: Cli, tmp_path: Path, make: Callable[[Path], object], words: str
) -> None:
    make(tmp_path / "t.zip")
    done = elsewhere("export", "--verify", tmp_path / "t.zip")
    assert (done.code, done.out) == (1, "")
    assert words in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("share", [0.2, 0.6, 0.99])
def test_a_cut_bundle_is_refused(elsewhere: Cli, bundle: Path, tmp_path: Path, share: float) -> None:
    data = bundle.read_bytes()
    (tmp_path / "t.zip").write_bytes(data[: int(len(data) * share)])
    assert elsewhere("export", "--verify", tmp_path / "t.zip").code == 1


def test_a_damaged_member_is_refused(elsewhere: Cli, bundle: Path, tmp_path: Path) -> None:
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "t.zip").write_bytes(bytes(data))
    done = elsewhere("export", "--verify", tmp_path / "t.zip")
    assert done.code == 1
    assert "Traceback" not in done.err


@pytest.mark.parametrize("more", [[RUN], ["--out", "x"]], ids=["RUN", "--out"])
def test_verify_stands_alone(cli: Cli, bundle: Path, more: list[str]) -> None:
    assert cli("export", *more, "--verify", bundle).code == 2


# --- judgements --------------------------------------------------------------------------------------


def test_jsonl_holds_every_judgement_with_labels(cli: Cli, run: Path) -> None:
    rows = [json.loads(line) for line in cli("export", RUN, "--format", "jsonl").out.rstrip("\n").split("\n")]
    assert len(rows) == 14
    keys = ("item_id", "item_index", "domain", "language", "criterion_index", "criterion", "repeat", "score", "reason")
    assert {*keys, "subdomain", "variant", "custom_id"} <= set(rows[0])
    stored = values(run, "SELECT custom_id, score, reason FROM score ORDER BY item_index, criterion_index")
    assert [(row["custom_id"], row["score"], row["reason"]) for row in rows] == stored


def test_csv_runs_nothing_in_a_spreadsheet(cli: Cli, run: Path) -> None:
    dangerous = [reason for reason in REASONS if reason[0] in "=@"]
    found = {reason for (reason,) in values(run, "SELECT reason FROM score")}
    assert found & set(dangerous)
    rows = list(csv.DictReader(io.StringIO(cli("export", RUN, "--format", "csv").out, newline="")))
    assert len(rows) == 14
    assert all(not cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row.values())
    assert {row["domain"] for row in rows} >= {"'=Work", "शिक्षा"}
    assert {row["reason"] for row in rows} == {f"'{r}" if r in dangerous else r for r in found}


def test_pairs_have_preferences(cli: Cli) -> None:
    rows = list(csv.DictReader(io.StringIO(cli("export", PAIRS, "--format", "csv").out)))
    assert len(rows) == 6
    assert {row["pair_order"] for row in rows} == {"chosen-first", "rejected-first"}
    assert all(row["correct"] == str(int(row["preferred"] == "chosen")) for row in rows)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_file_holds_what_stdout_shows(cli: Cli, tmp_path: Path, form: str) -> None:
    shown = cli("export", RUN, "--format", form).out
    done = cli("export", RUN, "--format", form, "--out", tmp_path / "j")
    assert done.out == f"{tmp_path / 'j'}\n"
    assert (tmp_path / "j").read_bytes().decode("utf-8") == shown
    assert list(tmp_path.glob("*.partial")) == []


def test_exports_exit_with_0_whatever_the_run_s_state(cli: Cli, run: Path) -> None:
    tamper(run, "DELETE FROM judgement", "UPDATE reading SET outcome = 'empty' WHERE outcome = 'valid'")
    done = cli("export", RUN, "--format", "jsonl")
    assert (done.code, done.out) == (0, "")
