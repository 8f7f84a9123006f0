"""Families that write the calls of a turn as a section with a begin and an end, each with its name
and then its arguments as JSON."""

from __future__ import annotations

from ..dialect import (
    ARGUMENTS,
    ID,
    NAME,
    CallIds,
    Calls,
    Content,
    Dialect,
    Golden,
    Reasoning,
    Recognition,
    Switch,
)
from ..golden_texts import golden_calls, golden_reasoning

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
    goldens=golden_calls(
        lambda name, arguments, number: (
            f"<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}"
            "<|tool_call_end|>"
        ),
        begin="<|tool_calls_section_begin|>",
        end="<|tool_calls_section_end|>",
        ids=("functions.f:0", "functions.g:1"),
        before="Wait.",
        reasoning=("<think>", "</think>", ""),
    ),
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
    goldens=golden_calls(
        lambda name, arguments, number: (
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```"
            "<｜tool▁call▁end｜>"
        ),
        begin="<｜tool▁calls▁begin｜>",
        between="\n",
        end="<｜tool▁calls▁end｜>",
        reasoning=("", "</think>", "\n\n"),
    ),
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
    goldens=golden_calls(
        lambda name, arguments, number: (
            f"<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>"
        ),
        begin="<｜tool▁calls▁begin｜>",
        end="<｜tool▁calls▁end｜>",
        before="Wait.",
        reasoning=("", "</think>", ""),
    ),
)

_DENSE = golden_calls(
    lambda name, arguments, number: (f"<tool_call>{name}\n```json\n{arguments}\n```</tool_call>"),
    begin="<tool_calls>\n",
    between="\n",
    end="\n</tool_calls>",
    before=None,
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
    goldens=(
        *_DENSE,
        golden_reasoning("<think>\n", "\n</think>", "\n", _DENSE[1])[0],
        Golden(text="<answer>\nDone.\n</answer>", content="Done."),
        Golden(
            text="<think>\nSo.\n</think>\n<answer>\nDone.\n</answer>",
            reasoning="So.",
            content="Done.",
        ),
    ),
)

DIALECTS = (
    KIMI_K2,
    DEEPSEEK_R1,
    DEEPSEEK_V31,
    HUNYUAN_DENSE,
)
