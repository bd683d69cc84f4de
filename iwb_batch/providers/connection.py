"""Where to send and as whom: one frozen value built from the environment, checked before anything is sent.

No message of this module shows a key, a part of one, or an address that carries a password or a query.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal, cast
from urllib.parse import SplitResult, urlsplit

from iwb_batch.errors import ProviderRefused, UsageError

AZURE_SUFFIX = ".openai.azure.com"
DEFAULT_ENTRA_SCOPE = "https://cognitiveservices.azure.com/.default"
DEFAULT_OPENAI_URL = "https://api.openai.com/v1"

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?")
_API_VERSION = re.compile(r"(\d{4}-\d{2}-\d{2})(-preview)?", re.ASCII)
_LANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_AZURE_EXAMPLE = "https://NAME.openai.azure.com"


@dataclass(frozen=True, slots=True)
class Connection:
    """An endpoint and the credentials for it.

    ``base_url`` is the address under which ``files`` and ``batches`` live, with a final slash.
    ``host`` is the host name alone: remote ids belong to it. ``api_version`` is ``v1`` or a date.
    ``key`` is None with Entra ID. ``warnings`` are lines for the user.
    """

    provider: Literal["azure", "openai"]
    base_url: str
    host: str
    api_version: str = "v1"
    auth: Literal["key", "entra"] = "key"
    entra_scope: str = DEFAULT_ENTRA_SCOPE
    key: str | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def classic(self) -> bool:
        """True for Azure's dated surface (``/openai/...?api-version=``)."""
        return self.provider == "azure" and self.api_version != "v1"

    @property
    def loopback(self) -> bool:
        """True when the endpoint is on this machine."""
        return is_loopback(self.host)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that may appear in no output."""
        return (self.key,) if self.key else ()

    @property
    def batch_endpoint(self) -> str:
        """The ``endpoint`` of a batch over chat requests: Azure's has no ``/v1``."""
        return "/chat/completions" if self.provider == "azure" else "/v1/chat/completions"


def from_environment(
    *,
    provider: str,
    auth: str,
    api_version: str | None,
    entra_scope: str | None,
    environ: Mapping[str, str],
    lane: str | None = None,
) -> Connection:
    """Build the connection from options and environment variables; nothing is sent.

    ``api_version`` None means ``OPENAI_API_VERSION``, else ``v1``. ``lane`` reads the lane's own endpoint and key.
    Raises ProviderRefused where a credential is missing or unusable, UsageError where a setting is wrong.
    """
    if provider not in {"azure", "openai"}:
        raise UsageError(f"provider {provider!r} has no endpoint", hint="use --provider azure or --provider openai")
    if auth not in {"key", "entra"}:
        raise UsageError(f"--auth {auth!r} is unknown", hint="use --auth key or --auth entra")
    if auth == "entra" and provider == "openai":
        raise UsageError("--auth entra is for Azure only", hint="use --auth key with --provider openai")
    version = _api_version(provider, api_version, environ)
    endpoint_name, key_name = _variables(provider, lane)
    endpoint = environ.get(endpoint_name, "").strip()
    if not endpoint and provider == "openai" and lane is None:
        endpoint = DEFAULT_OPENAI_URL
    raw_key = environ.get(key_name, "").strip() if auth == "key" else ""
    _require(provider, {endpoint_name: endpoint, **({key_name: raw_key} if auth == "key" else {})})
    url = _address(endpoint, endpoint_name)
    host = cast("str", url.hostname).rstrip(".")
    return Connection(
        provider=cast("Literal['azure', 'openai']", provider),
        base_url=_base_url(url, host, provider, version, endpoint_name),
        host=host,
        api_version=version,
        auth=cast("Literal['key', 'entra']", auth),
        entra_scope=(entra_scope or "").strip() or DEFAULT_ENTRA_SCOPE,
        key=_usable_key(raw_key, key_name) if auth == "key" else None,
        warnings=_warnings(provider, host, endpoint_name),
    )


