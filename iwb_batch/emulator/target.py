"""The address of an upstream endpoint, checked before anything is sent there, and what is known of endpoints."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from iwb_batch.errors import UsageError

CHAT = "/chat/completions"
TOKEN_PARAMETERS = ("max_tokens", "max_completion_tokens")
"""Names of the limit of output tokens: some endpoints silently ignore one of them."""

HINT = "give the address clients use as base URL, such as http://127.0.0.1:8000/v1"


@dataclass(frozen=True, slots=True)
class Target:
    """Where lines go. ``chat`` is the full address of the chat endpoint."""

    chat: str
    loopback: bool

    @classmethod
    def of(cls, url: str, *, has_key: bool) -> Target:
        """Check an address; with ``has_key`` plain http is for this machine only. UsageError never repeats it."""
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise UsageError("--upstream is not a valid address", hint=HINT) from None
        if parts.scheme not in {"http", "https"} or not host or not url.isascii() or " " in url:
            raise UsageError("--upstream does not begin with http:// or https:// and a host name", hint=HINT)
        if parts.username is not None or parts.password is not None:
            raise UsageError("--upstream carries a user name or a password", hint="use --upstream-key-env")
        if "?" in url or "#" in url:
            raise UsageError("--upstream carries a query or a fragment", hint=HINT)
        loopback = on_this_machine(host)
        if has_key and parts.scheme == "http" and not loopback:
            raise UsageError(
                f"--upstream uses http:// to {host}: a key is sent over https:// only, except to this machine",
                hint="use https://, or a tunnel: ssh -L 8000:127.0.0.1:8000 HOST, then http://127.0.0.1:8000/v1",
            )
        return cls(url.rstrip("/").removesuffix(CHAT) + CHAT, loopback)


def on_this_machine(host: str) -> bool:
    """True for ``localhost``, its subdomains, and loopback addresses."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
