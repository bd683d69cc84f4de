"""Cutting a stream of request lines into request files that stay within the provider's limits."""

from __future__ import annotations

from dataclasses import dataclass

from iwb_batch.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request file may hold: lines, bytes, and estimated input tokens (None: any number)."""

    max_requests: int = 50_000
    max_bytes: int = 190_000_000
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """UsageError: a limit below 1."""
        options = {
            "--max-requests-per-file": self.max_requests,
            "--max-bytes-per-file": self.max_bytes,
            "--enqueued-token-limit": self.max_tokens,
        }
        for option, value in options.items():
            if value is not None and value < 1:
                raise UsageError(f"{option} must be at least 1, not {value}")


class Filler:
    """Fills one request file after the other, in order: a line goes into the present file if it fits."""

    def __init__(self, limits: Limits) -> None:
        """Start with an empty file."""
        self._limits = limits
        self.n_requests = 0
        self.n_bytes = 0
        self.n_tokens = 0

    def fits(self, n_bytes: int, n_tokens: int) -> bool:
        """Whether one more line of this size stays within every limit of the present file."""
        limits = self._limits
        return (
            self.n_requests < limits.max_requests
            and self.n_bytes + n_bytes <= limits.max_bytes
            and (limits.max_tokens is None or self.n_tokens + n_tokens <= limits.max_tokens)
        )

    def add(self, n_bytes: int, n_tokens: int, name: str = "a request") -> bool:
        """Count one line in. True when it opens a new file (also for the very first line).

        InputError: the line alone is above a limit; ``name`` says which item it belongs to.
        """
        opens = self.n_requests == 0 or not self.fits(n_bytes, n_tokens)
        if opens:
            self._refuse_too_large(n_bytes, n_tokens, name)
            self.n_requests = self.n_bytes = self.n_tokens = 0
        self.n_requests += 1
        self.n_bytes += n_bytes
        self.n_tokens += n_tokens
        return opens

    def _refuse_too_large(self, n_bytes: int, n_tokens: int, name: str) -> None:
        limits = self._limits
        if n_bytes > limits.max_bytes:
            raise InputError(
                f"{name}: its request alone has {n_bytes:,} bytes, above the {limits.max_bytes:,} of one request file",
                hint="shorten or leave out this response, or raise --max-bytes-per-file (the service takes 200 MB)",
            )
        if limits.max_tokens is not None and n_tokens > limits.max_tokens:
            raise InputError(
                f"{name}: its request alone has about {n_tokens:,} tokens, above the limit of {limits.max_tokens:,}",
                hint="shorten or leave out this response, or raise --enqueued-token-limit",
            )
