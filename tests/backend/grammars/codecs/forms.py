"""Made-up dialects, one of each form in which arguments are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tests.support.dialects.codec_walks import CodecModel
from toolgate_core.dialects.codecs import Codec, GemmaValues, NestedTags, Pythonic, Tagged
from toolgate_core.dialects.dialect import ARGUMENTS, NAME, Calls, Dialect

Q = '<|"|>'
NS = "]<]minimax[>["
GLM_MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
DSML_TYPES = tuple(
    (kind, "true" if kind == "string" else "false")
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)
K3_TYPES = tuple(
    (kind, {"integer": "number"}.get(kind, kind))
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)
TAGGED_HOSTILE = ("null", "5", "true", "\n", "{", "[", " ", '"', "日本", "]]>", "<![CDATA[")
GEMMA_HOSTILE = (
    '"', "'", "\\", "<|", "<esc", ",", ":", "}", "]", "{", "[", "\n", "日本", "🎉", ",a:", "null",
    "true", "-", "a:", "{}", "[]", "}}",
)  # fmt: skip
NESTED_HOSTILE = (
    NS, NS, NS + "</", "]<]minimax[>", "]<]", "</a>", "<item>", "</item>", "<", ">", "]", "\n", " ",
    '"', "日本", "🎉", "null", "true", "5", "{", "[", "-",
)  # fmt: skip
PYTHONIC_HOSTILE = (
    "'", '"', "\\", "\\'", '\\"', ")", ")]", ", ", "', a=1", '", "a": ', "}", "]", "\n", "\\n",
    "日本", "🎉", "\\u00", "\\x41", "{}", "[]", "True", "null", "-", "<|end|>", "=", "#",
    "a='",
)  # fmt: skip


@dataclass(frozen=True)
class Form:
    codec: Codec
    calls: Calls
    write: Callable[[Mapping[str, int]], str]
    """The text of arguments that are integers."""
    hostile: Sequence[str]
    """Texts that are tried wherever masks may not allow them."""
    tokens: tuple[str, ...] = ()


def tagged(codec: Tagged, before: str, after: str, tokens: tuple[str, ...] = ()) -> Form:
    def write(values: Mapping[str, int]) -> str:
        kinds = dict(codec.types)
        middle = codec.middle.replace("{type}", kinds.get("integer", ""))
        return "".join(f"{codec.begin}{k}{middle}{v}{codec.end}" for k, v in values.items())

    calls = Calls(call=(before, NAME, "|", ARGUMENTS, after), codec=codec)
    ends = (codec.end, codec.end, codec.end, codec.close, codec.end[:-2], codec.begin, after)
    return Form(codec, calls, write, (*ends, *TAGGED_HOSTILE), tokens)


def gemma(codec: GemmaValues, tokens: tuple[str, ...] = ()) -> Form:
    around = ("", "") if codec.braces else ("{", "}")
    parts = ("<|tool_call>call:", NAME, around[0], ARGUMENTS, f"{around[1]}<tool_call|>")

    def write(values: Mapping[str, int]) -> str:
        text = ",".join(f"{name}:{value}" for name, value in values.items())
        return f"{{{text}}}" if codec.braces else text

    calls = Calls(call=tuple(part for part in parts if part), codec=codec)
    hostile = (*GEMMA_HOSTILE, codec.quote, codec.quote + ",")
    return Form(codec, calls, write, hostile, tokens)


def tag(name: str, *inner: str) -> str:
    return f"{NS}<{name}>{''.join(inner)}{NS}</{name}>"


def nested(*tokens: str) -> Form:
    codec = NestedTags(NS)
    call = (f'{NS}<invoke name="', NAME, '">', ARGUMENTS, f"{NS}</invoke>\n")
    calls = Calls(begin=f"{NS}<tool_call>\n", call=call, end=f"{NS}</tool_call>", codec=codec)

    def write(values: Mapping[str, int]) -> str:
        return "".join(tag(name, str(value)) for name, value in values.items())

    return Form(codec, calls, write, NESTED_HOSTILE, tokens)


def pythonic(codec: Pythonic) -> Form:
    call = (NAME, "(", ARGUMENTS, ")")
    calls = Calls(begin="[", call=call, separator=", ", end="]", codec=codec)

    def write(values: Mapping[str, int]) -> str:
        return ", ".join(f"{name}={value}" for name, value in values.items())

    return Form(codec, calls, write, PYTHONIC_HOSTILE, ("<|end|>",))


TAGGED = {
    "lines": tagged(
        Tagged("<parameter=", ">\n", "\n</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "no_lines": tagged(
        Tagged("<parameter=", ">", "</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "key_tags": tagged(
        Tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
        GLM_MARKS,
    ),
    "key_tags_in_text": tagged(
        Tagged("<arg_key>", "</arg_key><arg_value>", "</arg_value>", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
    ),
    "typed": tagged(
        Tagged(
            '<|D|parameter name="',
            '" string="{type}">',
            "</|D|parameter>\n",
            close="</|D|parameter>",
            types=DSML_TYPES,
        ),
        "<|D|invoke>",
        "</|D|invoke>",
        ("|D|",),
    ),
    "typed_tokens": tagged(
        Tagged(
            '<|open|>argument key="',
            '" type="{type}"<|sep|>',
            "<|close|>argument<|sep|>",
            close="<|close|>argument<|sep|>",
            types=K3_TYPES,
            escapes=(("&", "&amp;"), ('"', "&quot;")),
        ),
        "<|open|>call",
        "<|close|>call<|sep|>",
        ("<|open|>", "<|sep|>", "<|close|>"),
    ),
    "no_less_than": tagged(Tagged('<p name="', '">', "</p>", close="<"), "<i>", "</i>"),
    "cdata": tagged(
        Tagged('<param name="', '">', "</param>", close="</param>", cdata=True), "<f>", "</f>"
    ),
}
GEMMA = {
    "tokens": gemma(GemmaValues(Q), (Q, "<tool_call|>")),
    "text": gemma(GemmaValues("<escape>")),
    "no_braces": gemma(GemmaValues(Q, braces=False), (Q, "<tool_call|>")),
}
NESTED = {"nested_token": nested(NS, "[e~["), "nested_text": nested()}
PYTHONIC = {
    "double": pythonic(Pythonic()),
    "json_objects": pythonic(Pythonic(quote="'", json_objects=True)),
}
FAMILIES = {"gemma": (*GEMMA,), "nested": (*NESTED,)}
"""Names of forms with the same codec."""
FORMS = {**TAGGED, **GEMMA, **NESTED, **PYTHONIC}


@lru_cache(maxsize=4)
def model(name: str) -> CodecModel:
    form = FORMS[name]
    return CodecModel(Dialect(name="made-up", calls=form.calls), form.tokens)


def qwen(**values: str) -> str:
    return "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())


def quoted(name: str, text: str) -> str:
    """The text with the quote marks of a form, which `Q` stands for, in its braces."""
    codec = FORMS[name].codec
    assert isinstance(codec, GemmaValues)
    text = text.replace("Q", codec.quote)
    return f"{{{text}}}" if codec.braces else text
