"""GLM and families with its tags: a tag for each key and for each value."""

from __future__ import annotations

from dataclasses import replace

from ..codecs import Tagged
from ..dialect import (
    ARGUMENTS,
    NAME,
    Calls,
    Dialect,
    Golden,
    GoldenCall,
    Reasoning,
    Recognition,
    Switch,
)

CLOSE = "A string value cannot contain `</arg_value>`."
_X = GoldenCall("f", {"a": "x"})
_ALL_VALUES = GoldenCall("f", {"a": "x", "n": 3, "ok": True, "l": ["p"], "o": {"k": 1.5}})
_LINES = Tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", close="</arg_value>")
_NO_LINES = replace(_LINES, middle="</arg_key><arg_value>", end="</arg_value>")

_GLM45_ALL = (
    "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n"
    "<arg_value>3</arg_value>\n<arg_key>ok</arg_key>\n<arg_value>true</arg_value>\n"
    '<arg_key>l</arg_key>\n<arg_value>["p"]</arg_value>\n<arg_key>o</arg_key>\n'
    '<arg_value>{"k": 1.5}</arg_value>\n</tool_call>'
)
_GLM45_ONE = "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n</tool_call>"
_GLM45_NONE = "<tool_call>g\n</tool_call>"

GLM45 = Dialect(
    name="glm45",
    models=("GLM-4.5", "GLM-4.6", "Laguna"),
    shape="tagged",
    calls=Calls(
        call=("<tool_call>", NAME, "\n", ARGUMENTS, "</tool_call>"),
        separator="\n",
        codec=_LINES,
        ends=("<|observation|>",),
    ),
    reasoning=Reasoning(after="\n"),
    ends_after_content=("<|user|>",),
    recognition=Recognition(template=("<tool_call>", "<arg_key>", "</arg_key>\n<arg_value>")),
    source="chat template of GLM-4.6",
    limits=(CLOSE,),
    goldens=(
        Golden(text=_GLM45_ALL, calls=(_ALL_VALUES,)),
        Golden(text=f"{_GLM45_ONE}\n{_GLM45_ONE}", calls=(_X, _X)),
        Golden(text=f"Wait.\n{_GLM45_ONE}", content="Wait.", calls=(_X,)),
        Golden(text=_GLM45_NONE, calls=(GoldenCall("g", {}),)),
        Golden(text=f"<think>So.</think>\n{_GLM45_ONE}", reasoning="So.", calls=(_X,)),
    ),
)

_GLM47_ALL = (
    "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>n</arg_key>"
    "<arg_value>3</arg_value><arg_key>ok</arg_key><arg_value>true</arg_value>"
    '<arg_key>l</arg_key><arg_value>["p"]</arg_value><arg_key>o</arg_key>'
    '<arg_value>{"k": 1.5}</arg_value></tool_call>'
)
_GLM47_ONE = "<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value></tool_call>"
_GLM47_LINES = "<tool_call>f<arg_key>a</arg_key><arg_value>\n</arg_valu\n</arg_value></tool_call>"
_GLM47_NONE = "<tool_call>g</tool_call>"
_GLM47_GOLDENS = (
    Golden(text=_GLM47_ALL, calls=(_ALL_VALUES,)),
    Golden(text=f"{_GLM47_ONE}{_GLM47_ONE}", calls=(_X, _X)),
    Golden(text=f"Wait.{_GLM47_ONE}", content="Wait.", calls=(_X,)),
    Golden(text=_GLM47_NONE, calls=(GoldenCall("g", {}),)),
    Golden(text=_GLM47_LINES, calls=(GoldenCall("f", {"a": "\n</arg_valu\n"}),)),
)

GLM47 = replace(
    GLM45,
    name="glm47",
    models=("GLM-4.7", "GLM-5", "GLM-5.1", "Ling 3"),
    calls=Calls(
        call=("<tool_call>", NAME, ARGUMENTS, "</tool_call>"),
        codec=_NO_LINES,
        ends=("<|observation|>",),
    ),
    reasoning=Reasoning(after=""),
    recognition=Recognition(template=("<arg_key>", "</arg_key><arg_value>", "clear_thinking")),
    source="chat template of GLM-4.7-Flash",
    goldens=(
        *_GLM47_GOLDENS,
        Golden(text=f"So.</think>{_GLM47_ONE}", reasoning="So.", calls=(_X,), reasoning_open=True),
    ),
)

