"""Fixtures: a recording server and adapters that point at it, closed in the right order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iwb_batch.providers.connection import Connection, from_environment
from iwb_batch.providers.openai_batch import OpenAIBatch
from tests.providers.recording import RecordingServer

KEY = "k3y-7Qz9-loopback-only"


@dataclass
class Bench:
    """What a test of the adapter needs."""

    server: RecordingServer
    stack: ExitStack

    def connection(self, provider: str = "azure", api_version: str | None = "v1", auth: str = "key") -> Connection:
        base = self.server.url + ("/v1" if provider == "openai" else "")
        return from_environment(
            provider=provider,
            auth=auth,
            api_version=api_version,
            entra_scope=None,
            environ={
                "AZURE_OPENAI_ENDPOINT": base,
                "AZURE_OPENAI_API_KEY": KEY,
                "OPENAI_BASE_URL": base,
                "OPENAI_API_KEY": KEY,
            },
        )

    def adapter(
        self,
        provider: str = "azure",
        api_version: str | None = "v1",
        auth: str = "key",
        *,
        read_retries: int = 0,
        timeout: float = 10,
        token_provider: Callable[[], str] | None = None,
    ) -> OpenAIBatch:
        made = OpenAIBatch(
            self.connection(provider, api_version, auth),
            token_provider=token_provider,
            read_retries=read_retries,
            read_timeout=timeout,
            post_timeout=timeout,
        )
        return self.stack.enter_context(made)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with RecordingServer() as server, ExitStack() as stack:
        yield Bench(server, stack)


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    path = tmp_path / "0001.jsonl"
    path.write_bytes('{"custom_id":"a","body":{"text":"नमस्ते, 汉字，hello"}}\n'.encode())
    return path


@pytest.fixture(autouse=True)
def no_ambient_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)


def file_object(file_id: str = "file-1", **changes: Any) -> dict[str, Any]:
    """A file as the API answers it."""
    value = {"id": file_id, "object": "file", "purpose": "batch", "bytes": 7, "filename": "iwb-r-1.jsonl"}
    return {**value, "status": "processed", "expires_at": 1_800_000_000, **changes}


def batch_object(batch_id: str = "batch_1", **changes: Any) -> dict[str, Any]:
    """A batch as the API answers it."""
    value = {"id": batch_id, "object": "batch", "status": "validating", "input_file_id": "file-1", "errors": None}
    counts = {"total": 0, "completed": 0, "failed": 0}
    return {**value, "metadata": {"iwb_run": "r"}, "request_counts": counts, "created_at": 1_700_000_000, **changes}
