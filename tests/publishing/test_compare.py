"""``compare``: what is compared with what, the numbers, and what is refused."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from iwb_batch.core.compare_numbers import JudgeIdentity, RunScores, ScoredItem, compare
from iwb_batch.core.ranking import RankInterval, rank_intervals
from tests.cli.support import Cli, check_schema
from tests.publishing.support import N, higher, usual

JUDGE = JudgeIdentity(frozenset({"judge-1"}), None, 8000, None, "94b30ed0", "auto")


def scores(name: str, values: Sequence[float | None]) -> RunScores:
    items = [ScoredItem(i, f"hash-{i}", f"cluster-{i}", None, value) for i, value in enumerate(values)]
    return RunScores(name, "indic-writing-bench", f"model {name}", JUDGE, rehearsal=False, items=items)


def test_the_difference_is_that_of_the_items_complete_in_both(cli: Cli) -> None:
    done = cli("compare", "first", "second", "--format", "json")
    assert done.code == 0, done.err
    found = done.json()
    check_schema(found, "compare.schema.json")
    # Item 4 lost a verdict to the content filter in the first run, so it is in neither mean.
    common = [i for i in range(N) if i != 4]
    (pair,) = found["pairs"]
    differences = [usual(i, "") - higher(i, "") for i in common]
    assert pair["n_common"] == len(common)
    assert pair["difference"] == pytest.approx(sum(differences) / len(common))
    assert (pair["win"], pair["tie"], pair["loss"]) == (0, differences.count(0), differences.count(-1))
    assert pair["n_incomplete_a"] == 1
    assert pair["verdict"] == "b is higher"
    assert "failure rates differ" in " ".join(pair["flags"])
    assert [row["run"] for row in found["leaderboard"]] == ["second", "first"]
    assert [(row["rank"], row["rank_best"], row["rank_worst"]) for row in found["leaderboard"]] == [
        (1, 1, 1),
        (2, 2, 2),
    ]


def test_runs_of_equal_scores_are_not_separable(cli: Cli) -> None:
    done = cli("compare", "first", "third")
    assert done.code == 0
    assert "not separable" in done.out
    assert "1 to 2" in done.out


def test_csv_holds_numbers_in_full(cli: Cli) -> None:
    done = cli("compare", "second", "third", "--format", "csv")
    (row,) = csv.DictReader(io.StringIO(done.out))
    assert float(row["difference"]) == pytest.approx(9 / 12)
    assert row["verdict"] == "a is higher"


def test_markdown_keeps_names_as_text(cli: Cli) -> None:
    done = cli("compare", "first", "second", "--format", "markdown")
    assert done.out.startswith("# comparison of 2 runs")
    assert "| second |" in done.out


def test_three_runs_are_corrected_over_all_pairs(cli: Cli) -> None:
    found = cli("compare", "first", "second", "third", "--format", "json").json()
    assert len(found["pairs"]) == 3
    assert any("over 3 run pairs" in note for note in found["notes"])
    assert all(pair["p_holm"] >= pair["p"] for pair in found["pairs"])


def test_another_judge_is_refused_and_force_is_printed(cli: Cli) -> None:
    cli("compare", "second", "other-judge").refused(1, "not judged by the same judge", "gpt-5.5-2026", hint="--force")
    done = cli("compare", "second", "other-judge", "--force")
    assert done.code == 0
    assert "FORCED, not the same judge: models differs" in done.out
    assert "forced: not the same judge" in done.err
    assert cli("compare", "second", "other-judge", "--force", "--format", "json").json()["forced"] != []


def test_a_rehearsal_is_never_mixed_with_real_runs(cli: Cli) -> None:
    for force in ([], ["--force"]):
        cli("compare", "first", "rehearsal", *force).refused(1, "rehearsal")


def test_runs_without_a_common_item_are_refused(cli: Cli) -> None:
    cli("compare", "first", "elsewhere").refused(1, "no item in common", "first and elsewhere", hint="--force")
    done = cli("compare", "first", "elsewhere", "--force")
    assert done.code == 0
    assert "no common items" in done.out


def test_a_pairwise_run_against_another_benchmark_is_refused(cli: Cli) -> None:
    cli("compare", "first", "pairs", "--force").refused(1, "different benchmarks")


def test_fewer_than_two_or_unknown_runs_are_refused(cli: Cli) -> None:
    cli("compare", "first").refused(2, "at least two runs")
    cli("compare", "first", "first").refused(2, "named twice")
    cli("compare", "first", "nowhere").refused(1, "no such run")


def test_the_page_is_written_and_the_same_twice(cli: Cli, tmp_path: Path) -> None:
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        assert cli("compare", "first", "second", "--html", page).code == 0
    text = pages[0].read_text(encoding="utf-8")
    assert pages[1].read_text(encoding="utf-8") == text
    assert "Leaderboard" in text
    assert "script-src &#39;none&#39;" in text
    assert "<script" not in text


def test_a_page_in_a_missing_folder_is_one_line(cli: Cli, tmp_path: Path) -> None:
    cli("compare", "first", "second", "--html", tmp_path / "no" / "a.html").refused(1, "No such file or directory")


def test_pairs_are_compared_as_shares() -> None:
    runs = [scores("a", [1.0, 0.5, 0.0]), scores("b", [1.0, 1.0, 0.0])]
    shares = [RunScores(r.run, r.benchmark, r.model, r.judge, r.rehearsal, r.items, "share") for r in runs]
    (pair,) = compare(shares).pairs
    assert pair.difference.score == pytest.approx(-1 / 6)


def test_rank_intervals_follow_the_separable_pairs() -> None:
    low, high = [3.0 + i % 2 for i in range(20)], [8.0 + i % 2 for i in range(20)]
    nearly = [value + (0.1 if i % 2 else -0.1) for i, value in enumerate(high)]
    found = rank_intervals(compare([scores("low", low), scores("high", high), scores("nearly", nearly)]))
    assert found["low"] == RankInterval(3, 3, 3)
    assert {found["high"].best, found["nearly"].best} == {1}
    assert {found["high"].worst, found["nearly"].worst} == {2}


def test_equal_means_share_a_rank_and_any_order_is_open() -> None:
    found = rank_intervals(compare([scores(name, [5.0, 6.0, 7.0]) for name in "abc"]))
    assert set(found.values()) == {RankInterval(1, 1, 3)}
