"""Families that write the calls of a turn as one JSON array."""

from __future__ import annotations

from dataclasses import replace

from ..dialect import (
    ARGUMENTS,
    ID,
    NAME,
    CallIds,
    Calls,
    Content,
    Dialect,
    Reasoning,
    Recognition,
    Switch,
)

_CALL = ('{"name": "', NAME, '", "arguments": ', ARGUMENTS, "}")


def _array(begin: str, end: str = "]", *, only_at_start: bool = False) -> Calls:
    return Calls(begin=begin, call=_CALL, separator=", ", end=end, only_at_start=only_at_start)


_MISTRAL_CALLS = Calls(
    begin="[TOOL_CALLS][",
    call=('{"name": "', NAME, '", "arguments": ', ARGUMENTS, ', "id": "', ID, '"}'),
    separator=", ",
    end="]",
    ids=CallIds("random", length=9),
)

MISTRAL_V3 = Dialect(
    name="mistral_v3",
    models=("Mistral Nemo", "Ministral 8B 2410", "Mistral Small 3.1"),
    shape="array",
    calls=_MISTRAL_CALLS,
    recognition=Recognition(
        template=("[TOOL_CALLS]",),
        without=("[ARGS]", "[TOOL_CALLS] ["),
        tokens=("[TOOL_CALLS]", "[TOOL_RESULTS]"),
    ),
    source="chat template of Mistral-Nemo-Instruct-2407",
)

MISTRAL_V3_SPM = replace(
    MISTRAL_V3,
    name="mistral_v3_spm",
    models=("Mistral 7B v0.3", "Mixtral 8x22B", "Mistral Large 2", "Mistral Small 2409"),
    calls=replace(_MISTRAL_CALLS, begin="[TOOL_CALLS] ["),
    recognition=Recognition(
        template=("[TOOL_CALLS] [",), without=("[ARGS]",), tokens=("[TOOL_CALLS]", "[TOOL_RESULTS]")
    ),
    source="vLLM's chat templates of Mistral; SentencePiece writes a blank after special tokens",
)

GRANITE3 = Dialect(
    name="granite3",
    models=("Granite 3.0",),
    shape="array",
    calls=_array("<|tool_call|>["),
    recognition=Recognition(template=("<|tool_call|>", "<|start_of_role|>")),
    source="vLLM's parser granite and its example template",
)

GRANITE33 = replace(
    GRANITE3,
    name="granite33",
    text_marks=("<tool_call>", "<think>", "</think>", "<response>", "</response>"),
    models=("Granite 3.1", "Granite 3.3"),
    calls=_array("<tool_call>["),
    reasoning=Reasoning(after="<response>", content_end="</response>", switch=Switch("thinking")),
    recognition=Recognition(
        template=("<|start_of_role|>", "<|tool_call|>", "thinking"), without=("{%- macro",)
    ),
    source="chat template of Granite-3.3-2B-Instruct; vLLM's parser granite",
    limits=("The chat template does not render earlier calls.",),
)

GRANITE32 = replace(
    GRANITE33,
    name="granite32",
    text_marks=("<tool_call>",),
    models=("Granite 3.2",),
    reasoning=Reasoning(
        begin="Here is my thought process:",
        end="Here is my response:",
        after="\n",
        switch=Switch("thinking"),
    ),
    recognition=Recognition(
        template=("<|start_of_role|>", "<|tool_call|>", "thinking", "Here is my thought process"),
        without=("{%- macro",),
    ),
    source="vLLM's reasoning parser granite and parser granite",
)

HUNYUAN_A13B = Dialect(
    name="hunyuan_a13b",
    text_marks=("<tool_calls>", "</tool_calls>", "<think>", "</think>", "<answer>", "</answer>"),
    models=("Hunyuan-A13B",),
    shape="array",
    calls=_array("<tool_calls>[", "]</tool_calls>"),
    reasoning=Reasoning(after="\n"),
    content=Content(begin="<answer>\n", end="\n</answer>"),
    recognition=Recognition(template=("<tool_calls>", "<|extra_0|>")),
    source="vLLM's parser hunyuan_a13b and its example template",
    limits=("No content before calls.",),
)

