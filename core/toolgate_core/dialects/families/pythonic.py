"""Families that write calls as calls of Python functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..codecs import Pythonic
from ..dialect import ARGUMENTS, NAME, Calls, Dialect, Reasoning, Recognition
from ..golden_texts import golden_calls, golden_reasoning

_CALL = (NAME, "(", ARGUMENTS, ")")
_NO_TEXT_AFTER = "Text after the calls is not supported."


def _write(literal: Callable[[Any], str]) -> Callable[[str, str, int], str]:
    """The writer of a call whose values `literal` writes."""

    def write(name: str, arguments: str, number: int) -> str:
        values = json.loads(arguments)
        return f"{name}({', '.join(f'{key}={literal(each)}' for key, each in values.items())})"

    return write


def _double_quoted(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(k)}: {_double_quoted(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_double_quoted, value))}]"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _single_quoted(value: Any) -> str:
    return json.dumps(value) if isinstance(value, dict) else repr(value)


_BRACKETS = golden_calls(
    _write(_double_quoted), begin="[", between=", ", end="]", before=None
) + golden_calls(_write(repr), begin="[", between=", ", end="]", before=None)
_AT_START = Calls(
    begin="[", call=_CALL, separator=", ", end="]", codec=Pythonic(), only_at_start=True
)

LLAMA32_PYTHONIC = Dialect(
    name="llama32_pythonic",
    models=("Llama 3.2 1B", "Llama 3.2 3B", "ToolACE 8B", "Gemma 3"),
    shape="pythonic",
    calls=_AT_START,
    recognition=Recognition(template=("tool_call.name + '('",), without=("<|header_start|>",)),
    source="vLLM's parser pythonic and its templates for Llama 3.2, ToolACE and Gemma 3",
    limits=(
        "A turn that begins with `[` is a call.",
        "The chat templates render strings of earlier calls without quotation marks.",
    ),
    goldens=_BRACKETS,
)

LLAMA4_PYTHONIC = Dialect(
    name="llama4_pythonic",
    models=("Llama 4 Scout", "Llama 4 Maverick"),
    shape="pythonic",
    calls=_AT_START,
    recognition=Recognition(template=("tool_call.name + '('", "<|header_start|>")),
    source="vLLM's parser llama4_pythonic and its example template",
    limits=(
        "A turn that begins with `[` is a call.",
        "Calls between `<|python_start|>` and `<|python_end|>` are not supported.",
        "The chat template renders all values of earlier calls as strings.",
    ),
    goldens=_BRACKETS,
)

_LFM2 = golden_calls(
    _write(_single_quoted),
    begin="<|tool_call_start|>[",
    between=", ",
    end="]<|tool_call_end|>",
)

LFM2 = Dialect(
    name="lfm2",
    models=("LFM2 350M to 8B",),
    shape="pythonic",
    calls=Calls(
        begin="<|tool_call_start|>[",
        call=_CALL,
        separator=", ",
        end="]<|tool_call_end|>",
        codec=Pythonic(quote="'", json_objects=True),
    ),
    recognition=Recognition(
        template=("List of tools: <|tool_list_start|>[",),
        tokens=("<|tool_call_start|>", "<|tool_call_end|>", "<|tool_list_start|>"),
    ),
    source="chat template of LFM2-8B-A1B; vLLM's parser lfm2",
    limits=(_NO_TEXT_AFTER,),
    goldens=_LFM2,
)

LFM2_5 = Dialect(
    name="lfm2_5",
    models=("LFM2.5",),
    shape="pythonic",
    calls=LFM2.calls,
    reasoning=Reasoning(after="", switch=None),
    recognition=Recognition(
        template=('"List of tools: ["',),
        tokens=("<|tool_call_start|>", "<|tool_call_end|>", "<think>", "</think>"),
    ),
    source="chat template of LFM2.5-8B-A1B",
    limits=(_NO_TEXT_AFTER,),
    goldens=(*_LFM2, *golden_reasoning("<think>", "</think>", "", _LFM2[1])),
)

_OLMO3 = golden_calls(
    _write(_double_quoted), begin="<function_calls>", between="\n", end="</function_calls>"
)

OLMO3 = Dialect(
    name="olmo3",
    text_marks=("<function_calls>", "</function_calls>", "<think>", "</think>"),
    models=("Olmo 3 7B", "Olmo 3 32B"),
    shape="pythonic",
    calls=Calls(
        begin="<function_calls>",
        call=_CALL,
        separator="\n",
        end="</function_calls>",
        codec=Pythonic(),
    ),
    reasoning=Reasoning(after="\n\n", switch=None),
    recognition=Recognition(template=("<function_calls>", "</function_calls>", "<functions>")),
    source="vLLM's parser olmo3",
    goldens=(
        *_OLMO3,
        *golden_reasoning("<think>", "</think>", "\n\n", _OLMO3[1]),
        *golden_reasoning("", "</think>", "\n\n", _OLMO3[1]),
    ),
)

DIALECTS = (LLAMA32_PYTHONIC, LLAMA4_PYTHONIC, LFM2, LFM2_5, OLMO3)
