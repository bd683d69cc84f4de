"""Request lines: exact bytes, one-pass filling, names of attempts, the check of what was written."""

from __future__ import annotations

import json
import string
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.core import render
from iwb_batch.core.render import (
    LineRenderer,
    Template,
    check_request_line,
    custom_id,
    escape,
    run_id_of,
)
from iwb_batch.errors import UsageError
from iwb_batch.model import Request

PROMPT = 'Rules {\n  "score": 1\n}\n```{criteria}```\n```{query}```\n```{response}```\nagain {criteria}'
FIELDS = {"criteria": '{"name": "स्वर"}', "query": "कविता लिखो", "response": "नमस्ते"}


def renderer(extra: Mapping[str, Any] | None = None, **options: Any) -> LineRenderer:
    return LineRenderer("You judge.", PROMPT, model="gpt-5.4", extra_body=extra, **options)


def user_text(line: bytes) -> str:
    text = json.loads(line)["body"]["messages"][-1]["content"]
    assert isinstance(text, str)
    return text


def test_line_is_exactly_these_bytes() -> None:
    plain = LineRenderer("S", "Q: {query}", model="judge-1", extra_body={"reasoning_effort": "low"})
    line = plain.line("0123456789-i0-c0-r1-a1", {"query": 'कवि\n"x"'}, 8000)
    assert (
        line
        == (
            '{"custom_id":"0123456789-i0-c0-r1-a1","method":"POST","url":"/v1/chat/completions",'
            '"body":{"model":"judge-1","messages":[{"role":"system","content":"S"},'
            '{"role":"user","content":"Q: कवि\\n\\"x\\""}],"max_completion_tokens":8000,"reasoning_effort":"low"}}\n'
        ).encode()
    )


def test_line_without_system_and_extras_is_exactly_these_bytes() -> None:
    line = LineRenderer(None, "{query}", model="m", token_parameter="max_tokens").line("a", {"query": "文"}, 16)
    assert (
        line
        == (
            '{"custom_id":"a","method":"POST","url":"/v1/chat/completions",'
            '"body":{"model":"m","messages":[{"role":"user","content":"文"}],"max_tokens":16}}\n'
        ).encode()
    )


def test_structured_output_goes_into_the_body_as_it_is() -> None:
    response_format = {"type": "json_schema", "json_schema": {"name": "v", "strict": True, "schema": {"enum": [1]}}}
    body = json.loads(renderer({"response_format": response_format}).line("a", FIELDS, 8000))["body"]
    assert list(body) == ["model", "messages", "max_completion_tokens", "response_format"]
    assert body["response_format"] == response_format


def test_response_with_placeholders_and_braces_stays_as_it_is() -> None:
    hostile = "{criteria} {query} {response} {{x}} {0} %s ``` }{"
    text = user_text(renderer().line("a", {**FIELDS, "response": hostile}, 8000))
    assert text.count(hostile) == 1
    assert text.count(FIELDS["criteria"]) == 2
    assert text.startswith('Rules {\n  "score": 1\n}\n')


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"], ids=["line", "paragraph", "next-line"])
def test_line_separators_are_escaped_and_come_back(separator: str) -> None:
    line = renderer({"note": separator}).line("a", {**FIELDS, "response": f"a{separator}b"}, 8000)
    assert separator.encode() not in line
    assert f"\\u{ord(separator):04x}".encode() in line
    assert f"a{separator}b" in user_text(line)


@pytest.mark.parametrize(
    "text",
    ["𝒂𝒃𝒄 汉字，标点。", "before\0after", "क्‍ष \u200b\ufeff", "\x01\x1f\x7f", "🍸👩‍👩‍👧", "\\u2028 literal"],
    ids=["bold-math-and-cjk", "nul", "joiners", "controls", "emoji", "escape-as-text"],
)
def test_text_reaches_the_line_unchanged(text: str) -> None:
    assert text in user_text(renderer().line("a", {**FIELDS, "response": text}, 8000))


def test_only_line_separators_are_escaped_beyond_what_json_needs() -> None:
    line = renderer().line("a", FIELDS, 8000)
    assert "नमस्ते".encode() in line
    assert b"\\u" not in line


def test_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match="lone surrogate at character 3"):
        escape("ab\udcb2")


def test_missing_field_is_an_error() -> None:
    with pytest.raises(KeyError):
        renderer().line("a", {"criteria": "", "query": ""}, 8000)