_SPARK_ALL = _GLM45_ALL.replace("</arg_key>\n", "</arg_key>")
_SPARK_ONE = "<tool_call>f\n<arg_key>a</arg_key><arg_value>x</arg_value>\n</tool_call>"

SPARK = replace(
    GLM45,
    name="spark2_5",
    models=("Spark 2.5",),
    calls=Calls(
        call=("<tool_call>", NAME, "\n", ARGUMENTS, "</tool_call>"),
        separator="\n",
        codec=replace(_LINES, middle="</arg_key><arg_value>"),
    ),
    reasoning=None,
    ends_after_content=(),
    recognition=Recognition(template=("<arg_key>", "Spark")),
    source="SGLang's detector of Spark 2.5",
    goldens=(
        Golden(text=_SPARK_ALL, calls=(_ALL_VALUES,)),
        Golden(text=f"{_SPARK_ONE}\n{_SPARK_ONE}", calls=(_X, _X)),
        Golden(text=_GLM45_NONE, calls=(GoldenCall("g", {}),)),
    ),
)

_HY3_ONE = (
    "<tool_call:opensource>f<tool_sep:opensource>\n<arg_key:opensource>a</arg_key:opensource>\n"
    "<arg_value:opensource>x</arg_value:opensource>\n</tool_call:opensource>"
)
_HY3_ALL = (
    "<tool_call:opensource>f<tool_sep:opensource>\n<arg_key:opensource>a</arg_key:opensource>\n"
    "<arg_value:opensource>x</arg_value:opensource>\n<arg_key:opensource>n</arg_key:opensource>\n"
    "<arg_value:opensource>3</arg_value:opensource>\n<arg_key:opensource>l</arg_key:opensource>\n"
    '<arg_value:opensource>["p"]</arg_value:opensource>\n</tool_call:opensource>'
)


def _hy3_section(calls: str) -> str:
    return f"<tool_calls:opensource>\n{calls}\n</tool_calls:opensource>"


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
            close="</arg_value:opensource>",
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
    limits=("A string value cannot contain `</arg_value:opensource>`.",),
    goldens=(
        Golden(
            text=_hy3_section(_HY3_ALL), calls=(GoldenCall("f", {"a": "x", "n": 3, "l": ["p"]}),)
        ),
        Golden(text=_hy3_section(f"{_HY3_ONE}\n{_HY3_ONE}"), calls=(_X, _X)),
        Golden(text=f"Wait.\n{_hy3_section(_HY3_ONE)}", content="Wait.", calls=(_X,)),
        Golden(
            text=_hy3_section(
                "<tool_call:opensource>g<tool_sep:opensource>\n</tool_call:opensource>"
            ),
            calls=(GoldenCall("g", {}),),
        ),
    ),
)

_HORIZON_ONE = (
    "<ifm|tool_call>f<ifm|arg_key>a</ifm|arg_key><ifm|arg_value>x</ifm|arg_value></ifm|tool_call>"
)

K2_HORIZON = Dialect(
    name="k2_horizon",
    models=("K2 Horizon",),
    shape="tagged",
    calls=Calls(
        begin="<ifm|tool_calls>",
        call=("<ifm|tool_call>", NAME, ARGUMENTS, "</ifm|tool_call>"),
        end="</ifm|tool_calls>",
        codec=Tagged(
            "<ifm|arg_key>",
            "</ifm|arg_key><ifm|arg_value>",
            "</ifm|arg_value>",
            close="</ifm|arg_value>",
        ),
    ),
    reasoning=Reasoning(
        begin="<ifm|think>",
        end="</ifm|think>",
        after="",
        switch=Switch("reasoning_effort", on="high", off="none", levels=("low", "medium", "high")),
    ),
    recognition=Recognition(template=("<ifm|tool_call>", "<ifm|arg_key>")),
    source="vLLM's parser k2_horizon, format `xml`",
    limits=("A string value cannot contain `</ifm|arg_value>`.",),
    goldens=(
        Golden(
            text=f"<ifm|tool_calls>{_HORIZON_ONE}{_HORIZON_ONE}</ifm|tool_calls>", calls=(_X, _X)
        ),
        Golden(
            text=f"Wait.<ifm|tool_calls>{_HORIZON_ONE}</ifm|tool_calls>",
            content="Wait.",
            calls=(_X,),
        ),
    ),
)

DIALECTS = (GLM45, GLM47, SPARK, HY3, K2_HORIZON)
