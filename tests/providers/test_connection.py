"""The connection: what the environment may say, and what is refused before anything is sent."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iwb_batch.errors import ProviderRefused, UsageError
from iwb_batch.providers.connection import DEFAULT_ENTRA_SCOPE, Connection, from_environment, is_loopback

AZURE = "https://lab.openai.azure.com"


def connect(
    environ: dict[str, str],
    *,
    provider: str = "azure",
    auth: str = "key",
    api_version: str | None = None,
    scope: str | None = None,
    lane: str | None = None,
) -> Connection:
    return from_environment(
        provider=provider, auth=auth, api_version=api_version, entra_scope=scope, environ=environ, lane=lane
    )


def azure(endpoint: str = AZURE, key: str = "secret-key", **more: str) -> dict[str, str]:
    return {"AZURE_OPENAI_ENDPOINT": endpoint, "AZURE_OPENAI_API_KEY": key, **more}


@pytest.mark.parametrize(
    "endpoint",
    [
        pytest.param(AZURE, id="bare"),
        pytest.param(AZURE + "/", id="slash"),
        pytest.param(AZURE + "//", id="two-slashes"),
        pytest.param(AZURE + "/openai", id="openai"),
        pytest.param(AZURE + "/openai/", id="openai-slash"),
        pytest.param(AZURE + "/openai/v1", id="v1"),
        pytest.param(AZURE + "/openai/v1/", id="v1-slash"),
        pytest.param("  " + AZURE + "/openai/v1/ \n", id="blanks-around"),
        pytest.param("HTTPS://LAB.openai.azure.COM/OpenAI/V1/", id="capitals"),
    ],
)
@pytest.mark.parametrize(
    ("version", "base"), [("v1", AZURE + "/openai/v1/"), ("2025-03-01-preview", AZURE + "/openai/")]
)
def test_every_spelling_of_an_azure_endpoint_is_one_address(endpoint: str, version: str, base: str) -> None:
    made = connect(azure(endpoint), api_version=version)
    assert (made.base_url, made.host, made.warnings) == (base, "lab.openai.azure.com", ())
    assert made.classic is (version != "v1")
    assert made.batch_endpoint == "/chat/completions"


def test_a_path_before_openai_and_a_port_are_kept() -> None:
    made = connect(azure("https://gate.example.org:8443/team/openai/v1/"))
    assert made.base_url == "https://gate.example.org:8443/team/openai/v1/"
    assert made.host == "gate.example.org"


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [
        pytest.param(None, None, "v1", id="default"),
        pytest.param(None, "2024-10-21", "2024-10-21", id="variable"),
        pytest.param("v1", "2024-10-21", "v1", id="option-wins"),
        pytest.param("2025-04-01-preview", None, "2025-04-01-preview", id="preview"),
        pytest.param(None, "  ", "v1", id="blank-variable"),
    ],
)
def test_api_version(option: str | None, variable: str | None, expected: str) -> None:
    environ = azure() | ({"OPENAI_API_VERSION": variable} if variable is not None else {})
    assert connect(environ, api_version=option).api_version == expected


@pytest.mark.parametrize(
    "version", ["v2", "2025-13-01", "2025-02-30", "2025-3-1", "latest", "2025-03-01-beta", "２０２５-03-01"]
)
def test_other_api_versions_are_a_usage_error(version: str) -> None:
    with pytest.raises(UsageError, match="--api-version"):
        connect(azure(), api_version=version)
    with pytest.raises(UsageError, match="OPENAI_API_VERSION"):
        connect(azure(OPENAI_API_VERSION=version))


@pytest.mark.parametrize(
    ("environ", "auth", "names"),
    [
        pytest.param({}, "key", ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"], id="neither"),
        pytest.param({"AZURE_OPENAI_ENDPOINT": AZURE}, "key", ["AZURE_OPENAI_API_KEY"], id="no-key"),
        pytest.param({"AZURE_OPENAI_API_KEY": "k"}, "key", ["AZURE_OPENAI_ENDPOINT"], id="no-endpoint"),
        pytest.param(azure(key=" \n"), "key", ["AZURE_OPENAI_API_KEY"], id="blank-key"),
        pytest.param({}, "entra", ["AZURE_OPENAI_ENDPOINT"], id="entra-needs-no-key"),
    ],
)
def test_missing_credentials_stop_with_the_names_and_the_way_out(
    environ: dict[str, str], auth: str, names: list[str]
) -> None:
    with pytest.raises(ProviderRefused) as caught:
        connect(environ, auth=auth)
    assert caught.value.exit_code == 5
    assert re.findall(r"[A-Z]+_[A-Z_]+", caught.value.message) == names
    assert "nothing was sent" in caught.value.message
    assert caught.value.hint is not None
    assert all(f"export {name}=" in caught.value.hint for name in names)


def test_provider_openai_has_a_default_address_and_needs_its_own_key() -> None:
    made = connect({"OPENAI_API_KEY": "k"}, provider="openai")
    assert (made.base_url, made.host) == ("https://api.openai.com/v1/", "api.openai.com")
    assert made.batch_endpoint == "/v1/chat/completions"
    assert not made.classic
    with pytest.raises(ProviderRefused, match="OPENAI_API_KEY is not set: nothing was sent"):
        connect(azure(), provider="openai")


def test_provider_openai_takes_another_server_and_ignores_azures_version() -> None:
    environ = {
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": "http://localhost:9000/v1/",
        "OPENAI_API_VERSION": "2024-10-21",
    }
    made = connect(environ, provider="openai")
    assert (made.base_url, made.api_version, made.warnings) == ("http://localhost:9000/v1/", "v1", ())


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        pytest.param("http://lab.openai.azure.com", "http:// to lab.openai.azure.com", id="http-off-loopback"),
        pytest.param("lab.openai.azure.com", "https://", id="no-scheme"),
        pytest.param("ftp://lab.openai.azure.com", "https://", id="ftp"),
        pytest.param("https://", "https://", id="no-host"),
        pytest.param("https://[::1", "not a valid address", id="broken-bracket"),
        pytest.param("https://lab.openai.azure.com:port/", "not a valid address", id="bad-port"),
        pytest.param("https://<NAME>.openai.azure.com/", "not a valid address", id="placeholder"),
        pytest.param("https://lab openai.azure.com/", "not a valid address", id="blank-inside"),
        pytest.param("https://läb.openai.azure.com/", "not a valid address", id="not-ascii"),
        pytest.param(AZURE + "/?api-version=2024-10-21", "query", id="query"),
        pytest.param(AZURE + "/#x", "fragment", id="fragment"),
        pytest.param("https://me:pw-Zq8@lab.openai.azure.com", "password", id="user-and-password"),
        pytest.param("https://pw-Zq8@lab.openai.azure.com", "password", id="user"),
        pytest.param(AZURE + "/openai/deployments/gpt/chat/completions", "one deployment", id="deployment"),
    ],
)
def test_bad_addresses_are_a_usage_error_that_shows_no_secret(endpoint: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        connect(azure(endpoint))
    assert words in caught.value.message
    assert "AZURE_OPENAI_ENDPOINT" in caught.value.message
    assert "pw-Zq8" not in caught.value.message + str(caught.value.hint)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "[::1]", "box.localhost"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    made = connect(azure(f"http://{host}:8765"))
    assert made.loopback
    assert made.base_url == f"http://{host}:8765/openai/v1/"
    assert made.warnings == ()


@pytest.mark.parametrize("host", ["10.0.0.1", "example.org", "localhost.example.org", "128.0.0.1"])
def test_other_hosts_are_not_this_machine(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "host", ["lab.cognitiveservices.azure.com", "lab.services.ai.azure.com", "openai.azure.com.example.org"]
)
def test_another_suffix_is_a_warning(host: str) -> None:
    (line,) = connect(azure(f"https://{host}/")).warnings
    assert host in line
    assert ".openai.azure.com" in line


def test_a_key_is_trimmed() -> None:
    assert connect(azure(key="  secret-key\r\n")).key == "secret-key"


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("abc\ndef", id="line-break"),
        pytest.param("abc def", id="blank"),
        pytest.param("abc\x00def", id="nul"),
        pytest.param("abcडdef", id="devanagari"),
        pytest.param("“abc-def”", id="curly-quotes"),
    ],
)
def test_an_unusable_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ProviderRefused) as caught:
        connect(azure(key=key))
    shown = caught.value.message + str(caught.value.hint)
    assert "AZURE_OPENAI_API_KEY" in shown
    assert "nothing was sent" in shown
    assert "abc" not in shown
    assert "def" not in shown


def test_no_part_of_a_short_or_missing_key_is_shown() -> None:
    made = connect(azure(key="q9Z"))
    assert "q9Z" not in f"{made!r} {made}"
    assert made.secrets == ("q9Z",)
    with pytest.raises(ProviderRefused, match="AZURE_OPENAI_API_KEY is not set"):
        connect(azure(key=""))


@given(key=st.text(min_size=1, max_size=40))
@settings(deadline=None, derandomize=True)
def test_any_key_is_taken_trimmed_or_refused_without_showing_it(key: str) -> None:
    stripped = key.strip()
    if stripped and stripped.isascii() and stripped.isprintable() and " " not in stripped:
        assert connect(azure(key=key)).key == stripped
        return
    with pytest.raises(ProviderRefused) as caught:
        connect(azure(key=key))
    assert len(stripped) < 4 or stripped not in f"{caught.value.message} {caught.value.hint}"


@given(endpoint=st.text(max_size=60) | st.text(max_size=40).map(lambda s: "https://" + s))
@settings(deadline=None, derandomize=True)
def test_any_endpoint_is_an_address_or_a_named_error(endpoint: str) -> None:
    made, message = None, ""
    try:
        made = connect(azure(endpoint))
    except (UsageError, ProviderRefused) as error:
        message = error.message
    if made is None:
        assert "AZURE_OPENAI_ENDPOINT" in message
    else:
        assert made.base_url.startswith(("https://", "http://"))
        assert made.base_url.endswith("/openai/v1/")


def test_a_lane_has_its_own_endpoint_and_key() -> None:
    environ = azure() | {
        "IWB_BATCH_LANE_EAST_US_ENDPOINT": "https://east.openai.azure.com",
        "IWB_BATCH_LANE_EAST_US_API_KEY": "lane-key",
    }
    made = connect(environ, lane="east-us")
    assert (made.host, made.key) == ("east.openai.azure.com", "lane-key")


def test_a_lane_never_borrows_the_main_key() -> None:
    environ = azure() | {"IWB_BATCH_LANE_EAST_ENDPOINT": "https://east.openai.azure.com"}
    with pytest.raises(ProviderRefused, match="IWB_BATCH_LANE_EAST_API_KEY is not set"):
        connect(environ, lane="east")


def test_entra_needs_no_key_and_has_a_default_scope() -> None:
    made = connect(azure(), auth="entra")
    assert (made.key, made.secrets, made.entra_scope) == (None, (), DEFAULT_ENTRA_SCOPE)
    assert (
        connect(azure(), auth="entra", scope="https://ai.azure.com/.default").entra_scope
        == "https://ai.azure.com/.default"
    )


@pytest.mark.parametrize(
    ("provider", "auth", "version", "lane"),
    [
        pytest.param("files", "key", None, None, id="provider-without-endpoint"),
        pytest.param("azure", "token", None, None, id="unknown-auth"),
        pytest.param("openai", "entra", None, None, id="entra-off-azure"),
        pytest.param("openai", "key", "2024-10-21", None, id="dated-version-off-azure"),
        pytest.param("azure", "key", None, "a b", id="lane-name"),
        pytest.param("azure", "key", None, "", id="empty-lane-name"),
    ],
)
def test_contradictory_options(provider: str, auth: str, version: str | None, lane: str | None) -> None:
    with pytest.raises(UsageError):
        connect(azure(OPENAI_API_KEY="k"), provider=provider, auth=auth, api_version=version, lane=lane)
