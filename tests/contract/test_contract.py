"""One contract for every way to a Batch API: the adapter on each surface, over loopback and in process.

What the workflow relies on is stated here once: eight verbs, three error words, and no verb that decides anything.
Provider ``files``, which calls nobody, keeps the part of it that is about anything but calls: see the end.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from iwb_batch.core import lifecycle
from iwb_batch.emulator.app import running
from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.providers.base import Ambiguous, BatchProvider, CallFailed, Rejected, RemoteBatch, Unavailable
from iwb_batch.providers.files import FilesProvider
from iwb_batch.providers.lanes import Lanes
from iwb_batch.providers.openai_batch import OpenAIBatch
from tests.emulator.direct import request_file
from tests.faults.harness import KEY, adapter_in_process, connection_to

EXPIRES = 30 * 24 * 3600
DATED = "2025-04-01-preview"
SURFACES = {"v1": ("azure", "v1"), "classic": ("azure", DATED), "openai": ("openai", "v1")}
WAYS = [f"{surface}, {how}" for surface in SURFACES for how in ("loopback", "in process")] + ["v1, a lane"]


@dataclass
class Bench:
    """One provider under test, the service behind it, and a request file."""

    provider: BatchProvider
    service: Service
    faults: FaultPlan
    path: Path
    lane: str = ""

    @property
    def name(self) -> str:
        """Name of an upload; with lanes it says for whom it was written."""
        return f"iwb-0123456789-0001{'-west' if self.lane else ''}.jsonl"

    def uploaded(self) -> str:
        """Upload and wait until the file is processed."""
        made = self.provider.upload(self.path, self.name, expires_after=EXPIRES)
        while self.provider.file(made.file_id).status == "pending":
            pass
        return made.file_id

    def created(self) -> RemoteBatch:
        return self.provider.create(self.uploaded(), {"iwb_run": "0123456789", "iwb_file": "0001.jsonl"})

    def ended(self) -> RemoteBatch:
        batch = self.created()
        for _ in range(20):
            batch = self.provider.batch(batch.batch_id)
            if batch.status == "completed":
                return batch
        raise AssertionError(batch)

    def posts(self, suffix: str) -> int:
        return sum(method == "POST" and where.endswith(suffix) for method, where, _ in self.service.calls)

    def fault(self, fault: HttpFault) -> None:
        self.faults.http = [*self.faults.http, fault]


Build = Callable[..., Bench]


@pytest.fixture(params=WAYS)
def build(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Build]:
    surface, _, how = str(request.param).partition(", ")
    provider, version = SURFACES[surface]
    with ExitStack() as stack:

        def make(n: int = 3, *, faults: FaultPlan | None = None, key: str = KEY, **settings: object) -> Bench:
            plan = faults or FaultPlan()
            service = stack.enter_context(Service(Settings(key=key, **settings), faults=plan))  # type: ignore[arg-type]
            if how == "loopback":
                url = stack.enter_context(running(service)) + ("/v1" if provider == "openai" else "")
                connection = connection_to(url, api_version=version, provider=provider)
                adapter = OpenAIBatch(connection, read_retries=0)
            else:
                adapter = adapter_in_process(service, api_version=version, provider=provider)
            stack.callback(adapter.close)
            path = tmp_path / "requests.jsonl"
            path.write_bytes(request_file(n))
            if how == "a lane":
                return Bench(Lanes({"west": adapter}), service, plan, path, lane="west/")
            return Bench(adapter, service, plan, path)

        yield make


def test_a_file_goes_up_and_comes_back(build: Build) -> None:
    bench = build()
    file_id = bench.uploaded()
    remote = bench.provider.file(file_id)
    assert remote.status == "processed"
    assert remote.n_bytes == len(bench.path.read_bytes())
    assert remote.filename == bench.name
    assert remote.expires_at is not None
    sink = io.BytesIO()
    assert bench.provider.download(file_id, sink) == remote.n_bytes
    assert sink.getvalue() == bench.path.read_bytes()


def test_a_batch_lives_to_its_end(build: Build) -> None:
    bench = build(5)
    batch = bench.ended()
    assert batch.metadata == {"iwb_run": "0123456789", "iwb_file": "0001.jsonl"}
    assert (batch.total, batch.completed, batch.failed, batch.began) == (5, 5, 0, True)
    assert batch.created_at is not None
    assert batch.output_file_id is not None
    sink = io.BytesIO()
    n_bytes = bench.provider.download(batch.output_file_id, sink)
    assert n_bytes == bench.provider.file(batch.output_file_id).n_bytes
    assert sink.getvalue().count(b"\n") == 5


def test_listings_are_whole_and_newest_first(build: Build) -> None:
    bench = build(1, max_page=2)
    file_ids = [bench.uploaded() for _ in range(5)]
    assert [file.file_id for file in bench.provider.files()] == file_ids[::-1]
    made = [bench.provider.create(file_id, {"iwb_file": str(n)}).batch_id for n, file_id in enumerate(file_ids)]
    listed = list(bench.provider.batches())
    assert [batch.batch_id for batch in listed] == made[::-1]
    assert [batch.metadata["iwb_file"] for batch in listed] == ["4", "3", "2", "1", "0"]
    assert [batch.input_file_id for batch in listed] == file_ids[::-1]


def test_a_listing_that_breaks_off_is_no_listing(build: Build) -> None:
    bench = build(1, max_page=2)
    for _ in range(3):
        bench.created()
    bench.fault(HttpFault(fault="status", status=500, method="GET", path="^/batches$", nth=(2,)))
    with pytest.raises(Unavailable):
        list(bench.provider.batches())


def test_what_is_not_there_is_rejected_with_404(build: Build) -> None:
    bench = build()
    calls: list[Callable[[], object]] = [
        lambda: bench.provider.file(f"{bench.lane}file-none"),
        lambda: bench.provider.batch(f"{bench.lane}batch_none"),
        lambda: bench.provider.download(f"{bench.lane}file-none", io.BytesIO()),
        lambda: bench.provider.cancel(f"{bench.lane}batch_none"),
    ]
    for call in calls:
        with pytest.raises(Rejected) as refused:
            call()
        assert refused.value.status == 404


def test_deleting_twice_says_so(build: Build) -> None:
    bench = build()
    file_id = bench.uploaded()
    assert bench.provider.delete_file(file_id)
    assert not bench.provider.delete_file(file_id)


def test_cancelling_keeps_what_is_done(build: Build) -> None:
    bench = build(6)
    batch = bench.created()
    bench.provider.batch(batch.batch_id)
    assert bench.provider.cancel(batch.batch_id).status == "cancelling"
    ended = bench.provider.batch(batch.batch_id)
    assert ended.status == "cancelled"
    assert ended.output_file_id is not None


def test_cancelling_what_has_ended_is_rejected(build: Build) -> None:
    bench = build()
    batch = bench.ended()
    with pytest.raises(Rejected):
        bench.provider.cancel(batch.batch_id)


POSTS: dict[str, tuple[str, Callable[[Bench], object]]] = {
    "upload": ("^/files$", lambda bench: bench.provider.upload(bench.path, bench.name, expires_after=EXPIRES)),
    "create": ("^/batches$", lambda bench: bench.provider.create(bench.uploaded(), {})),
    "cancel": ("/cancel$", lambda bench: bench.provider.cancel(bench.created().batch_id)),
}
UNKNOWN = {
    "reply lost": HttpFault(fault="lost_reply"),
    "500": HttpFault(fault="status", status=500, html=True),
    "502 after commit": HttpFault(fault="status", status=502, html=True, commit=True),
    "malformed JSON": HttpFault(fault="bad_json"),
    "empty body": HttpFault(fault="empty_body"),
    "web page": HttpFault(fault="html"),
    "408": HttpFault(fault="status", status=408),
    "cut reply": HttpFault(fault="short_download"),
}


@pytest.mark.parametrize(("path", "call"), POSTS.values(), ids=POSTS.keys())
def test_a_post_without_a_readable_answer_is_ambiguous_and_made_once(
    build: Build, path: str, call: Callable[[Bench], object]
) -> None:
    bench = build()
    suffix = path.strip("^$")
    for name, fault in UNKNOWN.items():
        bench.fault(replace(fault, method="POST", path=path, times=1))
        before = bench.posts(suffix)
        with pytest.raises(Ambiguous):
            call(bench)
        assert bench.posts(suffix) - before == 1, name


def sent(bench: Bench) -> str:
    return bench.provider.upload(bench.path, bench.name, expires_after=EXPIRES).file_id


READS: dict[str, tuple[str, Callable[[Bench], object]]] = {
    "file": ("^/files/.", lambda bench: bench.provider.file(sent(bench))),
    "batch": ("^/batches/.", lambda bench: bench.provider.batch(bench.created().batch_id)),
    "batches": ("^/batches$", lambda bench: list(bench.provider.batches())),
    "files": ("^/files$", lambda bench: list(bench.provider.files())),
}


@pytest.mark.parametrize(("path", "call"), READS.values(), ids=READS.keys())
def test_a_read_without_a_readable_answer_is_unavailable(
    build: Build, path: str, call: Callable[[Bench], object]
) -> None:
    bench = build()
    for fault in UNKNOWN.values():
        bench.fault(replace(fault, method="GET", path=path, times=1))
        with pytest.raises(Unavailable):
            call(bench)


@pytest.mark.parametrize("kind", ["short_download", "reset_before", "lost_reply", "bad_json"])
def test_a_download_that_is_cut_is_unavailable_or_short(build: Build, kind: str) -> None:
    """Where the length was announced the cut is noticed here; ``bad_json`` is another body, told by its length."""
    bench = build()
    batch = bench.ended()
    assert batch.output_file_id is not None
    bench.fault(HttpFault(fault=kind, path="/content$"))
    sink = io.BytesIO()
    if kind == "bad_json":
        assert bench.provider.download(batch.output_file_id, sink) != bench.provider.file(batch.output_file_id).n_bytes
    else:
        with pytest.raises(Unavailable):
            bench.provider.download(batch.output_file_id, sink)


def test_a_download_cut_without_an_announced_length_is_shorter_than_the_file_says(build: Build) -> None:
    bench = build()
    batch = bench.ended()
    assert batch.output_file_id is not None
    bench.fault(HttpFault(fault="silent_short", path="/content$"))
    n_bytes = bench.provider.download(batch.output_file_id, io.BytesIO())
    announced = bench.provider.file(batch.output_file_id).n_bytes
    assert announced is not None
    assert n_bytes < announced


@pytest.mark.parametrize("seconds", [2.0, 600.0])
def test_429_names_the_wait_and_did_not_happen(build: Build, seconds: float) -> None:
    bench = build()
    bench.fault(HttpFault(fault="status", status=429, retry_after=seconds))
    calls: list[Callable[[], object]] = [
        lambda: bench.provider.upload(bench.path, bench.name, expires_after=EXPIRES),
        lambda: list(bench.provider.batches()),
        lambda: bench.provider.batch(f"{bench.lane}batch_1"),
    ]
    for call in calls:
        with pytest.raises(Unavailable) as held:
            call()
        assert held.value.retry_after == seconds


def test_a_refused_key_is_rejected_with_401(build: Build) -> None:
    bench = build(key="another-key")
    calls: list[Callable[[], object]] = [
        lambda: bench.provider.upload(bench.path, bench.name, expires_after=EXPIRES),
        lambda: list(bench.provider.files()),
        lambda: bench.provider.batch(f"{bench.lane}batch_1"),
    ]
    for call in calls:
        with pytest.raises(Rejected) as refused:
            call()
        assert refused.value.status == 401


def test_a_refused_create_carries_every_code_and_line(build: Build) -> None:
    fault = BatchFault(fault="failed", code="token_limit_exceeded", message="limit of 30K", line=3, when="create")
    bench = build(faults=FaultPlan(batches=[fault]))
    with pytest.raises(Rejected) as refused:
        bench.created()
    error = refused.value.errors[0]
    assert (error.code, error.message, error.line) == ("token_limit_exceeded", "limit of 30K", 3)


def test_a_failed_batch_carries_its_errors(build: Build) -> None:
    fault = BatchFault(fault="failed", code="invalid_json_line", message="not JSON", line=2)
    bench = build(faults=FaultPlan(batches=[fault]))
    batch = bench.provider.batch(bench.created().batch_id)
    assert (batch.status, batch.began) == ("failed", False)
    assert [(error.code, error.line, error.message) for error in batch.errors] == [("invalid_json_line", 2, "not JSON")]


FORMS = ["empty_ids", "null_counts", "iso_times", "capitalised"]


@pytest.mark.parametrize("form", FORMS)
def test_odd_forms_of_a_batch_are_read(build: Build, form: str) -> None:
    bench = build(faults=FaultPlan(batches=[BatchFault(fault=form)]))
    batch = bench.created()
    for _ in range(4):
        batch = bench.provider.batch(batch.batch_id)
    assert batch.status.lower() == "completed"
    assert batch.output_file_id
    assert batch.error_file_id != ""
    assert batch.created_at is not None
    assert batch.began
    assert (batch.completed is None) == (form == "null_counts")


def test_every_failure_is_one_of_the_three_words() -> None:
    assert {word.__name__ for word in CallFailed.__subclasses__()} == {"Rejected", "Unavailable", "Ambiguous"}


@pytest.mark.parametrize("run_id", ["0123456789", "abcdef0123", "9999999999"])
def test_the_lane_of_a_request_file_is_found_whatever_the_run_id(tmp_path: Path, run_id: str) -> None:
    """A run id may consist of digits alone and look like the number of a request file."""
    with Service(Settings(key=KEY)) as service, adapter_in_process(service) as adapter:
        path = tmp_path / "0001-west.jsonl"
        path.write_bytes(request_file(1))
        made = Lanes({"west": adapter}).upload(path, f"iwb-{run_id}-0001-west.jsonl", expires_after=EXPIRES)
    assert made.file_id.startswith("west/")


# --- provider files ------------------------------------------------------------------------------------
#
# A written request file counts as submitted and answers are given by hand. Nothing is called, so no call can be lost,
# refused or cut, and nothing is fetched.

NAME = "iwb-0123456789-0001.jsonl"

NO_CALLS = "no call is made: none can be lost, refused, cut or answered with an error"
NO_DOWNLOADS = "answers are given with collect --from; there is nothing to download"
NO_END = "a batch has no end of its own: the answers given decide"
NOT_FOR_FILES = {
    "test_a_batch_lives_to_its_end": NO_END,
    "test_a_listing_that_breaks_off_is_no_listing": "listings are empty and always whole",
    "test_cancelling_what_has_ended_is_rejected": NO_END,
    "test_a_post_without_a_readable_answer_is_ambiguous_and_made_once": NO_CALLS,
    "test_a_read_without_a_readable_answer_is_unavailable": NO_CALLS,
    "test_a_download_that_is_cut_is_unavailable_or_short": NO_DOWNLOADS,
    "test_a_download_cut_without_an_announced_length_is_shorter_than_the_file_says": NO_DOWNLOADS,
    "test_429_names_the_wait_and_did_not_happen": NO_CALLS,
    "test_a_refused_key_is_rejected_with_401": "there is no key",
    "test_a_refused_create_carries_every_code_and_line": NO_CALLS,
    "test_a_failed_batch_carries_its_errors": NO_END,
    "test_odd_forms_of_a_batch_are_read": "no form comes from outside",
}
"""Parts of the contract that provider files does not have to keep, each with the reason."""

FOR_FILES = {
    "test_a_file_goes_up_and_comes_back": "test_files_a_request_file_is_at_once_where_it_should_be",
    "test_listings_are_whole_and_newest_first": "test_files_nothing_is_listed_since_no_call_can_be_lost",
    "test_what_is_not_there_is_rejected_with_404": "test_files_nothing_can_be_downloaded",
    "test_deleting_twice_says_so": "test_files_a_request_file_is_never_deleted",
    "test_cancelling_keeps_what_is_done": "test_files_cancelling_tells_nobody_and_changes_nothing",
}
"""Parts that it keeps in its own way, each with the test that says how."""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "0001.jsonl"
    path.write_bytes(request_file(3))
    return path


def by_files(written: Path) -> tuple[BatchProvider, RemoteBatch]:
    provider = FilesProvider()
    made = provider.upload(written, NAME, expires_after=EXPIRES)
    return provider, provider.create(made.file_id, {"iwb_run": "0123456789", "iwb_file": "0001.jsonl"})


def test_every_part_of_the_contract_applies_to_files_or_says_why_not() -> None:
    parts = {name for name, test in globals().items() if name.startswith("test_") and "build" in test.__annotations__}
    assert parts == NOT_FOR_FILES.keys() | FOR_FILES.keys()
    assert set(FOR_FILES.values()) <= globals().keys()


def test_files_a_request_file_is_at_once_where_it_should_be(written: Path) -> None:
    provider = FilesProvider()
    made = provider.upload(written, NAME, expires_after=EXPIRES)
    assert (made.status, made.n_bytes, made.filename) == ("processed", written.stat().st_size, NAME)
    assert made.expires_at is None
    assert provider.file(made.file_id).status == "processed"
    assert written.read_bytes() == request_file(3), "the file itself is left alone"


def test_files_the_same_file_has_the_same_ids_whenever_it_is_sent(written: Path) -> None:
    """An upload or create that a crash cut off is repeated: the second time makes nothing new."""
    (_, first), (_, again) = by_files(written), by_files(written)
    assert (first.batch_id, first.input_file_id) == (again.batch_id, again.input_file_id)


def test_files_a_batch_waits_for_as_long_as_it_takes(written: Path) -> None:
    provider, batch = by_files(written)
    assert batch.metadata == {"iwb_run": "0123456789", "iwb_file": "0001.jsonl"}
    seen = provider.batch(batch.batch_id)
    assert (seen.batch_id, seen.input_file_id) == (batch.batch_id, batch.input_file_id)
    assert not lifecycle.has_ended(seen.status)
    assert not seen.began
    assert (seen.output_file_id, seen.error_file_id, seen.total, seen.completed) == (None, None, None, None)


def test_files_nothing_is_listed_since_no_call_can_be_lost(written: Path) -> None:
    provider, _ = by_files(written)
    assert list(provider.files()) == []
    assert list(provider.batches()) == []


def test_files_nothing_can_be_downloaded(written: Path) -> None:
    provider, batch = by_files(written)
    assert batch.input_file_id is not None
    for file_id in (batch.input_file_id, "file-none"):
        sink = io.BytesIO()
        with pytest.raises(Rejected) as refused:
            provider.download(file_id, sink)
        assert refused.value.status == 404
        assert sink.getvalue() == b""


def test_files_a_request_file_is_never_deleted(written: Path) -> None:
    provider, batch = by_files(written)
    assert batch.input_file_id is not None
    assert not provider.delete_file(batch.input_file_id)
    assert written.is_file()


def test_files_cancelling_tells_nobody_and_changes_nothing(written: Path) -> None:
    provider, batch = by_files(written)
    assert provider.cancel(batch.batch_id) == provider.batch(batch.batch_id)


def test_files_there_is_nobody_to_chat_with() -> None:
    with pytest.raises(Rejected) as refused:
        FilesProvider().chat({"model": "local", "messages": []})
    assert refused.value.status is None, "nobody answered: it is no refusal of credentials"


def test_files_every_run_has_the_same_host() -> None:
    assert FilesProvider().host == "files"
