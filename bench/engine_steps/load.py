"""Requests of each kind, and the responses that are written for them."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vllm import SamplingParams
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.tool_parsers.structural_tag_registry import get_model_structural_tag
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel
from vllm.v1.engine import EngineCoreRequest

from bench.support.tools import small_tools
from toolgate_backend.adapters import vllm_host
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_core.grammar_key import grammar_key
from toolgate_core.tools import Tool, parse_tools
from toolgate_core.wire import GrammarSource

from .executor import Response
from .options import Kind

TOOLS = 8
MAX_TOKENS = 512
PROMPT_IDS = 1000, 50000
SHARED_PROMPT, OWN_PROMPT = 512, 8
"""Tokens of a prompt that all requests have, as tools are, and that only this one has."""


@dataclass(frozen=True)
class Tools:
    """The tools of all requests."""

    tools: Sequence[Tool]
    sources: dict[str, str]
    """As a store of grammars loads them, by grammar key."""
    strict_tag: str
    """The structural tag that vLLM makes of them, if they are strict."""

    @property
    def spec(self) -> Spec:
        """One call is required."""
        return Spec(
            "required",
            tuple(self.sources),
            max_calls=1,
            reasoning="closed",
            budget=MAX_TOKENS,
            repetition_tokens=2 * MAX_TOKENS,
        )


def bench_tools() -> Tools:
    definitions = small_tools(TOOLS)
    tools = parse_tools(definitions)
    sources = {}
    for tool in tools:
        key = grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
        source = GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
        sources[key] = source_text(source)
    return Tools(tools, sources, _strict_tag(definitions))


def _strict_tag(definitions: Sequence[dict[str, Any]]) -> str:
    strict = [
        ChatCompletionToolsParam(**{**each, "function": {**each["function"], "strict": True}})
        for each in definitions
    ]
    tag = get_model_structural_tag(
        model="hermes",
        tools=strict,
        tool_choice="required",
        reasoning=False,
        strict_level=ToolStrictLevel.PARAMETER,
    )
    return json.dumps(tag.model_dump(mode="json", exclude_none=True))


def load_grammars(
    load: Callable[[str, dict[str, str]], None],
    verdicts: Callable[[list[str]], Sequence[Any]],
    tools: Tools,
) -> None:
    """Load the tools' grammars into a store, and wait until they are ready."""
    load("bench", tools.sources)
    keys = [*tools.sources]
    while len(verdicts(keys)) < len(keys):
        time.sleep(0.01)


@dataclass
class Load:
    """Each kind gets the same responses in the same order."""

    tools: Tools
    responses: Sequence[Sequence[int]]
    ends: Sequence[int]
    """The model's end-of-turn tokens, the usual one first."""
    _made: Counter[Kind] = field(default_factory=Counter)
    _rng: random.Random = field(default_factory=lambda: random.Random(1))

    def __post_init__(self) -> None:
        self._prompt = [self._rng.randrange(*PROMPT_IDS) for _ in range(SHARED_PROMPT)]

    def next(self, kind: Kind) -> tuple[Any, Response]:
        """A request as the engine's process gets it, and its response."""
        number = self._made[kind]
        self._made[kind] += 1
        own = [self._rng.randrange(*PROMPT_IDS) for _ in range(OWN_PROMPT)]
        request = EngineCoreRequest(
            request_id=f"{kind}-{number}",
            prompt_token_ids=self._prompt + own,
            mm_features=None,
            sampling_params=self._params(kind),
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            reasoning_ended=True if kind == "strict" else None,
        )
        tokens = self.responses[number % len(self.responses)]
        return request, Response(tokens, masked=kind in ("strict", "structured_output"))

    def _params(self, kind: Kind) -> SamplingParams:
        structured, extra = None, None
        if kind == "strict":
            structured = StructuredOutputsParams(structural_tag=self.tools.strict_tag)
        elif kind == "structured_output":
            structured = vllm_host.structured_outputs_params()
            extra = self.tools.spec.to_extra_args()
        if structured is not None:
            structured._backend = "xgrammar"
        params = SamplingParams(
            temperature=1.0,
            max_tokens=MAX_TOKENS,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            skip_clone=True,
            structured_outputs=structured,
            extra_args=extra,
        )
        params.update_from_generation_config({"eos_token_id": list(self.ends)}, self.ends[0])
        return params
