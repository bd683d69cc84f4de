"""Reports from numbers to text: schemas, coverage beside each number, rehearsal marks, equal bytes."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
from jsonschema import Draft202012Validator

from iwb_batch.core.compare_numbers import JudgeIdentity, RunScores, ScoredItem, compare
from iwb_batch.core.compat import official_row
from iwb_batch.core.pair_numbers import PairData, PairRow, RewardRow, pair_report, reward_report
from iwb_batch.core.rubric_numbers import ItemRow, RubricData, RubricReport, rubric_report
from iwb_batch.core.run_facts import RunFacts, UsageRow
from iwb_batch.model import PairOrder
from iwb_batch.report import comparison, compat, pairs, protocols
from iwb_batch.report.formats import Format
from iwb_batch.report.published import PUBLISHED
from iwb_batch.report.status import BatchLine, StatusData, Tokens
from iwb_batch.report.status import render as render_status

SCHEMAS = Path(__file__).parents[2] / "schemas"
FORMATS: tuple[Format, ...] = get_args(Format)


def check(name: str, text: str) -> dict[str, Any]:
    """Parse ``text`` and check it against the schema ``name``."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    shape: dict[str, Any] = json.loads(text)
    errors = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(shape)]
    assert errors == []
    return shape


def facts(*, rehearsal: bool = False, benchmark: str = "indic-writing-bench", repeats: int = 1) -> RunFacts:
    return RunFacts(
        "run-a",
        benchmark,
        "lekhak-7b",
        "gpt-5.4",
        rehearsal,
        "94b30ed0",
        n_planned=20,
        n_scored=18,
        n_failed=2,
        repeats=repeats,
        outcomes={"valid": 18, "filtered": 2},
        failures={"filtered": 2},
        usage=[UsageRow("good", 18, 1000, 10, 500, 100, 0.5), UsageRow("unknown", 2, None, None, None, None, None)],
        changed_requests=3,
        retried_requests=1,
        models={"gpt-5.4-2026-03-05": 18},
        price_source="price table of 2026-11-01",
        notes=["2 items of the responses file are outside the selection"],
    )


def items() -> list[ItemRow]:
    """Four items: three renderings of one prompt, one of them incomplete, and one left out."""
    common = ("शिक्षा", "निबंध", "Hindi")
    return [
        ItemRow(0, *common, "native", "p0", None, 5, 5, 40, 8.0, 900),
        ItemRow(1, *common, "code_mixed", "p0", None, 5, 4, 24, None, 800),
        ItemRow(2, *common, "romanized", "p0", None, 5, 5, 30, 6.0, 700),
        ItemRow(3, "数学 <b>", None, "Hindi", "native", "p1", "missing response", 0, 0, 0, None, None),
        ItemRow(4, None, "निबंध", "Hindi", "native", "p2", None, 5, 5, 25, 5.0, 100),
    ]


def rubric_numbers(*, rehearsal: bool = False, rows: Sequence[ItemRow] | None = None) -> RubricReport:
    return rubric_report(
        RubricData(facts(rehearsal=rehearsal), items() if rows is None else rows, {5: 5, 6: 9, 8: 5}), rng_seed=1
    )


def test_rubric_json_has_the_promised_shape() -> None:
    shape = check("report-rubric", protocols.render(rubric_numbers(), "json"))
    assert (shape["format"], shape["run"], shape["n_items"], shape["n_complete"]) == (1, "run-a", 5, 3)
    assert shape["overall"]["score"] == pytest.approx(19 / 3)
    assert set(shape["by"]) == {"domain", "subdomain", "variant", "language"}
    assert [row["label"] for row in shape["by"]["domain"]] == ["शिक्षा", "数学 <b>", None]
    assert shape["left_out"] == {"missing response": 1}
    assert shape["cost_usd"] is None
    assert shape["known_cost_usd"] == 0.5
    assert shape["changed_requests"] == {"n": 3, "share": pytest.approx(1 / 6)}
    assert "requirements" not in shape


def test_writing_bench_json_adds_requirements() -> None:
    data = RubricData(facts(benchmark="writing-bench"), items(), {5: 5})
    shape = check("report-rubric", protocols.render(rubric_report(data), "json"))
    assert shape["requirements"] == {
        f"{name}_{kind}": None for name in ("style", "format", "length") for kind in ("R", "C")
    }


