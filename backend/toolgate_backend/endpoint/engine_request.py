"""A request in the terms of vLLM's engine: the prompt, its sampling parameters and its spec."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vllm.exceptions import VLLMClientError
from vllm.sampling_params import SamplingParams
from vllm.v1.engine.exceptions import EngineDeadError

from toolgate_core import wire
from toolgate_core.errors import ContextLengthExceeded, EnforcementFailed, InvalidRequest

from ..adapters.engine_sequences import NO_GRAMMAR
from ..adapters.engine_watch import engine_died
from ..adapters.vllm_host import AdapterName
from ..enforcement.spec import Spec
from ..settings import Settings
from ..tokens.vocabulary import Vocabulary
from .logprobs import LogprobFormat
from .rendering import Renderer, continues_message
from .sampling import check_budget, client_error, make_spec, sampling_params
from .turn_start import TurnStart


@dataclass(frozen=True)
class EngineRequest:
    prompt: Any
    """Its token ids end with those that the response continues."""
    params: SamplingParams
    spec: Spec | None
    start: wire.StartEvent
    """It is sent before the engine starts. The number of cached tokens follows with the first
    tokens."""
    logprob_format: LogprobFormat | None


class EngineRequests:
    """`config`: vLLM's of the model. `least_tokens`: the least length of a call, by grammar key."""

    def __init__(
        self,
        renderer: Renderer,
        vocabulary: Vocabulary,
        config: Any,
        adapter: AdapterName,
        configured: Settings,
        least_tokens: Callable[[str], int | None],
    ) -> None:
        self._renderer = renderer
        self._vocabulary = vocabulary
        self._config = config
        self._hooked = adapter == "structured_output"
        self._repetition_tokens = configured.repetition_tokens
        self._least_tokens = least_tokens
        self._turn_start = TurnStart(vocabulary)

    async def made(self, request: wire.GenerateRequest) -> EngineRequest:
        """Raise all errors that a client can cause."""
        # A request that continues from earlier tokens gets the same prompt as the first request.
        response_tokens = len(request.accepted) + (request.sampling.max_tokens or 0)
        prompt = await self._renderer.render(request.prompt, response_tokens)
        if request.cache_salt is not None:
            prompt["cache_salt"] = request.cache_salt
        prompt_ids: list[int] = prompt["prompt_token_ids"]
        self._check_accepted(request)
        self._turn_start.refuse_open_call(prompt_ids)
        budget = self._budget(request.sampling, len(prompt_ids) + len(request.accepted))
        spec = self._spec(request, prompt_ids, budget)
        params = sampling_params(
            request.sampling,
            spec,
            self._vocabulary,
            self._config.get_diff_sampling_param(),
            budget=budget,
            stream=request.stream,
            hooked=self._hooked,
        )
        start = wire.StartEvent(
            prompt_tokens=len(prompt_ids),
            reasoning_open=spec is not None and spec.reasoning == "open",
            max_tokens=budget,
            prompt_token_ids=tuple(prompt_ids) if request.return_prompt_ids else None,
            prompt_text=self._prompt_text(request, prompt_ids),
        )
        prompt["prompt_token_ids"] = [*prompt_ids, *request.accepted]
        return EngineRequest(prompt, params, spec, start, self._logprob_format(request))

    def _prompt_text(self, request: wire.GenerateRequest, ids: list[int]) -> str | None:
        return str(self._vocabulary.tokenizer.decode(ids)) if request.return_prompt_text else None

    def _logprob_format(self, request: wire.GenerateRequest) -> LogprobFormat | None:
        top, selected_ids = request.sampling.logprobs, request.sampling.logprob_token_ids
        if top is None:
            return None
        return LogprobFormat(self._vocabulary, top, selected_ids, request.tokens_as_ids)

    def _check_accepted(self, request: wire.GenerateRequest) -> None:
        known = all(0 <= token < self._vocabulary.size for token in request.accepted)
        if not known or (request.accepted and request.sampling.n > 1):
            raise InvalidRequest(
                "'accepted' must contain token ids of the vocabulary, and requires n = 1.",
                param="accepted",
            )

    def _budget(self, sampling: wire.Sampling, prompt_tokens: int) -> int:
        """Return the maximum number of tokens of the response. Raise ContextLengthExceeded."""
        room: int = self._config.max_model_len - prompt_tokens
        wanted = sampling.max_tokens or self._config.get_diff_sampling_param().get("max_tokens")
        if room < 1 or (sampling.max_tokens or 1) > room:
            raise ContextLengthExceeded(
                f"This model's context length is {self._config.max_model_len} tokens. The prompt "
                f"takes {prompt_tokens} and max_tokens is {sampling.max_tokens or 1}. Shorten the "
                "messages or lower max_tokens.",
                param="messages" if room < 1 else "max_tokens",
            )
        return min(room, wanted or room)

    def _spec(
        self, request: wire.GenerateRequest, prompt_ids: Sequence[int], budget: int
    ) -> Spec | None:
        enforcement = request.enforcement
        if enforcement is None:
            return None
        continues = continues_message(request.prompt)
        mode = enforcement.reasoning
        spec = make_spec(
            enforcement,
            request.sampling,
            self._vocabulary,
            reasoning=self._turn_start.reasoning(prompt_ids, mode, continues=continues),
            budget=budget,
            repetition_tokens=self._repetition_tokens,
            accepted=request.accepted,
            excluded=request.excluded or (),
        )
        check_budget(
            spec,
            self._least_tokens,
            self._vocabulary,
            asked_for=request.sampling.max_tokens,
            names=[candidate.name for candidate in enforcement.candidates],
        )
        return spec


async def client_errors(outputs: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield the outputs. vLLM validates parameters against the model when it admits a request. Its
    rejections are errors of the client, except the one about a grammar of ours."""
    try:
        async for output in outputs:
            yield output
    except VLLMClientError as error:
        if NO_GRAMMAR in str(error):
            raise EnforcementFailed(
                "The engine ended the response early. Send the request again."
            ) from error
        raise client_error(error) from error
    except EngineDeadError:
        engine_died.set()
        raise
