"""Handle a request to the backend: validate → load grammars → render → sample → raw events."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from functools import cached_property
from hashlib import blake2b
from typing import Any

from opentelemetry.trace import Span, SpanKind
from vllm.logger import init_logger
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams

from toolgate_core import tracing, wire
from toolgate_core.chat_shape import MEMBER
from toolgate_core.errors import (
    ContextLengthExceeded,
    FingerprintMismatch,
    GrammarsRefused,
    InvalidRequest,
    UnsupportedParameter,
)
from toolgate_core.wire import ReasoningMode

from ..adapters import vllm_host
from ..adapters.engine_watch import EngineWatch
from ..adapters.lifetimes import before_shutdown, while_engines_live
from ..enforcement.spec import ReasoningStart
from ..grammars.registry import make_registry
from ..settings import Settings, settings
from ..tokens.units import mark_unit, units
from ..tokens.vocabulary import Vocabulary, from_model_config
from .admission import InFlightRequests, needed_sources
from .kv_transfer import (
    data_parallel_rank,
    engine_request_id,
    free_remote_blocks,
    prefill_params,
    prefilled,
    with_transfer,
)
from .rendering import Renderer, continues_message
from .sampling import check_prompt_logprobs, make_spec, sampling_params
from .token_stream import LogprobFormat, raw_events, with_client_errors
from .trace import Tracer


class TurnStart:
    """Reads the assistant turn that a prompt leaves open."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._unit_bytes = vocabulary.unit_bytes
        marks = vocabulary.marks
        self._ends = frozenset(marks.end_of_turn)
        self._headers = vocabulary.special - {*marks.tokens.values()}
        self._marks = frozenset(map(mark_unit, marks.tokens.values()))
        encode = vocabulary.form.marks.encode
        reasoning, calls = vocabulary.dialect.reasoning, vocabulary.dialect.calls

        def text(literal: str) -> bytes:
            return units(encode(literal), vocabulary.form.marks)

        content = vocabulary.dialect.content
        self._content = (text(content.begin), text(content.end))
        self._turn = text(content.turn)
        self._reasoning = (text(reasoning.begin), text(reasoning.end)) if reasoning else None
        last = calls.call[-1] if calls else ""
        closing = calls.end or (last if isinstance(last, str) else "") if calls else ""
        # With typed messages, other messages can begin with the first mark of a call.
        form = vocabulary.form
        opening = form.first_opening if content.begin else form.trigger
        self._call = (units(opening, form.marks), text(closing))

    def refuse_open_call(self, prompt_ids: Sequence[int]) -> None:
        """Raise UnsupportedParameter if the prompt ends inside a tool call. The beginning of that
        call was not constrained by its schema."""
        begin, end = self._call
        if begin and self._last_of(prompt_ids, begin, end) == begin:
            raise UnsupportedParameter(
                "A message that ends inside a tool call cannot be continued. Remove "
                "continue_final_message, or end the message before the call.",
                param="continue_final_message",
            )

    def reasoning(
        self, prompt_ids: Sequence[int], mode: ReasoningMode, *, continues: bool = False
    ) -> ReasoningStart:
        """Return the state of the reasoning, from the last text of the prompt that begins or ends
        it."""
        begin, end = self._content
        if begin and self._last_of(prompt_ids, begin, end) == begin:
            return "content"
        if self._reasoning is None:
            return "closed"
        begin, end = self._reasoning
        last = self._last_of(prompt_ids, begin, end)
        if last == begin:
            return "open"
        if continues:
            return "closed"  # the message began without reasoning
        if mode == "on":
            return "must"
        return "closed" if mode == "off" or last == end else "may"

    def _last_of(self, prompt_ids: Sequence[int], begin: bytes, end: bytes) -> bytes | None:
        """Return the last of two texts in the open turn; None if there is none."""
        if {begin, end} <= self._marks:
            turn = (self._unit_bytes[token] for token in self._reversed(prompt_ids, self._ends))
            return next((unit for unit in turn if unit in (begin, end)), None)
        # A user's text cannot contain marks, but it can contain the other texts of the dialect.
        tokens = [*self._reversed(prompt_ids, self._ends | self._headers)]
        written = b"".join(self._unit_bytes[token] for token in reversed(tokens))
        written = written.rpartition(self._turn)[2] if self._turn else written
        at_begin = written.rfind(begin)
        at_end = written.find(end, at_begin + len(begin)) if end and at_begin >= 0 else -1
        at_end = written.rfind(end) if end and at_begin < 0 else at_end
        if max(at_begin, at_end) < 0:
            return None
        return begin if at_begin > at_end else end

    def _reversed(self, prompt_ids: Sequence[int], borders: frozenset[int]) -> Iterator[int]:
        """Yield the tokens after the last of `borders`, from the last to the first."""
        for token in reversed(prompt_ids):
            if token in borders:
                return
            yield token


