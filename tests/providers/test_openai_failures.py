"""Every failure of a call in the port's three words."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.providers.base import Ambiguous, CallFailed, ProviderMessage, Rejected, Unavailable
from iwb_batch.providers.connection import from_environment
from iwb_batch.providers.openai_batch import OpenAIBatch
from iwb_batch.providers.openai_errors import provider_messages, retry_after
from tests.providers.conftest import KEY, Bench, batch_object, file_object
from tests.providers.recording import Fault, Play, deaf_port

Call = Callable[[OpenAIBatch], object]
HTML = {"content-type": "text/html; charset=utf-8"}


def _upload(adapter: OpenAIBatch) -> object:
    return adapter.upload(Path(__file__), "iwb-r-1.jsonl", expires_after=2_592_000)


READS: dict[str, Call] = {
    "file": lambda a: a.file("file-1"),
    "files": lambda a: list(a.files()),
    "batch": lambda a: a.batch("batch_1"),
    "batches": lambda a: list(a.batches()),
    "download": lambda a: a.download("file-1", io.BytesIO()),
    "delete": lambda a: a.delete_file("file-1"),
}
POSTS: dict[str, Call] = {
    "upload": _upload,
    "create": lambda a: a.create("file-1", {"iwb_run": "r"}),
    "cancel": lambda a: a.cancel("batch_1"),
}


def fails(bench: Bench, call: Call, word: type[CallFailed], *plays: Play) -> CallFailed:
    """Play, call, and return the error, which must be exactly of that word after exactly one request."""
    bench.server.play(*plays)
    with pytest.raises(CallFailed) as caught:
        call(bench.adapter())
    assert type(caught.value) is word
    assert len(bench.server.requests) == 1
    assert KEY not in f"{caught.value!r} {caught.value} {caught.value.errors}"
    return caught.value


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
def test_a_read_may_be_made_again(bench: Bench, name: str, status: int) -> None:
    error = fails(bench, READS[name], Unavailable, Play({"error": {"code": "busy", "message": "later"}}, status=status))
    assert error.status == status
    assert error.codes == {"busy"}


@pytest.mark.parametrize("name", POSTS)
@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_a_post_with_a_server_error_is_ambiguous(bench: Bench, name: str, status: int) -> None:
    assert fails(bench, POSTS[name], Ambiguous, Play({"error": {"message": "x"}}, status=status)).status == status


@pytest.mark.parametrize("name", ["upload", "create"])
def test_a_conflict_on_create_is_ambiguous(bench: Bench, name: str) -> None:
    fails(bench, POSTS[name], Ambiguous, Play({}, status=409))


def test_a_conflict_on_cancel_is_a_definite_no(bench: Bench) -> None:
    body = {"error": {"code": None, "message": "Cannot cancel a batch with status 'completed'."}}
    assert fails(bench, POSTS["cancel"], Rejected, Play(body, status=409)).status == 409


@pytest.mark.parametrize("name", POSTS)
def test_a_post_that_is_throttled_did_not_happen(bench: Bench, name: str) -> None:
    play = Play({"error": {"code": "429", "message": "slow"}}, status=429, headers={"retry-after": "17"})
    assert fails(bench, POSTS[name], Unavailable, play).retry_after == 17


@pytest.mark.parametrize("name", [*READS, *POSTS])
@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_other_refusals_are_definite(bench: Bench, name: str, status: int) -> None:
    error = fails(
        bench, (READS | POSTS)[name], Rejected, Play({"error": {"code": "bad", "message": "no"}}, status=status)
    )
    assert (error.status, error.errors) == (status, (ProviderMessage("bad", "no"),))
    assert f"HTTP {status}: bad: no" in error.message


@pytest.mark.parametrize("name", ["file", "files", "batch", "batches", "download", *POSTS])
def test_not_found_is_rejected_with_its_status(bench: Bench, name: str) -> None:
    error = fails(bench, (READS | POSTS)[name], Rejected, Play(b"Resource not found", status=404))
    assert (error.status, error.errors) == (404, (ProviderMessage(None, "Resource not found"),))


def test_deleting_what_is_gone(bench: Bench) -> None:
    bench.server.play(Play({"error": {"message": "No such file"}}, status=404), Play(b"", status=204))
    adapter = bench.adapter()
    assert adapter.delete_file("file-1") is False
    assert adapter.delete_file("file-1") is True


def test_a_deletion_the_provider_denies_is_no_deletion(bench: Bench) -> None:
    fails(bench, READS["delete"], Unavailable, Play({"id": "file-1", "deleted": False}))


@pytest.mark.parametrize("fault", ["drop-unread", "drop-read", "cut"])
@pytest.mark.parametrize("name", POSTS)
def test_a_lost_reply_to_a_post_is_ambiguous_after_one_post(bench: Bench, name: str, fault: Fault) -> None:
    body = file_object() if name == "upload" else batch_object()
    error = fails(bench, POSTS[name], Ambiguous, Play(body, fault=fault))
    assert error.status is None
    assert len(bench.server.posts) == 1


@pytest.mark.parametrize("fault", ["drop-unread", "drop-read", "cut"])
@pytest.mark.parametrize("name", READS)
def test_a_lost_reply_to_a_read_is_unavailable(bench: Bench, name: str, fault: Fault) -> None:
    assert fails(bench, READS[name], Unavailable, Play(batch_object(), fault=fault)).status is None


@pytest.mark.parametrize("name", [*READS, *POSTS])
def test_a_call_without_an_answer_in_time(bench: Bench, name: str) -> None:
    bench.server.play(Play(fault="stall"))
    with pytest.raises(CallFailed) as caught:
        (READS | POSTS)[name](bench.adapter(timeout=0.2))
    assert type(caught.value) is (Ambiguous if name in POSTS else Unavailable)
    assert len(bench.server.requests) == 1


def test_a_create_the_server_made_and_answered_with_500_is_one_post(bench: Bench) -> None:
    """The batch exists at the provider: the adapter must leave it to a look at the listing."""
    bench.server.play(Play({"error": {"message": "internal"}}, status=500))
    bench.server.play(Play({"data": [batch_object("batch_7")], "has_more": False}))
    adapter = bench.adapter(read_retries=3)
    with pytest.raises(Ambiguous):
        adapter.create("file-1", {"iwb_run": "r"})
    assert [b.metadata for b in adapter.batches()] == [{"iwb_run": "r"}]
    assert len(bench.server.posts) == 1


@pytest.mark.parametrize("name", [*READS, *POSTS])
@pytest.mark.parametrize(
    "endpoint",
    [
        pytest.param("http://127.0.0.1:{port}", id="connection-refused"),
        pytest.param("https://nowhere.invalid", id="no-such-host"),
    ],
)
def test_a_call_that_never_reached_a_server_is_unavailable(endpoint: str, name: str) -> None:
    with deaf_port() as port:
        environ = {"AZURE_OPENAI_ENDPOINT": endpoint.format(port=port), "AZURE_OPENAI_API_KEY": KEY}
        connection = from_environment(provider="azure", auth="key", api_version="v1", entra_scope=None, environ=environ)
        with OpenAIBatch(connection, read_retries=0) as adapter, pytest.raises(CallFailed) as caught:
            (READS | POSTS)[name](adapter)
    assert type(caught.value) is Unavailable
    assert caught.value.status is None


@pytest.mark.parametrize(
    "play",
    [
        pytest.param(Play(b"<html>Sign in</html>", headers=HTML), id="web-page"),
        pytest.param(Play(b"", headers={"content-type": "application/json"}), id="empty"),
        pytest.param(Play(b'{"id": "ba', headers={"content-type": "application/json"}), id="half-json"),
        pytest.param(Play(b'{"id": "\xff"}', headers={"content-type": "application/json"}), id="not-utf-8"),
        pytest.param(Play([]), id="list"),
        pytest.param(Play(None), id="null"),
        pytest.param(Play("batch_1"), id="text"),
        pytest.param(Play({}), id="no-id"),
        pytest.param(Play({"id": ""}), id="empty-id"),
        pytest.param(Play({"id": 7}), id="id-is-a-number"),
        pytest.param(Play({"error": {"code": "odd", "message": "inside a 200"}}), id="error-inside-200"),
        pytest.param(Play(b"[" * 100_000, headers={"content-type": "application/json"}), id="deep-json"),
    ],
)
@pytest.mark.parametrize("name", ["file", "batch", *POSTS])
def test_a_success_that_cannot_be_read(bench: Bench, name: str, play: Play) -> None:
    error = fails(bench, (READS | POSTS)[name], Ambiguous if name in POSTS else Unavailable, play)
    assert error.status == 200
    assert error.codes <= {"odd"}


def test_a_web_page_is_no_file(bench: Bench) -> None:
    fails(bench, READS["download"], Unavailable, Play(b"<html>Sign in</html>", headers=HTML))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            {"error": {"code": "quotaExceeded", "message": "The maximum is 500.", "param": "file"}},
            (ProviderMessage("quotaExceeded", "The maximum is 500.", None, "file"),),
            id="error-object",
        ),
        pytest.param(
            {"errors": {"object": "list", "data": [{"code": "token_limit_exceeded", "message": "m", "line": None}]}},
            (ProviderMessage("token_limit_exceeded", "m"),),
            id="errors-data",
        ),
        pytest.param(
            {"errors": [{"code": "a", "message": "m", "line": 3}, {"code": "b", "message": "n", "line": True}]},
            (ProviderMessage("a", "m", 3), ProviderMessage("b", "n")),
            id="errors-list",
        ),
        pytest.param({"error": "plain words"}, (ProviderMessage(None, "plain words"),), id="error-text"),
        pytest.param(
            {"statusCode": 401, "message": "Access denied due to invalid subscription key."},
            (ProviderMessage(None, "Access denied due to invalid subscription key."),),
            id="bare-message",
        ),
        pytest.param({"detail": [{"msg": "x"}]}, (ProviderMessage(None, '[{"msg": "x"}]'),), id="detail"),
        pytest.param({"error": {"code": 404, "message": None}}, (ProviderMessage("404", ""),), id="code-number"),
        pytest.param([{"code": "a", "message": "m"}], (ProviderMessage("a", "m"),), id="list"),
        pytest.param("two\nlines", (ProviderMessage(None, "two lines"),), id="text"),
        pytest.param({"errors": {"data": []}}, (), id="empty-data"),
        pytest.param({"error": None}, (), id="null-error"),
        pytest.param(None, (), id="nothing"),
    ],
)
def test_error_bodies(body: object, expected: tuple[ProviderMessage, ...]) -> None:
    assert provider_messages(body) == expected


def test_the_codes_of_an_errors_body_survive_the_sdk(bench: Bench) -> None:
    body = {"errors": {"data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit", "line": 2}]}}
    error = fails(bench, POSTS["create"], Rejected, Play(body, status=400))
    assert error.codes == {"token_limit_exceeded"}
    assert error.errors[0].line == 2
    assert "token_limit_exceeded: Enqueued token limit" in error.message


def test_a_web_page_is_not_quoted_in_an_error(bench: Bench) -> None:
    error = fails(bench, READS["batch"], Unavailable, Play(b"<html>Bad gateway</html>", status=502, headers=HTML))
    assert error.errors == ()
    assert error.message == "reading batch batch_1: HTTP 502"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after": "30"}, 30.0, id="seconds"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="fraction"),
        pytest.param({"retry-after-ms": "250", "retry-after": "9"}, 0.25, id="milliseconds-first"),
        pytest.param({"retry-after": "-3"}, 0.0, id="negative"),
        pytest.param({"retry-after": "nan"}, None, id="nan"),
        pytest.param({"retry-after": "inf"}, None, id="infinite"),
        pytest.param({"retry-after": "soon"}, None, id="words"),
        pytest.param(
            {"retry-after": "Wed, 21 Oct 2026 07:28:30 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0, id="date"
        ),
        pytest.param(
            {"retry-after": "Wed, 21 Oct 2026 07:00:00 GMT", "date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0, id="past"
        ),
    ],
)
def test_retry_after(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after(headers) == expected


def test_a_date_without_the_servers_clock_is_still_a_wait() -> None:
    wait = retry_after({"retry-after": "Wed, 21 Oct 9998 07:28:00 GMT"})
    assert wait is not None
    assert wait > 0


def test_a_key_echoed_by_the_provider_is_not_shown(bench: Bench) -> None:
    body: dict[str, Any] = {"error": {"code": f"bad_{KEY}", "message": f"Incorrect key: {KEY}, also sk-ab*****wxyz"}}
    error = fails(bench, READS["batch"], Rejected, Play(body, status=401))
    shown = f"{error.message} {error.errors}"
    assert "wxyz" not in shown
    assert "sk-ab" not in shown
    assert "<redacted>" in shown
