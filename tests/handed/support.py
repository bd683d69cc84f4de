"""A run file changed from outside."""

from __future__ import annotations

import sqlite3
from pathlib import Path


def change(path: Path, sql: str) -> None:
    """Change a run file behind the program's back."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute(sql)
    finally:
        connection.close()
