"""Agreement with people: the numbers against plain formulas, and the labels that are accepted."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.core.human_numbers import HumanPoint, human_agreement
from iwb_batch.core.statistics import spearman
from iwb_batch.errors import InputError
from iwb_batch.inputs.labels import PreferenceLabel, ScoreLabel, read_labels
from tests.agreement import cohen_kappa, quadratic_kappa
from tests.cli.support import CRITERIA, Cli, jsonl
from tests.publishing.support import N, usual


def points(n: int, *, clusters: int, seed: int = 1) -> list[HumanPoint]:
    drawn = random.Random(seed)
    made = []
    for i in range(n):
        human = drawn.randint(1, 10)
        judge = min(10, max(1, human + drawn.choice([-2, -1, 0, 0, 1])))
        made.append(HumanPoint(float(human), float(judge), i % clusters))
    return made


@pytest.mark.parametrize("clusters", [200, 40, 12], ids=["own", "bootstrap", "few"])
def test_values_are_those_of_the_plain_formulas(clusters: int) -> None:
    found = human_agreement(points(200, clusters=clusters), level="criterion", n_labels=200)
    human = [int(p.human) for p in points(200, clusters=clusters)]
    judge = [int(p.judge) for p in points(200, clusters=clusters)]
    assert found.cohen.score == pytest.approx(cohen_kappa(human, judge), abs=1e-12)
    assert found.quadratic is not None
    assert found.quadratic.score == pytest.approx(quadratic_kappa(human, judge), abs=1e-12)
    assert found.spearman is not None
    assert found.spearman.score == pytest.approx(spearman(human, judge), abs=1e-12)
    assert found.exact.score == pytest.approx(sum(a == b for a, b in zip(human, judge, strict=True)) / 200)
    assert found.difference is not None
    assert found.difference.score == pytest.approx(sum(judge) / 200 - sum(human) / 200)
    method = "bootstrap" if clusters >= 30 else "t"
    for estimate in (found.cohen, found.quadratic, found.spearman):
        assert estimate.method == method
        assert estimate.n_clusters == clusters
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.score is not None
        assert estimate.low < estimate.score < estimate.high


def test_the_order_of_the_labels_changes_nothing() -> None:
    given = points(90, clusters=45)
    turned = [HumanPoint(p.human, p.judge, 1000 - p.cluster) for p in reversed(given)]
    assert human_agreement(given, level="item", n_labels=90) == human_agreement(turned, level="item", n_labels=90)


def test_mean_scores_are_compared_in_ranks_and_rounded_for_kappa() -> None:
    given = [HumanPoint(7.0, 6.5, 0), HumanPoint(3.0, 3.4, 1), HumanPoint(5.0, 5.2, 2), HumanPoint(9.0, 8.8, 3)]
    found = human_agreement(given, level="item", n_labels=4)
    assert found.exact.score == 1.0
    assert found.spearman is not None
    assert found.spearman.score == 1.0
    assert "rounded half up" in found.notes[0]


@pytest.mark.parametrize(
    "given",
    [[], [HumanPoint(5, 5, 0)], [HumanPoint(5, 5, 0), HumanPoint(5, 5, 1), HumanPoint(5, 5, 2)]],
    ids=["nothing", "one", "constant"],
)
def test_what_cannot_be_known_is_not_a_number(given: list[HumanPoint]) -> None:
    found = human_agreement(given, level="criterion", n_labels=len(given))
    assert found.cohen.score is None
    assert found.spearman is not None
    assert found.spearman.score is None


def labels(path: Path, rows: list[dict[str, Any]]) -> Path:
    return jsonl(path / "labels.jsonl", rows)


def test_scores_of_criteria_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    rows = [{"index": i, "criterion": name, "score": usual(i, "")} for i in range(N) for name in CRITERIA]
    rows.append({"index": 99, "criterion": "Tone", "score": 3})
    done = cli("report", "first", "--human", labels(tmp_path, rows), "--format", "json")
    assert done.code == 4, done.err
    human = done.json()["human"]
    counted = {name: human[name] for name in ("level", "n_labels", "n_matched", "n_unscored", "n_outside")}
    assert counted == {"level": "criterion", "n_labels": 61, "n_matched": 59, "n_unscored": 1, "n_outside": 1}
    assert human["cohen_kappa"]["value"] == human["quadratic_kappa"]["value"] == human["spearman"]["value"] == 1.0
    assert human["difference"]["value"] == 0.0


def test_the_number_of_a_criterion_will_do(cli: Cli, tmp_path: Path) -> None:
    rows = [{"index": i, "criterion": c, "score": usual(i, "")} for i in range(3) for c in range(5)]
    human = cli("report", "second", "--human", labels(tmp_path, rows), "--format", "json").json()["human"]
    assert human["n_matched"] == 15


def test_scores_of_items_in_a_csv(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(b"index,score\r\n" + b"".join(f"{i},{usual(i, '')}.5\r\n".encode() for i in range(9)))
    done = cli("report", "third", "--human", path)
    assert done.code == 0, done.err
    assert "Agreement with people" in done.out
    assert "9 item scores" in done.out
    flat = cli("report", "third", "--human", path, "--format", "csv").out
    assert "\nhuman,quadratic_kappa,9,9," in flat


def test_agreement_is_on_the_page(cli: Cli, tmp_path: Path) -> None:
    path = labels(tmp_path, [{"index": i, "score": 5} for i in range(N)])
    assert cli("report", "third", "--human", path, "--html", tmp_path / "p.html").code == 0
    assert "Agreement with people" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_preferences_count_each_order(cli: Cli, tmp_path: Path) -> None:
    rows = [{"row": i, "preferred": "rejected" if i == 8 else "chosen"} for i in range(9)]
    human = cli("report", "pairs", "--human", labels(tmp_path, rows), "--format", "json").json()["human"]
    assert (human["level"], human["n_labels"], human["n_matched"]) == ("verdict", 9, 18)
    assert human["exact"]["value"] == pytest.approx(8 / 9)
    assert human["quadratic_kappa"] is None


BAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "no index": ([{"score": 5}], "line 1: no 'index'"),
    "no row": ([{"preferred": "chosen"}], "line 1: no 'row'"),
    "score out of range": ([{"index": 0, "score": 11}], "score 11 is not a number from 1 to 10"),
    "score as truth": ([{"index": 0, "score": True}], "score True is not"),
    "no score": ([{"index": 0}], "score None is not"),
    "Devanagari digits": ([{"index": 0, "score": "५"}], "is not a number from 1 to 10"),
    "text index": ([{"index": "०", "score": 5}], "is not a whole number from 0 up"),
    "twice": ([{"index": 1, "score": 5}, {"index": 1, "score": 6}], "line 2: labels the same thing as"),
    "neither text": ([{"row": 0, "preferred": "both"}], "neither chosen nor rejected"),
    "criterion as list": ([{"index": 0, "criterion": [], "score": 5}], "is no name"),
}


@pytest.mark.parametrize(("rows", "words"), BAD.values(), ids=BAD.keys())
def test_bad_labels_name_their_line(tmp_path: Path, rows: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(InputError) as told:
        read_labels(labels(tmp_path, rows))
    assert words in told.value.message
    assert told.value.message.startswith("labels.jsonl line ")
    assert told.value.hint


def test_good_labels_of_both_kinds(tmp_path: Path) -> None:
    assert read_labels(labels(tmp_path, [{"index": 3, "score": "7.5"}, {"index": "4", "score": 1}])) == [
        ScoreLabel(3, None, 7.5, "labels.jsonl line 1"),
        ScoreLabel(4, None, 1.0, "labels.jsonl line 2"),
    ]
    assert read_labels(labels(tmp_path, [{"row": 0, "preferred": "chosen"}])) == [
        PreferenceLabel(0, "chosen", "labels.jsonl line 1")
    ]


@pytest.mark.parametrize(
    ("run", "rows", "words"),
    [
        ("first", [{"row": 0, "preferred": "chosen"}], "holds preferences"),
        ("pairs", [{"index": 0, "score": 5}], "holds scores"),
        ("first", [{"index": 0, "score": 5}, {"index": 0, "criterion": "Tone", "score": 5}], "are mixed"),
        ("first", [{"index": 0, "criterion": "Rhyme", "score": 5}], "item 0 has no criterion 'Rhyme'"),
    ],
    ids=["preferences for a rubric", "scores for pairs", "mixed", "unknown criterion"],
)
def test_labels_that_do_not_fit_the_run(
    cli: Cli, tmp_path: Path, run: str, rows: list[dict[str, Any]], words: str
) -> None:
    done = cli("report", run, "--human", labels(tmp_path, rows))
    done.refused(1, words)
    assert json.dumps(done.out) == '""'
