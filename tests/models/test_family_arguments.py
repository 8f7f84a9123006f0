"""The macros of each codec write arguments in its form."""

from __future__ import annotations

from typing import Any

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from toolgate_core.dialects.codecs import Codec, GemmaValues, Json, NestedTags, Pythonic, Tagged

from .family_arguments import write_macro

VALUES = {
    "a": 'x "\\"\n',
    "n": 3,
    "z": 1.5,
    "ok": True,
    "no": None,
    "l": ["p", False, []],
    "o": {"k": {"b": "q"}},
}
TAGS = Tagged("<p=", ">", "</p>", close="</p>")
TYPED = Tagged(
    '<p="', '" t="{type}">', "</p>", close="</p>", types=(("string", "str"), ("integer", "int"))
)


def written(codec: Codec, arguments: Any) -> str:
    call = {"role": "assistant", "content": None, "arguments": arguments}
    template = write_macro(codec) + "{{- write(messages[0].arguments) }}"
    rendered, _ = render_jinja_template([[call]], chat_template=template)
    return str(rendered[0]).strip()


@pytest.mark.parametrize(
    ("codec", "expected"),
    [
        (
            Json(),
            '{"a": "x \\"\\\\\\"\\n", "n": 3, "z": 1.5, "ok": true, "no": null, '
            '"l": ["p", false, []], "o": {"k": {"b": "q"}}}',
        ),
        (
            Json(item_separator=",", key_separator=":"),
            '{"a":"x \\"\\\\\\"\\n","n":3,"z":1.5,"ok":true,"no":null,'
            '"l":["p",false,[]],"o":{"k":{"b":"q"}}}',
        ),
        (
            TAGS,
            '<p=a>x "\\"\n</p><p=n>3</p><p=z>1.5</p><p=ok>true</p><p=no>null</p>'
            '<p=l>["p", false, []]</p><p=o>{"k": {"b": "q"}}</p>',
        ),
        (
            NestedTags(namespace="]m["),
            ']m[<a>x "\\"\n]m[</a>]m[<n>3]m[</n>]m[<z>1.5]m[</z>]m[<ok>true]m[</ok>]m[<l>'
            "]m[<item>p]m[</item>]m[<item>false]m[</item>]m[<item>]m[</item>]m[</l>"
            "]m[<o>]m[<k>]m[<b>q]m[</b>]m[</k>]m[</o>",
        ),
        (
            GemmaValues(quote='<|"|>'),
            '{a:<|"|>x "\\"\n<|"|>,l:[<|"|>p<|"|>,false,[]],n:3,no:null,'
            'o:{k:{b:<|"|>q<|"|>}},ok:true,z:1.5}',
        ),
        (
            GemmaValues(quote="<escape>", braces=False),
            'a:<escape>x "\\"\n<escape>,l:[<escape>p<escape>,false,[]],n:3,no:null,'
            "o:{k:{b:<escape>q<escape>}},ok:true,z:1.5",
        ),
        (
            Pythonic(),
            'a="x \\"\\\\\\"\\n", n=3, z=1.5, ok=True, no=None, l=["p", False, []], '
            'o={"k": {"b": "q"}}',
        ),
        (
            Pythonic(quote="'", json_objects=True),
            "a='x \"\\\\\"\\n', n=3, z=1.5, ok=True, no=None, l=['p', False, []], "
            'o={"k": {"b": "q"}}',
        ),
    ],
)
def test_values_are_written_in_the_form_of_the_codec(codec: Codec, expected: str) -> None:
    assert written(codec, VALUES) == expected


def test_types_are_attributes() -> None:
    assert written(TYPED, {"a": "x", "n": 3}) == '<p="a" t="str">x</p><p="n" t="int">3</p>'


def test_keys_are_escaped() -> None:
    codec = Tagged('<p="', '">', "</p>", close="</p>", escapes=(("&", "&amp;"), ('"', "&quot;")))
    assert written(codec, {'"&"': 3}) == '<p="&quot;&amp;&quot;">3</p>'


def test_strings_with_markup_are_character_data() -> None:
    codec = Tagged("<p=", ">", "</p>", close="</p>", cdata=True)
    arguments = {"a": "x<y", "b": "x&y", "c": "x\ny", "d": "xy"}
    assert written(codec, arguments) == (
        "<p=a><![CDATA[x<y]]></p><p=b><![CDATA[x&y]]></p><p=c><![CDATA[x\ny]]></p><p=d>xy</p>"
    )


@pytest.mark.parametrize("codec", [Json(), TAGS, NestedTags(namespace="]m["), Pythonic()])
def test_no_arguments_and_arguments_that_are_text(codec: Codec) -> None:
    assert written(codec, {}) == ("{}" if isinstance(codec, Json) else "")
    assert written(codec, '{"a": 1}') == '{"a": 1}'
