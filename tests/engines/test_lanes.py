"""Deployments of one model on several resources: each its own credentials and quota, one run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from iwb_batch.emulator.app import running
from iwb_batch.emulator.judge import Judge
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from tests.cli.support import Cli, Scripted, inputs, own_score

LANES = ["--lane", "west", "--lane", "east-2"]


class Two:
    """Two resources with different keys and deployments."""

    def __init__(self, stack: ExitStack, patch: pytest.MonkeyPatch, judges: tuple[Judge, Judge], limit: int) -> None:
        self.services = []
        for lane, host, deployment, judge in (
            ("WEST", "127.0.0.1", "judge-w", judges[0]),
            ("EAST_2", "localhost", "judge-e", judges[1]),
        ):
            key = f"key-of-{lane}"
            settings = Settings(key=key, deployments={deployment: limit}, pending_polls=0, polls_per_stage=0)
            service = stack.enter_context(Service(settings, judge=judge))
            url = stack.enter_context(running(service))
            patch.setenv(f"IWB_BATCH_LANE_{lane}_ENDPOINT", url.replace("127.0.0.1", host))
            patch.setenv(f"IWB_BATCH_LANE_{lane}_API_KEY", key)
            patch.setenv(f"IWB_BATCH_LANE_{lane}_JUDGE", deployment)
            self.services.append(service)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def two(
    stack: ExitStack, patch: pytest.MonkeyPatch, *, models: tuple[str, str] = ("m", "m"), limit: int = 10**9
) -> Two:
    return Two(stack, patch, (Scripted(own_score, models[0]), Scripted(own_score, models[1])), limit)


def test_files_are_shared_out_and_every_lane_names_its_own_deployment(
    cli: Cli, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = two(stack, monkeypatch)
    given = inputs(tmp_path / "in", 4)
    assert cli.submit(given, "--yes", *LANES, "--max-requests-per-file", "5").code == 0
    done = cli.collect()
    assert done.code == 0, done.err
    names = sorted(path.name.partition("-")[2] for path in (cli.folder / "requests").iterdir())
    assert names == ["east-2.jsonl", "east-2.jsonl", "west.jsonl", "west.jsonl"]
    for path in (cli.folder / "requests").iterdir():
        wanted = "judge-w" if "west" in path.name else "judge-e"
        assert {json.loads(line)["body"]["model"] for line in path.read_bytes().split(b"\n") if line} == {wanted}
    assert [sum(service.executions.values()) for service in lanes.services] == [10, 10]
    assert not any(service.paid_twice() for service in lanes.services)
    report = cli("report").out
    assert "lanes: east-2 (judge-e on localhost, 10 requests), west (judge-w on 127.0.0.1, 10 requests)" in report
    assert cli.query("select count(*) as n from score") == [{"n": 20}]
    assert cli("doctor", cli.folder.name).code == 0


def test_each_lane_has_its_own_quota(
    cli: Cli, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(stack, monkeypatch, limit=12_000)
    given = inputs(tmp_path / "in", 4)
    cli.submit(given, "--yes", *LANES, "--max-requests-per-file", "5", "--enqueued-token-limit", "6000")
    done = cli.collect()
    assert done.code == 0, done.err
    assert cli.query("select count(*) as n from score") == [{"n": 20}]


def test_a_second_model_in_the_answers_halts_the_run(
    cli: Cli, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(stack, monkeypatch, models=("gpt-5.4-2026", "gpt-5.1-2025"))
    cli.submit(inputs(tmp_path / "in", 2), "--yes", *LANES, "--max-requests-per-file", "5")
    cli.collect().refused(5, "gpt-5.1-2025 (5 answers)", "gpt-5.4-2026 (5 answers)")
    assert cli("status", "--json").json()["state"] in ("halted", "complete")


def test_a_lane_without_credentials_sends_nothing(
    cli: Cli, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = two(stack, monkeypatch)
    monkeypatch.delenv("IWB_BATCH_LANE_EAST_2_API_KEY")
    cli.submit(inputs(tmp_path / "in", 2), "--yes", *LANES).refused(5, "IWB_BATCH_LANE_EAST_2_API_KEY")
    assert not any(service.calls for service in lanes.services)


@pytest.mark.parametrize("names", [["a", "a"], ["online"], ["../x"]], ids=["twice", "taken", "unsafe"])
def test_bad_lane_names_are_refused(
    names: list[str], cli: Cli, tmp_path: Path, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(stack, monkeypatch)
    options = [word for name in names for word in ("--lane", name)]
    cli.submit(inputs(tmp_path / "in", 1), "--yes", *options).refused(2, "--lane")


def test_another_host_for_a_lane_is_refused_with_both_names(
    cli: Cli, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(stack, monkeypatch)
    cli.submit(inputs(tmp_path / "in", 2), "--yes", *LANES)
    monkeypatch.setenv("IWB_BATCH_LANE_WEST_ENDPOINT", "http://localhost:1")
    cli("collect", "--wait", "0").refused(2, "west=127.0.0.1", "west=localhost", "east-2=localhost")


def test_only_the_lane_that_does_not_answer_is_named(
    cli: Cli, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(stack, monkeypatch)
    assert cli.submit(inputs(tmp_path / "in", 1), "--yes", *LANES).code == 0
    monkeypatch.setenv("IWB_BATCH_LANE_WEST_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("IWB_BATCH_LANE_EAST_2_ENDPOINT", "http://localhost:9")
    lane = cli.query("select remote_batch_id as id from batch_log")[0]["id"].partition("/")[0]
    silent, other = ("west=127.0.0.1", "east-2=") if lane == "west" else ("east-2=localhost", "west=")
    done = cli("collect", "--wait", "0.1")
    done.refused(1, f"{silent} cannot be reached")
    assert other not in done.err


def test_only_the_lane_that_refuses_the_key_is_named(
    cli: Cli, stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two(stack, monkeypatch)
    monkeypatch.setenv("IWB_BATCH_LANE_WEST_API_KEY", "another")
    done = cli.submit(inputs(tmp_path / "in", 2), "--yes", *LANES, "--max-requests-per-file", "5")
    done.refused(5, "west=127.0.0.1 refused the credentials")
    assert "east-2" not in done.errors[0]
