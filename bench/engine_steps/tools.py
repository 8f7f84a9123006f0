"""The tools of all requests, for Toolgate and for vLLM."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionToolsParam
from vllm.tool_parsers.structural_tag_registry import get_model_structural_tag
from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

from bench.support.strings import constrained
from bench.support.tools import reference_calls, small_tools
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.grammars.worker_rpc import source_text
from toolgate_core.grammar_key import grammar_key
from toolgate_core.tools import parse_tools
from toolgate_core.wire import GrammarSource

from .blocks import Text

TOOLS, REFERENCE_TOOLS = 8, 32
MAX_TOKENS = 512


@dataclass(frozen=True)
class Tools:
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


def bench_tools(text: Text) -> Tools:
    definitions = definitions_of(text)
    sources = {}
    for tool in parse_tools(definitions):
        key = grammar_key(tool.hash, dialect="qwen3", tokenizer="t", grammar_format="f")
        source = GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
        sources[key] = source_text(source)
    return Tools(sources, _strict_tag(definitions))


def definitions_of(text: Text) -> list[dict[str, Any]]:
    """In OpenAI's format."""
    small = small_tools(TOOLS)
    match text:
        case "natural" | "random":
            return small
        case "reference":
            tools = {case.name: case.tools[0] for case in reference_calls() if len(case.tools) == 1}
            return [*tools.values()][:REFERENCE_TOOLS]
        case strings:
            constraints: list[dict[str, Any]] = constrained(small, strings, random.Random(1))
            return constraints


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
