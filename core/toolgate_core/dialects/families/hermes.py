"""Hermes, Qwen2.5 and Qwen3: a JSON object between two tags."""

from __future__ import annotations

from dataclasses import replace

from ..dialect import ARGUMENTS, NAME, Calls, Dialect, Reasoning, Recognition
from ..golden_texts import golden_calls, golden_reasoning

_GOLDENS = golden_calls(
    lambda name, arguments, number: (
        f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
    ),
    between="\n",
)
_AFTER_THOUGHTS = golden_reasoning("<think>\n", "\n</think>", "\n\n", _GOLDENS[1])
_THOUGHTS_OPEN = golden_reasoning("", "\n</think>", "\n\n", _GOLDENS[1])

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
    goldens=(*_GOLDENS, *_AFTER_THOUGHTS, *_THOUGHTS_OPEN),
)

TRINITY = replace(
    QWEN3,
    name="trinity",
    models=("Trinity Mini", "Trinity Nano"),
    reasoning=Reasoning(switch=None),
    recognition=Recognition(template=("<tool_call>", "</think>", "Trinity")),
    source="form of Qwen3, with which Trinity is served",
    limits=("A call inside the reasoning is part of the reasoning.",),
)

MIMO_VL = replace(
    HERMES,
    name="mimo_vl",
    models=("MiMo-VL-7B",),
    reasoning=Reasoning(after="\n", switch=None),
    recognition=Recognition(template=("<tool_call>", "You are MiMo", "Xiaomi")),
    source="chat template of MiMo-VL",
    limits=("Only `/no_think` in the user's message turns the reasoning off.",),
    goldens=(
        *_GOLDENS,
        *golden_reasoning("<think>\n", "\n</think>", "\n", _GOLDENS[1]),
    ),
)

DIALECTS = (QWEN3, HERMES, TRINITY, MIMO_VL)