def test_bytes_are_the_same_under_the_c_locale() -> None:
    program = (
        "import sys; from iwb_batch.core.render import LineRenderer;"
        "sys.stdout.buffer.write(LineRenderer('s', '{q}', model='m')"
        ".line('a', {'q': '\\U0001d482 \\u6c49\\u5b57\\uff0c'}, 1))"
    )
    run = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", program],
        env={"LC_ALL": "C", "LANG": "C", "PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert user_text(run.stdout) == "\U0001d482 汉字，"


texts = st.text(max_size=60) | st.sampled_from(["{criteria}", "{query}\u2028", '"}\n{"', "\\", "\u0085\u2029"])


@settings(deadline=None, derandomize=True)
@given(criteria=texts, query=texts, response=texts, limit=st.integers(1, 10**6), extra=st.dictionaries(texts, texts))
def test_line_equals_the_naive_way(criteria: str, query: str, response: str, limit: int, extra: dict[str, str]) -> None:
    fields = {"criteria": criteria, "query": query, "response": response}
    made = renderer(extra)
    naive = (
        'Rules {\n  "score": 1\n}\n```'
        + criteria
        + "```\n```"
        + query
        + "```\n```"
        + response
        + "```\nagain "
        + criteria
    )
    for _ in range(2):
        line = made.line("0123456789-i1-c2-r1-a1", fields, limit)
        body = {
            "model": "gpt-5.4",
            "messages": [{"role": "system", "content": "You judge."}, {"role": "user", "content": naive}],
            "max_completion_tokens": limit,
        }
        expected = {
            "custom_id": "0123456789-i1-c2-r1-a1",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {**body, **extra},
        }
        assert json.loads(line) == expected
        assert line.count(b"\n") == 1
        assert not any(separator.encode() in line for separator in "\u2028\u2029\u0085")
    assert made.messages(fields) == body["messages"]


def test_texts_that_follow_each_other_are_never_mixed() -> None:
    made = renderer()
    for n in range(100):
        assert f"answer {n}`" in user_text(made.line("a", {**FIELDS, "response": f"answer {n}"}, 1))


def test_prompt_hash_tells_system_from_template() -> None:
    hashes = {LineRenderer(s, t, model="m").prompt_sha256 for s, t in [("a", "b"), ("ab", ""), ("", "ab"), ("b", "a")]}
    assert len(hashes) == 4
    assert LineRenderer("a", "b", model="other", extra_body={"x": 1}).prompt_sha256 in hashes


def test_template_fills_each_place_once() -> None:
    assert Template("{a}-{b}-{a}{").fill({"a": "{b}", "b": "2"}) == "{b}-2-{b}{"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (Request(12, 1, criterion_index=4, criterion="x"), "0123456789-i12-c4-r1-a3"),
        (Request(0, 2, pair_order="chosen-first"), "0123456789-i0-ocf-r2-a3"),
        (Request(0, 2, pair_order="rejected-first"), "0123456789-i0-orf-r2-a3"),
        (Request(7, 1), "0123456789-i7-r1-a3"),
    ],
    ids=["criterion", "chosen-first", "rejected-first", "generation"],
)
def test_custom_id_form(request_: Request, expected: str) -> None:
    assert custom_id("0123456789", request_, 3) == expected
    assert run_id_of(expected) == "0123456789"


def test_custom_id_of_the_largest_index_fits() -> None:
    name = custom_id("0123456789", Request(2**63 - 1, 999, criterion_index=99, criterion="x"), 9999)
    assert len(name) <= 64


def test_custom_id_beyond_64_characters_is_refused() -> None:
    with pytest.raises(ValueError, match="64 ASCII"):
        custom_id("0123456789", Request(10**40, 10**10, criterion_index=0, criterion="x"), 1)


@pytest.mark.parametrize("name", ["request-1", "0123456789", "0123456789-x1", "", "ABCDEF0123-i1-r1-a1"])
def test_foreign_custom_ids_have_no_run(name: str) -> None:
    assert run_id_of(name) is None


@settings(deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 30), st.integers(1, 30), st.integers(1, 30)),
        unique=True,
        max_size=30,
    )
)
def test_custom_ids_cannot_collide(parts: list[tuple[int, int, int, int]]) -> None:
    made = {custom_id("0123456789", Request(i, r, criterion_index=c, criterion="x"), a) for i, c, r, a in parts}
    assert len(made) == len(parts)


GOOD = renderer().line("0123456789-i0-c0-r1-a1", FIELDS, 8000)


def changed(**values: Any) -> bytes:
    record = {**json.loads(GOOD), **values}
    return json.dumps({k: v for k, v in record.items() if v is not None}).encode()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (GOOD, None),
        (changed(method=None), "missing method"),
        (changed(custom_id=""), "empty custom_id"),
        (b'"just a string"', "not an object"),
        (b"{", "not an object"),
        (b"", "not an object"),
        (changed(body={"messages": [1]}), "missing body.model"),
        (changed(body={"model": "m", "messages": []}), "missing body.messages"),
        (changed(custom_id=7), "custom_id must be text"),
        (changed(body=[1]), "body an object"),
    ],
    ids=["good", "method", "custom-id", "string", "cut", "blank", "model", "messages", "id-number", "body-list"],
)
def test_self_check_of_one_line(line: bytes, fault: str | None) -> None:
    found = check_request_line(line)
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_a_prompt_or_model_that_makes_no_request_line_is_refused_before_the_first_line() -> None:
    with pytest.raises(UsageError, match=r"missing body\.model"):
        LineRenderer("s", "{q}", model="")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (GOOD, None),
        (changed() + b"\n", None),  # in another form, and still the request
        (GOOD[:-9] + b"\n", "not an object"),
        (b"\n" + GOOD, "line end"),
        (GOOD.removesuffix(b"\n"), "line end"),
        (changed(method=None) + b"\n", "missing method"),
        (changed(custom_id="0123456789-i0-c0-r1-a2") + b"\n", "another request"),
    ],
)
def test_a_line_that_does_not_begin_and_end_as_all_do_is_looked_at(line: bytes, fault: str | None) -> None:
    found = renderer().fault("0123456789-i0-c0-r1-a1", line)
    assert (found is None) if fault is None else (found is not None and fault in found)


def test_texts_are_remembered_as_the_objects_they_are() -> None:
    made: list[str] = []
    lately = render.Lately(lambda text: made.append(text) or len(made))  # type: ignore[func-returns-value]
    texts = [f"text {n}" for n in range(render.REMEMBERED_TEXTS)]
    assert [lately(text) for text in (*texts, *texts)] == [*range(1, 9), *range(1, 9)]
    assert lately(texts[0]) == 1
    assert lately("more") == 9
    assert lately(texts[0]) == 10, "the oldest is forgotten"


def test_placeholders_are_lower_case_words_only() -> None:
    assert Template(string.printable + "{Query}{1}{}").names == ()
