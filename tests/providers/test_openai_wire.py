"""What goes over the wire: paths, headers, bodies, one POST for each call, and nothing from the environment."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import iwb_batch
from iwb_batch.errors import RunError
from iwb_batch.providers.base import Rejected, Unavailable
from iwb_batch.providers.openai_client import WireHeaders
from iwb_batch.providers.openai_errors import transport
from tests.providers.conftest import KEY, Bench, batch_object, file_object
from tests.providers.recording import Play, RecordingServer

SURFACES = [
    pytest.param("azure", "2025-03-01-preview", "/openai", {"api-version": ["2025-03-01-preview"]}, id="azure-classic"),
    pytest.param("azure", "v1", "/openai/v1", {}, id="azure-v1"),
    pytest.param("openai", None, "/v1", {}, id="openai"),
]


@pytest.mark.parametrize(("provider", "version", "root", "query"), SURFACES)
def test_each_call_has_its_method_path_and_query(
    bench: Bench, request_file: Path, provider: str, version: str | None, root: str, query: dict[str, list[str]]
) -> None:
    adapter = bench.adapter(provider, version)
    page = {"data": [], "has_more": False}
    bench.server.play(Play(file_object()), Play(file_object()), Play(page), Play(batch_object()), Play(batch_object()))
    bench.server.play(Play(page), Play(batch_object()), Play(b"x\n"), Play({"id": "file-1", "deleted": True}))
    adapter.upload(request_file, "iwb-r-1.jsonl", expires_after=2_592_000)
    adapter.file("file-1")
    assert list(adapter.files()) == []
    adapter.create("file-1", {})
    adapter.batch("batch_1")
    assert list(adapter.batches()) == []
    adapter.cancel("batch_1")
    assert adapter.download("file-2", io.BytesIO()) == 2
    assert adapter.delete_file("file-1") is True
    assert [(r.method, r.path.removeprefix(root)) for r in bench.server.requests] == [
        ("POST", "/files"),
        ("GET", "/files/file-1"),
        ("GET", "/files"),
        ("POST", "/batches"),
        ("GET", "/batches/batch_1"),
        ("GET", "/batches"),
        ("POST", "/batches/batch_1/cancel"),
        ("GET", "/files/file-2/content"),
        ("DELETE", "/files/file-1"),
    ]
    for sent in bench.server.requests:
        assert sent.path.startswith(root + "/")
        assert sent.query.items() >= query.items()
        assert "api-version" in sent.query or not query
    assert bench.server.requests[2].query["purpose"] == ["batch"]


@pytest.mark.parametrize(
    ("provider", "version", "name", "value", "absent"),
    [
        pytest.param("azure", "2024-10-21", "api-key", KEY, "authorization", id="azure-classic"),
        pytest.param("azure", "v1", "authorization", f"Bearer {KEY}", "api-key", id="azure-v1"),
        pytest.param("openai", None, "authorization", f"Bearer {KEY}", "api-key", id="openai"),
    ],
)
def test_one_credential_header(
    bench: Bench, provider: str, version: str | None, name: str, value: str, absent: str
) -> None:
    bench.server.play(Play(batch_object()), Play(b"line\n"), Play(batch_object()))
    adapter = bench.adapter(provider, version)
    adapter.batch("batch_1")
    adapter.download("file-1", io.BytesIO())
    adapter.create("file-1", {})
    for sent in bench.server.requests:
        assert sent.headers[name] == value
        assert absent not in sent.headers
        assert sent.headers["user-agent"].startswith(f"iwb-batch/{iwb_batch.__version__} ")


LEAKS = {
    "OPENAI_ORG_ID": "org-leak",
    "OPENAI_PROJECT_ID": "proj-leak",
    "OPENAI_CUSTOM_HEADERS": (
        "X-Team: team-leak\nAPI-KEY: custom-leak\nauthorization: Bearer bearer-leak\nUser-Agent: ua-leak"
    ),
    "OPENAI_BASE_URL": "http://127.0.0.1:9/leak",
    "OPENAI_API_KEY": "openai-leak",
    "OPENAI_ADMIN_KEY": "admin-leak",
    "AZURE_OPENAI_API_KEY": "azure-leak",
    "AZURE_OPENAI_AD_TOKEN": "token-leak",
    "AZURE_OPENAI_ENDPOINT": "http://127.0.0.1:9/leak",
    "OPENAI_API_VERSION": "1999-01-01",
}


@pytest.mark.parametrize("version", ["v1", "2025-03-01-preview"])
@pytest.mark.parametrize("auth", ["key", "entra"])
def test_nothing_of_the_environment_reaches_azure(
    bench: Bench, request_file: Path, monkeypatch: pytest.MonkeyPatch, version: str, auth: str
) -> None:
    for name, value in LEAKS.items():
        monkeypatch.setenv(name, value)
    adapter = bench.adapter("azure", version, auth, token_provider=lambda: "entra-token")
    bench.server.play(Play(file_object()), Play(batch_object()), Play({"data": [], "has_more": False}), Play(b"x\n"))
    adapter.upload(request_file, "iwb-r-1.jsonl", expires_after=2_592_000)
    adapter.create("file-1", {})
    assert list(adapter.batches()) == []
    adapter.download("file-1", io.BytesIO())
    assert len(bench.server.requests) == 4
    for sent in bench.server.requests:
        assert "leak" not in sent.wire_text
        assert "1999" not in sent.wire_text
        assert not {"openai-organization", "openai-project", "x-team"} & sent.headers.keys()
        credentials = {n: v for n, v in sent.headers.items() if n in {"api-key", "authorization"}}
        if auth == "entra":
            assert credentials == {"authorization": "Bearer entra-token"}
        else:
            assert list(credentials.values()) in ([KEY], [f"Bearer {KEY}"])
    assert all(os.environ[name] == value for name, value in LEAKS.items())


def test_openai_itself_gets_organisation_and_project(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    bench.server.play(Play(batch_object()))
    bench.adapter("openai", None).batch("batch_1")
    (sent,) = bench.server.requests
    assert (sent.headers["openai-organization"], sent.headers["openai-project"]) == ("org-1", "proj-1")
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(("provider", "kept"), [("openai", True), ("azure", False)])
def test_the_users_own_headers_go_to_openai_servers_only(bench: Bench, provider: str, kept: bool) -> None:
    request = transport().Request("GET", f"{bench.server.url}/v1/files", headers={"X-Team": "research"})
    WireHeaders(bench.connection(provider))(request)
    assert ("x-team" in request.headers) is kept
    assert request.headers["authorization"] == f"Bearer {KEY}"


def test_a_proxy_of_the_environment_does_not_see_loopback(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with RecordingServer() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        bench.server.play(Play(batch_object()))
        bench.adapter().batch("batch_1")
        assert proxy.requests == []


def parts_of(body: bytes, content_type: str) -> dict[str, tuple[str, bytes]]:
    """Multipart parts by name: (headers, content)."""
    boundary = content_type.partition("boundary=")[2].encode()
    found: dict[str, tuple[str, bytes]] = {}
    for part in body.split(b"--" + boundary)[1:-1]:
        head, _, content = part.strip(b"\r\n").partition(b"\r\n\r\n")
        name = re.search(r'\bname="([^"]*)"', head.decode())
        assert name is not None
        found[name[1]] = (head.decode(), content)
    return found


@pytest.mark.parametrize(("provider", "version", "root", "query"), SURFACES)
def test_upload_has_four_parts_with_bracket_names(
    bench: Bench, request_file: Path, provider: str, version: str | None, root: str, query: dict[str, list[str]]
) -> None:
    bench.server.play(Play(file_object(status="Pending", bytes=71)))
    made = bench.adapter(provider, version).upload(request_file, "iwb-r-1.jsonl", expires_after=2_592_000)
    assert (made.file_id, made.status, made.n_bytes, made.expires_at) == ("file-1", "pending", 71, 1_800_000_000)
    (sent,) = bench.server.requests
    parts = parts_of(sent.body, sent.headers["content-type"])
    head, content = parts.pop("file")
    assert 'filename="iwb-r-1.jsonl"' in head
    assert content == request_file.read_bytes().rstrip(b"\n")
    assert {name: value for name, (_, value) in parts.items()} == {
        "purpose": b"batch",
        "expires_after[anchor]": b"created_at",
        "expires_after[seconds]": b"2592000",
    }


def test_upload_streams_from_disk(bench: Bench, tmp_path: Path) -> None:
    bench.server.keep_bodies = False
    path = tmp_path / "big.jsonl"
    block = (b"x" * 1023 + b"\n") * 1024
    with path.open("wb") as out:
        for _ in range(50):
            out.write(block)
    bench.server.play(Play(file_object()), Play(file_object()))
    adapter = bench.adapter()
    adapter.file("file-1")  # what is loaded once is not counted
    tracemalloc.start()
    try:
        adapter.upload(path, "big.jsonl", expires_after=2_592_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert bench.server.requests[-1].n_bytes > 50 * len(block)
    assert peak < 20_000_000


def test_download_streams_to_disk(bench: Bench, tmp_path: Path) -> None:
    payload = (b"y" * 1023 + b"\n") * 1024 * 30
    bench.server.play(Play(file_object()), Play(payload))
    adapter = bench.adapter()
    adapter.file("file-1")
    tracemalloc.start()
    try:
        with (tmp_path / "out").open("wb") as target:
            assert adapter.download("file-1", target) == len(payload)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert hashlib.sha256((tmp_path / "out").read_bytes()).digest() == hashlib.sha256(payload).digest()
    assert peak < 10_000_000


@pytest.mark.parametrize(
    ("provider", "version", "endpoint"),
    [
        ("azure", "v1", "/chat/completions"),
        ("azure", "2024-10-21", "/chat/completions"),
        ("openai", None, "/v1/chat/completions"),
    ],
)
def test_create_body(bench: Bench, provider: str, version: str | None, endpoint: str) -> None:
    bench.server.play(Play(batch_object()))
    metadata = {"iwb_run": "0123456789", "iwb_file": "0001", "iwb_sha256": "ab" * 32}
    made = bench.adapter(provider, version).create("file-1", metadata)
    assert (made.batch_id, made.status) == ("batch_1", "validating")
    assert bench.server.requests[0].json == {
        "input_file_id": "file-1",
        "endpoint": endpoint,
        "completion_window": "24h",
        "metadata": metadata,
    }


def test_a_missing_request_file_is_an_error_and_nothing_is_sent(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"0002\.jsonl cannot be read"):
        bench.adapter().upload(tmp_path / "0002.jsonl", "iwb-r-2.jsonl", expires_after=2_592_000)
    assert bench.server.requests == []


@pytest.mark.parametrize("remote_id", ["", " ", ".", ".."])
def test_ids_that_cannot_stand_in_a_path_are_refused_unsent(bench: Bench, remote_id: str) -> None:
    adapter = bench.adapter()
    for call in (adapter.file, adapter.batch, adapter.cancel, adapter.delete_file):
        with pytest.raises(Rejected) as caught:
            call(remote_id)
        assert caught.value.status == 404
    with pytest.raises(Rejected):
        adapter.download(remote_id, io.BytesIO())
    assert bench.server.requests == []


def test_a_read_follows_a_redirect_and_leaves_the_key_at_home(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Team: team-secret")
    with RecordingServer() as store:
        store.play(Play(b"line\n"))
        target = {"location": f"{store.url}/blob?sig=1"}
        bench.server.play(Play(status=302, headers=target))
        got = io.BytesIO()
        adapter = bench.adapter("openai", None)
        assert adapter.download("file-1", got) == 5
        (sent,) = store.requests
        adapter.close()
    assert KEY not in sent.wire_text
    assert "team-secret" not in sent.wire_text
    assert not {"authorization", "api-key"} & sent.headers.keys()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_post_follows_no_redirect(bench: Bench, request_file: Path, status: int) -> None:
    with RecordingServer() as elsewhere:
        bench.server.play(Play(status=status, headers={"location": f"{elsewhere.url}/files"}))
        with pytest.raises(Rejected, match="was not followed"):
            bench.adapter().upload(request_file, "iwb-r-1.jsonl", expires_after=2_592_000)
        assert elsewhere.requests == []
    assert len(bench.server.posts) == 1


_LOCALE_SCRIPT = """
import sys
from pathlib import Path
from iwb_batch.providers.connection import from_environment
from iwb_batch.providers.openai_batch import OpenAIBatch
environ = {"AZURE_OPENAI_ENDPOINT": sys.argv[1], "AZURE_OPENAI_API_KEY": "k"}
connection = from_environment(provider="azure", auth="key", api_version="v1", entra_scope=None, environ=environ)
with OpenAIBatch(connection) as adapter:
    adapter.upload(Path(sys.argv[2]), "iwb-r-1.jsonl", expires_after=2592000)
    adapter.create("file-1", {"iwb_name": "\\U0001d488 \\u6c49"})
