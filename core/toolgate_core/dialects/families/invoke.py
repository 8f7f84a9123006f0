"""MiniMax M2, dots, Step 3 and MiniCPM5: a tag with the name, and a tag for each parameter."""

from __future__ import annotations

from ..codecs import Tagged
from ..dialect import ARGUMENTS, NAME, Calls, Dialect, Golden, GoldenCall, Reasoning, Recognition

CLOSE = "A string value cannot contain `</parameter>`."
_X = GoldenCall("f", {"a": "x"})
_ALL_VALUES = GoldenCall("f", {"a": "x", "n": 3, "ok": True, "l": ["p"], "o": {"k": 1.5}})
_PARAMETERS = Tagged('<parameter name="', '">', "</parameter>\n", close="</parameter>")
_INVOKE = ('<invoke name="', NAME, '">\n', ARGUMENTS, "</invoke>")

_ALL = (
    '<invoke name="f">\n<parameter name="a">x</parameter>\n<parameter name="n">3</parameter>\n'
    '<parameter name="ok">true</parameter>\n<parameter name="l">["p"]</parameter>\n'
    '<parameter name="o">{"k": 1.5}</parameter>\n</invoke>'
)
_ONE = '<invoke name="f">\n<parameter name="a">x</parameter>\n</invoke>'
_NONE = '<invoke name="g">\n</invoke>'


def _sections(begin: str, end: str) -> tuple[Golden, ...]:
    return (
        Golden(text=f"{begin}\n{_ALL}\n{end}", calls=(_ALL_VALUES,)),
        Golden(text=f"{begin}\n{_ONE}\n{_ONE}\n{end}", calls=(_X, _X)),
        Golden(text=f"Wait.\n{begin}\n{_ONE}\n{end}", content="Wait.", calls=(_X,)),
        Golden(text=f"{begin}\n{_NONE}\n{_ONE}\n{end}", calls=(GoldenCall("g", {}), _X)),
    )


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
    limits=(CLOSE,),
    goldens=(
        *_sections("<minimax:tool_call>", "</minimax:tool_call>"),
        Golden(
            text=f"So.\n</think>\n\n<minimax:tool_call>\n{_ONE}\n</minimax:tool_call>",
            reasoning="So.",
            calls=(_X,),
            reasoning_open=True,
        ),
    ),
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
    limits=(CLOSE,),
    goldens=_sections("<dots_function_call>", "</dots_function_call>"),
)

_STEP3_BEGIN = '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f">'
_STEP3_END = "</steptml:invoke><｜tool_call_end｜>"
_STEP3_A = '<steptml:parameter name="a">x</steptml:parameter>'
_STEP3_N = '<steptml:parameter name="n">3</steptml:parameter>'
_STEP3_L = '<steptml:parameter name="l">["p"]</steptml:parameter>'
_STEP3_ONE = f"{_STEP3_BEGIN}{_STEP3_A}{_STEP3_END}"
_STEP3_TWO_VALUES = f"{_STEP3_BEGIN}{_STEP3_N}{_STEP3_L}{_STEP3_END}"


def _step3_section(calls: str) -> str:
    return f"<｜tool_calls_begin｜>\n{calls}\n<｜tool_calls_end｜>"


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
    limits=("A string value cannot contain `<`.",),
    goldens=(
        Golden(text=_step3_section(f"{_STEP3_ONE}\n{_STEP3_ONE}"), calls=(_X, _X)),
        Golden(
            text=_step3_section(_STEP3_TWO_VALUES), calls=(GoldenCall("f", {"n": 3, "l": ["p"]}),)
        ),
        Golden(text=f"Wait.\n{_step3_section(_STEP3_ONE)}", content="Wait.", calls=(_X,)),
    ),
)

_MINICPM_ONE = '<function name="f"><param name="a">x</param></function>'

MINICPM5 = Dialect(
    name="minicpm5",
    text_marks=("</function>", "</param>"),
    models=("MiniCPM5",),
    shape="tagged",
    calls=Calls(
        call=('<function name="', NAME, '">', ARGUMENTS, "</function>"),
        separator="\n",
        codec=Tagged('<param name="', '">', "</param>", close="</param>", cdata=True),
    ),
    reasoning=Reasoning(after="\n\n"),
    recognition=Recognition(template=('<function name="', '<param name="')),
    source="vLLM's parser minicpm5xml",
    limits=("A string value cannot contain `]]>` together with `<`, `&` or a line break.",),
    goldens=(
        Golden(text=f"{_MINICPM_ONE}\n{_MINICPM_ONE}", calls=(_X, _X)),
        Golden(
            text='<function name="f"><param name="a"><![CDATA[1 < 2\n]]></param>'
            '<param name="n">3</param><param name="l">["p"]</param></function>',
            calls=(GoldenCall("f", {"a": "1 < 2\n", "n": 3, "l": ["p"]}),),
        ),
        Golden(text=f"Wait.\n{_MINICPM_ONE}", content="Wait.", calls=(_X,)),
        Golden(text='<function name="g"></function>', calls=(GoldenCall("g", {}),)),
    ),
)

DIALECTS = (MINIMAX_M2, DOTS, STEP3, MINICPM5)
