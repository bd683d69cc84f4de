"""What survives a restart: files, batches at every stage, answers; and what a state folder refuses."""

from __future__ import annotations

import errno
import io
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.emulator.faults import BatchFault, FaultPlan, HttpFault
from iwb_batch.emulator.journal import Journal
from iwb_batch.emulator.judge import Completion, Interrupted, Rehearsal
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.errors import IwbError, UsageError
from tests.emulator.direct import KEY, Direct, by_id, ids, line, request_file, rows


class Host:
    """Starts services one after the other on one state folder."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.now = 1_900_000_000.0
        self._service: Service | None = None

    def start(
        self, judge: Any = None, faults: FaultPlan | None = None, prefix: str = "/openai/v1", **settings: Any
    ) -> Direct:
        """End the service that runs, if any, and start the next."""
        self.end()
        chosen = Settings(key=KEY, **settings)
        self._service = Service(chosen, judge=judge, faults=faults, state=self.state, keep=True, clock=lambda: self.now)
        return Direct(self._service, prefix)

    def end(self) -> None:
        if self._service is not None:
            self._service.close()
            self._service = None


@pytest.fixture
def host(tmp_path: Path) -> Any:
    host = Host(tmp_path / "state")
    yield host
    host.end()


class Counting:
    """The rehearsal judge; it counts, and stops after ``most`` answers as a judge does that is told to."""

    def __init__(self, most: int | None = None) -> None:
        self.asked: list[str] = []
        self._most = most

    def answer(self, body: Mapping[str, Any]) -> Completion:
        if self._most is not None and len(self.asked) >= self._most:
            raise Interrupted
        self.asked.append(body["messages"][0]["content"])
        return Rehearsal().answer(body)


def contents(host: Host) -> set[str]:
    return {path.name for path in (host.state / "contents").iterdir()}


# ---------------------------------------------------------------- going on


@pytest.mark.parametrize("prefix", ["/openai/v1", "/v1"])
def test_a_restart_after_every_call_changes_nothing(host: Host, prefix: str) -> None:
    file_id = host.start(prefix=prefix).upload(request_file(4), "क.jsonl").json()["id"]
    shown = host.start(prefix=prefix).call("GET", "/files").json()["data"]
    assert [(one["id"], one["filename"], one["status"]) for one in shown] == [(file_id, "क.jsonl", "pending")]
    assert host.start(prefix=prefix).call("GET", f"/files/{file_id}").json()["status"] == "processed"
    endpoint = "/v1/chat/completions"
    made = host.start(prefix=prefix).create(file_id, endpoint=endpoint, metadata={"iwb_run": "r"}).json()
    seen = []
    for _ in range(4):
        batch = host.start(prefix=prefix).poll(made["id"])
        seen.append(batch["status"])
    assert seen == ["in_progress", "finalizing", "completed", "completed"]
    assert {batch[name] == made[name] for name in ("metadata", "endpoint", "created_at", "input_file_id")} == {True}
    client = host.start(prefix=prefix)
    assert batch == client.poll(made["id"]) == client.call("GET", "/batches").json()["data"][0]
    output = rows(client.content(batch["output_file_id"]))
    assert {row["custom_id"] for row in output} == ids(4)
    assert all(("id" in row) == (prefix == "/v1") for row in output)
    assert client.content(file_id) == request_file(4)


def test_a_batch_goes_on_from_the_lines_already_answered(host: Host) -> None:
    first, second = Counting(most=3), Counting()
    client = host.start(first)
    batch_id = client.submit(request_file(10))
    client.poll(batch_id)
    assert client.poll(batch_id)["request_counts"] == {"total": 10, "completed": 3, "failed": 0}
    client = host.start(second)
    assert client.poll(batch_id)["status"] == "finalizing"
    batch = client.finish(batch_id)
    assert batch["request_counts"] == {"total": 10, "completed": 10, "failed": 0}
    assert len(first.asked) == 3
    assert len(second.asked) == 7
    assert not set(first.asked) & set(second.asked)
    assert {row["custom_id"] for row in rows(client.content(batch["output_file_id"]))} == ids(10)


def test_cancelling_goes_on_too_and_names_what_was_not_done(host: Host) -> None:
    client = host.start(Counting(most=2), prefix="/v1")
    batch_id = client.create(client.file(request_file(5)), endpoint="/v1/chat/completions").json()["id"]
    for _ in range(2):
        client.poll(batch_id)
    assert client.call("POST", f"/batches/{batch_id}/cancel").json()["status"] == "cancelling"
    client = host.start(Counting(most=0), prefix="/v1")
    batch = client.poll(batch_id)
    assert (batch["status"], batch["request_counts"]["completed"]) == ("cancelled", 2)
    done, dead = by_id(client.content(batch["output_file_id"])), by_id(client.content(batch["error_file_id"]))
    assert done.keys() | dead.keys() == ids(5)
    assert (len(done), {row["error"]["code"] for row in dead.values()}) == (2, {"batch_cancelled"})


def test_faults_drawn_for_a_batch_stay_with_it(host: Host) -> None:
    plan = FaultPlan(batches=[BatchFault(fault="expired", share=0.5, nth=(1,)), BatchFault(fault="capitalised")])
    batch_id = (client := host.start(faults=plan)).submit(request_file(8))
    client.poll(batch_id)
    batch = host.start().finish(batch_id)
    assert (batch["status"], batch["request_counts"]["completed"]) == ("Expired", 4)


def test_files_whose_processing_is_late_stay_late(host: Host) -> None:
    plan = FaultPlan(http=[HttpFault(fault="file_pending", method="POST", path="^/files$", polls=3)])
    file_id = host.start(faults=plan).upload(request_file(1)).json()["id"]
    seen = [host.start().call("GET", f"/files/{file_id}").json()["status"] for _ in range(3)]
    assert seen == ["pending", "pending", "processed"]


def test_queued_tokens_are_still_held(host: Host) -> None:
    limit = len(request_file(3)) // 4 + 10
    host.start(deployments={"gpt-5.4": limit}).submit(request_file(3))
    client = host.start(deployments={"gpt-5.4": limit})
    assert client.finish(client.submit(request_file(3, attempt=2)))["errors"]["data"][0]["code"] == (
        "token_limit_exceeded"
    )


def test_listings_keep_their_order(host: Host) -> None:
    made = []
    for attempt in range(1, 5):
        client = host.start()
        made.append((client.submit(request_file(1, attempt=attempt)), attempt))
    batches = host.start().call("GET", "/batches").json()["data"]
    assert [batch["id"] for batch in batches] == [key for key, _ in reversed(made)]
    files = host.start().call("GET", "/files", order="asc").json()["data"]
    assert [one["id"] for one in files] == [batch["input_file_id"] for batch in reversed(batches)]


def test_what_was_deleted_or_has_expired_does_not_come_back(host: Host) -> None:
    client = host.start()
    stays = client.file(request_file(1))
    client.call("DELETE", f"/files/{client.file(request_file(2))}")
    expiry = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    client.file(request_file(3), **expiry)
    assert len(contents(host)) == 2, "the bytes of a deleted file are gone"
    host.now += 3601
    client = host.start()
    assert [one["id"] for one in client.call("GET", "/files").json()["data"]] == [stays]
    assert len(contents(host)) == 1


def test_an_input_file_deleted_under_a_running_batch_is_read_to_the_end(host: Host) -> None:
    client = host.start()
    file_id = client.file(request_file(3))
    batch_id = client.create(file_id).json()["id"]
    client.poll(batch_id)
    client.call("DELETE", f"/files/{file_id}")
    client = host.start()
    assert client.call("GET", f"/files/{file_id}").status == 404
    batch = client.finish(batch_id)
    assert batch["request_counts"]["completed"] == 3
    assert len(contents(host)) == 2, "output and error file; neither input nor journal"


def test_a_kill_between_publishing_and_its_record_costs_nothing(host: Host, tmp_path: Path) -> None:
    client = host.start(judge := Counting())
    batch_id = client.submit(request_file(3))
    for _ in range(2):
        client.poll(batch_id)
    host.end()
    shutil.copytree(host.state, tmp_path / "before")
    assert host.start(judge).finish(batch_id)["status"] == "completed"
    host.end()
    # The record as it was, with the files of the batch published already.
    shutil.copytree(tmp_path / "before", host.state, dirs_exist_ok=True)
    client = host.start(judge)
    assert client.poll(batch_id)["status"] == "completed"
    assert len(client.call("GET", "/files", purpose="batch_output").json()["data"]) == 2
    assert len(contents(host)) == 3
    assert len(judge.asked) == 3


def test_an_upload_broken_off_leaves_nothing(host: Host) -> None:
    host.start().file(request_file(1))
    (host.state / "contents" / f"{'0' * 32}.jsonl").write_bytes(b'{"half')
    (host.state / "records" / "file-x.json.new").write_bytes(b'{"half')
    host.start()
    assert len(contents(host)) == 1
    assert not list((host.state / "records").glob("*.new"))


# ---------------------------------------------------------------- the journal

ANSWERS = [(5, b'{"a": 1}\n', b""), (2, b"", b'{"e": "\xe0\xa4\x95"}\n'), (9, b"1 1 1 1\n", b"0 0\n"), (1, b"", b"")]


def journal_of(path: Path, answers: list[tuple[int, bytes, bytes]]) -> Journal:
    journal = Journal(path)
    for number, output, error in answers:
        journal.add(number, output, error, succeeded=not error)
    return journal


@settings(deadline=None, derandomize=True)
@given(cut=st.integers(0, 200), tail=st.binary(max_size=20))
def test_a_journal_cut_anywhere_keeps_every_whole_answer(
    cut: int, tail: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    sizes = [0]
    for n in range(1, 5):
        journal_of(folder / f"{n}", ANSWERS[:n]).close()
        sizes.append((folder / f"{n}").stat().st_size)
    data = (folder / "4").read_bytes()[:cut]
    whole = max(n for n, size in enumerate(sizes) if size <= cut)
    (folder / "cut").write_bytes(data)
    journal = Journal(folder / "cut")
    assert journal.numbers == {number for number, _, _ in ANSWERS[:whole]}
    assert (folder / "cut").stat().st_size == sizes[whole]
    for number, output, error in ANSWERS[whole:]:
        journal.add(number, output, error, succeeded=not error)
    journal.split(folder / "output", folder / "error")
    journal.close()
    assert (folder / "output").read_bytes() == b"".join(output for _, output, _ in ANSWERS)
    assert (folder / "error").read_bytes() == b"".join(error for _, _, error in ANSWERS)
    assert (journal.completed, journal.failed) == (2, 2)


@pytest.mark.parametrize("tail", [b"\x00" * 40, b"7 1 5", b"7 1 5 0\nabc", b"-1 1 0 0\n", b"x\n" * 9])
def test_a_journal_with_rubbish_at_its_end_is_cut_there(tail: bytes, tmp_path: Path) -> None:
    journal_of(path := tmp_path / "journal", ANSWERS).close()
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + tail)
    journal = Journal(path)
    journal.close()
    assert journal.numbers == {5, 2, 9, 1}
    assert path.stat().st_size == size


class FullDisk(io.BytesIO):
    """A file on a disk without room."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_answers_that_cannot_be_kept_fail_the_batch(host: Host) -> None:
    class Filling(Counting):
        """Takes the room away before the third answer is kept."""

        def answer(self, body: Mapping[str, Any]) -> Completion:
            if len(self.asked) == 2:
                (batch,) = client.service._batches._batches.values()
                assert batch.execution is not None
                batch.execution.journal._stream.close()
                batch.execution.journal._stream = FullDisk()
            return super().answer(body)

    client = host.start(Filling())
    batch = client.finish(client.submit(request_file(5)))
    assert batch["status"] == "failed"
    assert "No space left" in batch["errors"]["data"][0]["message"]
    assert batch["request_counts"] == {"total": 5, "completed": 2, "failed": 0}
    assert len(rows(client.content(batch["output_file_id"]))) == 2


