"""Responses files: indexes, texts, what is flagged, and whether they fit the data."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.errors import InputError
from iwb_batch.inputs.indexes import IndexCheck, IndexSummary, usable_index
from iwb_batch.inputs.responses import ResponseRow, read_responses

BIG = 143349558619761320


def written(folder: Path, content: str, name: str = "model.jsonl") -> Path:
    path = folder / name
    path.write_bytes(content.encode("utf-8"))
    return path


def jsonl(*rows: object) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def check(
    path: Path, known: list[int], selected: list[int] | None = None, *, allow_missing: bool = False
) -> IndexSummary:
    watch = IndexCheck(path.name, known, selected)
    for row in read_responses(path):
        watch.add(row.index, row.line)
    return watch.finish(allow_missing=allow_missing)


def test_rows_come_with_index_text_flags_and_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        jsonl({"index": 3, "response": " उत्तर\n", "model": "m"}) + "\n" + jsonl({"index": "10", "response": ""}),
    )
    assert list(read_responses(path)) == [ResponseRow(3, " उत्तर\n", (), 1), ResponseRow(10, "", (), 3)]


def test_lone_surrogate_becomes_the_replacement_character_and_is_flagged(tmp_path: Path) -> None:
    path = tmp_path / "model.jsonl"
    path.write_bytes(b'{"index": 0, "response": "temp 20\\udcb2C"}\n{"index": 1, "response": "ok"}\n')
    rows = list(read_responses(path))
    assert rows == [ResponseRow(0, "temp 20\ufffdC", ("surrogate",), 1), ResponseRow(1, "ok", (), 2)]
    rows[0].text.encode("utf-8")


def test_escaped_surrogate_pair_is_one_character(tmp_path: Path) -> None:
    path = tmp_path / "model.jsonl"
    path.write_bytes(b'{"index": 0, "response": "cheers \\ud83c\\udf78"}\n')
    assert list(read_responses(path)) == [ResponseRow(0, "cheers \U0001f378", (), 1)]


def test_replacement_character_of_the_data_is_no_surrogate(tmp_path: Path) -> None:
    assert next(read_responses(written(tmp_path, jsonl({"index": 0, "response": "\ufffd"})))).flags == ()


def test_nul_is_kept_with_the_text_after_it(tmp_path: Path) -> None:
    row = next(read_responses(written(tmp_path, '{"index": 0, "response": "before\\u0000after"}\n')))
    assert (row.text, len(row.text), row.flags) == ("before\0after", 12, ("nul",))


def test_nul_in_csv_is_kept_and_flagged(tmp_path: Path) -> None:
    rows = list(read_responses(written(tmp_path, "index,response\n0,good\n1,bad\0text\n2,good\n", "model.csv")))
    assert [(row.index, row.text, row.flags) for row in rows] == [
        (0, "good", ()),
        (1, "bad\0text", ("nul",)),
        (2, "good", ()),
    ]


def test_line_separator_in_a_response_does_not_cut_the_record(tmp_path: Path) -> None:
    assert [row.text for row in read_responses(written(tmp_path, jsonl({"index": 0, "response": "a\u2028b"})))] == [
        "a\u2028b"
    ]


@pytest.mark.parametrize(
    "index",
    [True, 1.0, -1, None, "007", "٠", "²", "+1", " 1", "1.0", "", "-1", [1], 2**63, "9" * 30, 10**30],
    ids=["true", "float", "negative", "null", "zeros", "arabic", "superscript", "plus", "blank", "decimal", "empty",
         "negative-text", "list", "beyond-64-bit", "long-text", "huge"],
)  # fmt: skip
def test_index_that_is_none_is_refused_with_its_line(tmp_path: Path, index: object) -> None:
    path = written(tmp_path, jsonl({"index": 0, "response": "a"}, {"index": index, "response": "b"}))
    with pytest.raises(InputError, match=r"^model\.jsonl line 2: index .* is not a whole number from 0 up"):
        list(read_responses(path))


def test_arabic_digit_as_index_is_refused_in_line_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1: index"):
        list(
            read_responses(written(tmp_path, jsonl({"index": "٠", "response": "zero?"}, {"index": 1, "response": "b"})))
        )


def test_index_with_leading_zeros_in_csv_is_an_error_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, "index,response\n7,seven\n007,bond\n", "model.csv")
    with pytest.raises(InputError, match=r"model\.csv line 3: index '007'"):
        list(read_responses(path))


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "null"), (5, "5"), (["a"], "'a'"), ({"text": "a"}, "'text'"), (True, "True")],
    ids=["null", "number", "list", "object", "boolean"],
)
def test_response_that_is_not_text_is_refused_with_its_line(tmp_path: Path, value: object, shown: str) -> None:
    path = written(tmp_path, jsonl({"index": 0, "response": "a"}, {"index": 1, "response": value}))
    with pytest.raises(InputError, match=r"^model\.jsonl line 2: response is .*not text") as caught:
        list(read_responses(path))
    assert shown in caught.value.message


@pytest.mark.parametrize("key", ["index", "response"])
def test_missing_column_is_named_with_those_there_are(tmp_path: Path, key: str) -> None:
    row = {"index": 0, "response": "a", "model": "m"}
    del row[key]
    with pytest.raises(InputError, match=f"line 1: no '{key}'; its keys are: .*model"):
        list(read_responses(written(tmp_path, jsonl(row))))


def test_unreadable_line_in_the_middle_is_an_error_with_its_number(tmp_path: Path) -> None:
    content = '{"index": 0, "response": "a"}\n{"index": 1, "response": "b\n{"index": 2, "response": "c"}\n'
    with pytest.raises(InputError, match=r"^model\.jsonl line 2: "):
        list(read_responses(written(tmp_path, content)))


def test_other_columns_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl({"id": 4, "output": "x"}))
    assert list(read_responses(path, index_column="id", text_column="output")) == [ResponseRow(4, "x", (), 1)]


def test_parquet_responses_are_read_and_null_is_refused(tmp_path: Path) -> None:
    table = pa.table({"index": [0, BIG], "response": ["अ", None]})
    pq.write_table(table, tmp_path / "model.parquet")
    rows = read_responses(tmp_path / "model.parquet")
    assert next(rows) == ResponseRow(0, "अ", (), 1)
    with pytest.raises(InputError, match=r"model\.parquet row 2: response is null"):
        next(rows)


def test_fitting_file_is_summed_up(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*({"index": n, "response": "x"} for n in (2, 0, 1))))
    assert check(path, [0, 1, 2]) == IndexSummary(3, 0, ())


def test_items_outside_the_selection_are_skipped_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*({"index": n, "response": "x"} for n in range(5))))
    assert check(path, [0, 1, 2, 3, 4], [1, 3]) == IndexSummary(2, 3, ())


def test_add_tells_which_responses_are_judged() -> None:
    watch = IndexCheck("model.jsonl", [0, 1, 2], [0, 1])
    assert [watch.add(i, n) for n, i in enumerate([0, 2, 0, 9, 1], start=1)] == [True, False, False, False, True]


def test_large_indexes_join_without_a_step_through_floats(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl({"index": BIG + 1, "response": "b"}))
    with pytest.raises(InputError, match=f"1 item without a response: {BIG} ") as caught:
        check(path, [BIG, BIG + 1])
    assert "143349558619761312" not in caught.value.message
    assert check(path, [BIG, BIG + 1], allow_missing=True) == IndexSummary(1, 0, (BIG,))


def test_too_few_responses_name_both_counts_and_the_missing_items(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*({"index": n, "response": "x"} for n in (0, 1, 4))))
    with pytest.raises(InputError, match=r"2 items without a response: 2, 3 \(3 indexes for 5 items\)") as caught:
        check(path, [0, 1, 2, 3, 4])
    assert "--allow-missing" in (caught.value.hint or "")
    assert check(path, [0, 1, 2, 3, 4], allow_missing=True).missing == (2, 3)


def test_too_many_responses_name_both_counts_and_the_unknown_indexes(tmp_path: Path) -> None:
    path = written(tmp_path, jsonl(*({"index": n, "response": "x"} for n in range(7))))
    with pytest.raises(
        InputError, match=r"2 indexes are not in the data: 5, 6 \(line 6, 7\) \(7 indexes for 5 items\)"
    ):
        check(path, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("allow_missing", [False, True], ids=["strict", "allow-missing"])
def test_unknown_index_is_an_error_in_any_case(tmp_path: Path, allow_missing: bool) -> None:
    path = written(tmp_path, jsonl({"index": 0, "response": "a"}, {"index": 999, "response": "z"}))
    with pytest.raises(InputError, match=r"1 index is not in the data: 999 \(line 2\); 1 item without a response: 1"):
        check(path, [0, 1], allow_missing=allow_missing)


@pytest.mark.parametrize("allow_missing", [False, True], ids=["strict", "allow-missing"])
def test_mislabelled_rows_name_duplicates_and_missing(tmp_path: Path, allow_missing: bool) -> None:
    rows = [{"index": n, "response": "x"} for n in (10, 11, 12, *range(3, 13))]
    with pytest.raises(InputError) as caught:
        check(written(tmp_path, jsonl(*rows)), list(range(13)), allow_missing=allow_missing)
    message = caught.value.message
    assert message.startswith("model.jsonl: 3 indexes occur twice: 10, 11, 12 (lines 1 and 11; 2 and 12; 3 and 13)")
    assert "3 items without a response: 0, 1, 2" in message


def test_duplicates_outside_the_selection_count_too() -> None:
    watch = IndexCheck("model.jsonl", [0, 1], [0])
    for line, index in enumerate([0, 1, 1, 1], start=1):
        watch.add(index, line)
    with pytest.raises(InputError, match="1 index occurs more than once: 1"):
        watch.finish()


def test_long_lists_are_cut_with_their_number() -> None:
    watch = IndexCheck("model.jsonl", range(100))
    watch.add(0, 1)
    with pytest.raises(InputError, match="99 items without a response: 1, 2, 3, 4, 5 and 94 more"):
        watch.finish()


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 12), max_size=20), st.sets(st.integers(0, 9)), st.booleans())
def test_a_file_passes_exactly_when_it_should(indexes: list[int], selected: set[int], allow_missing: bool) -> None:
    watch = IndexCheck("model.jsonl", range(10), selected)
    judged = {index for line, index in enumerate(indexes, start=1) if watch.add(index, line)}
    missing = selected - set(indexes)
    good = len(set(indexes)) == len(indexes) and max(indexes, default=0) < 10 and (allow_missing or not missing)
    if good:
        summary = watch.finish(allow_missing=allow_missing)
        assert judged == selected & set(indexes)
        assert summary == IndexSummary(len(judged), len(indexes) - len(judged), tuple(sorted(missing)))
    else:
        with pytest.raises(InputError):
            watch.finish(allow_missing=allow_missing)


@given(st.integers(0, 2**63 - 1))
@settings(deadline=None, derandomize=True)
def test_integers_and_their_text_are_the_same_index(index: int) -> None:
    assert usable_index(index) == usable_index(str(index)) == index