def test_repeats_are_in_json_and_table() -> None:
    data = RubricData(
        facts(repeats=2), items(), {5: 5}, repeat_sets={(5, 6): 3, (7, 7): 1}, repeat_sums={1: (22, 4), 2: (25, 4)}
    )
    report = rubric_report(data)
    shape = check("report-rubric", protocols.render(report, "json"))
    assert shape["self_consistency"]["equal_share"] == 0.25
    assert shape["self_consistency"]["mean_difference"] == 0.75
    assert "repeats all equal, %" in protocols.render(report, "table")
    assert "smallest difference of two scores that means something" in protocols.render(report, "table")
    assert "Mean score by repeat" in protocols.render(report, "table")


def test_an_empty_run_still_gives_a_valid_report() -> None:
    shape = check("report-rubric", protocols.render(rubric_numbers(rows=[]), "json"))
    assert shape["overall"]["score"] is None
    for form in FORMATS:
        assert protocols.render(rubric_numbers(rows=[]), form)


def test_every_mean_stands_beside_its_coverage() -> None:
    lines = protocols.render(rubric_numbers(), "table").split("\n")
    (overall,) = (line for line in lines if line.startswith("Overall  "))
    assert "3 of 5 items" in overall
    assert "6.33" in overall
    assert "few clusters" in overall
    assert any(line.startswith("coverage") and "3 of 5 items complete" in line for line in lines)
    (domain,) = (line for line in lines if line.startswith("शिक्षा "))
    assert "2 of 3" in domain
    assert any("(none)" in line and "1 of 1" in line for line in lines)


def test_table_names_failures_costs_and_formulas() -> None:
    text = protocols.render(rubric_numbers(), "table")
    for expected in (
        "sha256 94b30ed0",
        "gpt-5.4; answered by gpt-5.4-2026-03-05 (18 answers)",
        "missing response",
        "A failed request has no score and enters no mean.",
        "Known part of the cost: 0.5000 USD.",
        "Overall is the mean of item scores over complete items",
        "not corrected for looking at many",
        "1 request was given a fresh budget",
        "2 items of the responses file are outside the selection",
    ):
        assert expected in text
    assert "unknown" in next(line for line in text.split("\n") if line.startswith("total"))


def test_histogram_bars_are_scaled_to_the_most_frequent_score() -> None:
    lines = protocols.render(rubric_numbers(), "table").split("\n")
    start = lines.index("Scores given")
    bars = {line.split()[0]: line.count("#") for line in lines[start + 3 : start + 13]}
    assert (bars["6"], bars["5"], bars["1"]) == (40, 23, 0)


