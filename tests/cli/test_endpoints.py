"""Endpoint, credentials, deployment: what the provider refuses is told in its words, and nothing is lost."""

from __future__ import annotations

import socket

import pytest

from iwb_batch.core import lifecycle
from tests.cli.support import KEY, Cli, Emulation, Inputs, Resource, nothing_sent, stored


@pytest.mark.parametrize(
    ("unset", "words"),
    [
        (("AZURE_OPENAI_API_KEY",), "AZURE_OPENAI_API_KEY is not set: nothing was sent"),
        (("AZURE_OPENAI_ENDPOINT",), "AZURE_OPENAI_ENDPOINT is not set: nothing was sent"),
        (
            ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"),
            "AZURE_OPENAI_ENDPOINT and AZURE_OPENAI_API_KEY are not set",
        ),
    ],
    ids=["key", "endpoint", "both"],
)
def test_missing_credentials_stop_before_anything_is_read_or_sent(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch, unset: tuple[str, ...], words: str
) -> None:
    for name in unset:
        monkeypatch.delenv(name)
    done = cli.submit(two)
    done.refused(5, words, hint=f"export {unset[0]}=")
    assert done.out == ""
    nothing_sent(cli, resource)


@pytest.mark.parametrize("key", ["q9 zz", "abc\ndef", "schlüssel"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", key)
    done = cli.submit(two)
    done.refused(5, "AZURE_OPENAI_API_KEY holds a", hint="copy the key again")
    assert key not in done.err
    nothing_sent(cli, resource)


def test_a_wrong_key_loses_nothing_and_the_right_one_goes_on(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k3y-of-another-resource")
    done = cli.submit(two)
    done.refused(5, "127.0.0.1 refused the credentials", "Access denied", hint="run the same command again")
    assert "k3y-of-another-resource" not in done.err
    assert resource.service.batches_created == []
    assert cli("status", "--json").json()["state"] == "planned"

    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    again = cli.submit(two)
    assert again.code == 0, again.err
    assert len(cli.names) == 1
    assert cli.collect().code == 0
    assert set(resource.service.executions.values()) == {1}


def test_a_key_revoked_on_the_way_keeps_what_is_known(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.submit(two).code == 0
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k3y-revoked")
    cli.collect().refused(5, "refused the credentials", hint="nothing is lost")
    assert cli("status", "--json").json()["state"] == "running"
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    assert cli.collect().code == 0
    assert resource.service.paid_twice() == []


def test_an_unknown_deployment_refused_at_create_is_told_in_the_providers_words(
    cli: Cli, two: Inputs, emulate: Emulation
) -> None:
    resource = emulate(deployments={"gpt-5.4-mini": 10**9}, fail_fast=True)
    done = cli.submit(two)
    done.refused(5, "model_not_found", "'gpt-5.4' does not exist", "gpt-5.4-mini", hint="run the same command again")
    assert resource.service.batches_created == []
    assert cli("status", "--json").json()["open"] == 10


def test_an_unknown_deployment_found_in_validation_is_told_in_the_providers_words(
    cli: Cli, two: Inputs, emulate: Emulation
) -> None:
    resource = emulate(deployments={"gpt-5.4-mini": 10**9})
    done = cli.submit(two, "--wait", "20")
    done.refused(5, "model_not_found", "'gpt-5.4' does not exist", hint="Mend the cause")
    assert sum(resource.service.executions.values()) == 0
    assert cli("status", "--json").json()["open"] == 10


def test_an_unknown_deployment_found_by_collect_is_told_too(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    emulate(deployments={"gpt-5.4-mini": 10**9})
    assert cli.submit(two).code == 0
    cli("collect", "--wait", "0").refused(5, "model_not_found", "'gpt-5.4' does not exist", hint="Mend the cause")


def test_the_repaired_deployment_goes_on_with_the_same_command(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    known = {"gpt-5.4-mini": 10**9}
    resource = emulate(deployments=known, fail_fast=True)
    assert cli.submit(two).code == 5
    known["gpt-5.4"] = 10**9
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    assert len(resource.service.batches_created) == 1


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_an_unreachable_endpoint_is_told_and_nothing_is_lost(
    cli: Cli, two: Inputs, emulate: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "BACK_OFF_FIRST", 0.0)
    resource = emulate()
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    done = cli.submit(two)
    done.refused(1, "127.0.0.1 cannot be reached", hint="nothing is lost")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", resource.url)
    assert cli.submit(two).code == 0
    assert cli.collect().code == 0
    assert len(cli.names) == 1
    assert resource.service.paid_twice() == []


@pytest.mark.parametrize(
    ("waiting", "until"),
    [
        (["--wait", "0.4"], "--wait (0.4 s) is over"),
        (["--watch", "--poll-interval", "0.1", "--wait", "0", "--timeout", "0.3"], "--timeout is over"),
    ],
)
def test_silence_is_told_at_once_and_once(
    cli: Cli,
    two: Inputs,
    resource: Resource,
    monkeypatch: pytest.MonkeyPatch,
    waiting: list[str],
    until: str,
) -> None:
    assert cli.submit(two).code == 0
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    done = cli("collect", *waiting)
    assert done.code in (1, 3)
    told = f"note: 127.0.0.1 does not answer; asked again until {until}"
    assert [line for line in done.err.split("\n") if "does not answer" in line] == [told]
    assert done.err.startswith(told)


def test_submit_tells_silence_before_it_waits(
    cli: Cli, two: Inputs, emulate: Emulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "BACK_OFF_FIRST", 0.0)
    emulate()
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    done = cli("submit", *two.options, "--wait", "0.3")
    done.refused(1, "127.0.0.1 cannot be reached")
    assert done.err.count("127.0.0.1 does not answer; asked again until --wait (0.3 s) is over") == 1


def test_collect_tells_an_unreachable_endpoint(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.submit(two).code == 0
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    cli("collect", "--wait", "0").refused(1, "cannot be reached", hint="nothing is lost")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", resource.url)
    assert cli.collect().code == 0


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        pytest.param("http://example.openai.azure.com", "http:// to example.openai.azure.com", id="http off loopback"),
        pytest.param("example.openai.azure.com", "does not begin with https://", id="no scheme"),
        pytest.param("https://user:pw@example.openai.azure.com", "carries a user name or a password", id="user name"),
        pytest.param("https://x.openai.azure.com/openai/deployments/gpt-5.4", "one deployment", id="deployment"),
    ],
)
def test_a_bad_endpoint_is_a_usage_error(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch, endpoint: str, words: str
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", endpoint)
    done = cli.submit(two)
    done.refused(2, "AZURE_OPENAI_ENDPOINT", words, hint="https://")
    assert "pw" not in done.err
    nothing_sent(cli, resource)


def test_another_resource_than_the_runs_is_refused_with_both_names(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.submit(two).code == 0
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", resource.url.replace("127.0.0.1", "localhost"))
    sent = len(resource.service.calls)
    cli.collect().refused(2, "belongs to 127.0.0.1", "the endpoint is localhost", hint="submit a new run")
    assert len(resource.service.calls) == sent


SURFACES = {
    "v1": ([], "", "/openai/v1/batches"),
    "v1 in the address": ([], "/openai/v1/", "/openai/v1/batches"),
    "dated": (["--api-version", "2025-04-01-preview"], "", "/openai/batches"),
}


@pytest.mark.parametrize(("options", "suffix", "path"), SURFACES.values(), ids=SURFACES.keys())
def test_both_surfaces_of_azure_go_all_the_way(
    cli: Cli,
    two: Inputs,
    resource: Resource,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    suffix: str,
    path: str,
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", resource.url + suffix)
    assert cli.submit(two, *options).code == 0
    assert cli.collect().code == 0
    assert path in resource.posts
    assert {call[1].rpartition("/batches")[0] for call in resource.service.calls if "/batches" in call[1]} == {
        path.removesuffix("/batches")
    }
    assert cli("report").code == 0


def test_the_surface_may_come_from_the_environment(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01-preview")
    assert cli.submit(two).code == 0
    assert "/openai/batches" in resource.posts


def test_a_version_that_is_no_date_is_a_usage_error(cli: Cli, two: Inputs, resource: Resource) -> None:
    cli.submit(two, "--api-version", "2025-13-45").refused(2, "'2025-13-45' is not an API version", hint="YYYY-MM-DD")
    nothing_sent(cli, resource)


def test_openai_itself_is_the_same_path(
    cli: Cli, two: Inputs, resource: Resource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{resource.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert cli.submit(two, "--provider", "openai").code == 0
    assert cli.collect().code == 0
    assert "/v1/batches" in resource.posts


def test_a_refused_upload_is_told_and_goes_on_later(cli: Cli, two: Inputs, emulate: Emulation) -> None:
    resource = emulate(max_files_expiring=0, max_files=0)
    done = cli.submit(two)
    assert done.code == 5, done.err
    assert "upload of 0001.jsonl refused" in done.errors[0]
    assert stored(cli.folder / "run.db", "select state from batch") == [("planned",)]
    assert resource.service.batches_created == []
