"""The four formats: hostile text is harmless, numbers stay numbers."""

from __future__ import annotations

import csv
import io
import json
import re
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.report.formats import neutralised, to_csv, to_json, to_markdown, to_table
from iwb_batch.report.tables import Document, Number, Table, count

TABLE = Table(
    "By domain", ("domain", "items", "score"), (("数学", count(12), Number(7.125)), ("code 🔧", count(3), Number(None)))
)


def document(label: str) -> Document:
    table = Table(label, ("domain", "score"), ((label, Number(7.0)),), label)
    return Document(label, (("model", label),), (table,), (label,))


def test_text_table_is_aligned_by_columns() -> None:
    text = to_table(Document("Title", (("run", "a"), ("judge", "b")), (TABLE,), ("a note",)))
    assert text.split("\n") == [
        "Title",
        "=====",
        "run    a",
        "judge  b",
        "",
        "By domain",
        "domain   items  score",
        "-------  -----  -----",
        "数学        12   7.13",
        "code 🔧      3      -",
        "",
        "Notes",
        "-----",
        "- a note",
        "",
    ]


def test_an_empty_table_is_its_head() -> None:
    assert to_table(Document("T", (), (Table("None", ("a", "bb"), ()),))).endswith("None\na  bb\n-  --\n")


def test_markdown_table() -> None:
    text = to_markdown(Document("Title", (("run", "a"),), (TABLE,)))
    assert "| domain | items | score |\n| --- | ---: | ---: |\n| 数学 | 12 | 7.13 |\n" in text
    assert text.startswith("# Title\n\n- run: a\n")


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param('" onmouseover="alert(1)', id="attribute"),
        pytest.param("<script>alert(1)</script></td>", id="script"),
        pytest.param("<img src=x onerror=alert(1)>", id="image"),
        pytest.param("a | b\n| c | d |", id="table-cells"),
        pytest.param("[x](javascript:alert(1))", id="link"),
        pytest.param("`code` *bold* _em_ ~~no~~", id="inline-markup"),
    ],
)
def test_text_from_data_is_escaped_in_markdown(hostile: str) -> None:
    text = to_markdown(document(hostile))
    assert "<" not in text
    assert 'onmouseover="' not in text
    assert re.search(r"(?<!\\)[\]`*_~]", text) is None
    rows = [line for line in text.split("\n") if line.startswith("|")]
    assert len(rows) == 3
    assert all(line.replace("\\|", "").count("|") == 3 for line in rows)


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://example.invalid","x")',
        "+1+1",
        "@SUM(1)",
        "\t=1+1",
        "\u200b=1+1",
        "-3 degrees",
        "\r=1",
        " =1",
        "\ufeff@x",
        "＝1+1",
        "\tplain",
    ],
)
def test_formulas_are_neutralised_in_csv(text: str) -> None:
    assert neutralised(text) == f"'{text}"


@pytest.mark.parametrize("text", ["plain", "", "2 + 2 = 4", "हिन्दी", "a=b", "'quoted", "  indented"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert neutralised(text) == text


def test_csv_numbers_stay_numbers_in_full_precision() -> None:
    rows = (("-1", Number(-0.1234567), count(3), Number(None), Number(0.5, "percent"), Number(Decimal("77.6"))),)
    text = to_csv(Table("t", ("label", "a", "b", "c", "d", "e"), rows))
    assert text == "label,a,b,c,d,e\n'-1,-0.1234567,3,,0.5,77.6\n"


def test_csv_can_be_read_back() -> None:
    label = 'a, "b"\nc'
    read = list(csv.reader(io.StringIO(to_csv(Table("t", ("label", "n"), ((label, count(1)),))))))
    assert read == [["label", "n"], [label, "1"]]


def test_json_refuses_what_is_no_json_number() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json({"score": float("nan")})


def test_json_is_utf8_with_scripts_as_they_are() -> None:
    assert to_json({"label": "हिन्दी"}) == '{\n  "label": "हिन्दी"\n}\n'
    assert json.loads(to_json({"label": "\ud800"})) == {"label": "\ufffd"}


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (Number(None), "-"),
        (Number(None, "usd"), "unknown"),
        (Number(None, "count"), "-"),
        (Number(0.0, "usd"), "0.0000"),
        (Number(0.00001, "p"), "<0.0001"),
        (Number(0.03125, "p"), "0.0313"),
        (Number(0.6255, "percent"), "62.6"),
        (Number(7, "score"), "7.00"),
        (count(10_000), "10000"),
    ],
)
def test_numbers_as_people_read_them(number: Number, shown: str) -> None:
    assert number.text() == shown


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.text(st.characters(), min_size=1, max_size=40))
def test_no_text_crashes_a_format_or_adds_a_line(label: str) -> None:
    plain, again = to_table(document(label)), to_table(document("x"))
    assert plain.count("\n") == again.count("\n")
    assert to_markdown(document(label)).count("\n") == to_markdown(document("x")).count("\n")
    for text in (plain, to_markdown(document(label)), to_csv(document(label).tables[0]), to_json({"label": label})):
        text.encode()
    assert "\x1b" not in plain
