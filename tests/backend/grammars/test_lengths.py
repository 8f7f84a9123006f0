"""The least and the usual number of tokens of a call."""

import json
import random
from pathlib import Path
from statistics import median

import jsonschema_rs
import numpy as np
import pytest

from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats
from tests.support.installed import needs
from tests.support.schemas.suites import real_tools
from tests.support.shared_data import TOOLS
from toolgate_backend.grammars.compiled_grammar import MAX_TOKENS, extra_tokens
from toolgate_backend.grammars.least_tokens import (
    FORMATS,
    MAX_LENGTH,
    LeastTokens,
    numbers_of,
    short_match,
    texts_of,
)
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.call_form import CallForm
from toolgate_backend.tokens.masks import words_per_row
from toolgate_backend.tokens.units import TokenIndex
from toolgate_core.custom_tools import Grammar, custom_parameters
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.schema.keywords import BUILT_IN
from toolgate_core.schema.walk import schema_objects

CASES = json.loads(Path(__file__).with_name("lengths.json").read_text())

# --- least tokens ---
NODE = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
    "required": ["next"],
}


def model(name):
    return DialectModel(DIALECTS[name], mark_texts(DIALECTS[name]))


def least(found, schema):
    return LeastTokens(found.vocabulary.form, found.data.token_index).of("f", schema)


def of_member(schema, **more):
    return {"type": "object", "properties": {"x": schema}, "required": ["x"], **more}


@pytest.mark.parametrize(("schema", "shortest"), CASES["the_number_is_that_of_the_shortest_value"])
@pytest.mark.parametrize("name", ["qwen3", "glm47", "gemma4", "llama4_pythonic"])
def test_the_number_is_that_of_the_shortest_value(name, schema, shortest):
    found = model(name)
    number = least(found, of_member(schema, **{"$defs": {"node": NODE}}))
    assert number == least(found, of_member({"const": shortest}))


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_format_that_masks_enforce_has_a_short_valid_text(name):
    schema = {"type": "string", "format": name}
    assert name in dict(FORMATS)
    for text in texts_of(schema):
        jsonschema_rs.validate(schema, text, validate_formats=True)


@pytest.mark.parametrize(("pattern", "text"), CASES["a_short_match_of_a_pattern"])
def test_a_short_match_of_a_pattern(pattern, text):
    assert short_match(pattern, "a") == text


def test_numbers_lie_at_the_bounds():
    assert {12, 13} <= {*numbers_of({"minimum": 12.5})}
    assert 21 in numbers_of({"minimum": 20, "multipleOf": 7})


@pytest.mark.parametrize(
    "value",
    [
        {"type": "string", "minLength": 10**9},
        {"type": "array", "items": {"type": "null"}, "minItems": 10**9},
        {"$ref": "#/$defs/d40"},
    ],
)
def test_a_call_of_more_than_the_maximum_length_has_no_number(value):
    pairs = {
        f"d{n}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{n - 1}"} for name in "xy"},
            "required": ["x", "y"],
        }
        for n in range(1, 41)
    }
    schema = of_member(value, **{"$defs": {"d0": {"const": "a"}, **pairs}})
    assert least(model("qwen3"), schema) is None
    assert least(model("qwen3"), of_member({"type": "string", "minLength": MAX_LENGTH - 50}))


def test_a_least_length_is_filled_with_the_longest_word_of_the_vocabulary():
    tokens = [*(bytes([at]) for at in range(256)), b" information"]
    numbers = LeastTokens(CallForm(DIALECTS["qwen3"], {}), TokenIndex(tokens, frozenset()))
    empty, long = (
        numbers.of("f", of_member({"type": "string", "minLength": length})) for length in (0, 60)
    )
    assert long - empty == 5


def test_a_value_that_contains_itself_has_no_number():
    endless = {**NODE, "properties": {"next": {"$ref": "#/$defs/node"}}}
    schema = {"$ref": "#/$defs/node", "$defs": {"node": endless}}
    assert least(model("qwen3"), of_member(schema, **{"$defs": {"node": endless}})) is None


def test_a_custom_tool_reserves_the_text_around_its_input():
    found = model("qwen3")
    number = least(found, custom_parameters(Grammar("lark", 'start: "a"+')))
    assert number == least(found, json.loads(canonical_json(custom_parameters(None))))
    longer = least(found, custom_parameters(Grammar("regex", "[0-9]{20}")))
    assert number is not None
    assert longer is not None
    assert longer > number


# --- least tokens walks ---
ENDS = ('"', "]", "}", '""', "[]", "{}", "0", "1", "null", "true", ", ")
WALKS, LIMIT = 12, 400