def _replica(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return an opaque name of the engines that sent these reports. All API processes in front of
    the same engines have the same one."""
    names = sorted(str(report["process"]) for report in reports)
    return blake2b(" ".join(names).encode(), digest_size=8).hexdigest()


logger = init_logger(__name__)

FIT_PART = 16
"""Part of the context below which `max_tokens` is not lowered: the conversation is too long then.
"""


class Service:
    """The endpoint's state in one API process. Stored in `app.state.toolgate`."""

    def __init__(
        self, engine_client: Any, models: Any, vocabulary: Vocabulary, configured: Settings
    ) -> None:
        self._engine = engine_client
        self._models = models
        self._vocabulary = vocabulary
        self._config = engine_client.model_config
        self._adapter = vllm_host.detect_adapter(engine_client.vllm_config, configured.adapter)
        self._watch = EngineWatch(engine_client)
        rpc = vllm_host.make_rpc(engine_client, self._adapter)
        self._rpc = while_engines_live(self._watch.require_all, rpc)
        self._renderer = Renderer(engine_client, vocabulary)
        self._turn_start = TurnStart(vocabulary)
        self._in_flight = InFlightRequests(configured.max_requests, self._watch.require_all)
        self._tracer = Tracer(vocabulary)
        self._max_grammars = configured.max_grammars
        self._registry, self._quarantine = make_registry(self._rpc, vocabulary, configured)
        self._replica = ""

    @classmethod
    async def start(cls, engine_client: Any, state: Any, args: Namespace) -> Service:
        service = cls(
            engine_client,
            state.openai_serving_models,
            from_model_config(engine_client.model_config),
            settings(),
        )
        in_flight = service._in_flight
        before_shutdown(engine_client, in_flight.close, in_flight.wait_until_idle)
        service._watch.start()
        service._log_dialect()
        await service._renderer.learn_form()
        reports = await service._rpc("toolgate_report")  # makes the engine read its vocabulary now
        service._replica = _replica(reports)
        if service._vocabulary.dialect.calls:
            await service._quarantine.warm_up()
        return service

    def _log_dialect(self) -> None:
        name, recognised = self._vocabulary.dialect.name, self._vocabulary.recognised
        reason = recognised.reason if recognised else "TOOLGATE_DIALECT names it"
        logger.info("Toolgate: the dialect is %s, because %s.", name, reason)
        for warning in recognised.warnings if recognised else ():
            logger.warning("Toolgate: %s", warning)

    def info(self) -> wire.Info:
        """Raise BackendUnavailable while the backend is shutting down or lacks an engine."""
        self._in_flight.require_open()
        return self._description.model_copy(
            update={
                "models": (*self._served_names(), *self._models.lora_requests),
                "in_flight": self._in_flight.count,
                "fingerprint": self._fingerprint,
                "replica": self._replica,
            }
        )

    @cached_property
    def _fingerprint(self) -> str:
        return wire.fingerprint_of(self._description)

    @cached_property
    def _description(self) -> wire.Info:
        """The part that does not change."""
        return wire.Info(
            model=self._served_names()[0],
            models=(),
            vllm_version=vllm_host.version(),
            adapter=self._adapter,
            dialect=self._vocabulary.dialect.name,
            marks=self._vocabulary.marks,
            tokenizer=self._vocabulary.fingerprint,
            grammar_format=self._registry.grammar_format,
            limits=wire.Limits(
                max_model_len=self._config.max_model_len,
                max_logprobs=self._config.max_logprobs,
                max_grammars=self._max_grammars,
                vocabulary=self._vocabulary.size,
                max_token_bytes=self._renderer.max_token_bytes,
            ),
            images=bool(self._config.is_multimodal_model),
            call_ids=vllm_host.call_ids(self._config),
        )

    async def load_grammars(self, wanted: wire.LoadGrammars) -> wire.GrammarVerdicts:
        """Load the new grammars on every rank. Returns when each has a verdict. Raises
        BackendUnavailable as `info` does."""
        self._in_flight.require_open()
        self._require_calls(wanted)
        verdicts = await self._registry.load(wanted.grammars)
        return wire.GrammarVerdicts(grammars=tuple(verdicts))

    def _require_calls(self, wanted: wire.Request) -> None:
        self._require_same(wanted)
        if not self._vocabulary.dialect.calls:
            raise UnsupportedParameter(
                "This model's tokenizer has no tool-call marks of a supported dialect, so tools "
                "cannot be enforced. Remove tools, or use a supported model.",
                param="tools",
            )

    def _require_same(self, request: wire.Request) -> None:
        """Raise FingerprintMismatch for a message that its gateway must make anew."""
        if request.rewritten:
            raise FingerprintMismatch("A router has changed the message. Seal it.", param=MEMBER)
        if request.fingerprint not in ("", self._fingerprint):
            raise FingerprintMismatch(
                "This replica differs from the one whose description the request is based on. "
                "Start all replicas behind one address with the same release and flags."
            )

    async def status(self) -> wire.Status:
        ranks = await self._rpc("toolgate_report")
        return wire.Status(
            loaded_grammars=max(rank["grammars"] for rank in ranks),
            pinned_grammars=self._registry.pinned,
            sequences=max(rank["sequences"] for rank in ranks),
            running=self._in_flight.count,
        )

    async def count(self, request: wire.CountTokens) -> wire.TokenCount:
        """The number of tokens of a prompt, rendered as for a response."""
        with self._in_flight.track():
            self._require_same(request)
            self._lora(request.model)
            prompt, _ = await self._renderer.render(request.prompt, request.max_tokens)
        return wire.TokenCount(tokens=len(prompt["prompt_token_ids"]))

    async def prefill(
        self, request: wire.GenerateRequest, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Compute the prompt of a request for a decode engine, which enforces. Return a chat
        completion without choices. Raises what `generate` raises about the prompt."""
        headers = headers or {}
        with self._handled(request, headers) as span:
            prompt, prompt_tokens, _ = await self._render(request)
            self._budget(request, len(prompt["prompt_token_ids"]))
            outputs = self._sequence(prompt, prefill_params(), request, headers, span)
            async with aclosing(outputs):
                *_, last = [output async for output in with_client_errors(outputs)]
        return prefilled(request, prompt_tokens, last)

    async def generate(
        self, request: wire.GenerateRequest, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[wire.StreamEvent, None]:
        """The raw events of one request. All errors that a client can cause are raised before the
        first event. Closing the generator aborts the request in the engine. `headers`: those of
        the HTTP request, which may have a trace context."""
        headers = headers or {}
        async with AsyncExitStack() as stack:
            admission = await stack.enter_async_context(AsyncExitStack())
            admission.push_async_callback(free_remote_blocks, self._engine, request, headers)
            span = stack.enter_context(self._handled(request, headers))
            enforcement = request.enforcement
            sources = needed_sources(request)
            verdicts = await stack.enter_async_context(self._registry.held(sources))
            if refused := [each for each in verdicts.values() if each.status == "refused"]:
                raise GrammarsRefused([each.model_dump(exclude_none=True) for each in refused])
            prompt, prompt_tokens, adapted = await self._render(request)
            prompt_ids: list[int] = prompt["prompt_token_ids"][:prompt_tokens]
            self._turn_start.refuse_open_call(prompt_ids)
            budget = self._budget(request, len(prompt["prompt_token_ids"]))
            check_prompt_logprobs(request.sampling, len(prompt_ids))
            decode = self._vocabulary.tokenizer.decode
            spec = None
            if enforcement is not None:
                spec = make_spec(
                    request,
                    enforcement,
                    self._vocabulary,
                    reasoning=self._turn_start.reasoning(
                        prompt_ids,
                        enforcement.reasoning,
                        continues=continues_message(request.prompt),
                    ),
                    budget=budget,
                    least_tokens=lambda key: verdicts[key].least_tokens,
                )
            params = sampling_params(
                request.sampling,
                spec,
                self._vocabulary,
                self._config.get_diff_sampling_param(),
                budget=budget,
                stream=request.stream,
                hooked=self._adapter == "structured_output",
            )
            # The start event is sent before the engine starts. The number of cached tokens follows
            # with the first tokens.
            start = wire.StartEvent(
                prompt_tokens=len(prompt_ids),
                reasoning_open=spec is not None and spec.reasoning == "open",
                max_tokens=budget,
                prompt_token_ids=tuple(prompt_ids) if request.return_prompt_ids else None,
                prompt_text=decode(prompt_ids) if request.return_prompt_text else None,
                adapted=adapted,
                verdicts=tuple(verdicts[each.key] for each in request.grammars if each.report),
                fingerprint=self._fingerprint,
                replica=self._replica,
            )
            outputs = self._sequence(prompt, params, request, headers, span)
            admission.pop_all()  # from here on the engine frees what it has
            await stack.enter_async_context(aclosing(outputs))
            trace = None
            if request.trace and spec is not None:
                checked = [self._registry.checked(source()) for source in sources.values()]
                loaded = [source.after(verdicts[source.key]) for source in checked]
                trace = await stack.enter_async_context(self._tracer.trace(spec, loaded))
            events = raw_events(
                with_client_errors(outputs),
                self._vocabulary,
                start=start,
                logprob_format=self._logprob_format(request),
                accepted=request.accepted,
                trace=trace,
            )
            async for event in events:
                yield event

    @contextmanager
    def _handled(self, request: wire.GenerateRequest, headers: Mapping[str, str]) -> Iterator[Span]:
        """Count the request as in flight, in a span. Raises BackendUnavailable,
        FingerprintMismatch, and InvalidRequest for an unknown model."""
        attributes: dict[str, tracing.Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": request.model,
            "gen_ai.request.choice.count": request.sampling.n,
            "toolgate.request_id": request.request_id,
        }
        span = tracing.begin("toolgate.generate", SpanKind.SERVER, attributes, headers=headers)
        with tracing.ended(span), self._in_flight.track():
            self._require_same(request)
            self._lora(request.model)
            yield span

    async def _render(self, request: wire.GenerateRequest) -> tuple[Any, int, Any]:
        """Return the prompt for the engine, the number of its tokens before the accepted ones, and
        the messages that the template accepts in another form only."""
        # A request that continues from earlier tokens gets the same prompt as the first request.
        response_tokens = len(request.accepted) + (request.sampling.max_tokens or 0)
        prompt, adapted = await self._renderer.render(request.prompt, response_tokens)
        if request.cache_salt is not None:
            prompt["cache_salt"] = request.cache_salt
        self._check_accepted(request)
        ids: list[int] = prompt["prompt_token_ids"]
        prompt["prompt_token_ids"] = [*ids, *request.accepted]
        return prompt, len(ids), adapted

    def _sequence(
        self,
        prompt: Any,
        params: SamplingParams,
        request: wire.GenerateRequest,
        headers: Mapping[str, str],
        span: Span,
    ) -> AsyncGenerator[Any, None]:
        """Return vLLM's outputs. Closing them aborts the request in the engine."""
        outputs: AsyncGenerator[Any, None] = self._engine.generate(
            prompt,
            with_transfer(params, request),
            engine_request_id(request, headers),
            lora_request=self._lora(request.model),
            priority=request.priority,
            data_parallel_rank=data_parallel_rank(headers),
            trace_headers=tracing.outgoing(span) or None,
            # Mask from the first token on, whichever reasoning parser vLLM uses.
            reasoning_ended=True,
        )
        return outputs

    def _logprob_format(self, request: wire.GenerateRequest) -> LogprobFormat | None:
        top, selected_ids = request.sampling.logprobs, request.sampling.logprob_token_ids
        if top is None:
            return None
        return LogprobFormat(self._vocabulary, top, selected_ids, request.tokens_as_ids)

    def _served_names(self) -> list[str]:
        return [base.name for base in self._models.base_model_paths]

    def _lora(self, model: str) -> LoRARequest | None:
        if model in self._served_names():
            return None
        adapter: LoRARequest | None = self._models.lora_requests.get(model)
        if adapter is None:
            raise InvalidRequest(
                f"This backend does not serve the model {model!r}. Check the deployment's model "
                "name.",
                param="model",
            )
        return adapter

    def _check_accepted(self, request: wire.GenerateRequest) -> None:
        known = all(0 <= token < self._vocabulary.size for token in request.accepted)
        if not known or (request.accepted and request.sampling.n > 1):
            raise InvalidRequest(
                "'accepted' must contain token ids of the vocabulary, and requires n = 1.",
                param="accepted",
            )

    def _budget(self, request: wire.GenerateRequest, prompt_tokens: int) -> int:
        """Maximum number of tokens of the response."""
        context: int = self._config.max_model_len
        room, asked = context - prompt_tokens, request.sampling.max_tokens
        wanted = asked or self._config.get_diff_sampling_param().get("max_tokens")
        least = min(asked or 1, context // FIT_PART) if request.fit_max_tokens else asked
        if room < max(least or 1, 1):
            raise ContextLengthExceeded.of_tokens(
                context,
                prompt_tokens,
                asked if room >= 1 else None,
                param="messages" if room < 1 else "max_tokens",
            )
        return min(room, wanted or room)
