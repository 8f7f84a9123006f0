"""Short calls have short values: what one member needs is not written into others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.dialects.model import DialectModel
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.completions.json_texts import MAX_RESTS, rests_of
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_parameters

FAMILIES = ["qwen3", "glm47", "gemma4", "lfm2_5", "qwen3_coder", "deepseek_v32"]
STRING: dict[str, Any] = {"type": "string"}
DATE = "2000-01-01T00:00:00Z"
NOTE = dict.fromkeys(("title", "body", "author"), STRING) | {
    "due": STRING | {"format": "date-time"},
    "id": STRING | {"format": "uuid"},
    "code": STRING | {"minLength": 12},
    "kind": {"enum": ["a long kind of note", "memo", "another long kind of note"]},
    "tags": {"type": "array", "items": STRING},
    "more": {"type": "object", "properties": {"x": STRING}},
    "count": {"type": "integer"},
    "done": {"type": "boolean"},
}


def text_of(model: DialectModel, grammar: MeasuredGrammar) -> str:
    completion = model.data.completion
    path = completion.path(grammar.matcher(), completion.call_scan, grammar.hints)
    assert path is not None
    assert len(path) == grammar.least_tokens
    return model.text(path)


@pytest.mark.parametrize("name", FAMILIES)
def test_each_member_has_its_own_shortest_value(name: str) -> None:
    model = DialectModel(DIALECTS[name])
    schema = canonical_parameters({"properties": NOTE, "required": [*NOTE]})
    text = text_of(model, model.grammar("note", schema))
    assert [text.count(each) for each in (DATE, "memo")] == [1, 1]
    assert "long kind" not in text
    assert '"x"' not in text
    assert "x=" not in text


def config(kind: str, *names: str) -> dict[str, Any]:
    properties = {"kind": {"const": kind}} | dict.fromkeys(names, STRING | {"minLength": 1})
    return {"type": "object", "properties": properties, "required": [*properties]}


ALTERNATIVES = {
    "order": {"anyOf": [{"const": "descending"}, {"const": "up"}, {"const": "sideways"}]},
    "by": {"anyOf": [{"enum": ["in order of names", "in order of dates"]}, {"type": "null"}]},
    "slug": STRING | {"pattern": "^[a-z-]+$"},
    "vault": {"oneOf": [config("aws", "region", "id", "secret"), config("keychain", "token")]},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_shortest_alternative_is_chosen(name: str) -> None:
    model = DialectModel(DIALECTS[name])
    schema = canonical_parameters({"properties": ALTERNATIVES, "required": [*ALTERNATIVES]})
    text = text_of(model, model.grammar("choose", schema))
    assert "up" in text
    assert text.count("keychain") == 1
    for longer in ("descending", "sideways", "aws", "region"):
        assert longer not in text
    nulls = text.count("null") + text.count("None")
    assert nulls == (name != "deepseek_v32")  # whose tags tell strings from others first


@pytest.mark.parametrize("name", FAMILIES)
def test_a_completion_has_the_fewest_tokens_of_its_text(name: str) -> None:
    model = DialectModel(DIALECTS[name])
    completion = model.data.completion
    for properties in (NOTE, ALTERNATIVES):
        schema = canonical_parameters({"properties": properties, "required": [*properties]})
        grammar = model.grammar("note", schema)
        path = completion.path(grammar.matcher(), completion.call_scan, grammar.hints)
        assert path is not None
        text = b"".join(model.vocabulary.token_bytes[token] for token in path)
        assert len(path) <= len(completion.token_index.fewest(text) or ())


@pytest.mark.parametrize("name", FAMILIES)
def test_strings_without_a_bound_cost_little(name: str) -> None:
    """A member more takes as many tokens as its name and its marks, not those of the UUID."""
    model = DialectModel(DIALECTS[name])
    costs = []
    for count in (1, 9):
        names = [f"member_{at}" for at in range(count)]
        properties = dict.fromkeys(names, STRING) | {"id": STRING | {"format": "uuid"}}
        schema = canonical_parameters({"properties": properties, "required": [*properties]})
        costs.append(model.grammar("many", schema).least_tokens or 0)
    alone = model.grammar(
        "one", canonical_parameters({"properties": {"member_1": STRING}, "required": ["member_1"]})
    )
    assert costs[1] - costs[0] <= 8 * ((alone.least_tokens or 0) + 1)


def test_a_call_that_was_begun_keeps_what_was_written() -> None:
    model = DialectModel(DIALECTS["qwen3"])
    schema = canonical_parameters({"properties": NOTE, "required": [*NOTE]})
    grammar = model.grammar("note", schema)
    whole = text_of(model, grammar)
    begin = whole[: whole.index('"title": "') + len('"title": "')]
    completion = model.data.completion
    for written in ("", "Buy bread"):
        matcher = grammar.matcher()
        for token in completion.token_index.cover((begin + written).encode()) or ():
            assert matcher.accept(token)
        scan = completion.call_scan.after((begin + written).encode())
        path = completion.path(matcher, scan, grammar.hints)
        assert path is not None
        text = model.text(path)
        assert text.startswith('", "tags": []')
        assert text.count(DATE) == 1
        assert '"author": ""' in text


def test_the_shortest_rests_are_tried_first() -> None:
    assert rests_of("abc") == [2, 1, 0]
    long = rests_of("a" * 100)
    assert long[: MAX_RESTS // 2] == [*range(99, 99 - MAX_RESTS // 2, -1)]
    assert long[-1] == 0
    assert len(long) == MAX_RESTS
