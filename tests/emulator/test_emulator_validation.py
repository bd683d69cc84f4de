"""What fails a batch before it runs: one table, one code and line for each row."""

from __future__ import annotations

from typing import Any

import pytest

from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from tests.emulator.direct import Direct, jsonl, line, request_file


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in line(1).items() if name != key}


BAD_FILES = [
    pytest.param(jsonl(line(0)) + b'{"custom_id": \n', "invalid_json_line", 2, None, id="no JSON"),
    pytest.param(jsonl(line(0)) + b"\n" + jsonl(line(1)), "invalid_json_line", 2, None, id="blank line"),
    pytest.param(jsonl(line(0), "text"), "invalid_request", 2, None, id="bare string"),
    pytest.param(jsonl(line(0), without("method")), "invalid_request", 2, "method", id="no method"),
    pytest.param(jsonl(line(0), without("url")), "invalid_request", 2, "url", id="no url"),
    pytest.param(jsonl(line(0), without("body")), "invalid_request", 2, "body", id="no body"),
    pytest.param(jsonl(line(0), line(1, custom_id="")), "invalid_request", 2, "custom_id", id="empty custom_id"),
    pytest.param(jsonl(line(0), line(1, method="GET")), "invalid_request", 2, "method", id="GET"),
    pytest.param(jsonl(line(0), line(1), line(0)), "duplicate_custom_id", 3, None, id="custom_id twice"),
    pytest.param(jsonl(line(0), line(1, url="/chat/completions")), "url_mismatch", 2, "url", id="mixed urls"),
    pytest.param(jsonl(line(0, url="/v1/embeddings")), "url_mismatch", 1, "url", id="url of another endpoint"),
    pytest.param(jsonl(line(0), line(1, body={"model": "x"})), "model_mismatch", 2, "model", id="two deployments"),
    pytest.param(jsonl(line(0, body={"model": None})), "invalid_request", 1, "model", id="no model"),
    pytest.param(b"", "empty_file", None, None, id="empty"),
    pytest.param(b"\xef\xbb\xbf" + request_file(1), "invalid_request", None, None, id="byte order mark"),
]


@pytest.mark.parametrize(("data", "code", "number", "param"), BAD_FILES)
def test_a_bad_file_is_taken_at_upload_and_fails_the_batch(
    data: bytes, code: str, number: int | None, param: str | None
) -> None:
    with Service() as service:
        client = Direct(service)
        batch_id = client.submit(data)
        batch = client.finish(batch_id)
        assert not service.executions
    assert (batch["status"], batch["in_progress_at"], batch["output_file_id"]) == ("failed", None, None)
    error = batch["errors"]["data"][0]
    assert (error["code"], error["line"], error["param"]) == (code, number, param)


@pytest.mark.parametrize("data", [b"\xef\xbb\xbf" + request_file(1), jsonl(line(0, body={"model": ""}))])
def test_a_byte_order_mark_and_a_missing_model_get_the_same_misleading_words(data: bytes) -> None:
    with Service() as service:
        client = Direct(service)
        batch = client.finish(client.submit(data))
    assert "A valid model deployment name couldn't be extracted" in batch["errors"]["data"][0]["message"]


def test_too_many_lines_fail_the_batch() -> None:
    with Service(Settings(max_lines=3)) as service:
        client = Direct(service)
        assert client.finish(client.submit(request_file(3)))["status"] == "completed"
        assert client.finish(client.submit(request_file(4)))["errors"]["data"][0]["code"] == "too_many_tasks"


def test_every_bad_line_is_named_up_to_a_limit() -> None:
    with Service() as service:
        client = Direct(service)
        batch = client.finish(client.submit(b"{\n" * 150))
    assert [error["line"] for error in batch["errors"]["data"]] == list(range(1, 101))


def test_both_forms_of_the_url_are_taken() -> None:
    data = jsonl(line(0, url="/chat/completions"), line(1, url="/chat/completions"))
    with Service() as service:
        batch, output, _ = Direct(service).run(data)
    assert batch["status"] == "completed"
    assert output.count(b"\n") == 2
