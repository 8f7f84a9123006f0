"""Families whose values have a form of their own: nested tags, bare keys with strings between two
marks, or Python."""

from __future__ import annotations

from ..dialect import (
    ARGUMENTS,
    NAME,
    Calls,
    Dialect,
    GemmaValues,
    NestedTags,
    Pythonic,
    Reasoning,
    Recognition,
    Switch,
)

_NAMESPACE = "]<]minimax[>["

_BEGIN, _END = f"{_NAMESPACE}<tool_call>\n", f"{_NAMESPACE}</tool_call>"

MINIMAX_M3 = Dialect(
    name="minimax_m3",
    text_marks=("</invoke>", "<tool_call>", "</tool_call>"),
    models=("MiniMax-M3",),
    shape="nested",
    calls=Calls(
        begin=_BEGIN,
        call=(f'{_NAMESPACE}<invoke name="', NAME, '">', ARGUMENTS, f"{_NAMESPACE}</invoke>\n"),
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
        "There is no form for null.",
        "Objects have only the members that the schema declares.",
    ),
)

_QUOTE, _ESCAPE = '<|"|>', "<escape>"

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
    limits=("The chat template renders all values of earlier calls as strings.",),
)

_CALL = (NAME, "(", ARGUMENTS, ")")
_NO_TEXT_AFTER = "Text after the calls is not supported."

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
)
