"""Families that write each call as a JSON object between marks of their own."""

from __future__ import annotations

from dataclasses import replace

from ..dialect import ARGUMENTS, NAME, Calls, Content, Dialect, Part, Reasoning, Recognition, Switch


def _object(begin: str, end: str, key: str = "arguments") -> tuple[Part, ...]:
    return (f'{begin}{{"name": "', NAME, f'", "{key}": ', ARGUMENTS, f"}}{end}")


QWEN3 = Dialect(
    name="qwen3",
    models=("Qwen3", "Qwen3-Next", "Qwen3-VL", "QwQ"),
    shape="object",
    calls=Calls(call=_object("<tool_call>\n", "\n</tool_call>"), separator="\n"),
    reasoning=Reasoning(),
    recognition=Recognition(
        template=("<tool_call>", "</think>"),
        tokens=("<tool_call>", "</tool_call>", "<think>", "</think>"),
    ),
    source="chat template of Qwen3-0.6B",
)

HERMES = replace(
    QWEN3,
    name="hermes",
    models=("Hermes 2 Pro", "Hermes 3", "Qwen2.5"),
    reasoning=None,
    recognition=Recognition(template=("<tool_call>",), tokens=("<tool_call>", "</tool_call>")),
    source="chat templates of Qwen2.5-7B-Instruct and Hermes-3-Llama-3.1-8B",
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
)

GRANITE4 = replace(
    HERMES,
    name="granite4",
    text_marks=("<tool_call>", "</tool_call>"),
    models=("Granite 4.0", "Granite 4.1"),
    recognition=Recognition(template=("<tool_call>", "<|start_of_role|>"), without=("<function=",)),
    source="chat templates of Granite 4.0 and 4.1",
)

BIELIK = replace(
    HERMES,
    name="bielik",
    models=("Bielik 3",),
    recognition=Recognition(template=("<tool_call>", "<|function_output|>", "<|im_start|>")),
    source="chat template of Bielik-11B-v3.0-Instruct",
)

REKA = replace(
    QWEN3,
    name="reka",
    models=("Reka Edge",),
    calls=Calls(call=_object("<tool_call>\n", "\n</tool_call>"), ends=("<sep>",)),
    ends_after_content=("<sep>",),
    recognition=Recognition(template=("<tool_call>", "<sep>", "</tool_call>")),
    source="chat template of Reka-Edge",
)

EXAONE4 = Dialect(
    name="exaone4",
    models=("EXAONE 4", "Youtu-LLM"),
    shape="object",
    calls=Calls(call=_object("<tool_call>", "</tool_call>"), separator="\n"),
    reasoning=Reasoning(),
    recognition=Recognition(template=("<tool_call>", "[|assistant|]", "[|endofturn|]")),
    source="xgrammar's structural tag `exaone`",
)

SMOLLM3 = replace(
    EXAONE4,
    name="smollm3",
    models=("SmolLM3",),
    reasoning=Reasoning(after="\n"),
    recognition=Recognition(template=("SmolLM", "/no_think", "enable_thinking")),
    source="chat template of SmolLM3-3B (`xml_tools`)",
    limits=("The chat template does not render earlier calls.",),
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
)

LONGCAT = Dialect(
    name="longcat",
    models=("LongCat-Flash",),
    shape="object",
    calls=Calls(call=_object("<longcat_tool_call>\n", "\n</longcat_tool_call>"), separator="\n"),
    reasoning=Reasoning(begin="<longcat_think>", end="</longcat_think>", after="\n"),
    recognition=Recognition(template=("<longcat_tool_call>",)),
    source="vLLM's parser and structural tag longcat",
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
)

GRANITE20B = Dialect(
    name="granite20b",
    text_marks=("<function_call>",),
    models=("Granite 20B Function Calling",),
    shape="object",
    calls=Calls(call=_object("<function_call> ", "\n")),
    recognition=Recognition(template=("<function_call> ",)),
    source="vLLM's parser granite_20b_fc and its example template",
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
)

GIGACHAT31 = Dialect(
    name="gigachat31",
    models=("GigaChat 3.1",),
    shape="object",
    calls=Calls(call=_object("<|function_call|>", ""), parallel=False),
    recognition=Recognition(
        template=("<|function_call|>", "<|role_sep|>"), tokens=("<|function_call|>", "<|role_sep|>")
    ),
    source="chat template of GigaChat3.1-10B-A1.8B",
    limits=(_ONE_CALL,),
)

HERMES4 = replace(
    QWEN3,
    name="hermes4",
    models=("Hermes 4",),
    reasoning=Reasoning(after="\n", switch=Switch("thinking")),
    recognition=Recognition(template=("<tool_call>", "<think>", "keep_cots")),
    source="chat template of Hermes-4-70B",
)
