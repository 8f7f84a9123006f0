"""DeepSeek V3.2 and V4, and GigaChat 3.5: tags with a mark of their own and a type attribute."""

from __future__ import annotations

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

_X = GoldenCall("f", {"a": "x"})
_TYPES = tuple(
    (kind, "true" if kind == "string" else "false")
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)


def _calls(mark: str, section: str, blank: str = "") -> Calls:
    parameter = f"{mark}{blank}parameter"
    return Calls(
        begin=f"<{mark}{section}>\n",
        call=(
            f'<{mark}{blank}invoke name="',
            NAME,
            '">\n',
            ARGUMENTS,
            f"</{mark}{blank}invoke>",
        ),
        separator="\n",
        end=f"\n</{mark}{section}>",
        codec=Tagged(
            f'<{parameter} name="',
            '" string="{type}">',
            f"</{parameter}>\n",
            close=f"</{parameter}>",
            types=_TYPES,
        ),
    )


_ALL = (
    '<|D|invoke name="f">\n<|D|parameter name="a" string="true">x</|D|parameter>\n'
    '<|D|parameter name="n" string="false">3</|D|parameter>\n'
    '<|D|parameter name="ok" string="false">true</|D|parameter>\n'
    '<|D|parameter name="l" string="false">["p"]</|D|parameter>\n'
    '<|D|parameter name="o" string="false">{"k": 1.5}</|D|parameter>\n</|D|invoke>'
)
_ONE = '<|D|invoke name="f">\n<|D|parameter name="a" string="true">x</|D|parameter>\n</|D|invoke>'
_NONE = '<|D|invoke name="g">\n</|D|invoke>'


def _goldens(mark: str, section: str, blank: str = "") -> tuple[Golden, ...]:
    def text(calls: str) -> str:
        whole = f"\n\n<|D|{section}>\n{calls}\n</|D|{section}>"
        for tag in ("invoke", "parameter"):
            whole = whole.replace(f"|D|{tag}", f"|D|{blank}{tag}")
        return whole.replace("|D|", mark)

    return (
        Golden(
            text=text(_ALL),
            calls=(GoldenCall("f", {"a": "x", "n": 3, "ok": True, "l": ["p"], "o": {"k": 1.5}}),),
        ),
        Golden(text=text(f"{_ONE}\n{_ONE}"), calls=(_X, _X)),
        Golden(text=f"Wait.{text(_ONE)}", content="Wait.", calls=(_X,)),
        Golden(text=text(_NONE), calls=(GoldenCall("g", {}),)),
    )


def _limits(mark: str, blank: str = "") -> tuple[str, ...]:
    return (f"A string value cannot contain `</{mark}{blank}parameter>`.",)


_DSML = "｜DSML｜"
_REASONED = Golden(
    text=f"So.</think>{_goldens(_DSML, 'tool_calls')[1].text}",
    reasoning="So.",
    calls=(_X, _X),
    reasoning_open=True,
)

DEEPSEEK_V32 = Dialect(
    name="deepseek_v32",
    models=("DeepSeek-V3.2",),
    shape="tagged",
    calls=_calls(_DSML, "function_calls"),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(template=("DSML", "function_calls")),
    source="chat template of DeepSeek-V3.2; vLLM's deepseek_v32_encoding.py",
    limits=_limits(_DSML),
    goldens=(
        *_goldens(_DSML, "function_calls"),
        Golden(text="So.</think>Hi.", reasoning="So.", content="Hi.", reasoning_open=True),
    ),
)

DEEPSEEK_V4 = Dialect(
    name="deepseek_v4",
    models=("DeepSeek-V4",),
    shape="tagged",
    calls=_calls(_DSML, "tool_calls"),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(template=("DSML", "tool_calls>"), without=("function_calls",)),
    source="vLLM's deepseek_v4_encoding.py",
    limits=_limits(_DSML),
    goldens=(*_goldens(_DSML, "tool_calls"), _REASONED),
)

DEEPSEEK_V41 = Dialect(
    name="deepseek_v41",
    models=("DeepSeek-V4.1",),
    shape="tagged",
    calls=_calls(_DSML, " calls", " "),
    reasoning=Reasoning(after="", switch=Switch("thinking")),
    recognition=Recognition(template=("DSML", " calls>"), without=("function_calls",)),
    source="vLLM's deepseek_v41_encoding.py",
    limits=_limits(_DSML, " "),
    goldens=_goldens(_DSML, " calls", " "),
)

GIGACHAT35 = Dialect(
    name="gigachat35",
    models=("GigaChat 3.5",),
    shape="tagged",
    calls=_calls("｜GCML｜", "tool_calls"),
    recognition=Recognition(template=("GCML",)),
    source="vLLM's parsers; the form of DeepSeek V4 with another mark",
    limits=_limits("｜GCML｜"),
    goldens=_goldens("｜GCML｜", "tool_calls"),
)

DIALECTS = (DEEPSEEK_V32, DEEPSEEK_V4, DEEPSEEK_V41, GIGACHAT35)
