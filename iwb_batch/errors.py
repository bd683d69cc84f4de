"""Errors a user can meet. Each carries its exit code and, where there is one, the next step.

IwbError (1)
+-- UsageError (2)            bad, missing or contradictory option
+-- InputError (1)            an input file is missing or wrong; names file, line, index
+-- RunError (1)              the run folder cannot be used as asked
|   +-- PlanChanged (1)       the run exists with another plan
|   +-- LockHeld (1)          another process works on the run
|   +-- DamagedRun (1)        run.db is missing, foreign, newer or damaged
+-- Unreachable (1)           no call to the endpoint got an answer
+-- ProviderRefused (5)       credentials, deployment, quota of files, account, systematic failure
+-- Declined (1)              the user answered no
"""

from __future__ import annotations


class IwbError(Exception):
    """Base of all expected failures: one line for the user, a hint, an exit code."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(IwbError):
    """An option is bad, missing or contradicts another."""

    exit_code = 2


class InputError(IwbError):
    """An input file is missing, unreadable or holds something wrong."""

    @classmethod
    def at(cls, where: str, what: str, *, hint: str | None = None) -> InputError:
        """Build the error for a place, for example ``model.jsonl line 3``."""
        return cls(f"{where}: {what}", hint=hint)


class RunError(IwbError):
    """The run folder cannot be used as asked."""


class PlanChanged(RunError):
    """The run exists already with another plan."""


class LockHeld(RunError):
    """Another process holds the run's lock."""


class DamagedRun(RunError):
    """run.db is missing, not one of ours, from a newer version, or damaged."""


class Unreachable(IwbError):
    """No call to the endpoint got an answer."""


class ProviderRefused(IwbError):
    """The provider said no in a way that sending again cannot mend."""

    exit_code = 5


class Declined(IwbError):
    """The user answered no to a question."""
