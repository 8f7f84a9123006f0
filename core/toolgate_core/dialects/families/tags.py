"""Families that write each argument in tags. A string is raw text."""

from __future__ import annotations

from dataclasses import replace

from ..dialect import ARGUMENTS, NAME, Calls, Dialect, Reasoning, Recognition, Switch, Tagged

_FUNCTION = Tagged("<parameter=", ">\n", "\n</parameter>\n")
_FUNCTION_INLINE = replace(_FUNCTION, middle=">", end="</parameter>\n")
_FUNCTION_CALL = ("<tool_call>\n<function=", NAME, ">\n", ARGUMENTS, "</function>\n</tool_call>")

QWEN3_CODER = Dialect(
    name="qwen3_coder",
    text_marks=("</function>", "</parameter>"),
    models=("Qwen3-Coder", "Qwen3-Coder-Next"),
    shape="tagged",
    calls=Calls(call=_FUNCTION_CALL, separator="\n", codec=_FUNCTION),
    recognition=Recognition(template=("<function=", "<parameter="), without=("<think>",)),
    source="chat template of Qwen3-Coder",
)

QWEN3_5 = replace(
    QWEN3_CODER,
    name="qwen3_5",
    models=("Qwen3.5", "Qwen3.6", "Qwen3.8"),
    reasoning=Reasoning(),
    recognition=Recognition(template=("<function=", "<parameter=", "<think>", "enable_thinking")),
    source="chat template of Qwen3.5-4B",
)

NEMOTRON3 = replace(
    QWEN3_5,
    name="nemotron3",
    models=("Nemotron 3 Nano", "Nemotron 3 Super"),
    reasoning=Reasoning(after="\n"),
    recognition=Recognition(
        template=("<function=", "<parameter=", "<think>", "enable_thinking", "truncate_history")
    ),
    source="chat template of NVIDIA-Nemotron-3-Nano-30B-A3B",
)

STEP3_5 = replace(
    QWEN3_5,
    name="step3_5",
    models=("Step 3.5 Flash", "Step 3.7"),
    calls=Calls(call=_FUNCTION_CALL, codec=_FUNCTION),
    reasoning=Reasoning(after="\n", switch=None),
    recognition=Recognition(
        template=("<function=", "<parameter=", "<think>", "render_content(message.reasoning"),
        without=("enable_thinking",),
    ),
    source="chat template of Step-3.5-Flash",
)

MIMO_V2 = Dialect(
    name="mimo_v2",
    text_marks=("</function>", "</parameter>"),
    models=("MiMo-V2-Flash", "MiMo-V2.5"),
    shape="tagged",
    calls=Calls(call=_FUNCTION_CALL, separator="\n", codec=_FUNCTION_INLINE),
    reasoning=Reasoning(switch=Switch("enable_thinking"), after=""),
    recognition=Recognition(
        template=("<function=", "<think>", "'>' + ", "</parameter>\\n", "MiMo")
    ),
    source="vLLM's MiMo parser; xgrammar's structural tag `mimo`",
)

SEED_OSS = Dialect(
    name="seed_oss",
    text_marks=("</function>", "</parameter>"),
    models=("Seed-OSS-36B",),
    shape="tagged",
    calls=Calls(
        call=(
            "<seed:tool_call>\n<function=",
            NAME,
            ">\n",
            ARGUMENTS,
            "</function>\n</seed:tool_call>",
        ),
        separator="\n",
        codec=_FUNCTION_INLINE,
    ),
    reasoning=Reasoning(
        begin="<seed:think>",
        end="</seed:think>",
        after="\n",
        switch=Switch("thinking_budget", on=-1, off=0),
    ),
    recognition=Recognition(
        template=("seed:tool_call", "<function=", "<parameter=", "thinking_budget")
    ),
    source="chat template of Seed-OSS-36B-Instruct",
    limits=("The chat template renders lists and booleans of earlier calls as Python.",),
)

_KEYS = Tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n")
_KEYS_INLINE = replace(_KEYS, middle="</arg_key><arg_value>", end="</arg_value>")

