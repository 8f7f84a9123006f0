"""Hermes, Qwen2.5 and Qwen3: a JSON object between two tags."""

from __future__ import annotations

from dataclasses import replace

from ..dialect import (
    ARGUMENTS,
    NAME,
    Calls,
    Dialect,
    Golden,
    GoldenCall,
    Reasoning,
    Recognition,
)

_CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "x"}}\n</tool_call>'
_GOLDENS = (
    Golden(text=_CALL, calls=(GoldenCall("f", {"a": "x"}),)),
    Golden(text=f"{_CALL}\n{_CALL}", calls=(GoldenCall("f", {"a": "x"}),) * 2),
    Golden(text=f"Wait.\n{_CALL}", content="Wait.", calls=(GoldenCall("f", {"a": "x"}),)),
)

HERMES = Dialect(
    name="hermes",
    models=("Hermes 2 Pro", "Hermes 3", "Qwen2.5"),
    shape="object",
    calls=Calls(
        call=('<tool_call>\n{"name": "', NAME, '", "arguments": ', ARGUMENTS, "}\n</tool_call>"),
        separator="\n",
    ),
    recognition=Recognition(template=("<tool_call>",), tokens=("<tool_call>", "</tool_call>")),
    source="chat templates of Qwen2.5-7B-Instruct and Hermes-3-Llama-3.1-8B",
    goldens=_GOLDENS,
)

QWEN3 = replace(
    HERMES,
    name="qwen3",
    models=("Qwen3", "Qwen3-Next", "Qwen3-VL", "QwQ"),
    reasoning=Reasoning(),
    recognition=Recognition(
        template=("<tool_call>", "</think>"),
        tokens=("<tool_call>", "</tool_call>", "<think>", "</think>"),
    ),
    source="chat template of Qwen3-0.6B",
    goldens=(
        *_GOLDENS,
        Golden(
            text=f"<think>\nSo.\n</think>\n\n{_CALL}",
            reasoning="So.",
            calls=(GoldenCall("f", {"a": "x"}),),
        ),
    ),
)

DIALECTS = (QWEN3, HERMES)
