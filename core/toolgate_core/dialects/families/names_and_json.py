"""Families that write the name of a call, then its arguments as JSON: between marks around all
calls, or without an end of all calls."""

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

KIMI_K2 = Dialect(
    name="kimi_k2",
    models=("Kimi K2", "Kimi K2 Thinking", "Kimi K2.5", "Kimi K2.6"),
    shape="name_json",
    calls=Calls(
        begin="<|tool_calls_section_begin|>",
        call=(
            "<|tool_call_begin|>functions.",
            NAME,
            ":",
            ID,
            "<|tool_call_argument_begin|>",
            ARGUMENTS,
            "<|tool_call_end|>",
        ),
        end="<|tool_calls_section_end|>",
        ids=CallIds("conversation", form="functions.{name}:{id}"),
    ),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(
        template=("<|tool_calls_section_begin|>",),
        tokens=("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"),
    ),
    source="chat template of Kimi-K2-Instruct; xgrammar's structural tag `kimi`",
)

DEEPSEEK_R1 = Dialect(
    name="deepseek_r1",
    models=("DeepSeek-V3", "DeepSeek-R1", "DeepSeek-R1-0528"),
    shape="name_json",
    calls=Calls(
        begin="<｜tool▁calls▁begin｜>",
        call=(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
            NAME,
            "\n```json\n",
            ARGUMENTS,
            "\n```<｜tool▁call▁end｜>",
        ),
        separator="\n",
        end="<｜tool▁calls▁end｜>",
    ),
    reasoning=Reasoning(switch=None),
    recognition=Recognition(
        template=("<｜tool▁calls▁begin｜>", "```json"),
        tokens=("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"),
    ),
    source="chat templates of DeepSeek-R1-Distill and vLLM's example of DeepSeek-R1",
    limits=("DeepSeek-V3 does not reason; R1 always does.",),
)

DEEPSEEK_V31 = Dialect(
    name="deepseek_v31",
    models=("DeepSeek-V3.1", "DeepSeek-V3.2-Exp"),
    shape="name_json",
    calls=Calls(
        begin="<｜tool▁calls▁begin｜>",
        call=("<｜tool▁call▁begin｜>", NAME, "<｜tool▁sep｜>", ARGUMENTS, "<｜tool▁call▁end｜>"),
        end="<｜tool▁calls▁end｜>",
    ),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(
        template=("<｜tool▁calls▁begin｜>", "thinking"),
        without=("```json",),
        tokens=("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"),
    ),
    source="chat template of DeepSeek-V3.1",
)

HUNYUAN_DENSE = Dialect(
    name="hunyuan_dense",
    text_marks=(
        "<tool_calls>",
        "</tool_calls>",
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
    ),
    models=("Hunyuan 0.5B", "Hunyuan 1.8B", "Hunyuan 4B", "Hunyuan 7B"),
    shape="name_json",
    calls=Calls(
        begin="<tool_calls>\n",
        call=("<tool_call>", NAME, "\n```json\n", ARGUMENTS, "\n```</tool_call>"),
        separator="\n",
        end="\n</tool_calls>",
    ),
    reasoning=Reasoning(after="\n"),
    content=Content(begin="<answer>\n", end="\n</answer>"),
    recognition=Recognition(template=("<tool_calls>", "<tool_call>", "```json")),
    source="ms-swift's agent template of Hunyuan",
    limits=("No content before calls.",),
)

_NO_CONTENT = "No content before calls."

MISTRAL_V11 = Dialect(
    name="mistral_v11",
    text_marks=("<think>", "</think>"),
    models=("Mistral Small 3.2", "Magistral Small 2506"),
    shape="name_json",
    calls=Calls(
        call=("[TOOL_CALLS]", NAME, "[CALL_ID]", ID, "[ARGS]", ARGUMENTS),
        ids=CallIds("random", length=9),
    ),
    reasoning=Reasoning(after="\n", switch=None),
    recognition=Recognition(
        template=("[TOOL_CALLS]", "[CALL_ID]"), tokens=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]")
    ),
    source="chat template of Mistral-Small-3.2-24B-Instruct-2506",
    limits=("Only the system prompt turns the reasoning of Magistral on; Small 3.2 has none.",),
)

MISTRAL_V13 = Dialect(
    name="mistral_v13",
    models=("Devstral", "Magistral 2507", "Ministral 3", "Mistral Large 3"),
    shape="name_json",
    calls=Calls(call=("[TOOL_CALLS]", NAME, "[ARGS]", ARGUMENTS)),
    reasoning=Reasoning(begin="[THINK]", end="[/THINK]", after="", switch=None),
    recognition=Recognition(
        template=("[TOOL_CALLS]", "[ARGS]"),
        without=("[CALL_ID]",),
        tokens=("[TOOL_CALLS]", "[ARGS]", "[THINK]"),
    ),
    source="chat templates of Devstral-Small-2507 and Ministral-3-14B-Reasoning-2512",
    limits=("Only the system prompt turns reasoning on; Devstral has none.",),
)

