"""Names and listed values reach the engines as they are, and what an engine misreads is noticed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.dialects.codec_walks import CodecModel
from toolgate_backend.grammars.engines import xgrammar_ebnf
from toolgate_backend.grammars.read_back import misread
from toolgate_core.dialects.families.hermes import QWEN3

TEXTS = [
    *("código", "día", "größe1", "référence", "Straße", "\xe9" * 3 + "f", "a\x85b", "a\u2028b"),
    *("e\u0301a", "\u202eשלום1", "北京a", "🙂a", "x.y", 'q"\\xe9a', "\\u00e9b", "a\nb", "ó\xff09"),
]


@pytest.fixture(scope="module")
def model() -> CodecModel:
    return CodecModel(QWEN3)


def named(text: str, **more: Any) -> dict[str, Any]:
    properties = {text: {"type": "string", "enum": [text, "other"]}}
    return {"type": "object", "properties": properties, "required": [text], **more}


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("text", TEXTS)
def test_names_and_listed_values_are_those_of_the_schema(
    model: CodecModel, text: str, engine: str
) -> None:
    schema = named(text) | ({} if engine == "xgrammar" else {"additionalProperties": {}})
    verdict, grammar = model.verdict(schema)
    assert grammar is not None
    assert verdict.engine == engine
    changed = text[:-1] + chr(ord(text[-1]) ^ 1)
    for name, value in [(text, text), (text, changed), (changed, text)]:
        written = json.dumps({name: value}, ensure_ascii=False)
        assert model.accepts(grammar, written) == (name == value)


@pytest.mark.parametrize("text", ["código", "größe1"])
def test_llguidance_compiles_what_xgrammar_misreads(
    model: CodecModel, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(xgrammar_ebnf, "_MISREAD", re.compile("(?!)"))
    schema = named(text, description="not in a cache")
    verdict, grammar = model.verdict(schema)
    assert grammar is not None
    assert (verdict.engine, verdict.rewritten is None) == ("llguidance", False)
    assert "misreads" in str(verdict.reason)
    assert model.accepts(grammar, json.dumps({text: text}, ensure_ascii=False))


@pytest.mark.parametrize(
    ("accepted", "found"),
    [
        ([{"x.y": "b.c"}], ()),
        ([], ({"x.y": "b.c"},)),
        ([{"x.y": "b.c"}, {"x/y": "b.c"}], ({"x/y": "b.c"},)),
        ([{"x.y": "b.c"}, {"x.y": "b/c"}], ({"x.y": "b/c"},)),
    ],
)
def test_wrongly_accepted_and_refused_values_are_found(accepted: list[Any], found: Any) -> None:
    schema = {"type": "object", "properties": {"x.y": {"const": "b.c"}}, "required": ["x.y"]}
    assert misread(schema, accepted.__contains__) == found
