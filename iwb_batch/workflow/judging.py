"""The judge of one run: how its requests are rendered and how its answers are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from iwb_batch import benchmarks, schemas
from iwb_batch.benchmarks import Benchmark
from iwb_batch.core import lifecycle, tokens
from iwb_batch.core.outcome import read_record
from iwb_batch.core.render import LineRenderer, custom_id
from iwb_batch.core.verdict import InvalidVerdict, VerdictReader, preference_judgement, score_judgement
from iwb_batch.model import Item, Judgement, Outcome, Reading, Request
from iwb_batch.store import plan
from iwb_batch.store.database import Database
from iwb_batch.store.plan import PlannedAttempt, Size, ToSend
from iwb_batch.workflow.settings import JudgeSettings, sha256_text

SEED_SAMPLING = {"temperature": 0.7, "top_p": 0.8}
SEED_TOP_K = 20
"""Sampling parameters the benchmark suggests for generating responses."""


MARK = "iwb_online"
"""Key of an answer line that was asked for online; no provider writes it."""


class Judging:
    """Built from a benchmark and the judge's settings; the same for every request of a run."""

    def __init__(self, benchmark: Benchmark, settings: JudgeSettings) -> None:
        self.benchmark = benchmark
        self.settings = settings
        deployments = dict(settings.lanes) or {"": settings.judge}
        self._renderers = {lane: _renderer(benchmark, settings, model) for lane, model in deployments.items()}
        self.renderer = next(iter(self._renderers.values()))
        self.tokens = tokens.PromptTokens(tokens.best_counter(), benchmark.system, benchmark.template)
        self._schema_text = schemas.read_text(benchmark.schema)
        self._reader: VerdictReader | None = None

    @classmethod
    def of_plan(cls, stored: Mapping[str, Any]) -> Judging:
        """From the plan kept in run.db."""
        judge = stored["judge"]
        settings = JudgeSettings(
            judge=judge["deployment"],
            provider=stored["provider"],
            max_completion_tokens=judge["max_completion_tokens"],
            reasoning_effort=judge["reasoning_effort"],
            structured_output=judge["structured_output"],
            sampling=judge["sampling"],
            token_parameter=judge["token_parameter"],
            lanes=tuple(judge["lanes"].items()),
            repeats=stored["repeats"],
            orders=stored["orders"],
            protocol=stored["protocol"],
        )
        return cls(benchmarks.get(stored["benchmark"], settings.protocol), settings)

    def through(self, deployment: str) -> Judging:
        """The same judging through another deployment."""
        return Judging(self.benchmark, replace(self.settings, judge=deployment, lanes=()))

    @property
    def prompt_sha256(self) -> str:
        """Over system prompt and template."""
        return self.renderer.prompt_sha256

    @property
    def schema_sha256(self) -> str:
        """Over the schema verdicts are checked against."""
        return sha256_text(self._schema_text)

    @property
    def lanes(self) -> tuple[str, ...]:
        """Names of the lanes; one empty name without ``--lane``."""
        return tuple(self._renderers)

    def render(self, run_id: str, to_send: ToSend, lane: str = "") -> tuple[PlannedAttempt, bytes]:
        """One line of a request file, with the attempt that goes with it (its line number is the writer's)."""
        limit = lifecycle.next_token_limit(
            to_send.last_outcome, to_send.last_limit, self.settings.max_completion_tokens
        )
        fields = self.benchmark.fields(to_send.item, to_send.answer, to_send.request)
        name = custom_id(run_id, to_send.request, to_send.attempt)
        changed = None if limit == self.settings.max_completion_tokens else f"{self.settings.token_parameter} {limit}"
        attempt = PlannedAttempt(
            request_id=to_send.request_id,
            attempt=to_send.attempt,
            custom_id=name,
            line=0,
            token_limit=limit,
            n_tokens=to_send.n_tokens,
            changed=changed,
        )
        return attempt, self._of_lane(lane).line(name, fields, limit)

    def fault(self, attempt: PlannedAttempt, line: bytes, lane: str = "") -> str | None:
        """What is wrong with a line before it is written, or None: no provider should be the first to see it."""
        return self._of_lane(lane).fault(attempt.custom_id, line)

    def _of_lane(self, lane: str) -> LineRenderer:
        return self._renderers.get(lane, self.renderer)

    def sizes(self, run_id: str, requests: Sequence[tuple[Request, Mapping[str, str]]]) -> list[Size]:
        """Bytes of each request's first line, and its input tokens, counted or estimated as ``tokens.label`` says.

        ``requests``: each with the fields of its prompt.
        """
        counts, limit = self.tokens.count([fields for _, fields in requests]), self.settings.max_completion_tokens
        lines = (self.renderer.line(custom_id(run_id, request, 1), fields, limit) for request, fields in requests)
        return [Size(len(line), n_tokens) for line, n_tokens in zip(lines, counts, strict=True)]

    def messages(self, item: Item, answer: str, request: Request) -> list[dict[str, str]]:
        """The messages of a request, as sent."""
        return self.renderer.messages(self.benchmark.fields(item, answer, request))

    def reading(self, record: Mapping[str, Any], request: Request, database: Database, *, surrogates: bool) -> Reading:
        """What a line that came back means for its request."""
        if self.benchmark.protocol == "generate":
            # A generated text is an answer as it is, but only when it is whole; there is no verdict in it.
            found = read_record(record, lambda _content: Judgement(""), surrogates=surrogates)
            cut = found.outcome is Outcome.VALID and (found.finish_reason or "").lower() == "length"
            return replace(found, outcome=Outcome.TRUNCATED if cut else found.outcome, judgement=None)
        found = read_record(record, lambda content: self.read(content, request, database), surrogates=surrogates)
        if found.judgement is not None and record.get(MARK) is True:
            return replace(found, judgement=replace(found.judgement, notes=(*found.judgement.notes, "online")))
        return found

    def read(self, content: str, request: Request, database: Database) -> Judgement | InvalidVerdict:
        """Read a judge's answer. The judged texts are only fetched where a verdict was cut out of other text."""
        if self._reader is None:
            keys = ("preference", "reason") if self.benchmark.protocol == "pairwise" else ("score", "reason")
            self._reader = VerdictReader(schemas.load(self.benchmark.schema), keys=keys)
        verdict = self._reader.read(content)
        if not isinstance(verdict, InvalidVerdict) and verdict.cut_out:
            item, answer = plan.judged(database, request.item_index)
            verdict = self._reader.read(content, self.benchmark.judged_texts(item, answer))
        if isinstance(verdict, InvalidVerdict):
            return verdict
        if request.pair_order is not None:
            return preference_judgement(verdict, request.pair_order)
        return score_judgement(verdict)


def _renderer(benchmark: Benchmark, settings: JudgeSettings, model: str) -> LineRenderer:
    return LineRenderer(
        benchmark.system,
        benchmark.template,
        model=model,
        token_parameter=settings.token_parameter,
        extra_body=_extra_body(benchmark, settings),
    )


def _extra_body(benchmark: Benchmark, settings: JudgeSettings) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if settings.reasoning_effort is not None:
        body["reasoning_effort"] = settings.reasoning_effort
    if settings.structured_output:
        body["response_format"] = {"type": "json_schema", "json_schema": schemas.load(benchmark.request_schema)}
    if settings.sampling == "seed":
        body |= SEED_SAMPLING
        if settings.provider == "files":
            body["top_k"] = SEED_TOP_K  # vLLM and its kin take it; the hosted chat APIs have no such parameter
    return body
