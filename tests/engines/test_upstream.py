"""A chat endpoint as a Batch API: calls in flight, tries and waits, answers as they came, keys, restarts."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest

from iwb_batch.emulator.build import build_service
from iwb_batch.emulator.judge import LineError
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.upstream import LONGEST_ASKED, TRIES, Upstream
from iwb_batch.errors import UsageError
from tests.cli.support import KEY, Background, Cli, Inputs, background
from tests.emulator.direct import Direct, content, ids, jsonl, line, request_file, rows
from tests.emulator.endpoint import WAIT, Answer, Asked, Endpoint, Script, answering, completion, fine

NOW = 1_900_000_000.0
SECRET = "up-k3y-4711"


class Naps:
    """Stands in for sleeping: writes the seconds down."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def judge(url: str, naps: Naps | None = None, **more: Any) -> Upstream:
    return Upstream(url, sleep=naps or Naps(), chance=lambda: 1.0, clock=lambda: NOW, **more)


@contextmanager
def served(upstream: Upstream, *, concurrency: int = 1) -> Iterator[Direct]:
    with Service(Settings(key="test-key", concurrency=concurrency), judge=upstream) as service:
        yield Direct(service)


def finished(client: Direct, batch_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT
    while (batch := client.poll(batch_id))["status"] not in ("completed", "cancelled", "failed"):
        assert time.monotonic() < deadline, batch
        time.sleep(0.002)
    return batch


def run(upstream: Upstream, data: bytes, concurrency: int = 1) -> tuple[dict[str, Any], bytes, bytes]:
    """One batch: its last state, its output, its error file."""
    with served(upstream, concurrency=concurrency) as client:
        batch = finished(client, client.submit(data))
        return batch, client.content(batch["output_file_id"]), client.content(batch["error_file_id"])


# ---------------------------------------------------------------- calls in flight


def test_all_batches_together_keep_to_the_concurrency() -> None:
    meeting = threading.Barrier(3)

    def together(asked: Asked) -> Answer:
        meeting.wait(WAIT)  # nobody is answered before three are there
        if asked.call <= 6:
            with endpoint.changed:  # time for a fourth, which must not come
                endpoint.changed.wait_for(lambda: endpoint.in_flight > 3, 0.3)
        return fine(asked)

    with answering(together) as endpoint, served(judge(endpoint.url), concurrency=3) as client:
        batches = [client.submit(request_file(n)) for n in (6, 3, 9)]
        for batch_id in batches:
            client.poll(batch_id)
        done = [finished(client, batch_id) for batch_id in batches]
    assert [batch["request_counts"]["completed"] for batch in done] == [6, 3, 9]
    assert endpoint.most_in_flight == 3
    assert len(endpoint.asked) == 18


def test_a_slow_line_blocks_no_call() -> None:
    release = threading.Event()

    def slow(asked: Asked) -> Answer:
        if asked.call > 2:
            release.wait(WAIT)
        return fine(asked)

    with answering(slow) as endpoint, served(judge(endpoint.url)) as client:
        batch_id = client.submit(request_file(4))
        client.poll(batch_id)
        endpoint.wait_until(lambda: len(endpoint.asked) == 3)
        batch = client.poll(batch_id)
        assert (batch["status"], batch["request_counts"]["completed"]) == ("in_progress", 2)
        assert client.call("GET", "/files").status == 200
        other = client.submit(request_file(1, attempt=2))
        assert client.poll(other)["status"] == "in_progress"
        release.set()
        assert finished(client, batch_id)["request_counts"] == {"total": 4, "completed": 4, "failed": 0}
        assert finished(client, other)["request_counts"]["completed"] == 1


def test_a_cancelled_batch_keeps_what_was_answered_and_asks_no_more() -> None:
    release = threading.Event()

    def slow(asked: Asked) -> Answer:
        if asked.call == 3:
            release.wait(WAIT)
        return fine(asked)

    with answering(slow) as endpoint, served(judge(endpoint.url)) as client:
        batch_id = client.submit(request_file(10))
        client.poll(batch_id)
        endpoint.wait_until(lambda: len(endpoint.asked) == 3)
        assert client.call("POST", f"/batches/{batch_id}/cancel").json()["status"] == "cancelling"
        assert client.poll(batch_id)["status"] == "cancelling", "a line is still on its way"
        release.set()
        batch = finished(client, batch_id)
        assert batch["status"] == "cancelled"
        assert len(rows(client.content(batch["output_file_id"]))) == 3
    assert len(endpoint.asked) == 3


# ---------------------------------------------------------------- tries and waits

WAITS = [
    pytest.param({"retry-after": "7"}, [7.0], id="seconds"),
    pytest.param({"retry-after": "0.25"}, [0.25], id="part of a second"),
    pytest.param({"retry-after-ms": "1500", "retry-after": "9"}, [1.5], id="milliseconds first"),
    pytest.param({"retry-after": "Sun, 17 Mar 2030 17:46:52 GMT"}, [12.0], id="date"),
    pytest.param({"retry-after": "Sun, 17 Mar 2030 10:00:00 GMT"}, [0.0], id="date gone by"),
    pytest.param({"retry-after": "86400"}, [LONGEST_ASKED], id="a day"),
    pytest.param({"retry-after": "-3"}, [0.0], id="negative"),
    pytest.param({"retry-after": "inf"}, [1.0], id="for ever"),
    pytest.param({"retry-after": "soon"}, [1.0], id="a word"),
    pytest.param({}, [1.0], id="none"),
]


@pytest.mark.parametrize(("headers", "naps"), WAITS)
def test_the_wait_is_the_one_the_endpoint_names(headers: dict[str, str], naps: list[float]) -> None:
    def busy(asked: Asked) -> Answer:
        return fine(asked) if asked.turn > 1 else Answer(b'{"error": {"message": "busy"}}', 429, headers)

    slept = Naps()
    with answering(busy) as endpoint:
        batch, output, _ = run(judge(endpoint.url, slept), request_file(1))
    assert batch["request_counts"] == {"total": 1, "completed": 1, "failed": 0}
    assert len(rows(output)) == 1
    assert slept.seconds == pytest.approx(naps)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_what_passes_is_tried_again(status: int) -> None:
    with answering(lambda asked: fine(asked) if asked.turn == 3 else Answer(b"{}", status)) as endpoint:
        batch, _, _ = run(judge(endpoint.url), request_file(2))
    assert batch["request_counts"]["completed"] == 2
    assert set(endpoint.turns.values()) == {3}


def test_waits_double_up_to_a_minute_and_tries_are_bounded() -> None:
    said = b'{"error": {"message": "\xe0\xa4\xad\xe0\xa4\xb0\xe0\xa4\xbe", "code": "overloaded"}}'
    slept = Naps()
    with answering(lambda _: Answer(said, 503)) as endpoint:
        batch, _, error = run(judge(endpoint.url, slept), request_file(1))
    assert slept.seconds == [1, 2, 4, 8, 16, 32, 60]
    assert len(endpoint.asked) == TRIES
    assert batch["request_counts"] == {"total": 1, "completed": 0, "failed": 1}
    (row,) = rows(error)
    assert row["response"]["status_code"] == 503
    assert row["response"]["body"] == json.loads(said)


def test_waits_are_spread() -> None:
    slept = Naps()
    with answering(lambda _: Answer(b"{}", 500)) as endpoint:
        upstream = Upstream(endpoint.url, tries=4, sleep=slept, chance=iter([0.0, 0.5, 1.0]).__next__)
        with pytest.raises(LineError):
            upstream.answer(line(0)["body"])
        upstream.close()
    assert slept.seconds == [0.5, 1.5, 4.0]


def test_a_connection_that_breaks_is_tried_again() -> None:
    with answering(lambda asked: fine(asked) if asked.turn > 1 else Answer(b"", 0)) as endpoint:
        batch, output, _ = run(judge(endpoint.url), request_file(3))
    assert batch["request_counts"]["completed"] == 3
    assert {row["custom_id"] for row in rows(output)} == ids(3)


def test_an_endpoint_that_is_not_there_gives_503_lines() -> None:
    with answering() as gone:
        pass
    slept = Naps()
    _, _, error = run(judge(gone.url, slept, tries=3), request_file(1))
    (row,) = rows(error)
    assert row["response"]["status_code"] == 503
    assert "did not answer" in row["response"]["body"]["error"]["message"]
    assert slept.seconds == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"<html>gateway</html>", id="html"),
        pytest.param(b"", id="empty"),
        pytest.param(b'{"choices": []}', id="no choice"),
        pytest.param(b'{"choices": [{"message": null}]}', id="no message"),
        pytest.param(completion()[:-5], id="cut"),
        pytest.param(completion().replace(b'"id"', b'"x": NaN, "id"'), id="NaN"),
        pytest.param(b"\xff\xfe" + completion(), id="not UTF-8"),
        pytest.param(b"[" * 100_000, id="too deep"),
    ],
)
def test_what_is_no_completion_is_tried_again_and_ends_as_502(text: bytes) -> None:
    with answering(lambda _: Answer(text)) as endpoint:
        _, output, error = run(judge(endpoint.url, tries=2), request_file(1))
    assert output == b""
    assert [row["response"]["status_code"] for row in rows(error)] == [502]
    assert len(endpoint.asked) == 2


