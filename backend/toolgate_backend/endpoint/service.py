"""The backend's handling of a request: validate → pin grammars → render → sample → raw events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, aclosing
from typing import Any

from toolgate_core import wire

from ..adapters import vllm_host
from ..adapters.engine_watch import while_engine_lives
from ..settings import Settings
from ..tokens.vocabulary import Vocabulary
from .admission import InFlightRequests
from .engine_request import EngineRequests, client_errors
from .rendering import Renderer
from .served_model import ServedModel
from .token_stream import raw_events
from .tool_grammars import ToolGrammars
from .trace import Tracer
from .tracing import GenerationSpan


class Service:
    """The endpoint's state in one API process. Stored in `app.state.toolgate`."""

    def __init__(
        self, engine_client: Any, models: Any, vocabulary: Vocabulary, configured: Settings
    ) -> None:
        config = engine_client.model_config
        adapter = vllm_host.detect_adapter(engine_client.vllm_config, configured.adapter)
        self._engine = engine_client
        self._vocabulary = vocabulary
        self._rpc = while_engine_lives(engine_client, vllm_host.make_rpc(engine_client, adapter))
        self.in_flight = InFlightRequests(configured.max_requests)
        self._grammars = ToolGrammars(self._rpc, vocabulary, configured)
        self._renderer = Renderer(engine_client, vocabulary)
        self._model = ServedModel(
            models,
            config,
            vocabulary,
            adapter,
            max_grammars=configured.max_grammars,
            max_token_bytes=self._renderer.max_token_bytes,
        )
        least_tokens = self._grammars.registry.least_tokens
        self._requests = EngineRequests(
            self._renderer, vocabulary, config, adapter, configured, least_tokens
        )
        self._tracer = Tracer(vocabulary)

    async def warm_up(self) -> None:
        """Make the engine read its vocabulary, and start the process that compiles grammars."""
        await self._rpc("toolgate_report")
        await self._grammars.warm_up()

    def info(self) -> wire.Info:
        """Raise BackendUnavailable while the backend is shutting down."""
        self.in_flight.require_open()
        return self._model.info(self.in_flight.count)

    async def load_grammars(self, wanted: wire.LoadGrammars) -> wire.GrammarVerdicts:
        """Load the new grammars on every rank. Return when each has a verdict. Raise
        BackendUnavailable while the backend is shutting down."""
        self.in_flight.require_open()
        return await self._grammars.load(wanted)

    async def walk_instances(self, wanted: wire.WalkInstances) -> wire.InstanceWalks:
        """Walk instances through a tool's masks."""
        return await self._grammars.walk(wanted)

    async def status(self) -> wire.Status:
        ranks = await self._rpc("toolgate_report")
        return wire.Status(
            loaded_grammars=max(rank["grammars"] for rank in ranks),
            pinned_grammars=self._grammars.registry.pinned,
            sequences=max(rank["sequences"] for rank in ranks),
            running=self.in_flight.count,
        )

    async def count(self, request: wire.CountTokens) -> wire.TokenCount:
        """Return the number of tokens of a prompt, rendered as for a response."""
        with self.in_flight.track():
            self._model.lora(request.model)
            prompt = await self._renderer.render(request.prompt, request.max_tokens)
        return wire.TokenCount(tokens=len(prompt["prompt_token_ids"]))

    async def generate(
        self, request: wire.GenerateRequest, headers: Mapping[str, str] | None = None
    ) -> AsyncGenerator[wire.StreamEvent, None]:
        """Yield the raw events of one request. All errors that a client can cause are raised before
        the first event. Closing the generator aborts the request in the engine. `headers`: those of
        the HTTP request, which may have a trace context."""
        async with AsyncExitStack() as stack:
            span = stack.enter_context(GenerationSpan(request, headers or {}))
            stack.enter_context(self.in_flight.track())
            lora = self._model.lora(request.model)
            stack.enter_context(self._grammars.pinned(request.enforcement))
            asked = await self._requests.made(request)
            outputs = self._engine.generate(
                asked.prompt,
                asked.params,
                request.request_id,
                lora_request=lora,
                priority=request.priority,
                trace_headers=span.carried or None,
                # Mask from the first token on, whichever reasoning parser vLLM uses.
                reasoning_ended=True,
            )
            await stack.enter_async_context(aclosing(outputs))
            trace = None
            if request.trace is not None and asked.spec is not None:
                sources = [*map(self._grammars.registry.with_verdict, request.trace.grammars)]
                trace = await stack.enter_async_context(self._tracer.trace(asked.spec, sources))
            events = raw_events(
                client_errors(span.observed(outputs)),
                self._vocabulary,
                start=asked.start,
                logprob_format=asked.logprob_format,
                accepted=request.accepted,
                trace=trace,
            )
            async for event in events:
                yield event
