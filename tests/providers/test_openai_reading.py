"""What is read: objects with loose types, listings to their end, files byte for byte."""

from __future__ import annotations

import gzip
import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.providers.base import ProviderMessage, Rejected, Unavailable
from iwb_batch.providers.openai_batch import remote_batch, remote_file
from tests.providers.conftest import Bench, batch_object, file_object
from tests.providers.recording import Play


def test_a_batch_as_azure_documents_it(bench: Bench) -> None:
    value = batch_object(
        status="Validating",
        created_at="2024-07-19T17:13:57.2491382+00:00",
        in_progress_at=None,
        request_counts={"total": None, "completed": None, "failed": None},
        output_file_id="",
        error_file_id=None,
        endpoint=None,
        metadata=None,
        input_blob=None,
    )
    bench.server.play(Play(value))
    got = bench.adapter().batch("batch_1")
    assert got.status == "Validating"
    assert got.created_at == pytest.approx(1721409237.249138)
    assert (got.total, got.completed, got.failed) == (None, None, None)
    assert (got.output_file_id, got.error_file_id, got.metadata, got.began) == (None, None, {}, False)


def test_a_finished_batch(bench: Bench) -> None:
    value = batch_object(
        status="completed",
        in_progress_at=1_700_000_100,
        output_file_id="file-out",
        error_file_id="file-err",
        request_counts={"total": 3, "completed": 2, "failed": 1},
    )
    bench.server.play(Play(value))
    got = bench.adapter().batch("batch_1")
    assert (got.total, got.completed, got.failed, got.began) == (3, 2, 1, True)
    assert (got.input_file_id, got.output_file_id, got.error_file_id) == ("file-1", "file-out", "file-err")
    assert got.created_at == 1_700_000_000


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        pytest.param(
            {"object": "list", "data": [{"code": "invalid_json_line", "message": "m", "line": 4, "param": None}]},
            (ProviderMessage("invalid_json_line", "m", 4),),
            id="data",
        ),
        pytest.param([{"code": "x", "message": "m"}], (ProviderMessage("x", "m"),), id="list"),
        pytest.param({"data": []}, (), id="empty-data"),
        pytest.param(None, (), id="null"),
    ],
)
def test_errors_of_a_batch(errors: object, expected: tuple[ProviderMessage, ...]) -> None:
    assert remote_batch(batch_object(errors=errors)).errors == expected


@pytest.mark.parametrize(
    ("field", "value", "name", "expected"),
    [
        pytest.param("created_at", "1700000000", "created_at", 1_700_000_000.0, id="number-as-text"),
        pytest.param("created_at", "2024-07-19T17:13:57Z", "created_at", 1721409237.0, id="zulu"),
        pytest.param("created_at", "2024-07-19T17:13:57", "created_at", 1721409237.0, id="no-zone-is-utc"),
        pytest.param("created_at", "yesterday", "created_at", None, id="no-time"),
        pytest.param("created_at", True, "created_at", None, id="bool-is-no-time"),
        pytest.param("request_counts", None, "total", None, id="no-counts"),
        pytest.param("request_counts", {"total": True}, "total", None, id="bool-is-no-count"),
        pytest.param("request_counts", {"total": "12"}, "total", 12, id="count-as-text"),
        pytest.param("status", None, "status", "", id="no-status"),
        pytest.param("status", "in_progress", "status", "in_progress", id="status-verbatim"),
        pytest.param("in_progress_at", "2024-07-19T17:13:57Z", "began", True, id="began-iso"),
        pytest.param("in_progress_at", 0, "began", False, id="zero-is-not-begun"),
        pytest.param("input_file_id", "", "input_file_id", None, id="empty-id"),
        pytest.param(
            "metadata",
            {"a": 1, "b": None, "c": "x", "d": True},
            "metadata",
            {"a": "1", "c": "x", "d": "true"},
            id="metadata",
        ),
        pytest.param("metadata", ["x"], "metadata", {}, id="metadata-list"),
    ],
)
def test_loose_types_of_a_batch(field: str, value: object, name: str, expected: object) -> None:
    assert getattr(remote_batch(batch_object() | {field: value}), name) == expected


