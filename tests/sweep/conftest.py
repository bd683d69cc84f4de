"""The long sweeps start from the same undisturbed run as the short ones; their figures are printed at the end."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.faults.conftest import expected, tmp_path
from tests.faults.sweeping import Figures

__all__ = ["expected", "tmp_path"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what every sweep recorded, also in the workers of a parallel run."""
    total, titles = Figures(), 0
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name != "figures" or not isinstance(value, str):
                continue
            one = json.loads(value)
            titles += 1
            total.runs += one["runs"]
            total.injected.update(Counter(one["injected"]))
            total.repeated += one["repeated"]
            total.lost += one["lost"]
    simulated = [
        str(value)
        for report in terminalreporter.getreports("passed")
        for name, value in report.user_properties
        if name == "simulated"
    ]
    if simulated:
        terminalreporter.write_sep("-", "figures of the simulations")
        terminalreporter.write_line("\n".join(sorted(simulated)))
    if titles:
        terminalreporter.write_sep("-", "figures of the sweeps")
        terminalreporter.write_line(str(total))
