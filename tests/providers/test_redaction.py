"""No credential in text, logs, tracebacks, at any level."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

import iwb_batch
from iwb_batch.providers.base import CallFailed
from iwb_batch.providers.redaction import install, redact
from tests.providers.conftest import KEY, Bench, batch_object
from tests.providers.recording import Play


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        pytest.param("{'api-key': 'abc-123'}", "abc-123", id="dict"),
        pytest.param('{"Api-Key": "abc-123"}', "abc-123", id="json-any-case"),
        pytest.param("API-KEY: abc-123", "abc-123", id="header-line"),
        pytest.param("Ocp-Apim-Subscription-Key: abc-123\nnext", "abc-123", id="subscription-key"),
        pytest.param("OCP-APIM-SUBSCRIPTION-KEY=abc-123", "abc-123", id="subscription-key-capitals"),
        pytest.param("authorization: Bearer abc-123", "abc-123", id="bearer"),
        pytest.param("{'Authorization': 'Basic abc-123=='}", "abc-123", id="basic"),
        pytest.param("[(b'authorization', b'Bearer abc-123')]", "abc-123", id="byte-pairs"),
        pytest.param("sent Bearer eyJ0.abc-123.sig on", "abc-123", id="bearer-in-prose"),
        pytest.param('"x-api-key":"abc\\"-123"', "-123", id="escaped-quote"),
        pytest.param("Incorrect API key provided: sk-pr****-123.", "-123", id="masked"),
    ],
)
def test_credential_headers_are_redacted(text: str, absent: str) -> None:
    cleaned = redact(text, ())
    assert absent not in cleaned
    assert "<redacted>" in cleaned


def test_secrets_are_redacted_wherever_they_stand() -> None:
    assert redact("a=q9Z; b=long-q9Z-key", ("q9Z", "long-q9Z-key", "")) == "a=<redacted>; b=<redacted>"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("uploading iwb-r-1.jsonl: HTTP 400: bad: the api key is missing", id="prose"),
        pytest.param("AZURE_OPENAI_API_KEY is not set", id="variable"),
        pytest.param("a bearer token with authorization, **bold**, नमस्ते", id="other-words"),
        pytest.param("", id="empty"),
    ],
)
def test_other_text_stays(text: str) -> None:
    assert redact(text, ("",)) == text


@pytest.fixture
def log() -> Iterator[StringIO]:
    """Root logging at DEBUG into a buffer, with redaction on; everything is put back."""
    root, factory = logging.getLogger(), logging.getLogRecordFactory()
    level, sdk_level = root.level, logging.getLogger("openai").level
    buffer = StringIO()
    handler = logging.StreamHandler(buffer)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
    install([KEY])
    install(["another-secret"])
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    logging.getLogger("openai").setLevel(logging.DEBUG)
    try:
        yield buffer
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        logging.getLogger("openai").setLevel(sdk_level)
        logging.setLogRecordFactory(factory)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL])
def test_records_of_every_level_and_logger_are_redacted(log: StringIO, level: int) -> None:
    for name in ("openai._base_client", "httpx2", "httpx", "anything.else"):
        logging.getLogger(name).log(level, "headers %s and %s", {"api-key": "abc-123"}, KEY)
        logging.getLogger(name).log(level, "%s", [("Ocp-Apim-Subscription-Key", "abc-123")])
        logging.getLogger(name).log(level, f"another-secret {KEY}")
    shown = log.getvalue()
    assert shown.count("<redacted>") == 20
    assert not any(secret in shown for secret in (KEY, "abc-123", "another-secret"))


def test_tracebacks_are_redacted(log: StringIO) -> None:
    try:
        raise ValueError(f"bad header: {KEY}")
    except ValueError:
        logging.getLogger("anything").exception("failed")
    shown = log.getvalue()
    assert "ValueError: bad header: <redacted>" in shown
    assert KEY not in shown


def test_a_record_with_a_wrong_format_still_hides_its_arguments(
    log: StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = "%d of %d"
    logging.getLogger("anything").error(wrong, KEY)
    assert log.getvalue() == "anything ERROR %d of %d ('<redacted>',)\n"
    assert capsys.readouterr().err == ""


def test_other_records_keep_message_and_arguments(log: StringIO) -> None:
    logging.getLogger("anything").info("%d of %d", 3, 5)
    assert log.getvalue() == "anything INFO 3 of 5\n"


@pytest.mark.parametrize("version", ["v1", "2025-03-01-preview"])
def test_real_calls_at_debug_show_no_key(bench: Bench, log: StringIO, version: str) -> None:
    bench.server.play(
        Play(batch_object()), Play({"error": {"message": f"wrong key {KEY}"}}, status=401), Play(fault="drop-read")
    )
    adapter = bench.adapter("azure", version)
    adapter.create("file-1", {})
    for _ in range(2):
        with pytest.raises(CallFailed):
            adapter.batch("batch_1")
    assert "HTTP" in log.getvalue()
    assert KEY not in log.getvalue()
    assert KEY not in f"{adapter!r} {vars(adapter)!r}"


_DEBUG_SCRIPT = """
import logging, os, sys
from pathlib import Path
from iwb_batch.providers.connection import from_environment
from iwb_batch.providers.openai_batch import OpenAIBatch
from iwb_batch.providers.redaction import install
options = {"provider": "azure", "auth": "key", "api_version": sys.argv[1], "entra_scope": None}
connection = from_environment(**options, environ=os.environ)
install(connection.secrets)
with OpenAIBatch(connection, read_retries=0) as adapter:
    logging.getLogger().setLevel(logging.DEBUG)
    adapter.upload(Path(sys.argv[2]), "iwb-r-1.jsonl", expires_after=2592000)
    headers = {"api-key": connection.key, "Authorization": "Bearer " + connection.key}
    logging.getLogger("openai").debug("headers %s", headers)
print(repr(connection))
adapter.batch("batch_1")
"""


@pytest.mark.parametrize("version", ["v1", "2025-03-01-preview"])
@pytest.mark.parametrize("key", ["sk-test-0000", "q9Z"])
def test_openai_log_debug_shows_no_part_of_the_key(bench: Bench, request_file: Path, version: str, key: str) -> None:
    """The SDK sets up logging itself when it is imported, after redaction was installed."""
    bench.server.play(Play({"id": "file-1"}))
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "PYTHONPATH": str(Path(iwb_batch.__file__).parents[1]),
        "OPENAI_LOG": "debug",
        "AZURE_OPENAI_ENDPOINT": bench.server.url,
        "AZURE_OPENAI_API_KEY": key,
    }
    command = [sys.executable, "-c", _DEBUG_SCRIPT, version, str(request_file)]
    done = subprocess.run(command, env=environ, capture_output=True, check=False)
    shown = (done.stdout + done.stderr).decode()
    assert "DEBUG" in shown
    assert "Connection(" in shown
    assert "Traceback" in shown  # the closed adapter's last call fails on purpose
    assert "<redacted>" in shown
    assert key not in shown
    assert len(bench.server.posts) == 1
