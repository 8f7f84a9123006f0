"""The forms of arguments, each with marks as text and as tokens, and how a text is read in one."""

import json
from pathlib import Path

from toolgate_core.dialects.dialect import FlatTags, GemmaValues, NestedTags, Pythonic
from toolgate_core.dialects.marks import Marks
from toolgate_core.segmentation.call_reader import make_parser

Q = '<|"|>'
NS = "]<]minimax[>["
QWEN_END = "\n</parameter>\n"
CODECS = {
    "gemma": GemmaValues(Q),
    "no braces": GemmaValues("<escape>", braces=False),
    "nested": NestedTags(NS),
    "pythonic": Pythonic(),
    "json objects": Pythonic(quote="'", json_objects=True),
    "tagged": FlatTags("<parameter=", ">\n", QWEN_END, close="</parameter>"),
    "key tags": FlatTags("<key>", "</key><value>", "</value>", close="</value>"),
    "typed": FlatTags(
        '<parameter name="',
        '" string="{type}">',
        "</parameter>\n",
        close="</parameter>",
        types=(("string", "true"), ("integer", "false"), ("object", "false"), ("null", "false")),
    ),
    "cdata": FlatTags('<param name="', '">', "</param>", close="</param>", cdata=True),
    "escaped": FlatTags(
        '<a key="', '">', "</a>", close="</a>", escapes=(("&", "&amp;"), ('"', "&quot;"))
    ),
    "marked": FlatTags("<｜D｜p=", ">", "</｜D｜p>\n", close="</｜D｜p>"),
}
MARKS = {
    "gemma": Marks({Q: 50, "<tool_call|>": 51}),
    "nested": Marks({NS: 9, "[e~[": 10}),
    "pythonic": Marks({"<|end|>": 7}),
    "key tags": Marks({"<key>": 1, "</key>": 2, "<value>": 3, "</value>": 4}),
    "marked": Marks({"｜D｜": 1}),
}
"""Of forms whose marks are tokens in some models."""
NO_MARKS = Marks({})
ENDS = {
    "gemma": "<tool_call|>",
    "no braces": "}<end_function_call>",
    "nested": f"{NS}</invoke>",
    "pythonic": ")",
    "json objects": ")",
}
"""The text after the arguments. It does not matter in forms with tags."""
CASES = json.loads(Path(__file__).with_name("arguments.json").read_text().replace("§", NS))
PARAMETERS = CASES["parameters"]


def tag(name, *inner):
    """An element of nested tags."""
    return f"{NS}<{name}>{''.join(inner)}{NS}</{name}>"


def qwen(**values):
    """Arguments in tags."""
    return "".join(f"<parameter={k}>\n{v}{QWEN_END}" for k, v in values.items())


def parser(form, marks=NO_MARKS):
    return make_parser(CODECS[form], PARAMETERS, marks)


def parse(form, text, marks=NO_MARKS):
    """The JSON and the rest, the same wherever the text is split in two."""
    written, rest = parsed_in_parts(lambda: parser(form, marks), marks.encode(text))
    return written, marks.decode(rest)


def value_of(form, text, marks=NO_MARKS):
    """The arguments in a text, after which something else comes."""
    end = ENDS.get(form, "</function>")
    written, rest = parse(form, text + end, marks)
    assert rest == end
    return json.loads(written)


def parsed_in_parts(make, text):
    """The JSON of an encoded text and the rest, after checking that all splits in two give the
    same."""
    found = None
    for at in range(len(text) + 1):
        parser = make()
        written = parser.feed(text[:at])
        copied = parser.copy()
        more = parser.feed(text[at:])
        assert parser.finished
        assert copied.feed(text[at:]) == more
        found = found or (written + more, parser.rest)
        assert (written + more, parser.rest) == found
    assert found is not None
    return found