class Walker:
    """Takes short ways through the masks of one tool: texts that end something, then the names of
    required members and listed values, and else random tokens."""

    def __init__(self, model, parameters):
        self._model = model
        self._grammar = model.grammar("tool", parameters)
        nodes = [*schema_objects(parameters)]
        names = [name for node in nodes for name in node.get("required", ())]
        listed = [v for node in nodes for v in node.get("enum", [node.get("const")])]
        self._names = [f'"{name}": ' for name in names]
        self._values = [json.dumps(value, ensure_ascii=False) for value in listed]
        self.least = self._grammar.least_tokens

    def shortest(self):
        found = (self._walk(random.Random(seed)) for seed in range(WALKS))
        return min((each for each in found if each is not None), default=None)

    def _walk(self, rng):
        matcher, tokens = self._grammar.matcher(), list[int]()
        names = rng.sample(self._names, len(self._names))
        while not matcher.finished:
            if len(tokens) > LIMIT:
                return None
            row = np.empty(words_per_row(self._model.vocabulary.size), dtype=np.int32)
            matcher.fill(row)
            allowed = masks.unpack(row & self._model.data.in_grammars)
            texts = [*self._texts(rng, names)] if len(allowed) > 1 else []
            spelled = next(filter(None, (self._spelled(matcher, each) for each in texts)), None)
            if spelled is None:
                tried = [int(each) for each in rng.choices(allowed.tolist(), k=4)]
                spelled = [
                    max(tried, key=lambda each: len(self._model.vocabulary.token_bytes[each]))
                ]
                assert matcher.accept(spelled[0])
            tokens += spelled
        text = b"".join(self._model.data.unit_bytes[each] for each in tokens)
        fewest = self._model.data.token_index.fewest(text) or tokens
        again = self._grammar.matcher()
        return len(fewest if all(map(again.accept, fewest)) else tokens)

    def _texts(self, rng, names):
        yield from ENDS[:3]
        yield from names
        yield from rng.sample(self._values, len(self._values))
        yield from ENDS[3:]

    def _spelled(self, matcher, text):
        """The tokens of a text, which the matcher has accepted; None if it does not."""
        taken = []
        rest = text.encode()
        while rest:
            tokens = reversed(self._model.data.token_index.prefixes_of(rest))
            token = next((each for each in tokens if matcher.accept(each)), None)
            if token is None:
                if taken:
                    matcher.rollback(len(taken))
                return None
            taken.append(token)
            rest = rest[len(self._model.vocabulary.token_bytes[token]) :]
        return taken


@pytest.mark.slow
@needs(TOOLS)
def test_no_number_is_above_the_shortest_call_that_walks_find():
    model = DialectModel(DIALECTS["qwen3"], mark_texts(DIALECTS["qwen3"]))
    ratios = []
    for tool in real_tools(step=8 * repeats(4, nightly=1)):
        walker = Walker(model, tool["parameters"])
        shortest = walker.shortest()
        if shortest is not None and walker.least is not None:
            assert walker.least <= shortest, tool["parameters"]
            ratios.append(shortest / walker.least)
    assert len(ratios) > 15
    assert 1 <= median(ratios) <= 1.05


# --- usual length ---
TEXT = {"type": "string"}


def whole(**properties):
    return {"type": "object", "properties": properties, "required": list(properties)}


@pytest.mark.parametrize(
    ("schema", "tokens"),
    [
        (whole(city=TEXT), 64),
        (whole(city=TEXT, country=TEXT), 128),
        ({"type": "object", "properties": {"city": TEXT}}, 64),
        (whole(days={"type": "integer"}, sure={"type": "boolean"}), 64),
        (whole(unit={"type": "string", "enum": ["a", "b"]}, city=TEXT), 64),
        (whole(code={"type": "string", "maxLength": 30}, city=TEXT), 74),
        (whole(at={"type": "string", "format": "date"}, city=TEXT), 64),
        ({}, 64),
        (whole(tags={"type": "array", "items": TEXT}), 64),
        (whole(tags={"type": "array", "items": TEXT, "minItems": 3}), 192),
        (whole(note={"anyOf": [TEXT, {"type": "null"}]}), 64),
        (whole(note={"type": ["string", "null"]}), 64),
        (whole(place=whole(street=TEXT, city=TEXT)), 128),
        (whole(more={"type": "object"}), 64),
        ({"$defs": {"t": TEXT}, **whole(a={"$ref": "#/$defs/t"}, b={"$ref": "#/$defs/t"})}, 128),
        (whole(**{f"p{at}": TEXT for at in range(50)}), MAX_TOKENS),
        ({"type": "object", "properties": {}, "additionalProperties": False}, 0),
    ],
)
def test_each_required_string_needs_room(schema, tokens):
    assert extra_tokens(schema) == tokens


def test_a_recursive_schema_is_estimated():
    node = whole(name=TEXT, left={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
    assert 64 <= extra_tokens({"$defs": {"node": node}, "$ref": "#/$defs/node"}) <= MAX_TOKENS
