"""``make bench``: every section runs at tiny sizes, outputs that differ are errors. No test looks at a time."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.bench import __main__ as program
from tests.bench import building, curating, growing, ingesting, judge, reporting, resampling, starting, transferring
from tests.bench.bench import Bench, Section, Sizes, Target
from tests.bench.counting import EXACT
from tests.bench.data import SMALL, TINY, Writer, lines_of, write_items
from tests.bench.measure import Run, Table, Variant, WrongOutput, in_turns, once
from tests.bench.page import BEGIN, renew
from tests.bench.printing import figure, section_lines, target_lines

SIZES = Sizes(
    requests=20,
    shapes=("tiny",),
    repeat=1,
    naive_lines=5,
    upload=300_000,
    scores=100,
    growth=(20, 40),
    clusters=50,
    resamples=50,
    tokens=30_000,
)
TELLS_MEMORY = Path("/proc/self/status").is_file()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    folder = tmp_path / "work"
    folder.mkdir()
    return Bench(SIZES, folder, lambda _: None)


def section(bench: Bench, name: str) -> Section:
    """A section whose tables, printed forms and targets are whole."""
    found = program.SECTIONS[name](bench)
    assert found.name == name
    for table in found.tables:
        assert table.base in table.names
        assert set(table.names) == set(table.runs) == set(table.sizes)
        assert all(table.runs.values()), table.runs
        assert all(run.work >= 0 and run.process > 0 for runs in table.runs.values() for run in runs)
    assert all(target.measured is not None or not TELLS_MEMORY for target in found.targets)
    assert len(section_lines(found)) > sum(len(table.names) for table in found.tables)
    return found


def test_building_gives_the_same_requests_in_every_way(bench: Bench) -> None:
    (table,) = section(bench, "build").tables
    assert {building.COMMAND, building.RENDERED, building.NAIVE, building.ORJSON, building.FLOOR} < set(table.names)
    assert set(table.sizes.values()) == {20}


def test_ingesting_gives_the_same_judgements_in_every_way(bench: Bench) -> None:
    (table,) = section(bench, "ingest").tables
    assert table.sizes[ingesting.NAIVE] == 5
    assert table.sizes[ingesting.COMMAND] == table.sizes[ingesting.TYPICAL] == 20


def test_a_file_goes_up_and_comes_back_whole_in_every_way(bench: Bench) -> None:
    found = section(bench, "transfer")
    assert found.tables[0].speedup(transferring.IDLE, transferring.UP) is None
    assert len(found.targets) == 2


def test_growth_measures_every_size_and_keeps_the_runs(bench: Bench) -> None:
    found = section(bench, "growth")
    assert [table.names for table in found.tables] == [["20 requests", "40 requests"]] * 2
    assert sorted(bench.grown) == [20, 40]
    assert len(found.targets) == 6


def test_a_size_without_room_on_disk_is_told_and_left_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 30 * growing.DISK))
    found = growing.section(bench)
    assert sorted(bench.grown) == [20]
    assert found.notes == ["40 requests: not measured, 0 GB needed, 0 GB free"]
    assert [target.reached for target in found.targets] == [None] * 6


def test_pandas_finds_the_numbers_of_the_report(bench: Bench) -> None:
    (table,) = section(bench, "report").tables
    assert set(table.names) > {reporting.REPORT, reporting.COMPARE, reporting.STATUS, reporting.ON_FLAT}


def test_short_commands_are_timed_and_load_nothing_heavy(bench: Bench) -> None:
    found = section(bench, "start")
    assert len(found.tables[0].runs[starting.BASE]) == starting.MORE + 1
    assert found.targets[-1] == Target("--help: heavy packages loaded", 0, 0, "packages", at_most=True)


def test_both_ways_of_resampling_find_the_same_interval(bench: Bench) -> None:
    (table,) = section(bench, "bootstrap").tables
    assert resampling.LOOP in table.names


def test_tokens_are_counted_and_the_estimate_is_held_against_them(bench: Bench) -> None:
    found = program.SECTIONS["tokens"](bench)
    assert EXACT in found.tables[0].names
    assert found.notes[0].startswith("counter: ")


@pytest.mark.parametrize(
    ("python", "why"),
    [(None, "--curator names no interpreter"), (sys.executable, "is not installed"), ("none", "is not")],
)
def test_a_peer_that_is_not_there_is_told(bench: Bench, python: str | None, why: str) -> None:
    found = curating.section(replace(bench, curator=python))
    assert why in found.notes[1]
    assert [target.reached for target in found.targets] == [None] * 3


# ---------------------------------------------------------------- what is measured is right


def test_the_same_seed_makes_the_same_items_and_answers(tmp_path: Path) -> None:
    one, two = (write_items(tmp_path / name, TINY, 20, 1) for name in "ab")
    assert one.items.read_bytes() == two.items.read_bytes()
    assert one.items.read_bytes() != write_items(tmp_path / "c", TINY, 20, 2).items.read_bytes()
    assert len(list(lines_of(one.responses))) == 4


def test_texts_have_about_the_size_asked_for_and_need_escaping() -> None:
    writer = Writer(1)
    texts = [writer.text(n, 20_000) for n in range(8)]
    assert all(14_000 < len(text.encode()) < 26_000 for text in texts)
    assert all("\n" in text for text in texts)
    assert sum('"' in text for text in texts) > 4
    words = {word for text in texts for word in text.split()}
    assert len(words) > 5_000


def test_the_made_up_judge_answers_every_request_and_tells_how_many_count(tmp_path: Path) -> None:
    requests, answers = tmp_path / "requests.jsonl", tmp_path / "answers.jsonl"
    requests.write_text("".join(f'{{"custom_id": "0123456789-i{n}-c0-r1-a1"}}\n' for n in range(500)), encoding="utf-8")
    written = judge.write_answers([requests], answers, SMALL, 1)
    records = [json.loads(line) for line in lines_of(answers)]
    assert written.lines == len(records) == len({record["custom_id"] for record in records}) == 500
    assert 400 < written.valid < 500
    assert {record["response"]["status_code"] for record in records} == {200, 400}


def line(name: str, text: str) -> str:
    return json.dumps({"custom_id": name, "body": {"messages": [text]}}) + "\n"


@pytest.mark.parametrize(
    "text", [line("b-i0", "other"), line("b-i1", "a"), line("b-i0", "a") * 2, ""], ids=["body", "item", "more", "none"]
)
def test_requests_that_differ_are_an_error(tmp_path: Path, text: str) -> None:
    expected, found = tmp_path / "expected", tmp_path / "found"
    expected.write_text(line("a-i0", "a"), encoding="utf-8")
    found.write_text(line("b-i0", "a"), encoding="utf-8")
    building.same_requests([found], expected)
    found.write_text(text, encoding="utf-8")
    with pytest.raises(WrongOutput):
        building.same_requests([found], expected)


def test_judgements_that_differ_are_an_error() -> None:
    same = ingesting.Comparison()
    same.check([(0, 0, 7, "x"), (0, 1, 8, "y")])
    same.check([(0, 1, 8, "y")], partial=True)
    for rows, partial in (([(0, 0, 7, "x")], False), ([(0, 0, 6, "x")], True), ([], True)):
        with pytest.raises(WrongOutput):
            same.check(rows, partial=partial)


def test_numbers_and_intervals_that_differ_are_an_error(tmp_path: Path) -> None:
    assert reporting.same({"a": {"1": 2, "x": 0.1 + 0.2}}, {"a": {"1": 2, "x": 0.3}})
    assert not reporting.same({"a": 1.0}, {"a": 1.1})
    assert not reporting.same({"a": 1}, {"b": 1})
    intervals = resampling.Intervals(0.01)
    intervals.check(tmp_path, Run(0, 0, 0, 0, None, [1.0, 2.0]))
    with pytest.raises(WrongOutput):
        intervals.check(tmp_path, Run(0, 0, 0, 0, None, [1.0, 2.1]))


def test_a_variant_that_fails_is_an_error(tmp_path: Path) -> None:
    failing = Variant("broken", "tests.bench.baselines:parse_only", lambda _: {"answers": "not-there"})
    with pytest.raises(WrongOutput, match="broken: ended with 1"):
        once(failing, tmp_path / "run")


# ---------------------------------------------------------------- what is told of it


def test_variants_run_forwards_and_backwards_by_turns(tmp_path: Path) -> None:
    order: list[str] = []

    def named(name: str) -> Callable[[Path], dict[str, str]]:
        def arguments(_: Path) -> dict[str, str]:
            order.append(name)
            return {"answers": "/dev/null" if sys.platform != "win32" else "nul"}

        return arguments

    variants = [Variant(name, "tests.bench.baselines:parse_only", named(name)) for name in "ab"]
    table = in_turns(Table("t", "t", "lines", 1, "a"), variants, 3, tmp_path)
    assert "".join(order) == "abbaab"
    assert [len(runs) for runs in table.runs.values()] == [3, 3]


def runs(*seconds: float) -> list[Run]:
    return [Run(s, s / 2, s + 1, s, 10.0) for s in seconds]


def test_ratios_are_medians_of_the_ratios_of_each_turn() -> None:
    table = Table("t", "t", "lines", 10, "slow")
    table.add("fast")
    table.add("slow", 5)
    table.runs = {"fast": runs(1, 1, 4), "slow": runs(2, 3, 4)}
    assert table.speedup("fast", "slow") == 2 * 2
    assert table.speedup("slow", "fast") == 0.5 * 0.5
    assert table.cost("fast") == 0.1
    assert table.peak("fast") == 10
    table.runs["slow"] = []
    assert table.speedup("fast", "slow") is None
    assert table.peak("slow") is None


def test_targets_say_reached_missed_or_not_measured() -> None:
    targets = [
        Target("more", 2.0, 2.5),
        Target("less", 2.0, 2.5, "MiB", at_most=True),
        Target("absent", 2.0, None),
    ]
    assert [target.reached for target in targets] == [True, False, None]
    printed = target_lines(targets)
    assert [printed_line.split()[-1] for printed_line in printed[3:]] == ["yes", "no", "measured"]


def test_figures_have_three_digits() -> None:
    assert [figure(value) for value in (None, 0.123, 12.34, 12_345.6)] == ["-", "0.12", "12.3", "12,346"]


def test_the_program_writes_everything_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "QUICK", replace(SIZES, repeat=2))
    arguments = [
        "--quick",
        "--only",
        "ingest",
        "--cpu",
        "--work",
        str(tmp_path),
        "--json",
        str(tmp_path / "found.json"),
    ]
    done = CliRunner().invoke(program.main, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "found.json").read_bytes())
    assert (found["format"], found["ratios_of"], found["sizes"]["requests"]) == (1, "processor time", 20)
    assert len(found["sections"][0]["tables"][0]["runs"][ingesting.COMMAND]) == 2
    assert [target["what"][:6] for target in found["targets"]] == ["ingest"] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["found.json"], "the data are gone"


def test_the_page_is_renewed_from_its_mark_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "QUICK", SIZES)
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{BEGIN}\n\nOld figures.\n", encoding="utf-8")
    arguments = ["--quick", "--only", "bootstrap", "--work", str(tmp_path), "--page", str(page)]
    assert CliRunner().invoke(program.main, arguments).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Title\n\n{BEGIN}\n\nMeasured on ")
    assert "Old figures" not in text
    assert f"| {resampling.LOOP} |" in text
    assert "| bootstrap: peak memory | <= 60 MiB |" in text


def test_a_page_without_a_mark_is_left_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"page\.md has no line"):
        renew(page, "text")
    assert page.read_text(encoding="utf-8") == "# Title\n"


def test_the_program_leaves_with_1_where_an_output_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def wrong(_: Bench) -> Section:
        raise WrongOutput("line 3: another body")

    monkeypatch.setitem(program.SECTIONS, "build", wrong)
    monkeypatch.setattr(program, "QUICK", SIZES)
    arguments = [
        "--quick",
        "--only",
        "build,bootstrap",
        "--work",
        str(tmp_path),
        "--json",
        str(tmp_path / "found.json"),
    ]
    done = CliRunner().invoke(program.main, arguments)
    assert done.exit_code == 1
    assert "error: build: line 3: another body" in done.output
    found = json.loads((tmp_path / "found.json").read_bytes())
    assert found["errors"] == {"build": "line 3: another body"}
    assert [section["name"] for section in found["sections"]] == ["bootstrap"], "the others were measured"


def test_a_section_that_is_none_is_a_usage_error() -> None:
    done = CliRunner().invoke(program.main, ["--only", "build,speed"])
    assert done.exit_code == 2
    assert "no section 'speed'" in done.output
