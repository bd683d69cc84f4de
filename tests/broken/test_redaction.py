"""The short key of an emulator is redacted where it stands alone and leaves error codes readable."""

from __future__ import annotations

import pytest

from iwb_batch.emulator.app import running
from iwb_batch.emulator.faults import FaultPlan
from iwb_batch.emulator.service import Service
from iwb_batch.emulator.settings import Settings
from iwb_batch.providers.redaction import redact
from tests.cli.support import Cli, Inputs

CASES = {
    "inside a code": ("token_limit_exceeded", "k", "token_limit_exceeded"),
    "part of a code": ("token_limit_exceeded", "token", "token_limit_exceeded"),
    "alone": ("the key local is wrong", "local", "the key <redacted> is wrong"),
    "in quotes": ("key='local'", "local", "key='<redacted>'"),
    "with signs": ("key=a.b+c;", "a.b+c", "key=<redacted>;"),
    "long, inside a word": ("xx0123456789abcdefyy", "0123456789abcdef", "xx<redacted>yy"),
}


@pytest.mark.parametrize(("text", "secret", "shown"), CASES.values(), ids=CASES.keys())
def test_redaction(text: str, secret: str, shown: str) -> None:
    assert redact(text, [secret]) == shown


def test_a_full_queue_is_waited_for_whatever_the_key(cli: Cli, two: Inputs, monkeypatch: pytest.MonkeyPatch) -> None:
    full = {"fault": "failed", "code": "token_limit_exceeded", "when": "create", "nth": [1]}
    plan = FaultPlan.of({"batches": [full]})
    with Service(Settings(key="k"), faults=plan) as service, running(service) as url:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", url)
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
        done = cli.submit(two)
        assert done.code == 3, done.err
        assert "token_limit_exceeded" in done.err