GLM45 = Dialect(
    name="glm45",
    models=("GLM-4.5", "GLM-4.6", "Laguna"),
    shape="tagged",
    calls=Calls(
        call=("<tool_call>", NAME, "\n", ARGUMENTS, "</tool_call>"),
        separator="\n",
        codec=_KEYS,
        ends=("<|observation|>",),
    ),
    reasoning=Reasoning(after="\n"),
    ends_after_content=("<|user|>",),
    recognition=Recognition(template=("<tool_call>", "<arg_key>", "</arg_key>\n<arg_value>")),
    source="chat template of GLM-4.6",
)

GLM47 = replace(
    GLM45,
    name="glm47",
    models=("GLM-4.7", "GLM-5", "GLM-5.1", "Ling 3"),
    calls=Calls(
        call=("<tool_call>", NAME, ARGUMENTS, "</tool_call>"),
        codec=_KEYS_INLINE,
        ends=("<|observation|>",),
    ),
    reasoning=Reasoning(after=""),
    recognition=Recognition(template=("<arg_key>", "</arg_key><arg_value>", "clear_thinking")),
    source="chat template of GLM-4.7-Flash",
)

SPARK = replace(
    GLM45,
    name="spark2_5",
    models=("Spark 2.5",),
    calls=Calls(
        call=("<tool_call>", NAME, "\n", ARGUMENTS, "</tool_call>"),
        separator="\n",
        codec=replace(_KEYS, middle="</arg_key><arg_value>"),
    ),
    reasoning=None,
    ends_after_content=(),
    recognition=Recognition(template=("<arg_key>", "Spark")),
    source="SGLang's detector of Spark 2.5",
)

HY3 = Dialect(
    name="hy3",
    models=("Hunyuan 3",),
    shape="tagged",
    calls=Calls(
        begin="<tool_calls:opensource>\n",
        call=(
            "<tool_call:opensource>",
            NAME,
            "<tool_sep:opensource>\n",
            ARGUMENTS,
            "</tool_call:opensource>",
        ),
        separator="\n",
        end="\n</tool_calls:opensource>",
        codec=Tagged(
            "<arg_key:opensource>",
            "</arg_key:opensource>\n<arg_value:opensource>",
            "</arg_value:opensource>\n",
        ),
    ),
    reasoning=Reasoning(
        begin="<think:opensource>",
        end="</think:opensource>",
        after="\n",
        switch=Switch("reasoning_effort", on="high", off="no_think", levels=("low", "high")),
    ),
    recognition=Recognition(template=("tool_call:opensource", "arg_key:opensource")),
    source="vLLM's parser hy_v3; the suffix `:opensource` is that of the published checkpoints",
)

K2_HORIZON = Dialect(
    name="k2_horizon",
    models=("K2 Horizon",),
    shape="tagged",
    calls=Calls(
        begin="<ifm|tool_calls>",
        call=("<ifm|tool_call>", NAME, ARGUMENTS, "</ifm|tool_call>"),
        end="</ifm|tool_calls>",
        codec=Tagged("<ifm|arg_key>", "</ifm|arg_key><ifm|arg_value>", "</ifm|arg_value>"),
    ),
    reasoning=Reasoning(
        begin="<ifm|think>",
        end="</ifm|think>",
        after="",
        switch=Switch("reasoning_effort", on="high", off="none", levels=("low", "medium", "high")),
    ),
    recognition=Recognition(template=("<ifm|tool_call>", "<ifm|arg_key>")),
    source="vLLM's parser k2_horizon, format `xml`",
)

_PARAMETERS = Tagged('<parameter name="', '">', "</parameter>\n")
_INVOKE = ('<invoke name="', NAME, '">\n', ARGUMENTS, "</invoke>")

