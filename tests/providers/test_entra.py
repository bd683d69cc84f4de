"""Entra ID: tokens on each call, refusals in the port's words."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from iwb_batch.errors import UsageError
from iwb_batch.providers.base import Rejected, Unavailable
from tests.providers.conftest import Bench, batch_object
from tests.providers.recording import Play


@pytest.mark.parametrize("version", ["v1", "2025-03-01-preview"])
def test_each_call_carries_the_present_token(bench: Bench, version: str) -> None:
    tokens = iter(["first", "second"])
    bench.server.play(Play(batch_object()), Play(batch_object()))
    adapter = bench.adapter("azure", version, "entra", token_provider=lambda: next(tokens))
    adapter.batch("batch_1")
    adapter.create("file-1", {})
    assert [r.headers["authorization"] for r in bench.server.requests] == ["Bearer first", "Bearer second"]
    assert all("api-key" not in r.headers for r in bench.server.requests)


def test_a_token_is_fetched_for_each_page(bench: Bench) -> None:
    tokens = iter(["first", "second"])
    bench.server.play(Play({"data": [batch_object()], "has_more": True}), Play({"data": [], "has_more": False}))
    list(bench.adapter("azure", "v1", "entra", token_provider=lambda: next(tokens)).batches())
    assert [r.headers["authorization"] for r in bench.server.requests] == ["Bearer first", "Bearer second"]


def test_a_refused_credential_is_rejected_and_nothing_is_sent(bench: Bench) -> None:
    from azure.core.exceptions import ClientAuthenticationError

    def refuse() -> str:
        raise ClientAuthenticationError("AADSTS7000215: Invalid client secret provided.\nTrace ID: 1")

    with pytest.raises(Rejected, match="AADSTS7000215") as caught:
        bench.adapter(auth="entra", token_provider=refuse).create("file-1", {})
    assert caught.value.status == 401
    assert "\n" not in caught.value.message
    assert bench.server.requests == []


def test_an_unreachable_token_service_is_unavailable(bench: Bench) -> None:
    from azure.core.exceptions import ServiceRequestError

    def lost() -> str:
        raise ServiceRequestError("connection failed")

    with pytest.raises(Unavailable, match="connection failed"):
        bench.adapter(auth="entra", token_provider=lost).create("file-1", {})
    assert bench.server.requests == []


def test_an_empty_token_is_rejected(bench: Bench) -> None:
    with pytest.raises(Rejected, match="empty token"):
        bench.adapter(auth="entra", token_provider=lambda: "").batch("batch_1")
    assert bench.server.requests == []


def test_the_default_credential_without_any_identity_is_rejected(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_USERNAME", "AZURE_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Rejected, match="Entra ID gave no token") as caught:
        bench.adapter(auth="entra").batch("batch_1")
    assert caught.value.status == 401
    assert bench.server.requests == []


def test_without_the_package_the_way_out_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without_azure(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "azure":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    for name in [n for n in sys.modules if n.partition(".")[0] == "azure"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without_azure)
    with pytest.raises(UsageError) as caught:
        bench.adapter(auth="entra").batch("batch_1")
    assert "azure-identity" in caught.value.message
    assert "iwb-batch[entra]" in str(caught.value.hint)
