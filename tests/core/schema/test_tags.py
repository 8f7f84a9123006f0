"""Members that tell the alternatives of a union apart are required, and nothing more is allowed."""

from random import Random
from unittest.mock import patch

import jsonschema_rs
import pytest

from toolgate_core.schema.canonical import canonical_schema
from toolgate_core.schema.preparation.prepare import prepare


def animal(kind, name, **more):
    members = {"kind": kind, name: {"type": "integer"}}
    return {"type": "object", "properties": members, "required": [name], **more}


CAT, DOG = animal({"const": "cat", "default": "cat"}, "lives"), animal({"const": "dog"}, "age")
TEXT = animal({"type": "string"}, "age")
FOX = {"type": "object", "properties": {"of": {"$ref": "#/$defs/pet"}, "kind": {"const": "fox"}}}
NAMED = {"discriminator": {"propertyName": "kind", "mapping": {"cat": "#/$defs/cat"}}}
CATS, DOGS, FOXES = ({"$ref": f"#/$defs/{name}"} for name in ("cat", "dog", "fox"))
NULL = {"type": "null"}
UNIONS = {
    "pydantic": ({"oneOf": [CATS, DOGS], **NAMED}, True),
    "without its name": ({"oneOf": [CATS, DOGS]}, True),
    "anyOf": ({"anyOf": [CATS, DOGS], "description": "A pet."}, True),
    "optional": ({"anyOf": [{"oneOf": [CATS, DOGS]}, NULL]}, True),
    "with null": ({"oneOf": [NULL, CATS, DOGS]}, True),
    "recursive": ({"oneOf": [CATS, DOGS, FOXES]}, True),
    "nested": ({"oneOf": [{"oneOf": [CATS, DOGS]}, FOXES]}, True),
    "several values": ({"oneOf": [CATS, animal({"enum": ["dog", "wolf"]}, "age")]}, True),
    "named only": ({"anyOf": [CATS, TEXT], **NAMED}, True),
    "the same value": ({"anyOf": [CATS, animal({"const": "cat"}, "age")]}, False),
    "one without a value": ({"anyOf": [CATS, TEXT]}, False),
    "no type": (
        {"oneOf": [CATS, animal({"const": "dog"}, "age", type=["object", "null"]), NULL]},
        0,
    ),
    "equal numbers": (
        {"oneOf": [animal({"const": 1}, "lives"), animal({"const": 1.0}, "age")]},
        False,
    ),
    "an object": (CATS, False),
}


def document(union):
    defs = {"cat": CAT, "dog": DOG, "fox": FOX, "pet": union}
    properties = {"pet": {"$ref": "#/$defs/pet"}}
    return {"type": "object", "properties": properties, "required": ["pet"], "$defs": defs}


@pytest.mark.parametrize(("union", "required"), UNIONS.values(), ids=UNIONS)
def test_a_tag_that_tells_alternatives_apart_is_required(union, required):
    made = prepare(canonical_schema(document(union), param="schema"))
    judge = jsonschema_rs.validator_for(made.schema)
    assert not (required and made.residual)
    if required:
        assert judge.is_valid({"pet": {"kind": "cat", "lives": 9}})
        assert not judge.is_valid({"pet": {"lives": 9}})
        assert not judge.is_valid({"pet": {"age": 9}})
    else:
        assert judge.is_valid({"pet": {"lives": 9}})


OTHERS = [*({keyword: CATS} for keyword in ("not", "if", "contains")), {"oneOf": [CATS, TEXT]}]


@pytest.mark.parametrize("other", OTHERS)
def test_alternatives_beside_a_negation_stay_as_they_are(other):
    made = canonical_schema(document({"anyOf": [CATS, DOGS, {"items": other}]}), param="schema")
    assert [made["$defs"][name]["required"] for name in ("cat", "dog")] == [["lives"], ["age"]]


class World:
    """Random schemas in which unions with tags meet, and values that come close to them."""

    def __init__(self, seed):
        self.r, self.names = Random(seed), "xyz"

    def member(self):
        value, default = self.r.choice(["a", "b", 1, True, None]), {"default": "a"}
        several = {"const": "b"} | default, {"enum": [value, "a"]}, {"$ref": "#/$defs/e"}
        return self.r.choice([{"const": value}, *several, {"type": "integer"}, {}])

    def object(self, depth):
        made = {"properties": {tag: self.member() for tag in self.some(["kind", "t"])}}
        if depth and self.r.random() < 0.5:
            made["properties"]["c"] = self.schema(depth - 1)
        types = [{"type": "object"}, {"type": "object"}, {"type": "object"}, {}]
        return made | self.r.choice(types) | {"required": self.some(["kind", "c"])[:1]}

    def some(self, names):
        return self.r.sample(names, self.r.randint(0, len(names)))

    def schema(self, depth):
        kind = self.r.random()
        if not depth or kind < 0.2:
            leaves = [self.object(0), {"type": "null"}, {"type": "integer"}, True]
            return self.r.choice([*leaves, *({"$ref": f"#/$defs/{name}"} for name in self.names)])
        if kind < 0.7:
            arms = [self.schema(depth - 1) for _ in range(self.r.randint(1, 3))]
            named = {"discriminator": {"propertyName": self.r.choice(["kind", "t"])}}
            keyword = self.r.choice(["oneOf", "oneOf", "anyOf"])
            return {keyword: arms, **self.r.choice([named, {}])}
        inner = self.schema(depth - 1)
        return self.r.choice([{"not": inner}, {"items": inner}, self.object(depth)])

    def document(self):
        defs = {"x": self.object(1), "y": self.object(1)}
        self.names = "xy"  # no schema is only a reference to itself
        defs["z"], self.names = self.schema(2), "xyz"
        return {"allOf": [self.schema(3)], "$defs": defs | {"e": {"enum": ["a", "b"]}}}

    def value(self, depth):
        kind = self.r.random()
        if not depth or kind < 0.2:
            return self.r.choice([None, 1, "a", {}])
        if kind < 0.3:
            return [self.value(depth - 1) for _ in range(self.r.randint(0, 2))]
        made = {tag: self.r.choice(["a", "b", 1, True, None]) for tag in self.some(["kind", "t"])}
        return made | ({"c": self.value(depth - 1)} if self.r.random() < 0.5 else {})


@pytest.mark.parametrize("seed", range(2))
def test_required_tags_only_forbid_values(seed):
    """Whatever else refers to the alternatives of a union."""
    world, allowed = World(seed), 0
    for _ in range(2_000):
        schema = world.document()
        with patch("toolgate_core.schema.canonical.require_tags"):
            before = canonical_schema(schema, param="schema")
        after = canonical_schema(schema, param="schema")
        if after != before:
            judges = [jsonschema_rs.validator_for(each) for each in (before, after)]
            for value in [world.value(3) for _ in range(25)]:
                was_valid, is_valid = (judge.is_valid(value) for judge in judges)
                assert was_valid or not is_valid, (schema, value)
                allowed += is_valid
    assert allowed > 200