# ---------------------------------------------------------------- as they are

REFUSALS = [
    pytest.param(
        400, b'{"object": "error", "message": "context length", "code": 400}', {"code": 400}, id="flat object"
    ),
    pytest.param(404, b'{"error": {"message": "no such model", "code": 404}}', {"error": {"code": 404}}, id="nested"),
    pytest.param(422, b'{\n  "detail": [\n    "field required"\n  ]\n}', {"detail": ["field required"]}, id="printed"),
    pytest.param(401, b"who are you?", {"error": {"message": "who are you?"}}, id="text"),
    pytest.param(413, b"", {"error": {"message": "The upstream endpoint gave no reason."}}, id="nothing"),
    pytest.param(307, b'"elsewhere"', {"error": {"message": '"elsewhere"'}}, id="JSON that is no object"),
]


def within(part: Any, whole: Any) -> bool:
    """Whether ``whole`` has everything of ``part``."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(within(value, whole.get(key)) for key, value in part.items())
    return bool(part == whole)


@pytest.mark.parametrize(("status", "text", "shown"), REFUSALS)
def test_a_refusal_is_the_lines_own_at_once(status: int, text: bytes, shown: dict[str, Any]) -> None:
    def picky(asked: Asked) -> Answer:
        return Answer(text, status) if " 1\n" in asked.prompt else fine(asked)

    with answering(picky) as endpoint:
        batch, output, error = run(judge(endpoint.url), request_file(3))
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert len(rows(output)) == 2
    (row,) = rows(error)
    assert row["custom_id"] == line(1)["custom_id"]
    assert (row["response"]["status_code"], row["error"]) == (status, None)
    assert within(shown, row["response"]["body"])
    assert set(endpoint.turns.values()) == {1}


VERBATIM = [
    pytest.param(b'{ "choices" :[{"message":{"content":"a"} }],"x":12345678901234567890123 }', id="spaces, big number"),
    pytest.param(b'{"choices":[{"message":{"content":"\\ud83d \\u2028"}}],"y":1.10}', id="half a surrogate pair"),
    pytest.param('{"choices":[{"message":{"content":"\ue000 \u2028 हाँ"}}]}'.encode(), id="private use, separator"),
    pytest.param(b'{"choices":[{"message":{"content":null,"reasoning":"{\\"score\\": 1}"}}]}', id="reasoning"),
]


@pytest.mark.parametrize("text", VERBATIM)
def test_an_answer_passes_as_it_is(text: bytes) -> None:
    with answering(lambda _: Answer(text)) as endpoint:
        _, output, _ = run(judge(endpoint.url), request_file(1))
    assert text in output
    assert output.count(b"\n") == 1


def test_an_answer_on_several_lines_becomes_one() -> None:
    text = json.dumps(json.loads(completion("एक\nदो")), indent=2).replace("\n", "\r\n").encode()
    with answering(lambda _: Answer(b"\xef\xbb\xbf" + text + b"\n")) as endpoint:
        _, output, _ = run(judge(endpoint.url), request_file(1))
    (row,) = rows(output)
    assert row["response"]["body"] == json.loads(text)
    assert content(row) == "एक\nदो"


def test_the_body_goes_there_as_it_is_and_only_the_model_is_replaced() -> None:
    body = {
        "model": "gpt-5.4",
        "temperature": 0.7,
        "max_tokens": 9,
        "chat_template_kwargs": {"enable_thinking": False},
        "response_format": {"type": "json_object"},
    }
    request = line(0, body=body)
    with (
        answering() as endpoint,
        build_service(
            key=None,
            judge="rehearsal",
            faults=None,
            seed=0,
            state=None,
            upstream=endpoint.url + "/",
            upstream_model="qwen3:8b",
        ) as service,
    ):
        client = Direct(service)
        batch = finished(client, client.submit(jsonl(request)))
        chat = client.call("POST", "/chat/completions", request["body"])
    assert batch["request_counts"]["completed"] == 1
    assert (chat.status, chat.read()) == (200, completion())
    assert [asked.body for asked in endpoint.asked] == [request["body"] | {"model": "qwen3:8b"}] * 2
    assert {asked.path for asked in endpoint.asked} == {"/v1/chat/completions"}


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("given", ["max_tokens", "max_completion_tokens", None])
def test_the_token_limit_has_the_name_the_endpoint_reads(name: str, given: str | None) -> None:
    limit = {} if given is None else {given: 512}
    with answering() as endpoint:
        upstream = judge(endpoint.url, token_parameter=name)
        upstream.answer({"model": "m", "messages": [{"role": "user", "content": "क"}]} | limit)
        upstream.close()
    sent = endpoint.asked[0].body
    assert {key: value for key, value in sent.items() if "tokens" in key} == ({} if given is None else {name: 512})


def test_a_line_that_asks_for_a_stream_is_refused() -> None:
    with answering() as endpoint:
        _, _, error = run(judge(endpoint.url), jsonl(line(0, body={"stream": True})))
    assert rows(error)[0]["response"]["status_code"] == 400
    assert endpoint.asked == []


# ---------------------------------------------------------------- keys and addresses


def test_the_key_goes_to_the_endpoint_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "of-another-service")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-foreign: of-another-service")
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"error": {"message": f"Incorrect API key provided: {SECRET}"}}).encode()
    with answering(lambda asked: Answer(echo, 401) if asked.call == 1 else fine(asked)) as endpoint:
        upstream = judge(endpoint.url, key=SECRET)
        _, output, error = run(upstream, request_file(2))
    assert [asked.headers["authorization"] for asked in endpoint.asked] == [f"Bearer {SECRET}"] * 2
    assert not any("of-another-service" in str(asked.headers) for asked in endpoint.asked)
    assert rows(error)[0]["response"]["body"] == {"error": {"message": "Incorrect API key provided: ***"}}
    assert SECRET.encode() not in output + error
    assert SECRET not in caplog.text + repr(upstream)


ADDRESSES = [
    pytest.param("127.0.0.1:8000/v1", None, "does not begin with", id="no scheme"),
    pytest.param("ftp://127.0.0.1/v1", None, "does not begin with", id="other scheme"),
    pytest.param("http://user:pa55@127.0.0.1/v1", None, "carries a user name", id="password"),
    pytest.param("http://127.0.0.1/v1?key=pa55", None, "carries a query", id="query"),
    pytest.param("http://127.0.0.1:99999/v1", None, "not a valid address", id="port"),
    pytest.param("http://gpu-box:8000/v1", "k", "a key is sent over https:// only", id="key in clear text"),
]


@pytest.mark.parametrize(("url", "key", "words"), ADDRESSES)
def test_a_bad_address_is_refused_without_repeating_it(url: str, key: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        Upstream(url, key)
    assert caught.value.hint
    assert "pa55" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    ("url", "key"), [("http://gpu-box:8000/v1", None), ("https://gpu-box/v1", "k"), ("http://[::1]:8000/v1", "k")]
)
def test_an_address_elsewhere_is_taken(url: str, key: str | None) -> None:
    Upstream(url, key).close()


REFUSED_OPTIONS = [
    pytest.param(["--upstream-model", "m"], "--upstream-model goes with --upstream", id="model alone"),
    pytest.param(["--upstream-token-parameter", "max_tokens"], "-token-parameter goes with", id="parameter alone"),
    pytest.param(["--upstream-key-env", "K"], "--upstream-key-env goes with --upstream", id="key alone"),
    pytest.param(
        ["--upstream", "http://127.0.0.1:1/v1", "--upstream-key-env", SECRET], "is not set", id="key for its name"
    ),
    pytest.param(["--upstream", "gpu-box"], "--upstream does not begin with", id="no address"),
    pytest.param(["--upstream", "http://127.0.0.1:1/v1", "--concurrency", "0"], "", id="nobody works"),
    pytest.param(["--host", "0.0.0.0"], "--key must be given", id="off loopback"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED_OPTIONS)
def test_emulate_refuses_what_does_not_fit(options: list[str], words: str, cli: Cli) -> None:
    done = cli("emulate", "--port", "0", *options)
    assert done.code == 2
    assert words in done.err
    assert SECRET not in done.err


# ---------------------------------------------------------------- over a restart


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def emulator(folder: Path, port: int, endpoint: Endpoint, *more: str) -> Iterator[Background]:
    """``iwb-batch emulate`` in a process of its own, from the moment it takes calls."""
    options: list[str | Path] = [
        "--port",
        str(port),
        "--key",
        KEY,
        "--state",
        folder,
        "--upstream",
        endpoint.url,
        *more,
    ]
    with background(folder.parent / "unused", "emulate", *options, UPSTREAM_KEY=SECRET) as started:
        deadline = time.monotonic() + WAIT
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert started.process.poll() is None, started.said
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield started


class Holding:
    """Answers the first calls, then holds the others until it is opened."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.opened = threading.Event()

    def __call__(self, asked: Asked) -> Answer:
        if asked.call > self.first:
            self.opened.wait(WAIT)
        return fine(asked)