def is_loopback(host: str) -> bool:
    """True for ``localhost``, its subdomains, and loopback addresses."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _variables(provider: str, lane: str | None) -> tuple[str, str]:
    """Names of the endpoint's and the key's environment variable."""
    if lane is not None:
        if not _LANE.fullmatch(lane):
            raise UsageError(f"--lane {lane!r} is not a name", hint="use letters, digits, '-' and '_'")
        stem = "IWB_BATCH_LANE_" + lane.upper().replace("-", "_")
        return f"{stem}_ENDPOINT", f"{stem}_API_KEY"
    if provider == "azure":
        return "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"
    return "OPENAI_BASE_URL", "OPENAI_API_KEY"


def _require(provider: str, values: Mapping[str, str]) -> None:
    """Raise ProviderRefused that names every variable that is missing."""
    missing = [name for name, value in values.items() if not value]
    if not missing:
        return
    steps = [
        f"export {name}={'KEY' if name.endswith('_KEY') else _AZURE_EXAMPLE if provider == 'azure' else 'URL'}"
        for name in missing
    ]
    instead = "; or use --auth entra in place of a key" if provider == "azure" and missing[-1].endswith("_KEY") else ""
    verb = "is" if len(missing) == 1 else "are"
    raise ProviderRefused(
        f"{' and '.join(missing)} {verb} not set: nothing was sent", hint="set with: " + "; ".join(steps) + instead
    )


def _usable_key(key: str, name: str) -> str:
    """The key when it can stand in a header; the error shows no part of it."""
    if not key.isascii():
        fault = "holds a character that is not ASCII"
    elif not key.isprintable() or " " in key:
        fault = "holds a blank, a line break or a control character"
    else:
        return key
    raise ProviderRefused(f"{name} {fault}: nothing was sent", hint="copy the key again, without quotes or line breaks")


def _api_version(provider: str, option: str | None, environ: Mapping[str, str]) -> str:
    """``v1`` or a date, from the option, else from OPENAI_API_VERSION, else ``v1``."""
    source, value = "--api-version", (option or "").strip()
    if not value and provider == "azure":
        source, value = "OPENAI_API_VERSION", environ.get("OPENAI_API_VERSION", "").strip()
    value = value.lower() or "v1"
    if value == "v1":
        return value
    match = _API_VERSION.fullmatch(value)
    if match is None or not _is_date(match[1]):
        raise UsageError(f"{source} {value!r} is not an API version", hint="use v1 or YYYY-MM-DD[-preview]")
    if provider == "openai":
        raise UsageError(f"{source} {value} is for Azure only", hint="leave it out with --provider openai")
    return value


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _address(text: str, name: str) -> SplitResult:
    """Split and check an address; raises UsageError that names the variable and never repeats the address."""
    hint = f"set {name} to an address such as {_AZURE_EXAMPLE}"
    try:
        url = urlsplit(text)
        host, port = url.hostname, url.port
    except ValueError:
        raise UsageError(f"{name} is not a valid address", hint=hint) from None
    fault = _address_fault(text, url, host, port)
    if fault is not None:
        raise UsageError(f"{name} {fault}", hint=hint)
    return url


def _address_fault(text: str, url: SplitResult, host: str | None, port: int | None) -> str | None:
    """What is wrong with an address, None when nothing is."""
    if url.scheme not in {"http", "https"} or not host:
        return "does not begin with https:// and a host name"
    if url.username is not None or url.password is not None:
        return "carries a user name or a password"
    if "?" in text or "#" in text:
        return "carries a query or a fragment: give the address of the resource alone"
    if not text.isascii() or not text.isprintable() or " " in text or port == 0 or not _is_host(host):
        return "is not a valid address"
    if url.scheme == "http" and not is_loopback(host):
        return f"uses http:// to {host}: a key is sent over https:// only, except to this machine"
    return None


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True
    return _HOST.fullmatch(host) is not None


def _base_url(url: SplitResult, host: str, provider: str, version: str, name: str) -> str:
    """The address of ``files`` and ``batches``, with a final slash."""
    netloc = f"[{host}]" if ":" in host else host
    if url.port is not None:
        netloc = f"{netloc}:{url.port}"
    path = url.path.rstrip("/")
    if "/deployments/" in path or path.endswith("/completions"):
        raise UsageError(
            f"{name} is the address of one deployment", hint=f"give the resource alone, such as {_AZURE_EXAMPLE}"
        )
    if provider == "azure":
        for suffix in ("/openai/v1", "/openai"):
            if path.lower().endswith(suffix):
                path = path[: -len(suffix)].rstrip("/")
                break
        path += "/openai/v1" if version == "v1" else "/openai"
    return f"{url.scheme}://{netloc}{path}/"


def _warnings(provider: str, host: str, name: str) -> tuple[str, ...]:
    if provider != "azure" or host.endswith(AZURE_SUFFIX) or is_loopback(host):
        return ()
    return (f"{name}: {host} does not end with {AZURE_SUFFIX}, where Azure serves batches",)
