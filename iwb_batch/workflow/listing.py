"""``runs``: every run in a folder, with where it stands. A damaged run is listed too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iwb_batch.errors import IwbError
from iwb_batch.store import views
from iwb_batch.workflow import folder as folders
from iwb_batch.workflow import looking
from iwb_batch.workflow.status import state_of


def runs(runs_dir: Path) -> list[dict[str, Any]]:
    """One entry for each run, newest first."""
    found = []
    for folder in folders.run_folders(runs_dir):
        try:
            with looking.reading(folder) as database:
                run, counts = views.run(database), views.status_counts(database)
                found.append(
                    {
                        "run": run.name,
                        "state": state_of(run, counts, database),
                        "planned": sum(counts.values()),
                        "scored": counts["scored"],
                        "benchmark": run.benchmark,
                        "model": run.model_name,
                        "judge": run.judge,
                        "created_at": run.created_at,
                    }
                )
        except IwbError as error:
            found.append({"run": folder.path.name, "state": f"unreadable: {error.message}", "created_at": ""})
    return sorted(found, key=lambda entry: (entry["created_at"], entry["run"]), reverse=True)