def test_csv_has_one_number_a_row() -> None:
    read = list(csv.DictReader(io.StringIO(protocols.render(rubric_numbers(), "csv"))))
    overall = next(row for row in read if row["by"] == "overall")
    assert float(overall["score"]) == pytest.approx(19 / 3)
    assert (overall["n_items"], overall["n_complete"]) == ("5", "3")
    assert [row["label"] for row in read if row["by"] == "domain"] == ["शिक्षा", "数学 <b>", "(none)"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_rehearsal_says_so_in_every_format(form: Format) -> None:
    rehearsed = protocols.render(rubric_numbers(rehearsal=True), form)
    if form in ("table", "markdown"):
        assert "REHEARSAL" in rehearsed.split("\n")[0]
        assert "REHEARSAL" not in protocols.render(rubric_numbers(), form)
    if form == "json":
        assert json.loads(rehearsed)["rehearsal"] is True


@pytest.mark.parametrize("form", FORMATS)
def test_equal_data_give_equal_bytes(form: Format) -> None:
    first = protocols.render(rubric_numbers(), form)
    assert first == protocols.render(rubric_numbers(rows=list(reversed(items()))), form)


def pair_row(
    index: int, item_id: str, domain: str, longer: Literal["chosen", "rejected", "equal"], verdicts: Sequence[Any]
) -> PairRow:
    first, second = ([verdict] for verdict in verdicts)
    orders: dict[PairOrder, list[Any]] = {"chosen-first": first, "rejected-first": second}
    return PairRow(index, item_id, item_id[:2], domain, "诗歌", f"p{index}", longer, longer == "equal", orders)


def pair_rows() -> list[PairRow]:
    return [
        pair_row(0, "en:0", "Fiction", "chosen", ("chosen", "chosen")),
        pair_row(1, "en:1", "Funny", "equal", ("chosen", None)),
        pair_row(2, "zh:0", "Fiction", "rejected", ("rejected", "chosen")),
    ]


def test_pairs_json_has_the_promised_shape() -> None:
    shape = check("report-pairs", protocols.render(pair_report(PairData(facts(), pair_rows())), "json"))
    assert (shape["n_pairs"], shape["n_judged"], shape["incomplete"]) == (3, 2, ["en:1"])
    assert shape["accuracy"]["score"] == pytest.approx(2 / 3)
    assert shape["accuracy_without_invalid"] == pytest.approx(4 / 5)
    assert shape["by_order"]["rejected-first"]["n"] == 3
    assert shape["published_layout"] == {"en_percent": 75.0, "zh_percent": 50.0, "avg_percent": 62.5}
    check("report-pairs", protocols.render(pair_report(PairData(facts(), [])), "json"))


def test_pairs_table_prints_per_cent_and_the_published_numbers_marked() -> None:
    text = protocols.render(pair_report(PairData(facts(), pair_rows())), "table")
    assert "incomplete, an order without a valid verdict: en:1" in text
    assert "Published, not measured here" in text
    (printed,) = (line for line in text.split("\n") if line.startswith("RM-R1-Qwen2.5-7B"))
    assert printed.split()[-4:] == ["81.8", "73.3", "77.6", "yes"]
    (ours,) = (line for line in text.split("\n") if line.startswith("lekhak-7b"))
    assert ours.split() == ["lekhak-7b", "75.0", "50.0", "62.5"]
    for form in FORMATS:
        assert protocols.render(pair_report(PairData(facts(), [])), form)


def test_published_card_rows_have_the_printed_averages() -> None:
    card = {row.model: str(row.avg) for row in PUBLISHED if row.on_card}
    assert card == {
        "RM-R1-Qwen2.5-7B": "77.6",
        "RM-R1-DeepSeek-Qwen-14B": "62.6",
        "RM-Mistral-7B": "59.1",
        "Nvidia/AceMath-7B": "50.2",
        "Doubao-1.5-Pro": "65.6",
        "Gemini-2.5-Pro": "64.2",
        "Claude-4-Opus-thinking": "58.5",
        "OpenAI-o3-high": "45.1",
    }


def test_reward_accuracy_prints_the_tie_rule_and_the_counts() -> None:
    rows = [
        RewardRow(i, "en", "Fiction", None, f"p{i}", chosen, rejected)
        for i, (chosen, rejected) in enumerate([(0.5, 0.5), (0.9, 0.1), (0.2, 0.4), (None, 0.4)])
    ]
    report = reward_report(rows)
    text = pairs.render_reward(report, "table", model="my-reward-model")
    assert "a tie is not correct; an invalid pair is wrong" in text
    shape = json.loads(pairs.render_reward(report, "json", model="my-reward-model"))
    assert [shape[name] for name in ("correct", "wrong", "ties", "invalid")] == [1, 1, 1, 1]
    assert shape["accuracy"]["score"] == 0.25
    dropped = pairs.reward_shape(reward_report(rows, invalid_policy="drop"), "m")
    assert [dropped[name] for name in ("correct", "wrong", "ties", "invalid", "n_counted")] == [1, 1, 1, 1, 3]
    assert pairs.render_reward(report, "csv", model="m").startswith("by,label,")


JUDGE = JudgeIdentity(frozenset({"m"}), None, 8000, None, "x", "auto")


def scores(name: str, values: Sequence[float | None], *, judge: JudgeIdentity = JUDGE) -> RunScores:
    rows = [ScoredItem(i, f"sha{i}", f"c{i}", None, value) for i, value in enumerate(values)]
    return RunScores(name, "indic-writing-bench", name, judge, rehearsal=False, items=rows)


def test_compare_json_has_the_promised_shape() -> None:
    found = compare([scores("a", [8.0] * 12), scores("b", [6.0] * 12), scores("c", [None] * 12)])
    shape = check("compare", comparison.render(found, "json"))
    assert shape["runs"] == ["a", "b", "c"]
    assert [pair["verdict"] for pair in shape["pairs"]] == ["a is higher", "no common items", "no common items"]
    assert shape["pairs"][0]["n_common"] == 12
    assert shape["pairs"][1]["p"] is None


def test_compare_table_says_not_separable_and_prints_what_was_forced() -> None:
    other = JudgeIdentity(frozenset({"m"}), "high", 8000, None, "x", "auto")
    found = compare([scores("one", [8, 7, None]), scores("two", [7, 7, 7], judge=other)], force=True)
    text = comparison.render(found, "table")
    assert "not separable" in text
    assert "FORCED, not the same judge: reasoning effort differs (one: not set, two: high)" in text
    assert "failure rates differ: 1 of 3 items are incomplete in one" in text
    higher = compare([scores("one", [8.0] * 12), scores("two", [6.0] * 12)])
    assert "one is higher" in comparison.render(higher, "markdown")
    assert comparison.render(higher, "csv").split("\n")[1].startswith("one,two,12,12,2.0,")


def test_item_numbers_and_counts_print_as_integers() -> None:
    text = comparison.render(compare([scores("a", [8, 7]), scores("b", [7, 7])]), "csv")
    assert ".0," in text
    assert text.split("\n")[1].split(",")[2:4] == ["2", "2"]


@pytest.mark.parametrize("form", FORMATS)
def test_compat_prints_the_original_columns(form: Format) -> None:
    row = official_row("lekhak", [(1, {"a": [8, 7]})], domains={1: ("Education", "Exam")})
    text = compat.render(row, form)
    if form == "json":
        assert json.loads(text) == row
    if form == "csv":
        (read,) = csv.DictReader(io.StringIO(text))
        assert list(read) == list(row)
        assert (read["Overall"], read["Count"], read["Domain1_Education"]) == ("7.5", "1", "7.5")
        assert read["Domain1_Finance & Business"] == ""
    if form in ("table", "markdown"):
        assert "Domain2" in text.replace("\\", "")
        assert "REHEARSAL" in compat.render(row, form, rehearsal=True)


STATUS = StatusData(
    "run-a",
    "running",
    planned=20,
    scored=12,
    n_open=6,
    failed=2,
    outcomes={"valid": 12, "filtered": 2},
    failures={"filtered": 2},
    batches=[BatchLine(1, "creating", None, 20, about="ambiguous: see collect --adopt")],
    tokens=Tokens(100, 20, 50, 10),
    eta_seconds=5000,
    messages=["iwb-batch collect goes on"],
)


def test_status_json_has_the_promised_shape() -> None:
    shape = check("status", render_status(STATUS, as_json=True))
    assert (shape["planned"], shape["scored"], shape["open"], shape["failed"]) == (20, 12, 6, 2)
    assert shape["tokens"] == {"prompt": 100, "cached": 20, "completion": 50, "reasoning": 10}
    assert shape["cost_usd"] is None
    assert shape["batches"][0]["remote_status"] is None


def test_status_text_names_what_is_open_failed_and_unknown() -> None:
    text = render_status(STATUS)
    for expected in (
        "12 of 20 scored, 6 open, 2 failed",
        "unknown",
        "1 h 23 min",
        "filtered",
        "ambiguous",
        "collect goes on",
    ):
        assert expected in text


HOSTILE = "=1+1 \x1b[2J | <img onerror=x> \u202e \ud800 数学 🔧\n"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "render",
    [
        pytest.param(
            lambda form: protocols.render(rubric_numbers(rows=[items()[0]._replace(domain=HOSTILE)]), form), id="rubric"
        ),
        pytest.param(
            lambda form: protocols.render(pair_report(PairData(facts(), [pair_rows()[0]._replace(tag=HOSTILE)])), form),
            id="pairs",
        ),
        pytest.param(
            lambda form: comparison.render(compare([scores(HOSTILE, [5]), scores("b", [5])]), form), id="compare"
        ),
    ],
)
def test_hostile_labels_are_harmless_everywhere(render: Callable[[Format], str], form: Format) -> None:
    text = render(form)
    text.encode()
    if form != "csv":
        assert "\x1b" not in text
    if form == "markdown":
        assert "<img" not in text
    if form == "csv":
        assert not any(cell.startswith("=") for row in csv.reader(io.StringIO(text)) for cell in row)