# ---------------------------------------------------------------- refusals


def test_two_services_do_not_share_a_folder(host: Host) -> None:
    host.start()
    with pytest.raises(IwbError, match="another emulator works on this folder"):
        Service(state=host.state, keep=True)
    host.end()
    Service(state=host.state, keep=True).close()


def foreign(state: Path) -> None:
    (state / "thesis.txt").write_text("शोध", encoding="utf-8")


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    foreign(tmp_path)
    with pytest.raises(UsageError, match="not a state folder"):
        Service(state=tmp_path, keep=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"")
    with pytest.raises(IwbError, match="cannot be used") as caught:
        Service(state=tmp_path / "state", keep=True)
    assert caught.value.hint


def no_contents(state: Path) -> None:
    for path in (state / "contents").iterdir():
        path.unlink()


def short_contents(state: Path) -> None:
    for path in (state / "contents").iterdir():
        path.write_bytes(path.read_bytes()[:-1])


def half_record(state: Path) -> None:
    next((state / "records").glob("batch*")).write_bytes(b'{"kind": "ba')


def other_format(state: Path) -> None:
    (state / "emulator.json").write_bytes(b'{"format":2}')


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        pytest.param(no_contents, "damaged: a record says", id="no contents"),
        pytest.param(short_contents, "damaged: a record says", id="short contents"),
        pytest.param(half_record, "damaged:", id="half a record"),
        pytest.param(other_format, "another version", id="other format"),
    ],
)
def test_a_damaged_state_is_named_and_not_touched(host: Host, harm: Callable[[Path], None], words: str) -> None:
    host.start().submit(request_file(2))
    host.end()
    harm(host.state)
    before = {path: path.read_bytes() for path in host.state.rglob("*") if path.is_file()}
    with pytest.raises(IwbError, match=words) as caught:
        Service(state=host.state, keep=True)
    assert caught.value.hint
    assert {path: path.read_bytes() for path in host.state.rglob("*") if path.is_file()} == before


def test_the_folder_is_for_its_owner_alone(host: Host) -> None:
    host.start()
    assert host.state.stat().st_mode & 0o077 == 0


def test_records_are_small_and_hold_no_line(host: Host) -> None:
    client = host.start()
    client.finish(client.submit(request_file(50)))
    texts = [path.read_text(encoding="utf-8") for path in (host.state / "records").iterdir()]
    assert len(texts) == 4
    assert max(map(len, texts)) < 2000
    assert not any(line(7)["custom_id"] in text or KEY in text for text in texts)
    assert all(json.loads(text)["kind"] in ("file", "batch") for text in texts)
