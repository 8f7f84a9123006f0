"""Handle a request to the backend: validate → load grammars → render → sample → raw events."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any

from opentelemetry.trace import Span, SpanKind
from vllm.logger import init_logger
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams

from toolgate_core import tracing, wire
from toolgate_core.chat_shape import MEMBER
from toolgate_core.errors import (
    FingerprintMismatch,
    GrammarsRefused,
    InvalidRequest,
    UnsupportedParameter,
)

from ..adapters import vllm_host
from ..adapters.engine_watch import EngineWatch
from ..adapters.lifetimes import before_shutdown, while_engines_live
from ..enforcement.spec import Spec
from ..grammars.registry import make_registry
from ..settings import Settings, settings
from ..tokens.vocabulary import Vocabulary, from_model_config
from . import kv_transfer
from .admission import InFlightRequests, needed_sources
from .rendering import Renderer, TurnStart
from .sampling import budget_of, check_prompt_logprobs, make_spec, sampling_params
from .token_stream import LogprobFormat, raw_events, with_client_errors
from .trace import Tracer


def _replica(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return an opaque name of the engines that sent these reports. All API processes in front of
    the same engines have the same one."""
    names = sorted(str(report["process"]) for report in reports)
    return blake2b(" ".join(names).encode(), digest_size=8).hexdigest()


logger = init_logger(__name__)


@dataclass(frozen=True)
class CheckedRequest:
    """What the engine gets of a request that is not refused."""

    prompt: Any
    spec: Spec | None
    params: SamplingParams
    start: wire.StartEvent
    sources: Mapping[str, Callable[[], wire.GrammarSource]]
    verdicts: Mapping[str, wire.GrammarVerdict]


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
        """Load the new grammars on every rank. Return when each has a verdict. Raise
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
        """Return the number of tokens of a prompt, rendered as for a response."""
        with self._in_flight.track():
            self._require_same(request)
            self._lora(request.model)
            prompt, _ = await self._renderer.render(request.prompt, request.max_tokens)
        return wire.TokenCount(tokens=len(prompt["prompt_token_ids"]))

    async def prefill(
        self, request: wire.GenerateRequest, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Compute the prompt of a request for a decode engine, which enforces. Return a chat
        completion without choices. Raise what `generate` raises about the prompt."""
        headers = headers or {}
        with self._handled(request, headers) as span:
            prompt, prompt_ids, _ = await self._renderer.render_request(request)
            budget_of(request, len(prompt_ids), self._config)
            outputs = self._sequence(prompt, kv_transfer.prefill_params(), request, headers, span)
            async with aclosing(outputs):
                *_, last = [output async for output in with_client_errors(outputs)]
        return kv_transfer.prefilled(request, len(prompt_ids), last)

    async def generate(
        self, request: wire.GenerateRequest, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[wire.StreamEvent, None]:
        """Yield the raw events of one request. Raise all errors that a client can cause before the
        first event. Closing the generator aborts the request in the engine. `headers`: those of
        the HTTP request, which may have a trace context."""
        headers = headers or {}
        async with AsyncExitStack() as stack:
            refusal = await stack.enter_async_context(AsyncExitStack())
            free = partial(kv_transfer.free_remote_blocks, self._engine, request, headers)
            refusal.push_async_callback(free)
            span = stack.enter_context(self._handled(request, headers))
            checked = await self._check(request, stack)
            outputs = self._sequence(checked.prompt, checked.params, request, headers, span)
            refusal.pop_all()  # from here on the engine frees what it has
            await stack.enter_async_context(aclosing(outputs))
            trace = None
            if request.trace and checked.spec is not None:
                sources = [self._registry.checked(get()) for get in checked.sources.values()]
                loaded = [source.after(checked.verdicts[source.key]) for source in sources]
                trace = await stack.enter_async_context(self._tracer.trace(checked.spec, loaded))
            events = raw_events(
                with_client_errors(outputs),
                self._vocabulary,
                start=checked.start,
                logprob_format=LogprobFormat.of_request(request, self._vocabulary),
                accepted=request.accepted,
                trace=trace,
            )
            async for event in events:
                yield event

    async def _check(self, request: wire.GenerateRequest, stack: AsyncExitStack) -> CheckedRequest:
        """Make what the engine gets, and raise every error for which the request is refused. Its
        grammars stay loaded until `stack` is closed."""
        sources = needed_sources(request)
        verdicts = await stack.enter_async_context(self._registry.held(sources))
        if refused := [each for each in verdicts.values() if each.status == "refused"]:
            raise GrammarsRefused([verdict.model_dump(exclude_none=True) for verdict in refused])
        prompt, prompt_ids, adapted = await self._renderer.render_request(request)
        reasoning = self._turn_start.of_response(request, prompt_ids)
        budget = budget_of(request, len(prompt_ids), self._config)
        check_prompt_logprobs(request.sampling, len(prompt_ids))
        spec = make_spec(
            request,
            self._vocabulary,
            reasoning=reasoning,
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
        # It is sent before the engine starts. The number of cached tokens follows with the first
        # tokens.
        decode = self._vocabulary.tokenizer.decode
        start = wire.StartEvent(
            prompt_tokens=len(prompt_ids),
            reasoning_open=spec is not None and spec.reasoning == "open",
            max_tokens=budget,
            prompt_token_ids=tuple(prompt_ids) if request.return_prompt_ids else None,
            prompt_text=decode(prompt_ids) if request.return_prompt_text else None,
            adapted=adapted,
            verdicts=tuple(verdicts[needed.key] for needed in request.grammars if needed.report),
            fingerprint=self._fingerprint,
            replica=self._replica,
        )
        return CheckedRequest(prompt, spec, params, start, sources, verdicts)

    @contextmanager
    def _handled(self, request: wire.GenerateRequest, headers: Mapping[str, str]) -> Iterator[Span]:
        """Count the request as in flight, in a span. Raise BackendUnavailable, FingerprintMismatch,
        and InvalidRequest for an unknown model."""
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

    def _sequence(
        self,
        prompt: Any,
        params: SamplingParams,
        request: wire.GenerateRequest,
        headers: Mapping[str, str],
        span: Span,
    ) -> AsyncGenerator[Any, None]:
        """Return vLLM's outputs. Closing them aborts the request in the engine."""
        lora = self._lora(request.model)
        outputs: AsyncGenerator[Any, None] = self._engine.generate(
            prompt,
            kv_transfer.with_transfer(params, request),
            kv_transfer.engine_request_id(request, headers),
            lora_request=lora,
            priority=request.priority,
            data_parallel_rank=kv_transfer.data_parallel_rank(headers),
            trace_headers=tracing.outgoing(span) or None,
            # Mask from the first token on, whichever reasoning parser vLLM uses.
            reasoning_ended=True,
        )
        return outputs

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
