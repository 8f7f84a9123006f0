"""Qwen3-Coder and its kin: a function tag with one tag for each parameter."""

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

CLOSE = "A string value cannot contain `</parameter>`."
_LINES = Tagged("<parameter=", ">\n", "\n</parameter>\n", close="</parameter>")
_NO_LINES = replace(_LINES, middle=">", end="</parameter>\n")
_CALL = ("<tool_call>\n<function=", NAME, ">\n", ARGUMENTS, "</function>\n</tool_call>")

_ALL = (
    "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=n>\n3\n</parameter>\n"
    '<parameter=ok>\ntrue\n</parameter>\n<parameter=l>\n["p"]\n</parameter>\n<parameter=o>\n'
    '{"k": 1.5}\n</parameter>\n</function>\n</tool_call>'
)
_ALL_VALUES = GoldenCall("f", {"a": "x", "n": 3, "ok": True, "l": ["p"], "o": {"k": 1.5}})
_ONE = "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n</function>\n</tool_call>"
_NONE = "<tool_call>\n<function=g>\n</function>\n</tool_call>"
_LONG = (
    '<tool_call>\n<function=f>\n<parameter=a>\nif a < b:\n    print("</parameter")\n\n'
    "</parameter>\n</function>\n</tool_call>"
)
_X = GoldenCall("f", {"a": "x"})


def _goldens(between: str) -> tuple[Golden, ...]:
    return (
        Golden(text=_ALL, calls=(_ALL_VALUES,)),
        Golden(text=f"{_ONE}{between}{_ONE}", calls=(_X, _X)),
        Golden(text=f"Wait.\n\n{_ONE}", content="Wait.", calls=(_X,)),
        Golden(text=f"{_NONE}{between}{_ONE}", calls=(GoldenCall("g", {}), _X)),
        Golden(
            text=_LONG, calls=(GoldenCall("f", {"a": 'if a < b:\n    print("</parameter")\n'}),)
        ),
    )


def _reasoned(after: str) -> tuple[Golden, ...]:
    return (
        Golden(
            text=f"So.\n</think>{after}{_ONE}",
            reasoning="So.",
            calls=(_X,),
            reasoning_open=True,
        ),
        Golden(
            text=f"So.\n</think>{after}Done.",
            reasoning="So.",
            content="Done.",
            reasoning_open=True,
        ),
    )


QWEN3_CODER = Dialect(
    name="qwen3_coder",
    text_marks=("</function>", "</parameter>"),
    models=("Qwen3-Coder", "Qwen3-Coder-Next"),
    shape="tagged",
    calls=Calls(call=_CALL, separator="\n", codec=_LINES),
    recognition=Recognition(template=("<function=", "<parameter="), without=("<think>",)),
    source="chat template of Qwen3-Coder",
    limits=(CLOSE,),
    goldens=_goldens("\n"),
)

QWEN3_5 = replace(
    QWEN3_CODER,
    name="qwen3_5",
    models=("Qwen3.5", "Qwen3.6", "Qwen3.8"),
    reasoning=Reasoning(),
    recognition=Recognition(template=("<function=", "<parameter=", "<think>", "enable_thinking")),
    source="chat template of Qwen3.5-4B",
    goldens=(*_goldens("\n"), *_reasoned("\n\n")),
)

NEMOTRON3 = replace(
    QWEN3_5,
    name="nemotron3",
    models=("Nemotron 3 Nano", "Nemotron 3 Super"),
    reasoning=Reasoning(after="\n"),
    recognition=Recognition(
        template=("<function=", "<parameter=", "<think>", "enable_thinking", "truncate_history"),
    ),
    source="chat template of NVIDIA-Nemotron-3-Nano-30B-A3B",
    goldens=(*_goldens("\n"), *_reasoned("\n")),
)

STEP3_5 = replace(
    QWEN3_5,
    name="step3_5",
    models=("Step 3.5 Flash", "Step 3.7"),
    calls=Calls(call=_CALL, codec=_LINES),
    reasoning=Reasoning(after="\n", switch=None),
    recognition=Recognition(
        template=("<function=", "<parameter=", "<think>", "render_content(message.reasoning"),
        without=("enable_thinking",),
    ),
    source="chat template of Step-3.5-Flash",
    goldens=(*_goldens(""), *_reasoned("\n")),
)

_MIMO_ALL = (
    "<tool_call>\n<function=f>\n<parameter=a>x</parameter>\n<parameter=n>3</parameter>\n"
    '<parameter=ok>true</parameter>\n<parameter=l>["p"]</parameter>\n'
    '<parameter=o>{"k": 1.5}</parameter>\n</function>\n</tool_call>'
)
_MIMO_ONE = "<tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</tool_call>"
_MIMO_LINES = "<tool_call>\n<function=f>\n<parameter=a>\n</parameter>\n</function>\n</tool_call>"

MIMO_V2 = Dialect(
    name="mimo_v2",
    text_marks=("</function>", "</parameter>"),
    models=("MiMo-V2-Flash", "MiMo-V2.5"),
    shape="tagged",
    calls=Calls(call=_CALL, separator="\n", codec=_NO_LINES),
    reasoning=Reasoning(switch=Switch("enable_thinking"), after=""),
    recognition=Recognition(
        template=("<function=", "<think>", "'>' + ", "</parameter>\\n", "MiMo"),
    ),
    source="vLLM's MiMo parser; xgrammar's structural tag `mimo`",
    limits=(CLOSE,),
    goldens=(
        Golden(text=_MIMO_ALL, calls=(_ALL_VALUES,)),
        Golden(text=f"{_MIMO_ONE}\n{_MIMO_ONE}", calls=(_X, _X)),
        Golden(text=_MIMO_LINES, calls=(GoldenCall("f", {"a": "\n"}),)),
        Golden(text=f"Wait.{_MIMO_ONE}", content="Wait.", calls=(_X,)),
        Golden(text=_NONE, calls=(GoldenCall("g", {}),)),
        Golden(text=f"<think>So.</think>{_MIMO_ONE}", reasoning="So.", calls=(_X,)),
    ),
)

_SEED_ALL = (
    "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n<parameter=n>3</parameter>\n"
    '<parameter=ok>true</parameter>\n<parameter=l>["p"]</parameter>\n'
    '<parameter=o>{"k": 1.5}</parameter>\n</function>\n</seed:tool_call>'
)
_SEED_ONE = (
    "<seed:tool_call>\n<function=f>\n<parameter=a>x</parameter>\n</function>\n</seed:tool_call>"
)
_SEED_NONE = "<seed:tool_call>\n<function=g>\n</function>\n</seed:tool_call>"

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
        codec=_NO_LINES,
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
    limits=(CLOSE, "The chat template renders lists and booleans of earlier calls as Python."),
    goldens=(
        Golden(text=_SEED_ALL, calls=(_ALL_VALUES,)),
        Golden(text=f"{_SEED_ONE}\n{_SEED_ONE}", calls=(_X, _X)),
        Golden(text=f"Wait.\n{_SEED_ONE}", content="Wait.", calls=(_X,)),
        Golden(text=_SEED_NONE, calls=(GoldenCall("g", {}),)),
        Golden(text=f"<seed:think>So.</seed:think>\n{_SEED_ONE}", reasoning="So.", calls=(_X,)),
    ),
)

DIALECTS = (QWEN3_CODER, QWEN3_5, NEMOTRON3, STEP3_5, MIMO_V2, SEED_OSS)