def waiting_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_emulator_goes_on_and_asks_no_answered_line_again(
    cli: Cli, two: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, holding, state = free_port(), Holding(4), tmp_path / "state"
    url = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    client = openai.OpenAI(base_url=f"{url}/openai/v1/", api_key=KEY)
    options = ("--concurrency", "2", "--upstream-key-env", "UPSTREAM_KEY")
    with answering(holding) as endpoint, client:
        with emulator(state, port, endpoint, *options) as first:
            assert cli.submit(two, "--yes").code == 0
            assert cli("collect").code == 3
            endpoint.wait_until(lambda: len(endpoint.asked) == 6)
            (batch,) = client.batches.list().data
            waiting_for(lambda: client.batches.retrieve(batch.id).request_counts.completed == 4)  # type: ignore[union-attr]
            first.process.kill()
            first.process.wait(WAIT)
        before = endpoint.turns
        holding.opened.set()
        with emulator(state, port, endpoint, *options) as second:
            second.wait_for("1 file, 1 batch, 1 of them to go on")
            # It goes on by itself, before anybody asks.
            endpoint.wait_until(lambda: len(endpoint.turns) == 10)
            done = cli.collect()
            assert done.code == 0, done.err
            files = {stored.id: client.files.content(stored.id).content for stored in client.files.list()}
            second.interrupt()
            assert second.end().code == 130
        with emulator(state, port, endpoint, *options) as third:
            third.wait_for("1 batch, 0 of them to go on")
            assert client.batches.retrieve(batch.id).status == "completed"
            assert {stored.id: client.files.content(stored.id).content for stored in client.files.list()} == files
            said = "\n".join([*first.said, *second.said, *third.said])
    again = [prompt for prompt, n in endpoint.turns.items() if n > 1]
    assert len(before) == 6
    assert len(endpoint.asked) == 12, "ten lines, and the two that were on their way when it died"
    assert set(again) <= set(before)
    assert len(again) == 2
    assert cli.query("select count(*) as n from score") == [{"n": 10}]
    assert SECRET not in said
    assert not any(SECRET.encode() in path.read_bytes() for path in state.rglob("*") if path.is_file())


def test_an_interrupted_emulator_waits_for_answers_on_their_way(tmp_path: Path) -> None:
    port, holding, state = free_port(), Holding(1), tmp_path / "state"
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEY)
    with answering(holding) as endpoint, client:
        with emulator(state, port, endpoint, "--concurrency", "1") as first:
            sent = client.files.create(file=("r.jsonl", request_file(3)), purpose="batch")
            client.files.retrieve(sent.id)
            made = client.batches.create(
                input_file_id=sent.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            client.batches.retrieve(made.id)
            endpoint.wait_until(lambda: len(endpoint.asked) == 2)
            first.interrupt()
            first.wait_for("waiting for the last 1 answer of")
            holding.opened.set()
            assert first.end().code == 130
        assert len(endpoint.asked) == 2
        with emulator(state, port, endpoint):
            waiting_for(lambda: client.batches.retrieve(made.id).status == "completed")
    assert set(endpoint.turns.values()) == {1}
    assert len(endpoint.asked) == 3


def test_a_line_that_waits_for_its_next_try_is_left_for_the_next_start(tmp_path: Path) -> None:
    busy: Script = lambda _: Answer(b"{}", 429, {"retry-after": "600"})  # noqa: E731

    def started(upstream: Upstream, stack: ExitStack) -> Direct:
        settings = Settings(key="test-key", concurrency=1)
        return Direct(stack.enter_context(Service(settings, judge=upstream, state=tmp_path / "state", keep=True)))

    with answering(busy) as endpoint:
        with ExitStack() as stack:
            client = started(Upstream(endpoint.url), stack)
            batch_id = client.submit(request_file(2))
            client.poll(batch_id)
            endpoint.wait_until(lambda: bool(endpoint.asked))
        assert len(endpoint.asked) == 1
        endpoint.script = fine
        with ExitStack() as stack:
            client = started(Upstream(endpoint.url), stack)
            batch = finished(client, batch_id)
    assert batch["request_counts"] == {"total": 2, "completed": 2, "failed": 0}


def test_a_judge_that_breaks_down_fails_its_batch_and_not_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fragile(Upstream):
        def answer(self, body: Any) -> Any:
            if "2\n" in str(body["messages"][-1]["content"]):
                raise ZeroDivisionError
            return super().answer(body)

    caught: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", caught.append)
    with answering() as endpoint, served(Fragile(endpoint.url)) as client:
        broken = finished(client, client.submit(request_file(9)))
        whole = finished(client, client.submit(request_file(2, attempt=2)))
        kept = rows(client.content(broken["output_file_id"]))
    assert (broken["status"], broken["errors"]["data"][0]["message"]) == ("failed", "The judge broke down.")
    assert len(kept) == broken["request_counts"]["completed"] < 9
    assert whole["status"] == "completed"
    assert [error.exc_type for error in caught] == [ZeroDivisionError]


def test_lines_are_json_whatever_the_endpoint_sends() -> None:
    texts = [completion("a"), completion("\u2028\u0085"), b'{"choices":[{"message":{"content":"\\udc00"}}]}']
    with answering(lambda asked: Answer(texts[asked.call % 3])) as endpoint:
        _, output, _ = run(judge(endpoint.url), request_file(6))
    assert len([json.loads(text) for text in output.split(b"\n") if text]) == 6
    assert len([text for text in output.split(b"\n") if text and orjson.loads(text.replace(b"\\udc00", b""))]) == 6
