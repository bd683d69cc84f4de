"""The knobs of one emulated resource."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the emulated resource is set up; the defaults follow Azure's documentation."""

    key: str | None = None
    """The only accepted key, as ``api-key`` or bearer; None accepts any, but one must be sent."""
    deployments: Mapping[str, int] | None = None
    """Deployment name to enqueued-token limit; None accepts any name without a limit."""
    fail_fast: bool = False
    """Unknown deployments and token limits are refused at create (400) instead of failing the batch."""
    polls_per_stage: int = 1
    """GETs of a batch for each step of its life; 0 runs to the end at the first GET."""
    pending_polls: int = 1
    """An uploaded file becomes ``processed`` at this GET of it; 0: at upload."""
    max_files: int = 500
    """Input files without an expiry the resource holds."""
    max_files_expiring: int = 10_000
    """Input files with an expiry the resource holds."""
    max_lines: int = 100_000
    """Lines a request file may have."""
    max_bytes: int = 200_000_000
    """Bytes a request file may have."""
    max_page: int = 100
    """Most entries a listing returns at once, whatever the caller asks for."""
    cancel_share: float = 0.5
    """Share of a running batch's lines that are done when it is cancelled."""
    concurrency: int = 0
    """Lines of all batches judged at once in the background; 0 judges them in line, at the poll that ends the stage."""
    checks_parameters: bool = True
    """Deployments named like a reasoning model reject sampling parameters; False leaves that to the judge."""
    seed: int = 0
    """Seeds the order of output lines."""
