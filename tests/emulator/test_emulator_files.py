"""Files: what an upload must be, expiry, quota, status, deletion."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.emulator.faults import FaultPlan, HttpFault
from iwb_batch.emulator.http import ApiError, HttpRequest
from iwb_batch.emulator.multipart import read_form
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from tests.emulator.direct import KEY, Direct, request_file

EXPIRY = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "2592000"}


def test_an_upload_is_kept_byte_for_byte() -> None:
    data = "हिन्दी 中文 \u2028 line\r\n\x00end".encode()
    with Service() as service:
        client = Direct(service)
        reply = client.upload(data, "iwb-0123456789-f1.jsonl")
        made = reply.json()
        assert (made["bytes"], made["filename"], made["purpose"]) == (len(data), "iwb-0123456789-f1.jsonl", "batch")
        assert (made["status"], made["expires_at"]) == ("pending", None)
        assert client.content(made["id"]) == data


BAD_UPLOADS = [
    pytest.param("requests.json", {}, "file", id="not .jsonl"),
    pytest.param("requests.jsonl", {"purpose": "fine-tune"}, "purpose", id="purpose"),
    pytest.param("requests.jsonl", EXPIRY | {"expires_after[anchor]": "now"}, "expires_after.anchor", id="anchor"),
    pytest.param("requests.jsonl", {"expires_after[seconds]": "2592000"}, "expires_after.anchor", id="no anchor"),
    pytest.param("requests.jsonl", EXPIRY | {"expires_after[seconds]": "60"}, "expires_after.seconds", id="too soon"),
    pytest.param("requests.jsonl", EXPIRY | {"expires_after[seconds]": "9e5"}, "expires_after.seconds", id="no number"),
]


@pytest.mark.parametrize(("name", "fields", "param"), BAD_UPLOADS)
def test_a_bad_upload_is_refused_and_leaves_nothing(
    name: str, fields: dict[str, str], param: str, tmp_path: Path
) -> None:
    with Service(state=tmp_path) as service:
        reply = Direct(service).upload(b"{}\n", name, **fields)
        assert (reply.status, reply.json()["error"]["param"]) == (400, param)
    assert list(tmp_path.iterdir()) == []


def test_a_file_above_the_size_limit_is_refused() -> None:
    with Service(Settings(max_bytes=100)) as service:
        client = Direct(service)
        assert client.upload(b"x" * 100).status == 200
        assert client.upload(b"x" * 101).json()["error"]["code"] == "file_too_large"


@pytest.mark.parametrize(
    ("prefix", "version", "kept"),
    [
        pytest.param("/openai/v1", None, True, id="v1"),
        pytest.param("/v1", None, True, id="openai"),
        pytest.param("/openai", "2025-03-01-preview", True, id="first version with expiry"),
        pytest.param("/openai", "2024-10-21", False, id="old version"),
        pytest.param("/openai", "2025-01-01-preview", False, id="old preview"),
    ],
)
def test_expiry_is_kept_or_silently_ignored(prefix: str, version: str | None, kept: bool) -> None:
    body = (
        b'--e\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        b'--e\r\nContent-Disposition: form-data; name="expires_after[anchor]"\r\n\r\ncreated_at\r\n'
        b'--e\r\nContent-Disposition: form-data; name="expires_after[seconds]"\r\n\r\n1209600\r\n'
        b'--e\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{}\r\n--e--\r\n'
    )
    headers = {"api-key": KEY, "content-type": "multipart/form-data; boundary=e"}
    query = {} if version is None else {"api-version": version}
    with Service(clock=lambda: 50.0) as service:
        reply = service.handle(HttpRequest("POST", f"{prefix}/files", query, headers, body))
    assert reply.json()["expires_at"] == (50 + 1_209_600 if kept else None)


def test_an_expired_file_is_gone() -> None:
    now = itertools.count(0, 1_500_000)
    with Service(clock=lambda: float(next(now))) as service:
        client = Direct(service)
        file_id = client.upload(b"{}\n", **EXPIRY).json()["id"]
        assert client.call("GET", f"/files/{file_id}").status == 200
        assert client.call("GET", f"/files/{file_id}").status == 404


def test_quotas_of_files_with_and_without_expiry_are_apart() -> None:
    with Service(Settings(max_files=2, max_files_expiring=1)) as service:
        client = Direct(service)
        made = [client.upload(b"{}\n").json()["id"] for _ in range(2)]
        full = client.upload(b"{}\n")
        assert (full.status, full.json()["error"]["code"]) == (400, "quotaExceeded")
        assert full.json()["error"]["message"] == "The quota for files without expiry is reached. The maximum is 2."
        assert client.upload(b"{}\n", **EXPIRY).status == 200
        assert client.upload(b"{}\n", **EXPIRY).status == 400
        assert client.call("DELETE", f"/files/{made[0]}").json()["deleted"] is True
        assert client.upload(b"{}\n").status == 200


def test_output_files_take_no_quota_and_have_their_own_purpose() -> None:
    with Service(Settings(max_files=1)) as service:
        client = Direct(service)
        batch = client.finish(client.submit(request_file(1)))
        found = {
            purpose: [entry["id"] for entry in client.call("GET", "/files", purpose=purpose).json()["data"]]
            for purpose in ("batch", "batch_output")
        }
    assert found["batch"] == [batch["input_file_id"]]
    assert set(found["batch_output"]) == {batch["output_file_id"], batch["error_file_id"]}


def test_a_deleted_input_does_not_stop_its_batch() -> None:
    with Service() as service:
        client = Direct(service)
        file_id = client.file(request_file(2))
        batch_id = str(client.create(file_id).json()["id"])
        assert client.call("DELETE", f"/files/{file_id}").status == 200
        assert client.call("GET", f"/files/{file_id}").status == 404
        assert client.call("DELETE", f"/files/{file_id}").status == 404
        assert client.finish(batch_id)["status"] == "completed"


def test_a_file_may_stay_pending_or_end_in_error() -> None:
    plan = FaultPlan(
        http=[
            HttpFault(fault="file_pending", method="POST", path="^/files$", nth=(1,)),
            HttpFault(fault="file_pending", method="POST", path="^/files$", nth=(2,), polls=3),
            HttpFault(fault="file_error", method="POST", path="^/files$", nth=(3,), details="bad encoding"),
        ]
    )
    with Service(faults=plan) as service:
        client = Direct(service)
        seen = []
        for _ in range(4):
            file_id = client.upload(request_file(1)).json()["id"]
            seen.append([client.call("GET", f"/files/{file_id}").json() for _ in range(4)])
    assert [[entry["status"] for entry in entries] for entries in seen] == [
        ["pending"] * 4,
        ["pending", "pending", "processed", "processed"],
        ["error"] * 4,
        ["processed"] * 4,
    ]
    assert seen[2][0]["status_details"] == "bad encoding"


def test_a_new_file_may_lag_in_the_listing() -> None:
    plan = FaultPlan(http=[HttpFault(fault="list_lag", method="POST", path="^/files$", listings=2)])
    with Service(faults=plan) as service:
        client = Direct(service)
        client.upload(request_file(1))
        assert [len(client.call("GET", "/files").json()["data"]) for _ in range(3)] == [0, 0, 1]


def test_the_state_folder_is_kept_and_a_temporary_one_is_removed(tmp_path: Path) -> None:
    kept = tmp_path / "deep" / "state"
    with Service(state=kept) as service:
        Direct(service).upload(b"{}\n")
    assert len(list(kept.iterdir())) == 1


@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.binary(max_size=300), cut=st.integers(1, 80))
def test_any_bytes_pass_the_multipart_reader_in_any_blocks(
    data: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("form") / "file"
    head = b'--edge9\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
    whole = head + data + b"\r\n--edge9--\r\n"
    blocks = [whole[start : start + cut] for start in range(0, len(whole), cut)]
    form = read_form("multipart/form-data; boundary=edge9", blocks, target)
    assert (form.filename, form.n_bytes, target.read_bytes()) == ("a.jsonl", len(data), data)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("application/json", b"{}", id="not multipart"),
        pytest.param("multipart/form-data", b"", id="no boundary"),
        pytest.param("multipart/form-data; boundary=e", b"nothing of the kind", id="no part"),
        pytest.param(
            "multipart/form-data; boundary=e",
            b'--e\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n{}',
            id="broken off",
        ),
    ],
)
def test_a_malformed_upload_is_refused(kind: str, body: bytes, tmp_path: Path) -> None:
    with pytest.raises(ApiError) as caught:
        read_form(kind, [body], tmp_path / "file")
    assert caught.value.status == 400