MINIMAX_M2 = Dialect(
    name="minimax_m2",
    text_marks=("</invoke>", "</parameter>"),
    models=("MiniMax-M2", "MiniMax-M2.1", "MiniMax-M2.5", "MiniMax-M2.7"),
    shape="tagged",
    calls=Calls(
        begin="<minimax:tool_call>\n",
        call=_INVOKE,
        separator="\n",
        end="\n</minimax:tool_call>",
        codec=_PARAMETERS,
    ),
    reasoning=Reasoning(switch=None),
    recognition=Recognition(template=("minimax:tool_call", "<invoke name=")),
    source="chat template of MiniMax-M2",
)

DOTS = Dialect(
    name="dots",
    text_marks=("</invoke>", "</parameter>"),
    models=("dots.llm2",),
    shape="tagged",
    calls=Calls(
        begin="<dots_function_call>\n",
        call=_INVOKE,
        separator="\n",
        end="\n</dots_function_call>",
        codec=_PARAMETERS,
    ),
    recognition=Recognition(template=("dots_function_call",)),
    source="vLLM's parser dots",
)

STEP3 = Dialect(
    name="step3",
    text_marks=("</steptml:invoke>", "</steptml:parameter>"),
    models=("Step 3",),
    shape="tagged",
    calls=Calls(
        begin="<｜tool_calls_begin｜>\n",
        call=(
            '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="',
            NAME,
            '">',
            ARGUMENTS,
            "</steptml:invoke><｜tool_call_end｜>",
        ),
        separator="\n",
        end="\n<｜tool_calls_end｜>",
        codec=Tagged('<steptml:parameter name="', '">', "</steptml:parameter>", close="<"),
    ),
    reasoning=Reasoning(switch=None, after="\n"),
    recognition=Recognition(template=("steptml:invoke",)),
    source="vLLM's parser step3",
)

MINICPM5 = Dialect(
    name="minicpm5",
    text_marks=("</function>", "</param>"),
    models=("MiniCPM5",),
    shape="tagged",
    calls=Calls(
        call=('<function name="', NAME, '">', ARGUMENTS, "</function>"),
        separator="\n",
        codec=Tagged('<param name="', '">', "</param>", cdata=True),
    ),
    reasoning=Reasoning(after="\n\n"),
    recognition=Recognition(template=('<function name="', '<param name="')),
    source="vLLM's parser minicpm5xml",
)

_TYPES = tuple(
    (kind, "true" if kind == "string" else "false")
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)


def _calls(mark: str, section: str, blank: str = "") -> Calls:
    parameter = f"{mark}{blank}parameter"
    return Calls(
        begin=f"<{mark}{section}>\n",
        call=(f'<{mark}{blank}invoke name="', NAME, '">\n', ARGUMENTS, f"</{mark}{blank}invoke>"),
        separator="\n",
        end=f"\n</{mark}{section}>",
        codec=Tagged(
            f'<{parameter} name="', '" string="{type}">', f"</{parameter}>\n", types=_TYPES
        ),
    )


_DSML = "｜DSML｜"

DEEPSEEK_V32 = Dialect(
    name="deepseek_v32",
    models=("DeepSeek-V3.2",),
    shape="tagged",
    calls=_calls(_DSML, "function_calls"),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(template=("DSML", "function_calls")),
    source="chat template of DeepSeek-V3.2; vLLM's deepseek_v32_encoding.py",
)

DEEPSEEK_V4 = Dialect(
    name="deepseek_v4",
    models=("DeepSeek-V4",),
    shape="tagged",
    calls=_calls(_DSML, "tool_calls"),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(template=("DSML", "tool_calls>"), without=("function_calls",)),
    source="vLLM's deepseek_v4_encoding.py",
)

DEEPSEEK_V41 = Dialect(
    name="deepseek_v41",
    models=("DeepSeek-V4.1",),
    shape="tagged",
    calls=_calls(_DSML, " calls", " "),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(template=("DSML", " calls>"), without=("function_calls",)),
    source="vLLM's deepseek_v41_encoding.py",
)

GIGACHAT35 = Dialect(
    name="gigachat35",
    models=("GigaChat 3.5",),
    shape="tagged",
    calls=_calls("｜GCML｜", "tool_calls"),
    recognition=Recognition(template=("GCML",)),
    source="vLLM's parsers; the form of DeepSeek V4 with another mark",
)