"""


def test_upload_of_math_letters_and_han_text_under_the_c_locale(bench: Bench, tmp_path: Path) -> None:
    text = '{"content":"𝒂𝒃𝒄 汉字，标点。 ok \u2028"}\n'
    path = tmp_path / "0001.jsonl"
    path.write_bytes(text.encode())
    bench.server.play(Play(file_object()), Play(batch_object()))
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(Path(iwb_batch.__file__).parents[1]),
        "LANG": "C",
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    command = [sys.executable, "-c", _LOCALE_SCRIPT, bench.server.url, str(path)]
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    upload, create = bench.server.requests
    assert text.rstrip("\n").encode() == parts_of(upload.body, upload.headers["content-type"])["file"][1]
    assert create.json["metadata"] == {"iwb_name": "𝒈 汉"}


def test_reads_are_retried_and_posts_are_not(bench: Bench) -> None:
    adapter = bench.adapter(read_retries=1)
    bench.server.play(Play({}, status=500, headers={"retry-after-ms": "1"}), Play(batch_object()))
    assert adapter.batch("batch_1").batch_id == "batch_1"
    assert len(bench.server.requests) == 2


@pytest.mark.parametrize("wait", ["7", "100", "3600"])
def test_a_long_wait_is_reported_and_not_slept_on(bench: Bench, wait: str) -> None:
    bench.server.play(Play({}, status=503, headers={"retry-after": wait}))
    with pytest.raises(Unavailable) as caught:
        bench.adapter(read_retries=2).batch("batch_1")
    assert caught.value.retry_after == float(wait)
    assert len(bench.server.requests) == 1
