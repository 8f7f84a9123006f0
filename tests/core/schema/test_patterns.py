"""Patterns for engines: look-around, white space, those that only the validator reads; formats."""

import json
import re
from itertools import combinations, product
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import examples, rotating
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.keywords import BUILT_IN, CHECKED, LENGTHS
from toolgate_core.schema.keywords import PATTERNS as FORMATS
from toolgate_core.schema.patterns import (
    for_engines,
    is_maskable,
    matches,
    objection_to,
    portable,
    with_certain_white_space,
)
from toolgate_core.schema.preparation.engine_form import PropertyOrder, to_engine_form
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.schema.regular.parts import text_of
from toolgate_core.schema.regular.reading import parse

CASES = json.loads(Path(__file__).with_name("patterns.json").read_text())

TEXTS = ["".join(some) for length in range(5) for some in product("ab-.", repeat=length)]
TEXTS += ["\n", "a\n", "\na", "a\n..", "..\na", "\r--", "é", "\u2028", " ", " a", "a "]
TEXTS += ["ab5c", "😀"]


@rotating("pattern", CASES["masks_enforce_look_around_at_the_ends"], one_in=2)
def test_masks_enforce_look_around_at_the_ends(pattern):
    made = for_engines(portable(pattern))
    assert all(map(is_maskable, made))
    for text in TEXTS:
        found = all(matches(each, text) for each in made)
        assert found == matches(portable(pattern), text), (made, text)


@pytest.mark.parametrize("pattern", CASES["other_look_around_is_left_to_validation"])
def test_other_look_around_is_left_to_validation(pattern):
    assert objection_to(pattern)
    residual = prepare({"properties": {"a": {"type": "string", "pattern": pattern}}}).residual
    assert [each.pointer for each in residual] == ["/properties/a/pattern"]


DISPUTED = "\x1c\x1d\x1e\x1f\x85\ufeff"
OTHERS = "\t\n\v\f\r \xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000aZ0_-,é北\u180e\u200b"
PATTERNS = CASES["patterns"]


def certain(pattern):
    return text_of(with_certain_white_space(parse(pattern)))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_masks_allow_matches_everywhere(pattern):
    for character in DISPUTED + OTHERS:
        if accepts(certain(pattern), character):
            assert accepts(portable(pattern), character), hex(ord(character))
            if r"\p" not in pattern and "!" not in pattern:
                assert re.search(pattern, character), hex(ord(character))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_characters_that_nobody_disputes_match_as_before(pattern):
    for character in OTHERS:
        expected = accepts(portable(pattern), character)
        assert accepts(certain(pattern), character) == expected, hex(ord(character))


@pytest.mark.parametrize("pattern", [r"^[\s\S]*$", r"^[a-z]+\\s$", r"^[\x00-\xff]$", r"^(?!\s)a"])
def test_other_patterns_are_unchanged(pattern):
    assert with_certain_white_space(parse(pattern)) == parse(pattern)


def accepts(pattern, text):
    return jsonschema_rs.is_valid({"pattern": pattern}, text)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "a group without an end"),
        (f"(?{'b' * 500}", "an unknown kind of group"),
    ],
)
def test_a_pattern_that_no_engine_reads_is_refused_with_the_reason(pattern, reason):
    for schema, pointer in (
        ({"type": "object", "properties": {"a": {"pattern": pattern}}}, "/properties/a/pattern"),
        ({"type": "object", "patternProperties": {pattern: {}}}, "/patternProperties"),
    ):
        with pytest.raises(SchemaNotEnforceable, match=reason) as refused:
            prepare(canonical_schema(schema, param=""))
        assert refused.value.pointer.startswith(pointer)
        assert len(refused.value.message) < 300


@pytest.mark.parametrize(
    ("pattern", "valid", "invalid"),
    [
        (r"(?<=a+)b$", "aab", "b"),
        (r"^\w+(?<!draft|old)$", "new", "my-old"),
        (r"(?<=^|,)id", "x,id", "void"),
        (r"(?<=a|(?:\w|\b)\s)d", "b d", "bd"),
        (r"(a+)(?<=\1)b", "aab", "b"),
    ],
)
def test_look_behind_of_variable_length_is_residual(pattern, valid, invalid):
    member = {"type": "string", "pattern": pattern}
    schema = canonical_schema({"properties": {"a": member}}, param="")
    prepared = prepare(schema)
    assert [each.pointer for each in prepared.residual] == ["/properties/a/pattern"]
    check = jsonschema_rs.validator_for(schema)
    assert check.is_valid({"a": valid})
    assert not check.is_valid({"a": invalid})


SOME = examples(20, nightly=150)


