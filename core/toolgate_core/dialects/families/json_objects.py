"""Families that write each call as a JSON object between marks of their own."""

from __future__ import annotations

from dataclasses import replace

from ..dialect import (
    ARGUMENTS,
    NAME,
    Calls,
    Content,
    Dialect,
    Golden,
    Part,
    Reasoning,
    Recognition,
    Switch,
)
from ..golden_texts import golden_calls, golden_reasoning
from .hermes import HERMES, QWEN3


def _object(begin: str, end: str, key: str = "arguments") -> tuple[Part, ...]:
    return (f'{begin}{{"name": "', NAME, f'", "{key}": ', ARGUMENTS, f"}}{end}")


_TAGS = golden_calls(
    lambda name, arguments, number: (
        f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
    ),
    between="\n",
)
_TIGHT = golden_calls(
    lambda name, arguments, number: (
        f'<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>'
    ),
    between="\n",
)

GRANITE4 = replace(
    HERMES,
    name="granite4",
    text_marks=("<tool_call>", "</tool_call>"),
    models=("Granite 4.0", "Granite 4.1"),
    recognition=Recognition(template=("<tool_call>", "<|start_of_role|>"), without=("<function=",)),
    source="chat templates of Granite 4.0 and 4.1",
    goldens=_TAGS,
)

BIELIK = replace(
    HERMES,
    name="bielik",
    models=("Bielik 3",),
    recognition=Recognition(template=("<tool_call>", "<|function_output|>", "<|im_start|>")),
    source="chat template of Bielik-11B-v3.0-Instruct",
    goldens=_TAGS,
)

REKA = replace(
    QWEN3,
    name="reka",
    models=("Reka Edge",),
    calls=Calls(call=_object("<tool_call>\n", "\n</tool_call>"), ends=("<sep>",)),
    ends_after_content=("<sep>",),
    recognition=Recognition(template=("<tool_call>", "<sep>", "</tool_call>")),
    source="chat template of Reka-Edge",
    goldens=golden_calls(
        lambda name, arguments, number: (
            f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        ),
        reasoning=("<think>\n", "\n</think>", "\n\n"),
    ),
)

EXAONE4 = Dialect(
    name="exaone4",
    models=("EXAONE 4", "Youtu-LLM"),
    shape="object",
    calls=Calls(call=_object("<tool_call>", "</tool_call>"), separator="\n"),
    reasoning=Reasoning(),
    recognition=Recognition(template=("<tool_call>", "[|assistant|]", "[|endofturn|]")),
    source="xgrammar's structural tag `exaone`",
    goldens=(*_TIGHT, *golden_reasoning("<think>", "</think>", "\n\n", _TIGHT[1])),
)

SMOLLM3 = replace(
    EXAONE4,
    name="smollm3",
    models=("SmolLM3",),
    reasoning=Reasoning(after="\n"),
    recognition=Recognition(template=("SmolLM", "/no_think", "enable_thinking")),
    source="chat template of SmolLM3-3B (`xml_tools`)",
    limits=("The chat template does not render earlier calls.",),
    goldens=(*_TIGHT, *golden_reasoning("<think>\n", "\n</think>", "\n", _TIGHT[1])),
)

_ERNIE = golden_calls(
    lambda name, arguments, number: (
        f'\n<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>\n'
    ),
    before=None,
)

ERNIE45 = Dialect(
    name="ernie45",
    models=("ERNIE 4.5 Thinking",),
    shape="object",
    calls=Calls(call=_object("<tool_call>\n", "\n</tool_call>\n"), separator="\n"),
    reasoning=Reasoning(after="\n\n", switch=None),
    content=Content(begin="<response>\n", end="\n</response>"),
    recognition=Recognition(template=("<tool_call>", "</think>", "<response>")),
    source="vLLM's parser ernie45",
    limits=("No content before calls.",),
    goldens=(
        *_ERNIE,
        golden_reasoning("<think>\n", "\n</think>", "\n\n", _ERNIE[1])[0],
        golden_reasoning("", "\n</think>", "\n\n", _ERNIE[1])[0],
        Golden(text="<response>\nDone.\n</response>\n", content="Done."),
        Golden(
            text="So.\n</think>\n\n<response>\nDone.\n</response>\n",
            reasoning="So.",
            content="Done.",
            reasoning_open=True,
        ),
    ),
)

LONGCAT = Dialect(
    name="longcat",
    models=("LongCat-Flash",),
    shape="object",
    calls=Calls(call=_object("<longcat_tool_call>\n", "\n</longcat_tool_call>"), separator="\n"),
    reasoning=Reasoning(begin="<longcat_think>", end="</longcat_think>", after="\n"),
    recognition=Recognition(template=("<longcat_tool_call>",)),
    source="vLLM's parser and structural tag longcat",
    goldens=golden_calls(
        lambda name, arguments, number: (
            f'<longcat_tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n'
            "</longcat_tool_call>"
        ),
        between="\n",
        reasoning=("<longcat_think>", "</longcat_think>", "\n"),
    ),
)