@pytest.mark.parametrize(
    ("field", "value", "name", "expected"),
    [
        pytest.param("status", "Pending", "status", "pending", id="lower-case"),
        pytest.param("status", "", "status", None, id="empty-status"),
        pytest.param("bytes", None, "n_bytes", None, id="no-bytes"),
        pytest.param("bytes", 0, "n_bytes", 0, id="zero-bytes"),
        pytest.param("bytes", -1, "n_bytes", None, id="negative-bytes"),
        pytest.param("expires_at", "", "expires_at", None, id="blank-expiry"),
        pytest.param("expires_at", None, "expires_at", None, id="no-expiry"),
        pytest.param("status_details", "bad line", "status_details", "bad line", id="details"),
        pytest.param("status_details", {"a": "अ"}, "status_details", '{"a": "अ"}', id="details-object"),
        pytest.param("filename", None, "filename", None, id="no-name"),
    ],
)
def test_loose_types_of_a_file(field: str, value: object, name: str, expected: object) -> None:
    assert getattr(remote_file(file_object() | {field: value}), name) == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(changes=st.dictionaries(st.sampled_from([*batch_object(), "in_progress_at", "status_details", "bytes"]), _JSON))
@settings(deadline=None, derandomize=True)
def test_no_value_of_an_object_breaks_the_reader(changes: dict[str, Any]) -> None:
    changes.pop("id", None)
    assert remote_batch(batch_object(**changes)).batch_id == "batch_1"
    assert remote_file(file_object(**changes)).file_id == "file-1"


def page(*ids: str, more: object = False, **extra: Any) -> Play:
    return Play({"object": "list", "data": [batch_object(i) for i in ids], "has_more": more, **extra})


def listed(bench: Bench) -> list[str]:
    return [b.batch_id for b in bench.adapter().batches()]


def test_a_listing_is_read_to_its_end(bench: Bench) -> None:
    bench.server.play(page("b3", "b2", more=True), page("b1", more=True), page("b0"))
    assert listed(bench) == ["b3", "b2", "b1", "b0"]
    assert [r.query.get("after") for r in bench.server.requests] == [None, ["b2"], ["b1"]]
    assert all(r.query["limit"] == ["100"] for r in bench.server.requests)


def test_pages_keep_the_api_version(bench: Bench) -> None:
    bench.server.play(page("b1", more=True), page("b0"))
    assert len(list(bench.adapter("azure", "2024-10-21").batches())) == 2
    assert all(r.query["api-version"] == ["2024-10-21"] for r in bench.server.requests)


def test_pages_that_shifted_give_each_batch_once(bench: Bench) -> None:
    bench.server.play(page("b3", "b2", more=True), page("b2", "b1"))
    assert listed(bench) == ["b3", "b2", "b1"]


def test_without_has_more_the_end_is_a_page_with_nothing_new(bench: Bench) -> None:
    bench.server.play(page("b1", "b0", more=None), page("b1", "b0", more=None))
    assert listed(bench) == ["b1", "b0"]
    bench.server.play(page("b1", more=None), page(more=None))
    assert listed(bench) == ["b1"]


def test_an_empty_page_that_names_the_next_place_is_not_the_end(bench: Bench) -> None:
    bench.server.play(page(more=True, last_id="cursor-1"), page("b0"))
    assert listed(bench) == ["b0"]
    assert bench.server.requests[1].query["after"] == ["cursor-1"]


