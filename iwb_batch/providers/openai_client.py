"""Builds the SDK's clients so that the environment cannot change what goes over the wire.

The SDK reads organisation, project, custom headers and tokens from the environment by itself, on each construction
and each ``with_options``. Therefore one hook has the last word on the headers of every request, redirects included,
and the SDK is never given the credential at all: its logs and exceptions cannot show what it does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from iwb_batch import __version__
from iwb_batch.errors import UsageError
from iwb_batch.providers.base import ProviderMessage, Rejected, Unavailable
from iwb_batch.providers.connection import Connection
from iwb_batch.providers.openai_errors import retry_after, transport
from iwb_batch.providers.redaction import redact

if TYPE_CHECKING:
    from openai import OpenAI

TokenProvider = Callable[[], str]

LONG_WAIT = 5.0
"""Seconds: a server that asks for a longer wait is reported instead of slept on."""

_PLACEHOLDER = "set-on-each-request"
_OWN_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "transfer-encoding",
        "user-agent",
    }
)
_SDK_PREFIX = "x-stainless-"


class WireHeaders:
    """The request hook: puts the credential on, takes foreign headers off, and nothing leaves for another origin."""

    def __init__(self, connection: Connection, token_provider: TokenProvider | None = None) -> None:
        """A hook for one connection; without ``token_provider`` Entra ID uses the default Azure credential."""
        self._connection = connection
        self._tokens = token_provider
        self._origin = self._origin_of(transport().URL(connection.base_url))
        self._credential = self._header(connection.key) if connection.key else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key or the current token."""
        return (self._credential[1].removeprefix("Bearer "),) if self._credential else ()

    def authorize(self) -> None:
        """Fetch the token for the next call (cached by the credential); a key needs nothing.

        Raises Rejected (status 401) where Entra ID refuses, Unavailable where it cannot be asked.
        """
        if self._connection.auth != "entra":
            return
        if self._tokens is None:
            self._tokens = entra_tokens(self._connection.entra_scope)
        self._credential = self._header(_token(self._tokens))

    def __call__(self, request: Any) -> None:
        """Rewrite the headers of one request of the HTTP library."""
        at_home = self._origin_of(request.url) == self._origin
        for name in list(request.headers):
            if not self._allowed(name.lower(), at_home):
                del request.headers[name]
        if at_home and self._credential is not None:
            request.headers[self._credential[0]] = self._credential[1]

    def _allowed(self, name: str, at_home: bool) -> bool:
        if name in {"authorization", "api-key"}:
            return False
        if self._connection.provider == "openai" and at_home:
            return True
        return name in _OWN_HEADERS or name.startswith(_SDK_PREFIX)

    def _header(self, secret: str) -> tuple[str, str]:
        if self._connection.classic and self._connection.auth == "key":
            return "api-key", secret
        return "authorization", f"Bearer {secret}"

    @staticmethod
    def _origin_of(url: Any) -> tuple[str, str, int | None]:
        return url.scheme, url.host, url.port


def sdk_client(
    connection: Connection,
    wire: WireHeaders,
    *,
    repeatable: bool,
    retries: int,
    timeout: float,
    network: Any = None,
) -> OpenAI:
    """An SDK client for one surface; ``timeout`` in seconds for each phase, ``network`` a transport instead of sockets.

    ``repeatable`` is for reads: retries, redirects, kept connections. Without it each call is one request on a fresh
    connection, since a connection that went stale while idle would lose a reply and leave the call ambiguous.
    """
    import openai

    http = transport()
    phases = openai.Timeout(timeout, connect=min(timeout, 10.0))
    hooks: dict[str, list[Callable[..., Any]]] = {"request": [wire], "response": [_report_long_waits]}
    client = openai.DefaultHttpxClient(
        timeout=phases,
        follow_redirects=repeatable,
        # A proxy named in the environment must not see what is meant for this machine.
        trust_env=not connection.loopback,
        limits=http.Limits(max_connections=20, max_keepalive_connections=10 if repeatable else 0),
        event_hooks=hooks,
        transport=network,
    )
    settings: dict[str, Any] = {
        "api_key": _PLACEHOLDER,
        "base_url": connection.base_url,
        "max_retries": retries if repeatable else 0,
        "timeout": phases,
        "http_client": client,
        "default_headers": {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "User-Agent": f"iwb-batch/{__version__} openai-python/{openai.__version__}",
        },
    }
    if connection.classic:
        return openai.AzureOpenAI(api_version=connection.api_version, **settings)
    return openai.OpenAI(**settings)


def _report_long_waits(response: Any) -> None:
    """Tell the SDK not to sleep where the server asks for a long wait: waiting is the workflow's decision."""
    wait = retry_after(response.headers)
    if wait is not None and wait > LONG_WAIT:
        response.headers["x-should-retry"] = "false"


def entra_tokens(scope: str) -> TokenProvider:
    """Bearer tokens of the default Azure credential for ``scope``; raises UsageError without azure-identity."""
    try:
        from azure.identity import DefaultAzureCredential, get_bearer_token_provider
    except ImportError:
        raise UsageError(
            "--auth entra needs the package azure-identity", hint="pip install 'iwb-batch[entra]', or use --auth key"
        ) from None
    return get_bearer_token_provider(DefaultAzureCredential(), scope)


def _token(tokens: TokenProvider) -> str:
    """One token, with the errors of azure-core put into the port's words."""
    refusals, failures = _azure_errors()
    try:
        token = tokens()
    except refusals as error:
        raise _entra_refusal(str(error)) from None
    except failures as error:
        raise Unavailable(f"Entra ID could not be asked for a token: {_first_line(str(error))}") from None
    if not token:
        raise _entra_refusal("the credential gave an empty token")
    return token


def _azure_errors() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """Exceptions of azure-core that mean no, and that mean try again; none where it is not installed."""
    try:
        from azure.core.exceptions import AzureError, ClientAuthenticationError
    except ImportError:
        return (), ()
    return (ClientAuthenticationError,), (AzureError,)


def _entra_refusal(message: str) -> Rejected:
    line = _first_line(message)
    return Rejected(
        f"Entra ID gave no token: {line}", status=401, errors=(ProviderMessage("entra_authentication", line),)
    )


def _first_line(text: str) -> str:
    return redact(text.strip().partition("\n")[0][:500], ())
