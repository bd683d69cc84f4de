"""``collect --from`` given the file the engine read instead of the one it wrote."""

from __future__ import annotations

from tests.cli.support import Cli, Inputs


def test_a_request_file_is_not_taken_for_answers(cli: Cli, two: Inputs) -> None:
    assert cli.submit(two, "--provider", "files").code == 0
    cli("collect", "--from", cli.folder / "requests" / "0001.jsonl").refused(1, "0001.jsonl: holds requests")
    assert cli("collect").code == 3
    assert cli.query("select state from batch_log") == [{"state": "submitted"}]
    assert cli.query("select count(*) as n from attempt_log") == [{"n": 10}]
