"""Members of objects in any order, in both engines."""

import itertools
import json
from pathlib import Path

import pytest

from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.engines import llguidance_members, xgrammar_members
from toolgate_backend.settings import settings
from toolgate_core import grammar_key
from toolgate_core.schema.canonical import canonical_json, canonical_schema

CASES = json.loads(Path(__file__).with_name("members.json").read_text())

# --- members ---
OPTIONS = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
INNER = CASES["inner"]
SCHEMAS = {name: (CASES[name], engine) for name, engine in CASES["engines"].items()}
"""With the engines that compile them. `map` has values in which order matters, `whole` an object
that has to satisfy two schemas, one of which contains it."""


def compiled(compiler, schema, engine, name="t"):
    text = canonical_json(canonical_schema(schema, param="schema"))
    outcome = compiler.compile("key", name, text)
    assert outcome.verdict.engine == engine
    assert not outcome.verdict.residual
    assert outcome.grammar is not None
    return outcome.grammar


def takes(vocabulary, grammar, text, name="t"):
    before, after = vocabulary.form.grammar_texts(name, {"type": "object"})
    matcher = grammar.matcher()
    tokens = vocabulary.encode(before + text + after)
    return all(matcher.accept(token) for token in tokens) and matcher.complete


def orders(value):
    return [
        json.dumps(dict(each), ensure_ascii=False) for each in itertools.permutations(value.items())
    ]


@pytest.mark.parametrize(("name", "value"), CASES["every_order"])
def test_every_order_can_be_written(compiler, vocabulary, name, value):
    grammar = compiled(compiler, *SCHEMAS[name])
    for text in orders(value):
        assert takes(vocabulary, grammar, text), text


@pytest.mark.parametrize(("name", "text"), CASES["invalid"])
def test_what_is_invalid_in_one_order_is_so_in_all(compiler, vocabulary, name, text):
    assert not takes(vocabulary, compiled(compiler, *SCHEMAS[name]), text)


def test_objects_with_many_members_keep_the_schema_s_order(compiler, vocabulary):
    """Their small ones inside do not have to."""
    names = "abcdefghij"
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names} | {"o": INNER},
        "required": ["c"],
        "additionalProperties": False,
    }
    grammar = compiled(compiler, schema, "xgrammar")
    assert takes(vocabulary, grammar, '{"a": 1, "c": 2, "o": {"y": null, "x": 3}}')
    assert takes(vocabulary, grammar, '{"c": 2, "j": 1}')
    for wrong in ('{"c": 2, "a": 1}', '{"a": 1}', '{"c": 2, "o": {"y": null}}', "{}"):
        assert not takes(vocabulary, grammar, wrong)


def test_names_of_alternatives_may_begin_alike(compiler, vocabulary):
    """llguidance's lexer takes the longest text, of all alternatives together."""
    grammar = compiled(compiler, CASES["names_that_begin_alike"], "llguidance")
    assert takes(vocabulary, grammar, '{"e": {"n": 2, "pos4d": []}}')
    assert takes(vocabulary, grammar, '{"e": {"n": 1, "pos": 3}}')
    assert not takes(vocabulary, grammar, '{"e": {"n": 1, "pos4d": []}}')


def test_responses_in_a_json_format_have_the_schema_s_order(compiler, vocabulary):
    grammar = compiled(compiler, INNER, "xgrammar", grammar_key.CONTENT)
    assert takes(vocabulary, grammar, '{"x": 3, "y": null}', grammar_key.CONTENT)
    assert not takes(vocabulary, grammar, '{"y": null, "x": 3}', grammar_key.CONTENT)


def test_the_schema_s_order_is_a_setting(vocabulary, monkeypatch):
    monkeypatch.setenv("TOOLGATE_MEMBER_ORDER", "schema")
    settings.cache_clear()
    try:
        compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)
        grammar = compiled(compiler, INNER, "xgrammar")
        assert not takes(vocabulary, grammar, '{"y": null, "x": 3}')
        with_order = compiled(compiler, *SCHEMAS["open"])
        assert not takes(vocabulary, with_order, '{"s": "", "a<b>": null}')
    finally:
        settings.cache_clear()


def test_rules_are_bounded():
    wide = {"type": "object", "properties": {c: {"type": "null"} for c in "abcdefgh"}}
    nested = {"type": "object", "properties": {f"o{at}": wide for at in range(8)}}
    rules = xgrammar_members.member_rules(nested, (", ", ": "))
    assert rules is None or rules.count("_after_") < 10 * xgrammar_members.MAX_SETS
    definitions = {f"d{at}": {"enum": ["x" * 1000]} for at in range(100)}
    large = {
        "type": "object",
        "properties": {f"p{at}": {"$ref": f"#/$defs/d{at}"} for at in range(60)},
        "$defs": definitions,
    }
    with pytest.raises(llguidance_members.TooLarge):
        llguidance_members.member_rules(large, OPTIONS)


def test_a_constant_is_not_taken_for_another_type_that_equals_it_in_python():
    parts = [
        {"type": "object", "properties": {"a": {"const": value}, "b": {"type": "null"}}}
        for value in (1, True)
    ]
    both = llguidance_members.merged(parts)
    assert both is not None
    assert both["properties"]["a"] == {"allOf": [{"const": 1}, {"const": True}]}