@pytest.mark.parametrize(
    "plays",
    [
        pytest.param([page("b1", more=True), page("b1", more=True)], id="same-page-again"),
        pytest.param([page("b1", more=True), page("b0", more=True), page("b1", more=True)], id="circle"),
        pytest.param([page(more=True, last_id="c"), page(more=True, last_id="c")], id="empty-pages-for-ever"),
        pytest.param([page("b1", more=True), page(more=True)], id="more-without-a-way"),
        pytest.param([page("b1", more=True), Play({}, status=503)], id="breaks-off"),
        pytest.param([page("b1", more=True), Play(b"", fault="drop-read")], id="connection-lost"),
        pytest.param([page("b1", more=True), Play({"object": "list"})], id="no-data"),
        pytest.param([Play({"data": [{"object": "batch"}], "has_more": False})], id="no-id"),
        pytest.param([Play({"data": {"b": 1}, "has_more": False})], id="data-is-an-object"),
    ],
)
def test_a_listing_that_cannot_be_read_to_its_end_is_unavailable(bench: Bench, plays: list[Play]) -> None:
    bench.server.play(*plays)
    with pytest.raises(Unavailable):
        listed(bench)
    assert len(bench.server.requests) == len(plays)


def test_a_listing_refused_on_a_later_page_is_not_taken_as_complete(bench: Bench) -> None:
    bench.server.play(page("b1", more=True), Play({"error": {"code": "x", "message": "y"}}, status=401))
    with pytest.raises(Rejected):
        listed(bench)


def test_an_empty_listing(bench: Bench) -> None:
    bench.server.play(Play({"data": None, "has_more": False}))
    assert listed(bench) == []


def test_files_of_another_purpose_are_left_out(bench: Bench) -> None:
    files = [file_object("f1"), file_object("f2", purpose="fine-tune"), file_object("f3", purpose=None)]
    bench.server.play(Play({"data": files, "has_more": False}))
    assert [f.file_id for f in bench.adapter().files()] == ["f1", "f3"]


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"", id="empty-file"),
        pytest.param(
            '{"a":"one\u2028two\u2029three\u0085four\x0b"}\n{"b":"नमस्ते 汉字"}\n'.encode(), id="line-separators"
        ),
        pytest.param(b'\xef\xbb\xbf{"a":1}\r\n\r\n{"b":2}', id="bom-crlf-no-final-newline"),
        pytest.param(b'{"a":"\xff\xfe"}\n\x00\n', id="not-utf-8"),
        pytest.param(b"<html> is a line of this file\n", id="looks-like-a-page"),
    ],
)
def test_a_file_comes_home_byte_for_byte(bench: Bench, payload: bytes) -> None:
    bench.server.play(Play(payload))
    target = io.BytesIO()
    assert bench.adapter().download("file-1", target) == len(payload)
    assert target.getvalue() == payload


def test_a_compressed_reply_is_stored_as_the_file_it_is(bench: Bench) -> None:
    payload = b'{"a":1}\n' * 1000
    bench.server.play(Play(gzip.compress(payload), headers={"content-encoding": "gzip"}))
    target = io.BytesIO()
    assert bench.adapter().download("file-1", target) == len(payload)
    assert target.getvalue() == payload


def test_a_body_that_is_not_what_its_encoding_says_is_unavailable(bench: Bench) -> None:
    bench.server.play(Play(b"plain", headers={"content-encoding": "gzip"}))
    with pytest.raises(Unavailable):
        bench.adapter().download("file-1", io.BytesIO())


def test_a_download_shorter_than_its_content_length_is_unavailable(bench: Bench) -> None:
    payload = b'{"a":1}\n' * 50_000
    bench.server.play(Play(payload, fault="cut"))
    target = io.BytesIO()
    with pytest.raises(Unavailable, match="downloading file file-1"):
        bench.adapter().download("file-1", target)
    assert len(target.getvalue()) < len(payload)


class FullDisk(io.BytesIO):
    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_not_the_providers_fault(bench: Bench) -> None:
    bench.server.play(Play(b"x" * 200_000))
    with pytest.raises(OSError, match="No space left"):
        bench.adapter().download("file-1", FullDisk())
