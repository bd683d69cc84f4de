"""The files of ``schemas/``: the SQL schema and the JSON Schemas of what is written and read.

In a checkout and an editable install the folder lies beside the package; in a wheel, inside it.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_FOLDERS = (_HERE / "schemas", _HERE.parent / "schemas")


@cache
def read_text(name: str) -> str:
    """Text of one schema file, for example ``run.sql``. FileNotFoundError: no such file was shipped."""
    for folder in _FOLDERS:
        path = folder / name
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(f"schemas/{name} is missing from this installation of iwb-batch")


def load(name: str) -> dict[str, Any]:
    """One JSON Schema as a new dict: the file is read once, callers may change what they get."""
    schema: dict[str, Any] = json.loads(read_text(name))
    return schema
