"""Readers of data files: what they accept, what they refuse and where they say it is."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.errors import InputError
from iwb_batch.inputs.rows import decode_json, file_sha256, read_rows

TWO = [{"index": 0, "response": "पहला उत्तर"}, {"index": 1, "response": "第二个回答"}]
BIG = 143349558619761321


def written(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def jsonl(*rows: object, end: str = "\n") -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + end for row in rows)


def values(path: Path) -> list[dict[str, Any]]:
    return [dict(row.values) for row in read_rows(path)]


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".json", ".JSONL"])
@pytest.mark.parametrize(
    "content",
    [
        jsonl(*TWO).encode(),
        b"\xef\xbb\xbf" + jsonl(*TWO).encode(),
        jsonl(*TWO, end="\r\n").encode(),
        ("\n\n" + jsonl(*TWO, end="\n \t\n") + "\n").encode(),
        jsonl(*TWO).rstrip("\n").encode(),
        json.dumps(TWO).encode(),
        ("\ufeff \n" + json.dumps(TWO, indent=2, ensure_ascii=False)).encode(),
        b"".join(json.dumps(row).encode() + b"\n" for row in TWO),
    ],
    ids=["plain", "bom", "crlf", "blank-lines", "no-last-newline", "array", "array-bom-indent", "escaped"],
)
def test_json_forms_give_the_same_rows(tmp_path: Path, suffix: str, content: bytes) -> None:
    assert values(written(tmp_path, f"a{suffix}", content)) == TWO


def test_places_are_lines_for_jsonl_and_rows_for_arrays(tmp_path: Path) -> None:
    lines = list(read_rows(written(tmp_path, "a.jsonl", "\n" + jsonl(*TWO))))
    assert [(row.where, row.number, row.file) for row in lines] == [
        ("a.jsonl line 2", 2, "a.jsonl"),
        ("a.jsonl line 3", 3, "a.jsonl"),
    ]
    rows = list(read_rows(written(tmp_path, "b.json", json.dumps(TWO)), name="Hindi/b.json", subset="Hindi"))
    assert [(row.where, row.subset) for row in rows] == [
        ("Hindi/b.json row 1", "Hindi"),
        ("Hindi/b.json row 2", "Hindi"),
    ]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c"])
def test_line_separators_inside_strings_do_not_cut(tmp_path: Path, separator: str) -> None:
    text = f"ends{separator}here"
    content = ('{"index": 0, "response": ' + json.dumps(text, ensure_ascii=False) + "}\n").encode()
    assert values(written(tmp_path, "a.jsonl", content)) == [{"index": 0, "response": text}]


def test_line_of_two_megabytes_is_one_row(tmp_path: Path) -> None:
    text = "लंबा " * 160_000
    path = written(tmp_path, "a.jsonl", jsonl({"response": text}, {"response": "b"}))
    assert [len(row["response"]) for row in values(path)] == [800_000, 1]


def test_bom_does_not_cost_the_first_record(tmp_path: Path) -> None:
    rows = [{"index": n, "response": word} for n, word in enumerate(["first", "second", "third"])]
    read = values(written(tmp_path, "a.jsonl", "\ufeff" + jsonl(*rows)))
    assert len(read) == 3
    assert read[0] == {"index": 0, "response": "first"}


def test_bom_with_two_records_keeps_both(tmp_path: Path) -> None:
    assert len(values(written(tmp_path, "a.jsonl", "\ufeff" + jsonl(*TWO)))) == 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b""),
        ("a.jsonl", b"\xef\xbb\xbf\n\n"),
        ("a.json", b"[]"),
        ("a.json", b" [ \n ] "),
        ("a.csv", b""),
        ("a.csv", b"index,response\r\n"),
    ],
    ids=["empty", "bom-only", "empty-array", "blank-array", "empty-csv", "header-only"],
)
def test_zero_rows_are_an_error(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(InputError, match=f"{name}: holds no rows"):
        values(written(tmp_path, name, content))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('{"index": 0}\n{"index": 1, "response": "b\n{"index": 2}\n', "a.jsonl line 2: not JSON"),
        ('{"index": 0}\n[1, 2]\n', "a.jsonl line 2: holds an array"),
        ('{"index": 0}\n"text"\n', "a.jsonl line 2: holds a string"),
        ('{"index": 0}\nnull\n', "a.jsonl line 2: holds null"),
        ('{"index": 0}\n{"index": NaN}\n', "a.jsonl line 2: not usable JSON: NaN"),
        ('{"index": 0}\n{"a": 1} {"b": 2}\n', "a.jsonl line 2: not JSON"),
        ('{"index": 0}\n' + '{"a":' + "[" * 200_000 + "\n", "a.jsonl line 2: not"),
        ('{"index": 0}\n{"a": ' + "9" * 5000 + "}\n", "a.jsonl line 2: not usable JSON"),
        ("{'index': 0}\n", "a.jsonl line 1: not JSON"),
        ('{"index": 0}\n\ufeff{"index": 1}\n', "a.jsonl line 2: not JSON"),
    ],
    ids=["cut", "array", "string", "null", "nan", "two-on-a-line", "deep", "endless-number", "python", "bom-inside"],
)
def test_bad_line_is_an_error_with_its_number(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(InputError) as caught:
        values(written(tmp_path, "a.jsonl", content))
    assert caught.value.message.startswith(what)
    assert "\n" not in caught.value.message


def test_rows_before_the_bad_line_do_not_hide_it(tmp_path: Path) -> None:
    rows = read_rows(written(tmp_path, "a.jsonl", '{"index": 0}\n{"index": 1, "response": "b\n{"index": 2}\n'))
    assert next(rows).values == {"index": 0}
    with pytest.raises(InputError, match="line 2"):
        next(rows)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('[{"a": 1}, {"a": ]', r"a\.json row 2: not JSON: .*line 1"),
        ('[{"a": 1}\n{"a": 2}]', r"a\.json row 1: .*comma is missing after this row \(line 2\)"),
        ('[{"a": 1}', r"a\.json row 1: the array is cut"),
        ('[{"a": 1},', r"a\.json row 2: not JSON"),
        ('[{"a": 1}]\nrest', r"a\.json: text after the end of the array \(line 2\)"),
        ("[1]", r"a\.json row 1: is a number instead of a JSON object"),
        ('{"rows": [\n{"a": 1}\n]}', r"a\.json line 1: not JSON"),
        ('{\n  "rows": []\n}', r"a\.json: holds one object written over several lines"),
    ],
    ids=["bad-value", "no-comma", "no-bracket", "cut-after-comma", "rest", "number", "object", "indented-object"],
)
def test_bad_array_is_an_error_with_its_row(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        values(written(tmp_path, "a.json", content))


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", b'{"a": 1}\n{"a": "caf\xe9"}\n')
    with pytest.raises(InputError, match=r"a\.jsonl line 2: not UTF-8 \(byte 0xe9 at position 11\)"):
        values(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_named(tmp_path: Path, name: str, encoding: str) -> None:
    with pytest.raises(InputError, match="UTF-16") as caught:
        values(written(tmp_path, name, ("\ufeff" + jsonl(*TWO)).encode(encoding)))
    assert caught.value.hint is not None


def test_large_integers_stay_integers(tmp_path: Path) -> None:
    row = {"index": BIG, "huge": 2**64 + 1, "deep": [{"n": -(2**70)}]}
    assert values(written(tmp_path, "a.jsonl", jsonl(row))) == [row]
    assert values(written(tmp_path, "a.json", json.dumps([row]))) == [row]


def test_large_floats_stay_floats() -> None:
    assert decode_json(b'{"a": 1e300, "b": 0.5}', "here") == {"a": 1e300, "b": 0.5}


def test_lone_surrogate_and_nul_escapes_are_kept_for_the_reader_after_this(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", b'{"r": "temp 20\\udcb2C", "n": "before\\u0000after", "e": "\\ud83c\\udf78"}\n')
    assert values(path) == [{"r": "temp 20\udcb2C", "n": "before\0after", "e": "\U0001f378"}]


def test_rows_may_gain_nested_keys(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "meta": {"k": 1}}, {"prompt": "b", "meta": {"k": 3, "labels": ["x"]}}]
    assert values(written(tmp_path, "a.jsonl", jsonl(*rows))) == rows


def test_lists_may_mix_numbers_and_text(tmp_path: Path) -> None:
    assert values(written(tmp_path, "a.jsonl", jsonl({"spans": [0, 4, "X"]}))) == [{"spans": [0, 4, "X"]}]


def test_unicode_is_read_the_same_under_the_c_locale(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", jsonl({"prompt": "Übersetze: “naïve” → 中文 (Ł)"}))
    program = (
        "import sys, pathlib; from iwb_batch.inputs.rows import read_rows; from iwb_batch import schemas, benchmarks;"
        "schemas.read_text('run.sql'); benchmarks.get('writing-bench').template;"
        "print(ascii([r.values['prompt'] for r in read_rows(pathlib.Path(sys.argv[1]))]))"
    )
    run = subprocess.run(
        [
            sys.executable,
            "-X",
            "utf8=0",
            "-X",
            "warn_default_encoding",
            "-W",
            "error::EncodingWarning",
            "-c",
            program,
            path,
        ],
        env={"LC_ALL": "C", "PYTHONPATH": ":".join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        encoding="ascii",
        check=True,
    )
    assert run.stdout.strip() == ascii(["Übersetze: “naïve” → 中文 (Ł)"])


def test_csv_values_are_text_by_column(tmp_path: Path) -> None:
    content = '\ufeffindex, response \r\n007,"bond, ""James""\nsecond line"\r\n\r\n7,सात\r\n'
    rows = list(read_rows(written(tmp_path, "a.csv", content)))
    assert [row.values for row in rows] == [
        {"index": "007", "response": 'bond, "James"\nsecond line'},
        {"index": "7", "response": "सात"},
    ]
    assert [row.where for row in rows] == ["a.csv line 2", "a.csv line 5"]


def test_csv_with_nul_and_a_long_field_loads(tmp_path: Path) -> None:
    long = "x" * 300_000
    rows = values(written(tmp_path, "a.csv", f"index,response\n0,good\n1,bad\0text\n2,{long}\n"))
    assert [row["response"] for row in rows] == ["good", "bad\0text", long]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("index,response\n0,a\n1,b,c\n", r"a\.csv line 3: 3 cells instead of 2"),
        ("index,response\n0\n", r"a\.csv line 2: 1 cell instead of 2"),
        ('index,response\n0,a\n1,"open\n', r"a\.csv line 3: not CSV"),
        ('index,response\n0,"a"b\n', r"a\.csv line 2: not CSV"),
        ("index,index\n0,1\n", r"a\.csv line 1: column name occurs twice: index"),
    ],
    ids=["more", "fewer", "open-quote", "quote-inside", "twice"],
)
def test_bad_csv_is_an_error_with_its_line(tmp_path: Path, content: str, what: str) -> None:
    with pytest.raises(InputError, match=what):
        values(written(tmp_path, "a.csv", content))


def test_csv_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.csv line 2: not UTF-8"):
        values(written(tmp_path, "a.csv", b"index,response\n0,caf\xe9\n"))


def test_parquet_gives_python_values_in_batches(tmp_path: Path) -> None:
    rows = [{"index": n + BIG, "checklist": [{"name": f"n{n}", "1-2": "बुरा"}], "none": None} for n in range(600)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=100)
    read = list(read_rows(tmp_path / "a.parquet"))
    assert [row.values for row in read] == rows
    assert (read[599].where, read[599].number) == ("a.parquet row 600", 600)
    assert list(read[0].values["checklist"][0]) == ["name", "1-2"]


@pytest.mark.parametrize("content", [b"", b"PAR1 no", b"PAR1" + b"x" * 40 + b"PAR1"], ids=["empty", "short", "broken"])
def test_file_that_is_no_parquet_is_an_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"a\.parquet: not readable as Parquet"):
        values(written(tmp_path, "a.parquet", content))


def test_parquet_without_rows_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"index": pa.array([], pa.int64())}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="no rows"):
        values(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.parquet"])
def test_missing_file_is_an_error_that_says_where_it_looked(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: no such file") as caught:
        values(tmp_path / name)
    assert str(tmp_path) in (caught.value.hint or "")


def test_folder_in_place_of_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        values(tmp_path / "a.jsonl")


def test_unknown_suffix_lists_what_can_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'\.xlsx' cannot be read") as caught:
        values(written(tmp_path, "a.xlsx", b"x"))
    assert ".parquet" in (caught.value.hint or "")


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    content = jsonl(*TWO).encode()
    assert file_sha256(written(tmp_path, "a.jsonl", content)) == hashlib.sha256(content).hexdigest()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None, derandomize=True)
@given(
    rows=st.lists(st.dictionaries(st.text(), json_values, max_size=4), min_size=1, max_size=5), escaped=st.booleans()
)
def test_any_json_objects_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], escaped: bool
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    lines = "".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows)
    assert values(written(folder, "a.jsonl", lines)) == rows
    assert values(written(folder, "a.json", json.dumps(rows, ensure_ascii=escaped))) == rows
