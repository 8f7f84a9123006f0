"""Gemma 4 and FunctionGemma: bare keys, and strings between two marks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..codecs import GemmaValues
from ..dialect import ARGUMENTS, NAME, Calls, Dialect, Reasoning, Recognition
from ..golden_texts import golden_calls

_QUOTE, _ESCAPE = '<|"|>', "<escape>"


def _value(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        members = (f"{key}:{_value(value[key], quote)}" for key in sorted(value))
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(_value(each, quote) for each in value)}]"
    return json.dumps(value)


def _write(begin: str, end: str, quote: str) -> Callable[[str, str, int], str]:
    return lambda name, arguments, number: (
        f"{begin}call:{name}{_value(json.loads(arguments), quote)}{end}"
    )


def _no_mark(quote: str) -> str:
    return f"A string value cannot contain `{quote}`."


GEMMA4 = Dialect(
    name="gemma4",
    models=("Gemma 4",),
    shape="gemma",
    calls=Calls(
        call=("<|tool_call>call:", NAME, ARGUMENTS, "<tool_call|>"),
        codec=GemmaValues(_QUOTE),
        ends=("<|tool_response>",),
    ),
    reasoning=Reasoning(begin="<|channel>thought\n", end="<channel|>", after=""),
    ends_after_content=("<turn|>",),
    recognition=Recognition(
        template=("<|tool_call>call:",), tokens=("<|tool_call>", "<tool_call|>", _QUOTE)
    ),
    source="chat template of gemma-4-31B-it",
    limits=(_no_mark(_QUOTE),),
    goldens=golden_calls(
        _write("<|tool_call>", "<tool_call|>", _QUOTE),
        reasoning=("<|channel>thought\n", "<channel|>", ""),
    ),
)

FUNCTIONGEMMA = Dialect(
    name="functiongemma",
    models=("FunctionGemma 270M",),
    shape="gemma",
    calls=Calls(
        call=("<start_function_call>call:", NAME, ARGUMENTS, "<end_function_call>"),
        codec=GemmaValues(_ESCAPE),
    ),
    recognition=Recognition(
        template=("<start_function_call>",),
        tokens=("<start_function_call>", "<end_function_call>", _ESCAPE),
    ),
    source="vLLM's parser functiongemma and its example template",
    limits=(_no_mark(_ESCAPE), "The chat template renders all values of earlier calls as strings."),
    goldens=golden_calls(_write("<start_function_call>", "<end_function_call>", _ESCAPE)),
)

DIALECTS = (GEMMA4, FUNCTIONGEMMA)
