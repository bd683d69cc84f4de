"""The real SDK over loopback, on every surface."""

from __future__ import annotations

import io
from collections.abc import Iterator

import openai
import pytest

from iwb_batch.emulator.app import bind, running
from iwb_batch.emulator.faults import FaultPlan, HttpFault
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import IwbError
from tests.emulator.direct import KEY, by_id, content, ids, request_file, sdk

SURFACES = ("v1", "classic", "openai")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Service(Settings(key=KEY)) as service, running(service) as base:
        yield base


def upload(client: openai.OpenAI, data: bytes) -> str:
    made = client.files.create(
        file=("requests.jsonl", io.BytesIO(data)),
        purpose="batch",
        expires_after={"anchor": "created_at", "seconds": 2_592_000},
    )
    while str(client.files.retrieve(made.id).status) == "pending":
        pass
    return made.id


def create(client: openai.OpenAI, file_id: str) -> str:
    return client.batches.create(
        input_file_id=file_id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"iwb_run": "r1"}
    ).id


def finish(client: openai.OpenAI, batch_id: str) -> openai.types.Batch:
    batch = client.batches.retrieve(batch_id)
    while batch.status not in ("completed", "failed"):
        batch = client.batches.retrieve(batch_id)
    return batch


@pytest.mark.parametrize("surface", SURFACES)
def test_a_batch_goes_all_the_way(url: str, surface: str) -> None:
    with sdk(url, surface) as client:
        batch = finish(client, create(client, upload(client, request_file(7))))
        assert batch.status == "completed"
        assert batch.metadata == {"iwb_run": "r1"}
        assert batch.request_counts is not None
        assert (batch.request_counts.total, batch.request_counts.completed) == (7, 7)
        assert batch.output_file_id is not None
        found = by_id(client.files.content(batch.output_file_id).content)
        assert set(found) == ids(7)
        assert all("score" in content(row) for row in found.values())
        assert batch.id in [other.id for other in client.batches.list(limit=1)]


@pytest.mark.parametrize(("surface", "has_id", "empty_error_file"), [("v1", False, True), ("openai", True, False)])
def test_lines_and_error_file_have_the_surface_s_shape(
    url: str, surface: str, has_id: bool, empty_error_file: bool
) -> None:
    with sdk(url, surface) as client:
        batch = finish(client, create(client, upload(client, request_file(2))))
        assert batch.output_file_id is not None
        for row in by_id(client.files.content(batch.output_file_id).content).values():
            assert ("id" in row) == has_id
            assert ("prompt_filter_results" in row["response"]["body"]) != has_id
        assert (batch.error_file_id is not None) == empty_error_file
        if batch.error_file_id:
            assert client.files.content(batch.error_file_id).content == b""


@pytest.mark.parametrize("surface", SURFACES)
def test_chat_completions_are_answered(url: str, surface: str) -> None:
    with sdk(url, surface) as client:
        reply = client.chat.completions.create(model="gpt-5.4", messages=[{"role": "user", "content": "एक पंक्ति लिखो"}])
    assert reply.choices[0].message.content
    assert reply.model == "iwb-rehearsal"


@pytest.mark.parametrize("surface", SURFACES)
def test_a_wrong_key_is_refused(url: str, surface: str) -> None:
    with sdk(url, surface, key="other") as client, pytest.raises(openai.AuthenticationError) as caught:
        client.files.create(file=("requests.jsonl", request_file(3)), purpose="batch")
    assert caught.value.code == "401"


def test_a_listing_is_paged_to_its_end(url: str) -> None:
    with sdk(url, "v1") as client:
        made = [upload(client, request_file(1)) for _ in range(3)]
        listed = [entry.id for entry in client.files.list(purpose="batch", limit=2)]
    assert listed[:3] == made[::-1]


def test_two_servers_at_one_port_are_refused_in_words() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(IwbError, match=r"cannot listen on 127\.0\.0\.1"):
            bind("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("fault", ["lost_reply", "reset_before"])
def test_a_connection_closed_without_reply_tells_nothing_of_what_happened(fault: str) -> None:
    plan = FaultPlan(http=[HttpFault(fault=fault, method="POST", path="^/batches$", nth=(1,))])
    with Service(faults=plan) as service, running(service) as base, sdk(base, "v1") as client:
        file_id = upload(client, request_file(1))
        with pytest.raises(openai.APIConnectionError):
            create(client, file_id)
        committed = fault == "lost_reply"
        assert len(service.batches_created) == committed
        assert [entry.metadata for entry in client.batches.list()] == [{"iwb_run": "r1"}] * committed
        assert ("POST", "/openai/v1/batches", 0) in service.calls
        create(client, file_id)
        assert len(service.batches_created) == 1 + committed


def test_an_upload_is_cut_off_midway() -> None:
    plan = FaultPlan(http=[HttpFault(fault="reset_upload", method="POST", path="^/files$", times=1)])
    with Service(faults=plan) as service, running(service) as base, sdk(base, "classic") as client:
        with pytest.raises(openai.APIConnectionError):
            client.files.create(file=("requests.jsonl", b"x" * 20_000_000), purpose="batch")
        assert list(client.files.list()) == []
        upload(client, request_file(1))


def download_faults(fault: str) -> FaultPlan:
    return FaultPlan(http=[HttpFault(fault=fault, method="GET", path="/content$", times=1)])


def test_a_download_cut_short_is_noticed_by_its_length() -> None:
    plan, data = download_faults("short_download"), request_file(3000)
    with Service(faults=plan) as service, running(service) as base, sdk(base, "v1") as client:
        file_id = upload(client, data)
        with pytest.raises(openai.APIConnectionError):
            client.files.content(file_id)
        assert client.files.content(file_id).content == data


def test_a_download_without_length_is_short_in_silence() -> None:
    plan, data = download_faults("silent_short"), request_file(3000)
    with Service(faults=plan) as service, running(service) as base, sdk(base, "v1") as client:
        file_id = upload(client, data)
        with client.files.with_streaming_response.content(file_id) as reply:
            got = b"".join(reply.iter_bytes())
        assert len(got) == len(data) // 2
        assert data.startswith(got)


STATUS_FAULTS = [
    pytest.param(HttpFault(fault="status", status=429, retry_after=2.5), openai.RateLimitError, id="429"),
    pytest.param(HttpFault(fault="status", status=502, html=True), openai.InternalServerError, id="502 html"),
    pytest.param(HttpFault(fault="status", status=500), openai.InternalServerError, id="500"),
    pytest.param(HttpFault(fault="unauthorized"), openai.AuthenticationError, id="401"),
]


@pytest.mark.parametrize(("fault", "error"), STATUS_FAULTS)
def test_a_planned_status_reaches_the_sdk(fault: HttpFault, error: type[openai.APIStatusError]) -> None:
    plan = FaultPlan(http=[fault])
    with (
        Service(faults=plan) as service,
        running(service) as base,
        sdk(base, "v1") as client,
        pytest.raises(error) as caught,
    ):
        client.batches.retrieve("batch_1")
    assert caught.value.status_code == (fault.status if fault.fault == "status" else 401)
    if fault.retry_after is not None:
        assert caught.value.response.headers["retry-after"] == "2.5"
    assert caught.value.response.headers["content-type"] == ("text/html" if fault.html else "application/json")


def test_html_with_status_200_comes_back_as_text() -> None:
    plan = FaultPlan(http=[HttpFault(fault="html")])
    with Service(faults=plan) as service, running(service) as base, sdk(base, "v1") as client:
        assert isinstance(client.batches.retrieve("batch_1"), str)
