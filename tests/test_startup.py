"""A short command starts fast: ``--help`` loads none of the heavy packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = [
    *("azure", "datasets", "datasette", "jsonschema", "matplotlib", "numpy", "openai", "pandas", "pyarrow"),
    *("sqlite_utils", "starlette", "toktok", "uvicorn", "jinja2"),
]
# Runs in a fresh interpreter: argv[1] is the command, stderr carries [exit code, heavy packages loaded].
SCRIPT = """
import json, sys
from iwb_batch.cli import main
heavy, sys.argv = sys.argv[2].split(","), ["iwb-batch", *sys.argv[1].split(), "--help"]
code = None
try:
    main()
except SystemExit as leaving:
    code = leaving.code
sys.stderr.write(json.dumps([code, [name for name in heavy if name in sys.modules]]))
"""
COMMANDS = [
    *("", "submit", "collect", "status", "report", "compare", "query", "show", "cancel", "reparse", "export", "runs"),
    *("generate", "reward-accuracy", "doctor", "browse", "emulate", "demo"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda name: name or "iwb-batch")
def test_help_loads_nothing_heavy(command: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, command, ",".join(HEAVY)],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Usage:" in done.stdout
    code, loaded = json.loads(done.stderr)
    assert not code
    assert loaded == []
