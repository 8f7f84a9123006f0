"""MiniMax M3: nested tags, each after a namespace mark."""

from __future__ import annotations

import json
from typing import Any

from ..codecs import NestedTags
from ..dialect import ARGUMENTS, NAME, Calls, Dialect, Reasoning, Recognition, Switch
from ..golden_texts import golden_calls, golden_reasoning

_NAMESPACE = "]<]minimax[>["


def _tag(name: str, value: Any) -> str:
    if isinstance(value, dict):
        inner = "".join(_tag(key, each) for key, each in value.items())
    elif isinstance(value, list):
        inner = "".join(_tag("item", each) for each in value)
    else:
        inner = value if isinstance(value, str) else json.dumps(value)
    return f"{_NAMESPACE}<{name}>{inner}{_NAMESPACE}</{name}>"


def _write(name: str, arguments: str, number: int) -> str:
    inner = "".join(_tag(key, value) for key, value in json.loads(arguments).items())
    return f'{_NAMESPACE}<invoke name="{name}">{inner}{_NAMESPACE}</invoke>\n'


_BEGIN, _END = f"{_NAMESPACE}<tool_call>\n", f"{_NAMESPACE}</tool_call>"
_CALLS = golden_calls(_write, begin=_BEGIN, end=_END)

MINIMAX_M3 = Dialect(
    name="minimax_m3",
    text_marks=("</invoke>", "<tool_call>", "</tool_call>"),
    models=("MiniMax-M3",),
    shape="nested",
    calls=Calls(
        begin=_BEGIN,
        call=(
            f'{_NAMESPACE}<invoke name="',
            NAME,
            '">',
            ARGUMENTS,
            f"{_NAMESPACE}</invoke>\n",
        ),
        end=_END,
        codec=NestedTags(_NAMESPACE),
    ),
    reasoning=Reasoning(
        begin="<mm:think>",
        end="</mm:think>",
        after="",
        switch=Switch("thinking_mode", on="enabled", off="disabled"),
    ),
    ends_after_content=("[e~[",),
    recognition=Recognition(template=(_NAMESPACE, "tool_call>", "mm:think>"), tokens=(_NAMESPACE,)),
    source="vLLM's parsers minimax_m3; xgrammar's structural tag `minimax_m3`",
    limits=(
        f"A string value cannot contain `{_NAMESPACE}`.",
        "There is no form for null.",
        "Objects have only the members that the schema declares.",
    ),
    goldens=(
        *_CALLS,
        *golden_reasoning("<mm:think>", "</mm:think>", "", _CALLS[1]),
        *golden_reasoning("", "</mm:think>", "", _CALLS[1]),
    ),
)

DIALECTS = (MINIMAX_M3,)
