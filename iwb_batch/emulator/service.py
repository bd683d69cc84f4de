"""The emulated resource: routes calls, checks the key, applies HTTP faults, keeps count.

Free of any web framework: ``Service.handle`` takes and gives plain data. Safe to call from several threads;
uploads are read outside the lock, straight to disk.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import orjson

from iwb_batch.emulator.answers import Shape, completion_body, unsupported
from iwb_batch.emulator.batches import Batches
from iwb_batch.emulator.faults import OBJECT_FAULTS, FaultPlan, HttpFault
from iwb_batch.emulator.files import Files
from iwb_batch.emulator.http import ApiError, Cut, HttpReply, HttpRequest, html_reply, json_reply
from iwb_batch.emulator.judge import Interrupted, Judge, LineError, Rehearsal
from iwb_batch.emulator.ledger import Ledger
from iwb_batch.emulator.multipart import read_form
from iwb_batch.emulator.settings import Settings
from iwb_batch.emulator.state import State
from iwb_batch.errors import IwbError

Surface = Literal["v1", "classic", "openai"]

API_VERSION = re.compile(r"\d{4}-\d{2}-\d{2}(-preview)?")
FIRST_WITH_EXPIRY = "2025-03"
"""Classic api-versions before this take ``expires_after`` and do nothing with it."""

DENIED = (
    "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide a valid key for an "
    "active subscription and use a correct regional API endpoint for your resource."
)


@dataclass(frozen=True, slots=True)
class Route:
    """A path taken apart: which surface, and what is behind its prefix."""

    surface: Surface
    path: str
    version: str | None
    deployment: str | None = None

    @property
    def shape(self) -> Shape:
        """Whose line and batch shapes the surface has."""
        return "openai" if self.surface == "openai" else "azure"

    @property
    def keeps_expiry(self) -> bool:
        """Whether the api-version honours ``expires_after``."""
        return self.version is None or self.version >= FIRST_WITH_EXPIRY


class Service:
    """One emulated resource. Close it (or use it in ``with``): it may own a folder and threads.

    ``state`` is the folder for file contents (a temporary one without it). With ``keep`` it is the service's alone, a
    later one finds its files and batches there and goes on with them; without, nothing in it is read again.
    ``clock`` gives Unix seconds. Raises IwbError for a state folder that cannot be used.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        judge: Judge | None = None,
        faults: FaultPlan | None = None,
        state: Path | None = None,
        keep: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or Settings()
        self.ledger = Ledger()
        self.calls: list[tuple[str, str, int]] = []
        self._judge = judge or Rehearsal()
        self._faults = faults or FaultPlan()
        self._clock = clock
        folder = Path(tempfile.mkdtemp(prefix="iwb-emulator-")) if state is None else state
        # Also where nobody closes the service: what clients uploaded must not outlive it.
        self._clear = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True) if state is None else None
        self._state = State(folder, keep=keep)
        self._files = Files(self._state, self.settings, clock)
        self._batches = Batches(
            files=self._files,
            state=self._state,
            settings=self.settings,
            judge=self._judge,
            faults=self._faults,
            ledger=self.ledger,
            clock=clock,
        )
        self._lock = threading.RLock()
        self._restore()

    def _restore(self) -> None:
        try:
            self._batches.restore()
            self._files.restore(self._batches.published())
            self._state.sweep({*self._files.paths(), *self._batches.paths()})
        except IwbError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the judge and background work, wait for the lines at the judge, remove the temporary folder."""
        self._tell_judge("stop")
        self._batches.close()
        self._tell_judge("close")
        self._state.close()
        if self._clear is not None:
            self._clear()

    def _tell_judge(self, what: str) -> None:
        method = getattr(self._judge, what, None)
        if callable(method):
            method()

    @property
    def n_files(self) -> int:
        """Files it holds."""
        return len(self._files)

    @property
    def n_batches(self) -> tuple[int, int]:
        """Batches it knows, and how many of them have not ended."""
        return len(self._batches), self._batches.live

    @property
    def running(self) -> int:
        """Lines at the judge now."""
        return self._batches.running

    @property
    def executions(self) -> Counter[str]:
        """How often each custom_id was answered by the judge."""
        return self.ledger.executions

    @property
    def delivered_good(self) -> set[str]:
        """custom_ids whose usable answer was written into an output file."""
        return self.ledger.delivered_good

    @property
    def batches_created(self) -> list[str]:
        """Ids of all batches ever created, oldest first."""
        return self.ledger.batches_created

    def paid_twice(self) -> list[str]:
        """custom_ids that ran more than once, or although their request had a good answer before."""
        return self.ledger.paid_twice()

    def handle(self, request: HttpRequest) -> HttpReply:
        """Answer one call. A reply with ``cut`` is to be broken off by the front."""
        try:
            route = parse(request)
        except ApiError as error:
            reply = error.reply()
        else:
            faults = self._faults.http_faults(request.method, route.path)
            reply = self._with_faults(request, route, faults)
        with self._lock:
            self.calls.append((request.method, request.path, 0 if reply.cut is Cut.RESET else reply.status))
        return reply

    def _with_faults(self, request: HttpRequest, route: Route, faults: Sequence[HttpFault]) -> HttpReply:
        breaking = next((fault for fault in faults if fault.fault not in OBJECT_FAULTS), None)
        if breaking is not None:
            early = before(breaking)
            if early is not None:
                return early
        try:
            self._authorise(request)
            reply = self._answer(request, route, faults)
        except ApiError as error:
            reply = error.reply()
        return reply if breaking is None else after(breaking, reply)

    def _authorise(self, request: HttpRequest) -> None:
        sent = request.headers.get("api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if not sent or self.settings.key not in (None, sent):
            raise ApiError.of(401, "401", DENIED)

    def _answer(self, request: HttpRequest, route: Route, faults: Sequence[HttpFault]) -> HttpReply:
        parts = route.path.strip("/").split("/")
        if parts[:2] == ["chat", "completions"] and request.method == "POST":
            return self._chat(request, route)
        if parts[0] == "files":
            return self._on_files(request, route, parts[1:], faults)
        if parts[0] == "batches":
            return self._on_batches(request, route, parts[1:], faults)
        raise unknown_path()

    def _on_files(
        self, request: HttpRequest, route: Route, rest: Sequence[str], faults: Sequence[HttpFault]
    ) -> HttpReply:
        verb = (request.method, len(rest))
        if verb == ("POST", 0):
            return self._upload(request, route, faults)
        with self._lock:
            if verb == ("GET", 0):
                return json_reply(self._files.list(request.query))
            if verb == ("GET", 1):
                return json_reply(self._files.poll(rest[0]))
            if verb == ("DELETE", 1):
                return json_reply(self._files.delete(rest[0], in_use=self._batches.reads(rest[0])))
            if verb == ("GET", 2) and rest[1] == "content":
                return self._files.content(rest[0])
        raise unknown_path()

    def _upload(self, request: HttpRequest, route: Route, faults: Sequence[HttpFault]) -> HttpReply:
        path = self._files.new_path()
        kept = False
        try:
            form = read_form(request.headers.get("content-type", ""), request.blocks(), path)
            with self._lock:
                stored = self._files.upload(form, path, faults, keeps_expiry=route.keeps_expiry)
            kept = True
        finally:
            if not kept:
                path.unlink(missing_ok=True)
        return json_reply(stored.shown(), 201 if route.surface == "classic" else 200)

    def _on_batches(
        self, request: HttpRequest, route: Route, rest: Sequence[str], faults: Sequence[HttpFault]
    ) -> HttpReply:
        verb = (request.method, len(rest))
        body = json_body(request) if verb == ("POST", 0) else {}
        with self._lock:
            if verb == ("POST", 0):
                return json_reply(self._batches.create(body, route.shape, faults))
            if verb == ("GET", 0):
                return json_reply(self._batches.list(request.query))
            if verb == ("GET", 1):
                return json_reply(self._batches.get(rest[0]))
            if verb == ("POST", 2) and rest[1] == "cancel":
                return json_reply(self._batches.cancel(rest[0]))
        raise unknown_path()

    def _chat(self, request: HttpRequest, route: Route) -> HttpReply:
        body = json_body(request)
        if route.deployment is not None:
            body = {**body, "model": route.deployment}
        known = self.settings.deployments
        if known is not None and body.get("model") not in known:
            message = "The API deployment for this resource does not exist."
            raise ApiError.of(404, "DeploymentNotFound", message)
        if self.settings.checks_parameters and (refused := unsupported(body)) is not None:
            raise ApiError(400, refused)
        try:
            completion = self._judge.answer(body)
        except LineError as failure:
            raise ApiError(failure.status, failure.body) from failure
        except Interrupted as error:
            raise ApiError.of(503, "503", "The service is shutting down.") from error
        return json_reply(completion_body(completion, route.shape, int(self._clock())))


def parse(request: HttpRequest) -> Route:
    """Take a path apart; raises ApiError 404 for an unknown prefix or a missing or odd api-version."""
    path = request.path.rstrip("/")
    if path.startswith("/openai/v1/"):
        return Route("v1", path.removeprefix("/openai/v1"), None)
    if path.startswith("/openai/"):
        version = request.query.get("api-version", "")
        if not API_VERSION.fullmatch(version):
            raise unknown_path()
        found = re.fullmatch(r"/openai/deployments/([^/]+)(/chat/completions)", path)
        if found:
            return Route("classic", found[2], version, found[1])
        return Route("classic", path.removeprefix("/openai"), version)
    if path.startswith("/v1/"):
        return Route("openai", path.removeprefix("/v1"), None)
    raise unknown_path()


def unknown_path() -> ApiError:
    """The refusal for a path, verb or api-version the service does not have."""
    return ApiError.of(404, "404", "Resource not found")


def json_body(request: HttpRequest) -> Mapping[str, Any]:
    """The body as a JSON object; raises ApiError 400."""
    try:
        value = orjson.loads(request.text())
    except orjson.JSONDecodeError as error:
        raise ApiError.of(400, "invalid_request", f"The body is not JSON: {error.msg}") from error
    if not isinstance(value, dict):
        raise ApiError.of(400, "invalid_request", "The body is not a JSON object.")
    return value


def before(fault: HttpFault) -> HttpReply | None:
    """The reply of a fault that strikes before the call is carried out; None when it strikes later."""
    if fault.fault in ("reset_before", "reset_upload"):
        return HttpReply(0, cut=Cut.RESET)
    if fault.fault == "unauthorized":
        return ApiError.of(401, "401", DENIED).reply()
    if fault.fault == "status" and not fault.commit:
        return broken(fault)
    return None


def after(fault: HttpFault, reply: HttpReply) -> HttpReply:
    """What the fault makes of the reply to a call that was carried out."""
    if fault.fault == "status":
        return broken(fault)
    if fault.fault == "html":
        return html_reply(200)
    if fault.fault == "bad_json":
        return HttpReply(200, {"content-type": "application/json"}, b'{"id": "batch_')
    if fault.fault == "empty_body":
        return HttpReply(200, {"content-type": "application/json"})
    cuts = {"lost_reply": Cut.RESET, "short_download": Cut.SHORT, "silent_short": Cut.SILENT}
    return replace(reply, cut=cuts[fault.fault])


def broken(fault: HttpFault) -> HttpReply:
    """The error reply of a ``status`` fault."""
    if fault.html:
        reply = html_reply(fault.status)
    else:
        reply = ApiError.of(fault.status, str(fault.status), "The service cannot answer this call now.").reply()
    if fault.retry_after is not None:
        reply.headers["retry-after"] = f"{fault.retry_after:g}"
    return reply
