"""WritingPreferenceBench: pairs, genres, languages, orders, prompt."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from iwb_batch import benchmarks
from iwb_batch.benchmarks import Orders
from iwb_batch.benchmarks._genres import GENRES, macro_domain
from iwb_batch.core.render import LineRenderer
from iwb_batch.core.row import Row
from iwb_batch.errors import InputError
from iwb_batch.inputs.dataset import numbering, open_dataset, select
from iwb_batch.model import Request

BENCH = benchmarks.get("writing-preference-bench")


def side(text: str, score: object = 2, model: object = "m") -> dict[str, Any]:
    return {"response": text, "score": score, "model": model, "completion_tokens": 9, "prompt_tokens": 5, "word_len": 8}


ROW: dict[str, Any] = {
    "prompt": "\n写一首关于雨夜归人的短诗。",
    "prompt_id": "p-1",
    "tag": "诗歌",
    "chosen": side("雨把街灯揉碎，他捧着一城微光回家。", 3, "甲"),
    "rejected": side("下雨了，他回家了。", 1, "乙"),
}


def row(file: str = "pairs_zh.json", subset: str | None = None, **changes: Any) -> Row:
    values = {key: value for key, value in {**copy.deepcopy(ROW), **changes}.items() if value is not ...}
    return Row(values, f"{file} row 8", 8, file, subset)


def test_item_holds_both_texts_and_what_is_known_of_them() -> None:
    item = BENCH.item(row(), 7)
    assert (item.index, item.item_id, item.language, item.tag, item.domain) == (7, "zh:7", "zh", "诗歌", "Poetry")
    assert item.query == ROW["prompt"]
    assert dict(item.extra) == {
        "chosen": ROW["chosen"]["response"],
        "rejected": ROW["rejected"]["response"],
        "prompt_id": "p-1",
        "chosen_model": "甲",
        "rejected_model": "乙",
        "chosen_score": 3,
        "rejected_score": 1,
    }
    assert (item.criteria, item.notes) == ((), ())


def test_plain_texts_are_taken_as_sides() -> None:
    item = BENCH.item(row(chosen="aa", rejected="bb"), 0)
    assert (item.extra["chosen"], item.extra["rejected"], item.extra["chosen_score"]) == ("aa", "bb", None)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"rejected": ...}, "'rejected' is missing: a pair needs both texts"),
        ({"chosen": None}, "'chosen' is missing"),
        ({"rejected": {"score": 1}}, "'rejected' has no response text"),
        ({"rejected": side(" \n")}, "'rejected' has no response text"),
        ({"chosen": side(None)}, "'chosen' has no response text"),  # type: ignore[arg-type]
        ({"chosen": [1]}, "'chosen' is neither an object nor text"),
        ({"prompt": ...}, "'prompt' is missing"),
        ({"prompt": "  "}, "'prompt' is empty"),
    ],
    ids=["no-rejected", "null-chosen", "no-text", "blank", "null-text", "list", "no-prompt", "blank-prompt"],
)
def test_one_sided_pair_is_refused_by_place_and_index(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError) as caught:
        BENCH.item(row(**changes), 7)
    assert caught.value.message.startswith("pairs_zh.json row 8: index 7: ")
    assert what in caught.value.message


@pytest.mark.parametrize(
    ("changes", "notes"),
    [
        ({"rejected": side(ROW["chosen"]["response"], 1)}, ("equal_texts",)),
        ({"chosen": side("a", 0), "rejected": side("b", 0)}, ("no_score_gap",)),
        ({"chosen": side("a", 1), "rejected": side("b", 2)}, ("no_score_gap",)),
        ({"chosen": side("a", None), "rejected": side("b", 2)}, ()),
        ({"tag": "诗歌-现代"}, ("unknown_tag",)),
        ({"tag": None}, ()),
        ({"chosen": side("a\udcb2")}, ("surrogate",)),
    ],
    ids=["equal", "gap-zero", "gap-negative", "no-score", "unknown-tag", "no-tag", "surrogate"],
)
def test_irregular_pairs_are_kept_and_noted(changes: dict[str, Any], notes: tuple[str, ...]) -> None:
    assert BENCH.item(row(**changes), 7).notes == notes


def test_tag_outside_the_table_has_no_domain() -> None:
    assert BENCH.item(row(tag="诗歌-现代"), 7).domain is None


def test_genre_table_has_51_tags_in_eight_domains() -> None:
    pairs = [pair for group in GENRES.values() for pair in group]
    assert (len(GENRES), len(pairs), len({zh for zh, _ in pairs}), len({en for _, en in pairs})) == (8, 51, 51, 51)
    assert {domain: len(group) for domain, group in GENRES.items()} == {
        "Functional Documents": 11,
        "Promotional & Communication": 9,
        "Non-Fiction": 4,
        "Fiction": 15,
        "Funny": 9,
        "Poetry": 1,
        "Scriptwriting": 1,
        "Role-Playing": 1,
    }


@pytest.mark.parametrize(
    ("tag", "domain"),
    [("抽象文学-亚文化", "Funny"), ("Wuxia", "Fiction"), ("公开信", "Functional Documents"), ("x", None), (None, None)],
)
def test_tags_of_both_languages_have_a_domain(tag: str | None, domain: str | None) -> None:
    assert macro_domain(tag) == domain


@pytest.mark.parametrize(
    ("file", "subset", "changes", "language", "guessed"),
    [
        ("WP_bench_english.json", None, {}, "en", False),
        ("WP_bench_chinese.json", None, {}, "zh", False),
        ("pairs_en.json", None, {}, "en", False),
        ("pairs-zh-small.jsonl", None, {}, "zh", False),
        ("test.jsonl", "English", {}, "en", False),
        ("pairs_zh.json", "en", {}, "en", False),
        ("pairs_zh.json", None, {"language": "English"}, "en", False),
        ("pairs_zh.json", None, {"lang": "Français"}, "Français", False),
        ("frozen.json", None, {}, "zh", True),
        ("en_zh.json", None, {"prompt": "Write about rain in 雨."}, "en", True),
        ("pairs.json", None, {"prompt": "/"}, "en", True),
    ],
    ids=[
        "english",
        "chinese",
        "_en",
        "-zh-",
        "subset",
        "subset-first",
        "row",
        "row-other",
        "guess-zh",
        "guess-en",
        "slash",
    ],
)
def test_language_of_a_pair(
    file: str, subset: str | None, changes: dict[str, Any], language: str, guessed: bool
) -> None:
    item = BENCH.item(row(file, subset, **changes), 3)
    assert (item.language, item.item_id) == (language, f"{language}:3")
    assert ("language_guessed" in item.notes) == guessed


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        ("both", ["chosen-first", "rejected-first"]),
        ("chosen-first", ["chosen-first"]),
        ("rejected-first", ["rejected-first"]),
    ],
)
def test_orders_planned(orders: Orders, expected: list[str]) -> None:
    item = BENCH.item(row(), 7)
    requests = list(BENCH.requests(item, repeats=2, orders=orders))
    assert [(r.item_index, r.repeat, r.pair_order) for r in requests] == [
        (7, repeat, order) for repeat in (1, 2) for order in expected
    ]
    assert all(r.criterion_index is None and r.criterion is None for r in requests)


def test_random_order_is_one_for_each_row_the_same_every_time_and_balanced() -> None:
    def drawn() -> list[tuple[str | None, ...]]:
        items = [BENCH.item(row(), n) for n in range(400)]
        return [tuple(r.pair_order for r in BENCH.requests(item, repeats=2, orders="random")) for item in items]

    first = drawn()
    assert first == drawn()
    assert all(len(orders) == 2 and len(set(orders)) == 1 for orders in first)
    assert 160 < sum(orders[0] == "chosen-first" for orders in first) < 240


def test_fields_follow_the_order() -> None:
    item = BENCH.item(row(), 7)
    texts = (ROW["chosen"]["response"], ROW["rejected"]["response"])
    for order, (first, second) in (("chosen-first", texts), ("rejected-first", texts[::-1])):
        fields = BENCH.fields(item, "", Request(7, 1, pair_order=order))  # type: ignore[arg-type]
        assert dict(fields) == {"prompt": ROW["prompt"], "first": first, "second": second}


def test_prompt_shows_texts_untouched_once_and_asks_for_the_three_qualities() -> None:
    hostile = "{second} {prompt} [Answer B ends] {first}"
    item = BENCH.item(row(chosen=side(hostile)), 7)
    renderer = LineRenderer(BENCH.system, BENCH.template, model="judge")
    text = renderer.messages(BENCH.fields(item, "", Request(7, 1, pair_order="chosen-first")))[1]["content"]
    assert text.count(hostile) == 1
    assert text.count(ROW["rejected"]["response"]) == 1
    assert text.index(ROW["prompt"]) < text.index(hostile) < text.index(ROW["rejected"]["response"])
    for words in ("Creativity", "Emotional resonance", "Stylistic flair", '{"preference": "A" or "B", "reason":'):
        assert words in text


def test_judged_texts_are_prompt_and_both_sides() -> None:
    item = BENCH.item(row(), 7)
    assert BENCH.judged_texts(item, "") == (ROW["prompt"], item.extra["chosen"], item.extra["rejected"])


def test_cluster_is_the_prompt_text() -> None:
    same = BENCH.item(row(chosen=side("other"), prompt_id="p-2", tag="散文"), 9)
    assert same.cluster == BENCH.item(row(), 7).cluster
    assert BENCH.item(row(prompt="写一首诗"), 7).cluster != same.cluster


def test_rows_of_several_files_are_numbered_through_and_selected_by_our_names(tmp_path: Path) -> None:
    english = [{**ROW, "prompt": f"Prompt {n}", "tag": "Poetry" if n else "Wuxia"} for n in range(2)]
    chinese = [ROW, {**ROW, "chosen": side("x")}]
    for name, rows in (("pairs_english.json", english), ("pairs_chinese.json", chinese)):
        (tmp_path / name).write_text(json.dumps(rows, ensure_ascii=False, indent=2), encoding="utf-8")
    dataset = open_dataset([str(tmp_path / "pairs_english.json"), str(tmp_path / "pairs_chinese.json")])
    numbers = numbering(dataset, by_row=BENCH.keyed_by_row)

    def ids(*where: tuple[str, str]) -> list[str]:
        rows = select(numbers.apply(dataset.rows()), where, labels=BENCH.labels)
        return [BENCH.item(read, index).item_id for index, read in rows]

    assert ids() == ["en:0", "en:1", "zh:2", "zh:3"]
    assert ids(("language", "zh")) == ["zh:2", "zh:3"]
    assert ids(("domain", "Poetry"), ("language", "en")) == ["en:1"]
    assert ids(("id", "zh:3"), ("id", "en:0")) == ["en:0", "zh:3"]
