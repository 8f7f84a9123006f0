"""Made-up dialects with arguments in tags, one of each form."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tests.support.dialects.codec_walks import CodecModel
from toolgate_core.dialects.codecs import Tagged
from toolgate_core.dialects.dialect import ARGUMENTS, NAME, Calls, Dialect

GLM_MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
DSML_TYPES = tuple(
    (kind, "true" if kind == "string" else "false")
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)
K3_TYPES = tuple(
    (kind, {"integer": "number"}.get(kind, kind))
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)


@dataclass(frozen=True)
class Form:
    codec: Tagged
    before: str
    after: str
    tokens: tuple[str, ...] = ()

    @property
    def dialect(self) -> Dialect:
        call = (self.before, NAME, "|", ARGUMENTS, self.after)
        return Dialect(name="made-up", calls=Calls(call=call, codec=self.codec))


FORMS = {
    "lines": Form(
        Tagged("<parameter=", ">\n", "\n</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "no_lines": Form(
        Tagged("<parameter=", ">", "</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "key_tags": Form(
        Tagged("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
        GLM_MARKS,
    ),
    "key_tags_in_text": Form(
        Tagged("<arg_key>", "</arg_key><arg_value>", "</arg_value>", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
    ),
    "typed": Form(
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
    "typed_tokens": Form(
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
    "no_less_than": Form(Tagged('<p name="', '">', "</p>", close="<"), "<i>", "</i>"),
    "cdata": Form(
        Tagged('<param name="', '">', "</param>", close="</param>", cdata=True), "<f>", "</f>"
    ),
}


@lru_cache(maxsize=1)
def model(name: str) -> CodecModel:
    return CodecModel(FORMS[name].dialect, FORMS[name].tokens)
