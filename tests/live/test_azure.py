"""Against a real resource: ``pytest -m live`` with credentials and IWB_LIVE_JUDGE, a batch deployment.

Off by default: it costs a few cents and a batch may take hours. What only a real service can tell is checked here:
the round trip of a file, that a listed batch carries its metadata, the lines a real judge returns.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iwb_batch.providers.connection import from_environment
from iwb_batch.providers.openai_batch import OpenAIBatch
from tests.cli.support import Cli, inputs

pytestmark = pytest.mark.live

HOURS = 24 * 3600


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path / "runs", capsys)


@pytest.fixture
def judge() -> str:
    name = os.environ.get("IWB_LIVE_JUDGE", "")
    assert name, "set IWB_LIVE_JUDGE to a batch deployment of the resource"
    return name


def test_the_resource_passes_the_free_checks(cli: Cli) -> None:
    done = cli("doctor")
    assert done.code == 0, done.out


def test_one_item_is_judged_from_end_to_end(cli: Cli, judge: str, tmp_path: Path) -> None:
    given = inputs(tmp_path / "in", 1)
    done = cli("submit", *given.options, "--judge", judge, "--yes", "--wait", "300")
    assert done.code == 0, done.err
    run_id = cli.query("select run_id from run")[0]["run_id"]
    connection = from_environment(provider="azure", auth="key", api_version=None, entra_scope=None, environ=os.environ)
    with OpenAIBatch(connection) as provider:
        listed = [batch for batch in provider.batches() if batch.metadata.get("iwb_run") == run_id]
    assert len(listed) == 1, "reconciling rests on the metadata of listed batches"
    done = cli("collect", "--watch", "--timeout", str(HOURS))
    assert done.code == 0, done.err
    rows = cli.query("select score, reason from score")
    assert len(rows) == 5
    assert all(1 <= row["score"] <= 10 and row["reason"].strip() for row in rows)