JAMBA = Dialect(
    name="jamba",
    models=("Jamba 1.5", "Jamba 1.6", "Jamba 1.7"),
    shape="array",
    calls=Calls(
        begin="<tool_calls>[\n    ", call=_CALL, separator=",\n    ", end="\n]</tool_calls>"
    ),
    recognition=Recognition(template=("<tool_calls>", "<|bom|>")),
    source="vLLM's parser jamba and the outputs in its tests",
)

_APRIEL_REASONING = Reasoning(
    begin="Here are my reasoning steps:\n", end="[BEGIN FINAL RESPONSE]", after="\n", switch=None
)

APRIEL = Dialect(
    name="apriel",
    text_marks=("<tool_calls>", "</tool_calls>"),
    models=("Apriel 1.6",),
    shape="array",
    calls=_array("<tool_calls>[", "]</tool_calls>"),
    reasoning=_APRIEL_REASONING,
    recognition=Recognition(template=("<tool_calls>", "Here are my reasoning steps")),
    source="chat template of Apriel-1.6-15b-Thinker",
)

APRIEL15 = replace(
    APRIEL,
    name="apriel15",
    models=("Apriel 1.5",),
    reasoning=replace(_APRIEL_REASONING, content_end="[END FINAL RESPONSE]"),
    recognition=Recognition(template=("<tool_calls>[", "<thinking>", "<|assistant|>")),
    source="chat template of Apriel-1.5",
)

NEMOTRON_NANO2 = Dialect(
    name="nemotron_nano2",
    text_marks=("<TOOLCALL>", "</TOOLCALL>", "<think>", "</think>"),
    models=("Nemotron Nano 2", "Llama Nemotron Super 49B v1.5"),
    shape="array",
    calls=_array("<TOOLCALL>[", "]</TOOLCALL>"),
    reasoning=Reasoning(switch=None, after="\n"),
    recognition=Recognition(template=("<TOOLCALL>",)),
    source="chat template of NVIDIA-Nemotron-Nano-v2",
    limits=("`/no_think` in the system message turns the reasoning off.",),
)

XLAM = Dialect(
    name="xlam",
    models=("xLAM-2", "Llama-xLAM-2"),
    shape="array",
    calls=_array("[", only_at_start=True),
    recognition=Recognition(
        template=("a single JSON array", '"arguments"'), without=("functools",)
    ),
    source="vLLM's parser xlam and its example templates",
    limits=("No content before calls.",),
)

PHI4MINI = Dialect(
    name="phi4mini",
    models=("Phi-4-mini",),
    shape="array",
    calls=_array("functools["),
    recognition=Recognition(template=("functools", "<|assistant|>")),
    source="vLLM's parser phi4_mini_json and its example template",
)

FIREFUNCTION2 = Dialect(
    name="firefunction2",
    models=("FireFunction-v2",),
    shape="array",
    calls=_array("functools["),
    recognition=Recognition(template=("functools[", "<|start_header_id|>")),
    source="chat template of llama-3-firefunction-v2",
)

APERTUS = Dialect(
    name="apertus",
    models=("Apertus",),
    shape="array",
    calls=Calls(
        begin="<|tools_prefix|>[",
        call=('{"', NAME, '": ', ARGUMENTS, "}"),
        separator=", ",
        end="]<|tools_suffix|>",
    ),
    reasoning=Reasoning(begin="<|inner_prefix|>", end="<|inner_suffix|>", after=""),
    recognition=Recognition(template=("<|tools_prefix|>",), tokens=("<|tools_prefix|>",)),
    source="chat template of Apertus-8B-Instruct",
)