INTERNLM2 = Dialect(
    name="internlm2",
    models=("InternLM2", "InternLM2.5"),
    shape="object",
    calls=Calls(call=_object("<|action_start|><|plugin|>\n", "<|action_end|>", "parameters")),
    recognition=Recognition(
        template=("<|action_start|><|plugin|>",), tokens=("<|action_start|>", "<|plugin|>")
    ),
    source="vLLM's parser internlm2 and its example template",
    goldens=golden_calls(
        lambda name, arguments, number: (
            f'<|action_start|><|plugin|>\n{{"name": "{name}", "parameters": {arguments}}}'
            "<|action_end|>"
        )
    ),
)

INTERN_S1 = replace(
    INTERNLM2,
    name="intern_s1",
    models=("Intern-S1",),
    calls=Calls(call=_object("<|action_start|> <|plugin|>\n", "<|action_end|>", "parameters")),
    reasoning=Reasoning(),
    recognition=Recognition(
        template=("<|action_start|> <|plugin|>",),
        tokens=("<|action_start|>", "<|plugin|>", "<think>"),
    ),
    source="SGLang's detector of Intern-S1",
    goldens=golden_calls(
        lambda name, arguments, number: (
            f'<|action_start|> <|plugin|>\n{{"name": "{name}", "parameters": {arguments}}}'
            "<|action_end|>"
        ),
        reasoning=("<think>", "</think>", "\n\n"),
    ),
)

GRANITE20B = Dialect(
    name="granite20b",
    text_marks=("<function_call>",),
    models=("Granite 20B Function Calling",),
    shape="object",
    calls=Calls(call=_object("<function_call> ", "\n")),
    recognition=Recognition(template=("<function_call> ",)),
    source="vLLM's parser granite_20b_fc and its example template",
    goldens=golden_calls(
        lambda name, arguments, number: (
            f'<function_call> {{"name": "{name}", "arguments": {arguments}}}\n'
        )
    ),
)

MINIMAX_M1 = Dialect(
    name="minimax_m1",
    text_marks=("<tool_calls>", "</tool_calls>", "<think>", "</think>"),
    models=("MiniMax-M1",),
    shape="object",
    calls=Calls(
        begin="<tool_calls>\n", call=_object("", ""), separator="\n", end="\n</tool_calls>"
    ),
    reasoning=Reasoning(switch=None),
    recognition=Recognition(template=("<tool_calls>", "<beginning_of_sentence>")),
    source="vLLM's example template of MiniMax-M1",
    goldens=golden_calls(
        lambda name, arguments, number: f'{{"name": "{name}", "arguments": {arguments}}}',
        begin="<tool_calls>\n",
        between="\n",
        end="\n</tool_calls>",
        reasoning=("<think>", "</think>", "\n\n"),
    ),
)

_ONE_CALL = "One call in a turn."

GIGACHAT3 = Dialect(
    name="gigachat3",
    models=("GigaChat 3",),
    shape="object",
    calls=Calls(call=_object("<|message_sep|>\n\nfunction call<|role_sep|>\n", ""), parallel=False),
    recognition=Recognition(
        template=("function call", "<|role_sep|>"), without=("<|function_call|>",)
    ),
    source="chat template of GigaChat3-10B-A1.8B; vLLM's parser gigachat3",
    limits=(_ONE_CALL, "`<|message_sep|>` after content always begins a call."),
    goldens=golden_calls(
        lambda name, arguments, number: (
            "<|message_sep|>\n\nfunction call<|role_sep|>\n"
            f'{{"name": "{name}", "arguments": {arguments}}}'
        ),
        parallel=False,
    ),
)

GIGACHAT31 = Dialect(
    name="gigachat31",
    models=("GigaChat 3.1",),
    shape="object",
    calls=Calls(call=_object("<|function_call|>", ""), parallel=False),
    recognition=Recognition(
        template=("<|function_call|>", "<|role_sep|>"),
        tokens=("<|function_call|>", "<|role_sep|>"),
    ),
    source="chat template of GigaChat3.1-10B-A1.8B",
    limits=(_ONE_CALL,),
    goldens=golden_calls(
        lambda name, arguments, number: (
            f'<|function_call|>{{"name": "{name}", "arguments": {arguments}}}'
        ),
        parallel=False,
    ),
)

_HERMES4 = golden_reasoning("<think>", "</think>", "\n", _TAGS[1])

HERMES4 = replace(
    QWEN3,
    name="hermes4",
    models=("Hermes 4",),
    reasoning=Reasoning(after="\n", switch=Switch("thinking")),
    recognition=Recognition(template=("<tool_call>", "<think>", "keep_cots")),
    source="chat template of Hermes-4-70B",
    goldens=(*_TAGS, *_HERMES4),
)

DIALECTS = (
    GRANITE4,
    BIELIK,
    REKA,
    EXAONE4,
    SMOLLM3,
    ERNIE45,
    LONGCAT,
    INTERNLM2,
    INTERN_S1,
    GRANITE20B,
    MINIMAX_M1,
    GIGACHAT3,
    GIGACHAT31,
    HERMES4,
)