SOLAR_OPEN = Dialect(
    name="solar_open",
    models=("Solar Open 100B",),
    shape="name_json",
    calls=Calls(
        begin="<|tool_calls|>",
        call=(
            "<|tool_call:begin|>",
            ID,
            "<|tool_call:name|>",
            NAME,
            "<|tool_call:args|>",
            ARGUMENTS,
            "<|tool_call:end|>",
        ),
        ids=CallIds("random", length=10),
        ends=("<|calls|>",),
    ),
    reasoning=Reasoning(
        begin="<|think|>",
        end="<|end|>",
        after="<|begin|>assistant",
        switch=Switch(
            "reasoning_effort", on="high", off="minimal", levels=("low", "medium", "high")
        ),
    ),
    content=Content(begin="<|content|>", turn="<|begin|>assistant"),
    recognition=Recognition(
        template=("<|tool_call:begin|>",), tokens=("<|tool_calls|>", "<|tool_call:begin|>")
    ),
    source="chat template of Solar-Open-100B",
    limits=(_NO_CONTENT,),
)

GLM4_0414 = Dialect(
    name="glm4_0414",
    models=("GLM-4-0414", "GLM-4-9B-chat"),
    shape="name_json",
    calls=Calls(
        call=(NAME, "\n", ARGUMENTS), parallel=False, only_at_start=True, ends=("<|observation|>",)
    ),
    ends_after_content=("<|user|>",),
    recognition=Recognition(
        template=("<|observation|>", "<|assistant|>"), without=("<tool_call>", "<arg_key>")
    ),
    source="ms-swift's agent template of GLM-4-0414",
    limits=("One call in a turn.", _NO_CONTENT),
)

FUNCTIONARY31 = Dialect(
    name="functionary31",
    text_marks=("</function>",),
    models=("Functionary v3.1",),
    shape="name_json",
    calls=Calls(call=("<function=", NAME, ">", ARGUMENTS, "</function>"), ends=("<|eom_id|>",)),
    recognition=Recognition(template=("<function=", "</function>", "<|eom_id|>")),
    source="chat template of functionary-medium-v3.1",
)

FUNCTIONARY32 = Dialect(
    name="functionary32",
    models=("Functionary v3.2",),
    shape="name_json",
    calls=Calls(call=(NAME, "\n", ARGUMENTS), separator=">>>"),
    content=Content(begin="all\n"),
    recognition=Recognition(template=(">>>all",)),
    source="chat template of functionary-medium-v3.2",
    limits=(_NO_CONTENT,),
)

LLAMA31 = Dialect(
    name="llama31",
    models=("Llama 3.1", "Llama 3.2", "Llama 3.3"),
    shape="bare",
    calls=Calls(
        call=('{"name": "', NAME, '", "parameters": ', ARGUMENTS, "}"),
        parallel=False,
        only_at_start=True,
    ),
    recognition=Recognition(
        template=('"parameters": ', "<|start_header_id|>"), without=("<|eom|>",)
    ),
    source="chat template of Llama-3.1-8B-Instruct",
    limits=("One call in a turn.", _NO_CONTENT),
)

LLAMA4_JSON = replace(
    LLAMA31,
    name="llama4_json",
    models=("Llama 4",),
    calls=Calls(call=('{"name": "', NAME, '", "parameters": ', ARGUMENTS, "}"), only_at_start=True),
    recognition=Recognition(template=("<|header_start|>", '"parameters": ', '{"name": ')),
    source="vLLM's example template llama4_json",
    limits=(_NO_CONTENT,),
)


def _begin(mark: str) -> str:
    return f"<|plamo:begin_{mark}:plamo|>"


def _end(mark: str) -> str:
    return f"<|plamo:end_{mark}:plamo|>"


_JSON = "<|plamo:constrain|>json<|plamo:msg|>"
PLAMO3 = Dialect(
    name="plamo3",
    models=("PLaMo 3",),
    shape="name_json",
    calls=Calls(
        begin=_begin("tool_requests"),
        call=(
            _begin("tool_request") + _begin("tool_name"),
            NAME,
            _end("tool_name") + _begin("tool_arguments") + _JSON,
            ARGUMENTS,
            _end("tool_arguments") + _end("tool_request"),
        ),
        end=_end("tool_requests"),
        ends=("<|plamo:tag|>",),
    ),
    reasoning=Reasoning(begin=_begin("think"), end=_end("think"), after=""),
    ends_after_content=("<|plamo:tag|>",),
    recognition=Recognition(
        template=("<|plamo:", "begin_tool_requests"), tokens=("<|plamo:begin_", ":plamo|>")
    ),
    source="vLLM's parser and structural tag plamo3",
)