def validator(schema):
    return jsonschema_rs.validator_for(schema, validate_formats=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_format_patterns_accept_valid_strings_only(name):
    check = validator({"format": name})

    @SOME
    @given(st.from_regex(FORMATS[name][0], fullmatch=False, alphabet=st.characters(codec="ascii")))
    def holds(text):
        text = text.strip("\n")  # Python's $ lets one pass
        fits = len(text) <= LENGTHS.get(name, len(text))
        if fits and all(re.search(pattern, text) for pattern in FORMATS[name]):
            assert check.is_valid(text), text

    holds()


@pytest.mark.parametrize("name", sorted(CHECKED | BUILT_IN | FORMATS.keys()))
def test_validation_supports_every_known_format(name):
    assert not validator({"format": name}).is_valid("[\\{ %")


NAMES = ["", "a", "b", "ab", "ba", "abc", "cab", "x1", "a.b", "é", "aa", "12"]
VALUES = [None, 1, 15, "a", "bcd", []]
ONE = [{name: value} for name, value in product(NAMES, VALUES)]
OBJECTS = [{}, *ONE]
OBJECTS += [one | other for one, other in combinations(ONE[::4], 2)]
S, N = {"type": "string"}, {"type": "integer"}

_names = st.one_of(
    st.sampled_from(
        [
            {"pattern": "^a"},
            {"maxLength": 2},
            {"minLength": 1, "pattern": "^[ab]*$"},
            {"enum": ["a", "ab", 1]},
            {"not": {"pattern": "b"}},
            {"anyOf": [{"pattern": "a"}, {"const": "é"}]},
            {"$ref": "#/$defs/name"},
            {"allOf": [{"pattern": "a"}, {"pattern": "b"}]},
            {"type": ["string", "null"], "pattern": "^[^.]*$"},
            {"type": "object"},
            {"pattern": "^(?!a)"},
        ]
    ),
    st.booleans(),
)
_members = st.dictionaries(
    st.sampled_from(["a", "^a", "b$", "^[ab]+$", "^.{2}$", "^(?!ab)", "[0-9]"]),
    st.sampled_from([True, False, S, N, {"minLength": 2}, {"minimum": 3}]),
    max_size=3,
)
_schemas = st.fixed_dictionaries(
    {"type": st.sampled_from(["object", ["object", "null"]])},
    optional={
        "propertyNames": _names,
        "patternProperties": _members,
        "properties": st.dictionaries(st.sampled_from(["a", "ab", "x1"]), st.sampled_from([S, N])),
        "additionalProperties": st.sampled_from([False, True, S]),
        "allOf": st.lists(
            st.fixed_dictionaries({"patternProperties": _members, "propertyNames": _names}),
            min_size=1,
            max_size=1,
        ),
        "required": st.lists(st.sampled_from(["a", "ab"]), unique=True),
    },
)


@pytest.mark.parametrize("schema", CASES["masks_enforce_names"])
def test_masks_enforce_names(schema):
    given = {"type": "object", "$defs": {"name": {"pattern": "^[ab]+$", "maxLength": 2}}} | schema
    schema = canonical_schema(given, param="schema")
    made = prepare(schema)
    assert not made.residual
    patterns = [*made.schema.get("patternProperties", {})]
    for name in NAMES:
        assert sum(jsonschema_rs.is_valid({"pattern": each}, name) for each in patterns) <= 1
    before = jsonschema_rs.validator_for(schema, validate_formats=True)
    after = jsonschema_rs.validator_for(made.schema)
    for value in OBJECTS:
        assert before.is_valid(value) == after.is_valid(value), value


@pytest.mark.exhaustive
@examples(30, nightly=200)
@given(_schemas)
def test_the_engine_form_accepts_the_same_objects(schema):
    defined = schema | {"$defs": {"name": {"pattern": "^[ab]+$", "maxLength": 2}}}
    schema = canonical_schema(defined, param="schema")
    made = to_engine_form(schema, PropertyOrder(schema))
    before, after = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(made)
    for value in [*OBJECTS, None]:
        assert before.is_valid(value) == after.is_valid(value), value


@pytest.mark.parametrize(
    "schema",
    CASES["names_that_are_not_one_list_or_pattern_are_left_to_validation"],
)
def test_names_that_are_not_one_list_or_pattern_are_left_to_validation(schema):
    given = {"type": "object", "$defs": {"name": {"pattern": "^[ab]+$", "maxLength": 2}}} | schema
    made = prepare(canonical_schema(given, param="schema"))
    assert [each.pointer for each in made.residual] == ["/propertyNames"]


def test_of_two_patterns_of_names_one_is_left_to_validation():
    given = {"type": "object", "propertyNames": {"pattern": "^a"}, "patternProperties": {"b": S}}
    made = prepare(canonical_schema(given, param="schema"))
    assert [each.pointer for each in made.residual] == ["/patternProperties"]
    assert made.schema["patternProperties"] == {"^a": True}


@pytest.mark.parametrize(
    "schema",
    [
        {"patternProperties": {"a": False}},
        {"patternProperties": {"^a": S, "^[0-9]": N}, "additionalProperties": False},
        {"patternProperties": {"^a": S}, "properties": {"b": N}, "additionalProperties": False},
    ],
)
def test_patterns_beside_other_members_are_left_to_validation(schema):
    made = prepare(canonical_schema({"type": "object"} | schema, param="schema"))
    assert {each.keyword for each in made.residual} == schema.keys() - {"properties"}
    for value in OBJECTS:
        assert jsonschema_rs.is_valid(made.schema, value) or not jsonschema_rs.is_valid(
            schema, value
        )
    assert made.schema["additionalProperties"] is True
