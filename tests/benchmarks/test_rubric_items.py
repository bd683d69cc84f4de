"""The two rubric benchmarks: items, criteria, prompt, requests."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from iwb_batch import benchmarks
from iwb_batch.core.render import LineRenderer
from iwb_batch.core.row import Row
from iwb_batch.errors import InputError
from iwb_batch.inputs.dataset import numbering, open_dataset
from iwb_batch.inputs.rows import read_rows
from iwb_batch.model import Request

INDIC = benchmarks.get("indic-writing-bench")
ORIGINAL = benchmarks.get("writing-bench")
BANDS = ["1-2", "3-4", "5-6", "7-8", "9-10"]


def criterion(n: int) -> dict[str, Any]:
    bands = {band: f'स्तर {band}: "उदाहरण" {n}' for band in BANDS}
    return {"name": f"मानदंड {n}", "criteria_description": f"यह '{n}' को परखता है", **bands}


ROW: dict[str, Any] = {
    "index": 4,
    "id": "hi-0004",
    "domain": "Literature",
    "subdomain": "Letter",
    "language": "Hindi",
    "variant": "native",
    "is_code_mixed": False,
    "is_romanized": False,
    "prompt": "दादी को चिट्ठी लिखो।",
    "query": "दादी को चिट्ठी लिखो।\n\nसंदर्भ: {गाँव}",
    "reference": {"title": "गाँव", "url": "https://example.org/a", "source_language": "hi", "content": "…"},
    "checklist": [criterion(n) for n in range(5)],
}


def row(**changes: Any) -> Row:
    values = {key: value for key, value in {**copy.deepcopy(ROW), **changes}.items() if value is not ...}
    return Row(values, "items.jsonl line 3", 3, "items.jsonl")


def spoilt(n: int, **changes: Any) -> list[dict[str, Any]]:
    checklist = copy.deepcopy(ROW["checklist"])
    checklist[n] = {key: value for key, value in {**checklist[n], **changes}.items() if value is not ...}
    return list(checklist)


def test_prompt_is_the_published_one_byte_for_byte() -> None:
    for benchmark in (INDIC, ORIGINAL):
        text = benchmark.template
        assert (len(text), text.count("\n") + 1, text[-1]) == (2504, 51, "`")
        assert hashlib.sha256(text.encode()).hexdigest().startswith("94b30ed0")
        assert text.count("```") == 11
        assert (text.count("{criteria}"), text.count("{query}"), text.count("{response}")) == (2, 1, 1)
        assert benchmark.system.startswith("You are an expert evaluator")


def test_item_has_every_label() -> None:
    item = INDIC.item(row(), 4)
    assert (item.index, item.item_id, item.query) == (4, "hi-0004", ROW["query"])
    assert (item.domain, item.subdomain, item.language, item.variant) == ("Literature", "Letter", "Hindi", "native")
    assert [c.name for c in item.criteria] == [f"मानदंड {n}" for n in range(5)]
    assert (item.tag, item.notes) == (None, ())


def test_criterion_is_json_in_the_order_of_the_data() -> None:
    reordered = {key: ROW["checklist"][0][key] for key in reversed(list(ROW["checklist"][0]))}
    item = INDIC.item(row(checklist=[reordered, *ROW["checklist"][1:]]), 4)
    assert item.criteria[0].json == json.dumps(reordered, ensure_ascii=False)
    assert item.criteria[1].json == json.dumps(ROW["checklist"][1], ensure_ascii=False)
    assert item.criteria[1].json.startswith('{"name": "मानदंड 1", "criteria_description": ')


def test_further_keys_of_a_criterion_stay_and_null_ones_go() -> None:
    item = INDIC.item(row(checklist=spoilt(0, weight=2, hint=None)), 4)
    assert item.criteria[0].json == json.dumps({**ROW["checklist"][0], "weight": 2}, ensure_ascii=False)


def test_filled_prompt_is_what_the_published_code_would_send() -> None:
    item = INDIC.item(row(), 4)
    answer = "प्रिय दादी, {criteria} {query} ```"
    request = Request(4, 1, criterion_index=2, criterion="मानदंड 2")
    renderer = LineRenderer(INDIC.system, INDIC.template, model="gpt-5.4")
    sent = renderer.messages(INDIC.fields(item, answer, request))
    one = json.dumps(ROW["checklist"][2], ensure_ascii=False)
    expected = INDIC.template.replace("{", "{{").replace("}", "}}")
    for name in ("criteria", "query", "response"):
        expected = expected.replace("{{" + name + "}}", "{" + name + "}")
    assert sent == [
        {"role": "system", "content": INDIC.system},
        {"role": "user", "content": expected.format(criteria=one, query=ROW["query"], response=answer)},
    ]


def test_one_request_for_each_criterion_and_repeat() -> None:
    requests = list(INDIC.requests(INDIC.item(row(), 4), repeats=2))
    assert requests == [
        Request(4, repeat, criterion_index=n, criterion=f"मानदंड {n}") for repeat in (1, 2) for n in range(5)
    ]


def test_judged_texts_are_query_and_response() -> None:
    assert INDIC.judged_texts(INDIC.item(row(), 4), "answer") == (ROW["query"], "answer")


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"checklist": ROW["checklist"][:4]}, "4 criteria instead of 5"),
        ({"checklist": ROW["checklist"] + [criterion(9)]}, "6 criteria instead of 5"),
        ({"checklist": []}, "0 criteria instead of 5"),
        ({"checklist": None}, "'checklist' is missing"),
        ({"checklist": ...}, "'checklist' is missing"),
        ({"checklist": "[not json"}, "'checklist' is text but not JSON"),
        ({"checklist": 5}, "'checklist' is not a list"),
        ({"checklist": ["a", *ROW["checklist"][1:]]}, "criterion 1 is not an object"),
        ({"checklist": spoilt(1, **{"7-8": ...})}, "band 7-8 missing in criterion 2 'मानदंड 1'"),
        ({"checklist": spoilt(1, **{"9-10": None})}, "band 9-10 missing in criterion 2 'मानदंड 1'"),
        ({"checklist": spoilt(1, **{"1-2": "  "})}, "band 1-2 is empty in criterion 2 'मानदंड 1'"),
        ({"checklist": spoilt(1, **{"3-4": 3})}, "band 3-4 is not text in criterion 2 'मानदंड 1'"),
        ({"checklist": spoilt(4, name=...)}, "name missing in criterion 5"),
        ({"checklist": spoilt(4, name="")}, "name is empty in criterion 5"),
        ({"checklist": spoilt(0, criteria_description=...)}, "criteria_description missing in criterion 1"),
        ({"query": ...}, "'query' is missing; the row has: index, id, domain"),
        ({"query": None}, "'query' is missing"),
        ({"query": " \n"}, "'query' is empty"),
        ({"query": 5}, "'query' is not text"),
        ({"domain": ["a"]}, "'domain' is not text"),
    ],
    ids=["four", "six", "none", "null", "absent", "bad-json", "number", "entry", "band-absent", "band-null",
         "band-blank", "band-number", "name-absent", "name-empty", "description", "query-absent", "query-null",
         "query-blank", "query-number", "domain-list"],
)  # fmt: skip
def test_faulty_item_is_named_by_place_and_index(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError) as caught:
        INDIC.item(row(**changes), 4)
    assert caught.value.message.startswith("items.jsonl line 3: index 4: ")
    assert what in caught.value.message


@pytest.mark.parametrize(
    ("variant", "code_mixed", "romanized", "notes"),
    [
        ("native", False, False, ()),
        ("native", True, False, ("variant_conflict",)),
        ("native", False, True, ("variant_conflict",)),
        ("code_mixed", True, False, ()),
        ("code_mixed", True, True, ()),
        ("code_mixed", False, False, ("variant_conflict",)),
        ("romanized", False, True, ()),
        ("romanized", True, True, ("variant_conflict",)),
        ("romanized", False, False, ("variant_conflict",)),
        ("romanized", None, None, ()),
        ("native", "True", "False", ("variant_conflict",)),
        (None, True, False, ()),
        ("braille", False, False, ("unknown_variant",)),
    ],
)
def test_variant_is_checked_against_its_flags(
    variant: str | None, code_mixed: Any, romanized: Any, notes: tuple[str, ...]
) -> None:
    item = INDIC.item(row(variant=variant, is_code_mixed=code_mixed, is_romanized=romanized), 4)
    assert (item.variant, item.notes) == (variant, notes)


@pytest.mark.parametrize(("value", "expected"), [(..., "4"), (None, "4"), ("", "4"), (17, "17"), ("x", "x")])
def test_item_id_is_the_id_else_the_index(value: Any, expected: str) -> None:
    assert INDIC.item(row(id=value), 4).item_id == expected


def test_renderings_of_one_prompt_share_their_cluster() -> None:
    native = INDIC.item(row(), 4)
    romanized = INDIC.item(
        row(index=5, id="x", query="Dadi ko chitthi likho", variant="romanized", is_romanized=True), 5
    )
    assert native.cluster == romanized.cluster
    for changes in ({"domain": "Law"}, {"subdomain": "Poem"}, {"reference": None}, {"checklist": spoilt(0, name="x")}):
        assert INDIC.item(row(**changes), 4).cluster != native.cluster


@pytest.mark.parametrize("form", ["json", "columns", "json-indented"])
def test_checklist_comes_in_several_forms(form: str) -> None:
    forms: dict[str, Any] = {
        "json": json.dumps(ROW["checklist"], ensure_ascii=False),
        "columns": {key: [entry[key] for entry in ROW["checklist"]] for key in ROW["checklist"][0]},
        "json-indented": json.dumps(ROW["checklist"], indent=1),
    }
    item = INDIC.item(row(checklist=forms[form]), 4)
    assert item == INDIC.item(row(), 4)


def test_parquet_and_jsonl_give_the_same_items(tmp_path: Path) -> None:
    rows = [copy.deepcopy(ROW), {**copy.deepcopy(ROW), "index": 5, "checklist": spoilt(3, weight="2")}]
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.Table.from_pylist(rows[::-1]).schema), tmp_path / "a.parquet")
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    items = [
        [INDIC.item(r, r.values["index"]) for r in read_rows(tmp_path / name)] for name in ("a.parquet", "a.jsonl")
    ]
    assert items[0] == items[1]


def test_checklist_in_csv_is_json_text(tmp_path: Path) -> None:
    checklist = json.dumps(ROW["checklist"], ensure_ascii=False).replace('"', '""')
    path = tmp_path / "a.csv"
    path.write_text(f'index,domain,query,checklist\n4,Law,"अर्ज़ी, लिखो","{checklist}"\n', encoding="utf-8")
    dataset = open_dataset(str(path))
    ((index, read),) = numbering(dataset).apply(dataset.rows())
    item = INDIC.item(read, index)
    assert (item.index, item.query, item.domain) == (4, "अर्ज़ी, लिखो", "Law")
    assert item.criteria == INDIC.item(row(), 4).criteria


def test_lone_surrogates_are_replaced_and_noted() -> None:
    item = INDIC.item(row(query="a\udcb2b", checklist=spoilt(0, name="n\ud800")), 4)
    assert (item.query, item.criteria[0].name, item.notes) == ("a\ufffdb", "n\ufffd", ("surrogate",))
    item.criteria[0].json.encode("utf-8")


def test_equal_criterion_names_are_noted_and_both_kept() -> None:
    item = INDIC.item(row(checklist=spoilt(1, name="मानदंड 0")), 4)
    assert item.notes == ("same_criterion_name",)
    assert len(list(INDIC.requests(item))) == 5


def test_original_benchmark_maps_its_own_labels() -> None:
    values = {
        "index": 1,
        "domain1": "Finance",
        "domain2": "Report",
        "lang": "zh",
        "query": "写一份报告",
        "checklist": ROW["checklist"],
    }
    item = ORIGINAL.item(Row(values, "b.jsonl line 1", 1, "b.jsonl"), 1)
    assert (item.item_id, item.domain, item.subdomain, item.language, item.variant) == (
        "1",
        "Finance",
        "Report",
        "zh",
        None,
    )
    labels = ORIGINAL.labels(Row(values, "b.jsonl line 1", 1), 1)
    assert labels["domain"] == "Finance"
    assert (labels["index"], labels["id"]) == (1, "1")


def test_label_missing_everywhere_is_none() -> None:
    item = ORIGINAL.item(Row({"query": "q", "checklist": ROW["checklist"], "domain1": ""}, "b line 1", 1), 0)
    assert (item.domain, item.subdomain, item.language) == (None, None, None)
