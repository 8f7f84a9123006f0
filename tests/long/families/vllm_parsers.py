"""vLLM's own tool parsers as independent readers of each family's calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from toolgate_core.dialects.dialect import Dialect

PARSERS = {
    "deepseek_r1": "deepseek_v3",
    "deepseek_v31": "deepseek_v31",
    "deepseek_v32": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v41": "deepseek_v41",
    "dots": "dots",
    "ernie45": "ernie45",
    "gigachat3": "gigachat3",
    "glm45": "glm45",
    "glm47": "glm47",
    "granite20b": "granite-20b-fc",
    "granite3": "granite",
    "granite33": "granite",
    "granite4": "granite4",
    "hermes": "hermes",
    "hunyuan_a13b": "hunyuan_a13b",
    "inkling": "inkling",
    "internlm2": "internlm",
    "jamba": "jamba",
    "k2_horizon": "k2_horizon",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "longcat": "longcat",
    "mimo_v2": "mimo",
    "minicpm5": "minicpm5",
    "minimax_m2": "minimax_m2",
    "mistral_v11": "mistral",
    "mistral_v13": "mistral",
    "mistral_v3": "mistral",
    "phi4mini": "phi4_mini_json",
    "qwen3": "hermes",
    "qwen3_5": "qwen3_coder",
    "qwen3_coder": "qwen3_coder",
    "seed_oss": "seed_oss",
    "step3": "step3",
    "step3_5": "step3p5",
    "xlam": "xlam",
}
"""By dialect: the name of vLLM's parser."""

Call = tuple[str, Any]


class VllmParser:
    """Reads the text of a turn with vLLM's parser of a dialect."""

    def __init__(self, dialect: Dialect, tokenizer: Any, tools: Sequence[dict[str, Any]]) -> None:
        from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
        from vllm.tool_parsers import ToolParserManager

        self._end = dialect.reasoning.end if dialect.reasoning else None
        self._tokenizer = tokenizer
        self._make = ToolParserManager.get_tool_parser(PARSERS[dialect.name])
        self._request = ChatCompletionRequest(
            messages=[{"role": "user", "content": "x"}], tools=list(tools), model="m"
        )

    def whole(self, text: str) -> list[Call]:
        """The calls of a turn. Errors: whatever the parser raises."""
        found = self._parser().extract_tool_calls(self.without_reasoning(text), self._request)
        functions = [call.function for call in found.tool_calls]
        return [(each.name, json.loads(each.arguments)) for each in functions]

    def streamed(self, parts: Sequence[str]) -> list[Call]:
        """The calls of a turn whose text arrives in `parts`."""
        parser = self._parser()
        names: dict[int, str] = {}
        arguments: dict[int, str] = {}
        text, ids = "", list[int]()
        for part in parts:
            added = self._tokenizer.encode(part, add_special_tokens=False)
            delta = parser.extract_tool_calls_streaming(
                text, text + part, part, ids, ids + added, added, self._request
            )
            text, ids = text + part, ids + added
            for call in (delta.tool_calls if delta is not None else None) or ():
                if call.function is not None:
                    names.setdefault(call.index, call.function.name or "")
                    arguments[call.index] = arguments.get(call.index, "") + (
                        call.function.arguments or ""
                    )
        rest = parser.get_remaining_unstreamed_args()
        if rest and arguments:
            arguments[max(arguments)] += rest
        return [(names[at], json.loads(arguments[at])) for at in sorted(names)]

    def _parser(self) -> Any:
        return self._make(self._tokenizer, self._request.tools)

    def without_reasoning(self, text: str) -> str:
        """The text after the reasoning."""
        if self._end is None or self._end not in text:
            return text
        return text[text.index(self._end) + len(self._end) :]
