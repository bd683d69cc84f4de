"""Lines: cut on newline bytes only, read one by one, never raising."""

from __future__ import annotations

import json
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core.lines import UnreadableLine, clean_text, parse_noting, parse_object, split_lines

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"a\nb\n", [b"a", b"b"], id="two lines"),
        pytest.param(b"a\nb", [b"a", b"b"], id="last line without newline"),
        pytest.param(b"a\r\nb\r\n", [b"a", b"b"], id="CRLF"),
        pytest.param(b"a\r", [b"a"], id="carriage return at the very end"),
        pytest.param(b"a\r\r\n", [b"a\r"], id="only one carriage return goes"),
        pytest.param(b"a\rb\n", [b"a\rb"], id="carriage return inside stays"),
        pytest.param(b"\n\na\n", [b"", b"", b"a"], id="blank lines are lines"),
        pytest.param(
            "x\u2028y\u2029z\u0085\x0b\x0cw\n".encode(), ["x\u2028y\u2029z\u0085\x0b\x0cw".encode()], id="U+2028"
        ),
    ],
)
def test_split_lines(data: bytes, lines: list[bytes]) -> None:
    assert list(split_lines([data])) == lines


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([b"\n", b"\r", b"a", "क".encode(), "\u2028".encode(), b"bc\n", b""]), max_size=30))
def test_chunk_borders_do_not_matter(chunks: list[bytes]) -> None:
    data = b"".join(chunks)
    pieces = data.split(b"\n")
    expected = [piece.removesuffix(b"\r") for piece in (pieces if pieces[-1] else pieces[:-1])]
    assert list(split_lines(chunks)) == expected
    assert list(split_lines(bytes([byte]) for byte in data)) == expected


def test_split_lines_streams() -> None:
    taken: list[int] = []

    def chunks() -> Iterator[bytes]:
        for number in range(100):
            taken.append(number)
            yield b"a line\n"

    lines = split_lines(chunks())
    assert next(lines) == b"a line"
    assert len(taken) == 1


def test_unescaped_line_separator_in_a_reason_is_one_record() -> None:
    content = json.dumps({"score": 6, "reason": "ends\u2028here"}, ensure_ascii=False)
    data = (json.dumps({"custom_id": "a", "content": content}, ensure_ascii=False) + "\n").encode()
    assert "\u2028".encode() in data
    lines = list(split_lines([data]))
    assert len(lines) == 1
    record = parse_object(lines[0])
    assert isinstance(record, dict)
    assert json.loads(record["content"]) == {"score": 6, "reason": "ends\u2028here"}


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.text(), JSON))
def test_objects_come_back(value: dict[str, object]) -> None:
    assert parse_object(orjson.dumps(value)) == value
    assert parse_object(json.dumps(value).encode()) == value


@settings(deadline=None, derandomize=True)
@given(st.binary() | st.text().map(str.encode) | JSON.map(lambda value: orjson.dumps(value)[:-1]))
def test_parse_never_raises(line: bytes) -> None:
    assert isinstance(parse_object(line), dict | UnreadableLine)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"  ", "empty", id="blank"),
        pytest.param(b'{"a": 1', "not JSON", id="cut"),
        pytest.param(b'{"a": NaN}', "NaN", id="NaN"),
        pytest.param(b'{"a": -Infinity}', "-Infinity", id="minus infinity"),
        pytest.param(b'{"a": "\xff"}', "not UTF-8 at byte 8", id="not UTF-8"),
        pytest.param(b"[1, 2]", "an array", id="array"),
        pytest.param(b'"text"', "a string", id="string"),
        pytest.param(b"7", "a number", id="number"),
        pytest.param(b"true", "a boolean", id="boolean"),
        pytest.param(b"null", "null", id="null"),
        pytest.param(b'["\\ud800"]', "an array", id="array with a lone surrogate"),
        pytest.param(b'{"a":' * 100_000, "too deeply", id="deep nesting"),
        pytest.param(b'{"custom_id": "a", "custom_id": "b"}', "'custom_id' occurs twice", id="two custom_ids"),
        pytest.param(b'{"response": null, "a": {}, "response": {}}', "'response' occurs twice", id="two responses"),
        pytest.param(b'{"response": 1, "response": "\\ud800"}', "'response' occurs twice", id="lone surrogate"),
        pytest.param(
            b'{"a": ' + b"9" * 5_000 + b"}", "not JSON: a number with more than 4,300 digits", id="endless number"
        ),
    ],
)
def test_unreadable_lines_say_why(line: bytes, why: str) -> None:
    parsed = parse_object(line)
    assert isinstance(parsed, UnreadableLine)
    assert why in parsed.why
    assert "sys." not in parsed.why


@pytest.mark.parametrize(
    ("line", "value", "replaced"),
    [
        pytest.param(b'\xef\xbb\xbf{"a": 1}', {"a": 1}, False, id="byte order mark"),
        pytest.param(b'{"a": 1, "a": 2}', {"a": 2}, False, id="repeated key that decides nothing"),
        pytest.param(
            b'{"response": {"response": 1, "response": 2}, "a": {"response": 3}}',
            {"response": {"response": 2}, "a": {"response": 3}},
            False,
            id="keys of the envelope inside it",
        ),
        pytest.param(b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}, False, id="pair of surrogates"),
        pytest.param(b'{"a": "odd \\udc81 char"}', {"a": "odd \ufffd char"}, True, id="lone surrogate"),
        pytest.param(
            b'{"\\ud800": [{"b": "\\udfff"}]}', {"\ufffd": [{"b": "\ufffd"}]}, True, id="lone, deep and in a key"
        ),
        pytest.param(b'{"a": "x\\u0000y"}', {"a": "x\0y"}, False, id="NUL"),
        pytest.param(b' {"a": 1} \r', {"a": 1}, False, id="white space around"),
    ],
)
def test_accepted_lines(line: bytes, value: dict[str, object], replaced: bool) -> None:
    assert parse_noting(line) == (value, replaced)
    assert parse_object(line) == value


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        pytest.param("plain", "plain", id="ASCII"),
        pytest.param("हिन्दी 中文 😀", "हिन्दी 中文 😀", id="other scripts"),
        pytest.param("a\udc81b", "a\ufffdb", id="low"),
        pytest.param("a\ud83d", "a\ufffd", id="high at the end"),
        pytest.param("\ud83dक\ude00", "\ufffdक\ufffd", id="torn pair"),
        pytest.param("\ud83d\ude00\ud83d", "\U0001f600\ufffd", id="pair and a lone one"),
    ],
)
def test_clean_text(text: str, cleaned: str) -> None:
    assert clean_text(text) == (cleaned, text != cleaned)


@settings(deadline=None, derandomize=True)
@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_cleaned_text_can_be_stored(text: str) -> None:
    cleaned, changed = clean_text(text)
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert changed == any("\ud800" <= character <= "\udfff" for character in text)
    assert clean_text(cleaned) == (cleaned, False)
