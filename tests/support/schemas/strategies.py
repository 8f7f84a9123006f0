"""Hypothesis strategies for JSON Schemas over a small world, in which keywords meet, and for
instances that come close to them."""

from hypothesis import strategies as st

NAMES = ["a", "b", "ab", "c/d~"]
TEXTS = ["", "a", "b", "ab", "abc", "é", "2024-02-29", '"\\\n']
SCALARS = [None, True, False, 0, 1, 2, 3, -1, 2.5, 6, *TEXTS]

instances = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=8,
)

_names = st.lists(st.sampled_from(NAMES), unique=True, max_size=2)
_patterns = st.sampled_from(["^a", "b$", "^[a-c]*$", "é", "^.{2}$"])
_types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
_sizes = st.integers(0, 3)


def _flat():
    return {
        "type": _types | st.lists(_types, unique=True, min_size=1, max_size=3),
        "enum": st.lists(st.sampled_from(SCALARS) | instances, min_size=1, max_size=3),
        "const": instances,
        "minimum": st.integers(-1, 3),
        "exclusiveMaximum": st.sampled_from([2, 2.5, 6]),
        "multipleOf": st.sampled_from([1, 2, 3, 0.5]),
        "minLength": _sizes,
        "maxLength": _sizes,
        "pattern": _patterns,
        "format": st.sampled_from(["date", "email", "made-up", "regex"]),
        "minItems": _sizes,
        "maxItems": _sizes,
        "uniqueItems": st.booleans(),
        "required": _names,
        "minProperties": _sizes,
        "maxProperties": _sizes,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), _names, max_size=2),
    }


def _nested(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    members = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    return {
        "allOf": several,
        "anyOf": several,
        "oneOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "items": inner,
        "prefixItems": several,
        "contains": inner,
        "properties": members,
        "patternProperties": st.dictionaries(_patterns, inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "dependentSchemas": members,
        "unevaluatedProperties": inner,
        "unevaluatedItems": inner,
    }


@st.composite
def _object(draw, keywords):
    chosen = draw(st.lists(st.sampled_from(sorted(keywords)), unique=True, max_size=4))
    return {keyword: draw(keywords[keyword]) for keyword in chosen}


subschemas = st.recursive(
    _object(_flat()) | st.booleans(),
    lambda inner: _object(_flat() | _nested(inner | st.just({"$ref": "#/$defs/x"}))),
    max_leaves=6,
)


@st.composite
def schemas(draw):
    """Of 2020-12, valid as schemas, with a definition that may be referred to."""
    root = draw(_object(_flat() | _nested(subschemas)))
    return root | {"$defs": {"x": draw(subschemas)}}
