"""Limits on a schema: exact at their edge; combinations that multiply."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effort import examples
from tests.support.schemas import hostile, hostile_schemas
from tests.support.schemas.hostile import DOUBLING, argument, levels
from toolgate_core.errors import SchemaTooComplex
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.schema.limits import MAX_PATHS, SchemaLimits, check_limits

FAR = 10**9
NONE = SchemaLimits(bytes=FAR, depth=FAR, nodes=FAR, properties=FAR, text=FAR)


def refused(schema, **limits):
    held = SchemaLimits(**{name: limits.get(name, FAR) for name in vars(NONE)})
    try:
        check_limits(schema, held, param="tools[0].function.parameters")
    except SchemaTooComplex as error:
        return error
    return None


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Oslo", "Rome"]},
        "more": {"type": "object", "properties": {"kind": {"const": "far"}}},
    },
}


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("bytes", len(canonical_json(SCHEMA))),
        ("depth", 6),
        ("nodes", 13),
        ("properties", 3),
        ("text", len("citymorekindOsloRomefar")),
    ],
)
def test_each_schema_limit_is_exact(name, used):
    assert refused(SCHEMA, **{name: used}) is None
    error = refused(SCHEMA, **{name: used - 1})
    assert error is not None
    assert error.code == "schema_too_complex"
    assert f"{used - 1:,} " in error.message
    assert error.param == "tools[0].function.parameters"


def test_the_error_has_the_pointer_of_the_exceeding_value():
    error = refused({"properties": {"a/b": {"enum": ["1", "2", "3"]}}}, text=5)
    assert error is not None
    assert error.pointer == "/properties/a~1b"


@pytest.mark.exhaustive
@pytest.mark.parametrize("properties", [{}, {"a": {"$ref": "#/$defs/b"}}])
def test_a_long_property_name_is_not_copied_for_each_nested_value(properties):
    defs = {"n" * 10_000: {"allOf": [True] * 40_000}, "b": {}}
    tracemalloc.start()
    with pytest.raises(SchemaTooComplex, match="long names"):
        canonical_parameters({"$defs": defs, "properties": properties})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 * 2**20


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (hostile.long_name(1_000_000, 5_000), "long names"),
        (hostile.identifiers(8, 5_000, 50_000), "long URIs"),
    ],
    ids=["a name around many values", "identifiers that are relative to a long one"],
)
def test_what_repeats_a_long_text_is_refused_in_little_memory(schema, message):
    tracemalloc.start()
    with pytest.raises(SchemaTooComplex, match=message):
        canonical_parameters(schema)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30 * 2**20


@pytest.mark.parametrize("what", hostile_schemas.OVER_LIMITS)
def test_hostile_schemas_exceed_the_default_limits(what):
    with pytest.raises(SchemaTooComplex):
        check_limits(hostile_schemas.OVER_LIMITS[what], SchemaLimits(), param="x")


@pytest.mark.parametrize(
    "schema",
    [
        {"const": float("nan")},
        {"enum": ["\ud800"]},
        {"maximum": 10**5000},
        {"properties": {"\udc00": True}},
        {"properties": [1], "enum": {"a": 1}, "const": {}},
    ],
)
def test_invalid_schemas_within_the_limits_raise_no_error(schema):
    check_limits(schema, SchemaLimits(), param="x")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=9),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["properties", "enum", "const", "a", "/~"]) | st.text(max_size=3),
        inner,
        max_size=4,
    ),
    max_leaves=30,
)


@pytest.mark.exhaustive
@examples(40, nightly=100)
@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
def test_counts_equal_those_of_a_recursive_implementation(schema):
    def nodes(value):
        inner = value.values() if isinstance(value, dict) else value
        return 1 + sum(map(nodes, inner)) if isinstance(value, dict | list) else 1

    def depth(value):
        inner = [*value.values()] if isinstance(value, dict) else value
        return 1 + max(map(depth, inner), default=0) if isinstance(value, dict | list) else 1

    for name, used in (("nodes", nodes(schema)), ("depth", depth(schema))):
        assert refused(schema, **{name: used}) is None
        assert refused(schema, **{name: used - 1}) is not None
    check_limits(schema, NONE, param="x")


COMBINING = ("allOf", "anyOf", "oneOf", "not", "if")


def refusal(schema):
    try:
        check_limits(canonical_parameters(schema), SchemaLimits(), param="it")
    except SchemaTooComplex as error:
        return error
    return None


@pytest.mark.parametrize("keyword", COMBINING)
def test_combinations_that_multiply_are_refused_with_their_pointer(keyword):
    error = refusal(argument(levels(DOUBLING[keyword])))
    assert error is not None
    assert error.pointer.startswith("/")
    assert f"{MAX_PATHS:,}" in error.message
    assert refusal(argument(levels(DOUBLING[keyword], count=6))) is None


@pytest.mark.parametrize("keyword", [each for each in DOUBLING if each not in COMBINING])
def test_members_that_multiply_are_not_combined_for_one_value(keyword):
    assert refusal(argument(levels(DOUBLING[keyword], count=30))) is None or "allOf" in str(
        DOUBLING[keyword]({})
    )


def test_recursive_and_long_chains_of_combinations_pass():
    loop = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/loop"}]}
    chain = {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}]} for at in range(3_000)}
    schema = {"$defs": {"loop": loop, "d3000": {}} | chain}
    properties = {"a": {"$ref": "#/$defs/loop"}, "b": {"$ref": "#/$defs/d0"}}
    assert refusal(schema | {"properties": properties}) is None


def test_a_reference_to_nothing_is_left_to_the_engines():
    check_limits({"allOf": [{"$ref": "#/nowhere"}]}, SchemaLimits(), param="it")
