"""No function of the core takes more steps for a schema than a multiple of its size."""

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import pytest

from tests.support.effort import rotating, sampled
from tests.support.schemas.hostile import HOSTILE
from tests.support.schemas.steps import functions_of_schemas, steps_of
from toolgate_core import grammar_key
from toolgate_core.custom_tools import grammar_of
from toolgate_core.dialects.arguments.nested import Location
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_parameters, canonical_schema
from toolgate_core.schema.closed_objects import (
    are_closed,
    close_objects,
    has_open_objects,
    with_open_objects,
)
from toolgate_core.schema.corrections import corrected, corrections
from toolgate_core.schema.document import draft_of, normalise
from toolgate_core.schema.known_strings import known_texts
from toolgate_core.schema.limits import SchemaLimits, check_limits, check_paths
from toolgate_core.schema.preparation import checks, prepare
from toolgate_core.schema.preparation.engine_form import (
    PropertyOrder,
    canonical_engine_form,
    engine_form,
    to_engine_form,
    traits,
    unsupported_keywords,
)
from toolgate_core.schema.tags import require_tags
from toolgate_core.schema.types import TypeReader, argument_types, own_members, own_types
from toolgate_core.schema.walk import (
    deep_copy,
    find_references,
    move_targets_to_defs,
    reachable,
    schema_objects,
    subschemas,
)
from toolgate_core.tools import content_format, parse_tools

Schema = dict[str, Any]
Work = Callable[[Schema], object]
OF_CLIENTS = {
    "core.schema.canonical:canonical_parameters": canonical_parameters,
    "core.schema.canonical:canonical_schema": lambda it: canonical_schema(it, param="it"),
    "core.schema.corrections:corrected": corrected,
    "core.schema.corrections:corrections": corrections,
    "core.schema.document:normalise": normalise,
    "core.schema.document:draft_of": draft_of,
    "core.tools:content_format": lambda it: content_format(it, param="it", open_objects=True),
    "core.tools:parse_tools": lambda it: parse_tools(
        [{"type": "function", "function": {"name": "f", "parameters": it}}], open_objects=True
    ),
}
"""What gets the schemas of clients as they are, in the gateway's event loop. Errors are refusals of
the request."""
CANONICAL = {
    "core.custom_tools:grammar_of": grammar_of,
    "core.schema.types:TypeReader": lambda it: TypeReader(it).value(it),
    "core.schema.types:argument_types": lambda it: argument_types(it, "a"),
    "core.schema.types:own_types": own_types,
    "core.schema.types:own_members": lambda it: own_members(it, "a"),
    "core.dialects.arguments.nested:Location": lambda it: (
        Location.root(it).member("a").member("b").member(0).member("a")
    ),
    "core.grammar_key:tool_hash": lambda it: grammar_key.tool_hash("f", it),
    "core.schema.closed_objects:has_open_objects": has_open_objects,
    "core.schema.closed_objects:with_open_objects": with_open_objects,
    "core.schema.closed_objects:are_closed": are_closed,
    "core.schema.closed_objects:close_objects": close_objects,
    "core.schema.known_strings:known_texts": lambda it: known_texts(it, None),
    "core.schema.limits:check_limits": lambda it: check_limits(it, SchemaLimits(), param="it"),
    "core.schema.limits:check_paths": lambda it: check_paths(it, param="it"),
    "core.schema.tags:require_tags": lambda it: require_tags(deep_copy(it)),
    "core.schema.walk:reachable": lambda it: [*reachable(it)],
    "core.schema.walk:schema_objects": lambda it: [*schema_objects(it)],
    "core.schema.walk:subschemas": lambda it: [*subschemas(it)],
}
"""What gets canonical schemas, in the gateway, vLLM's API process and the engine."""
IN_QUARANTINE = {
    "core.schema.preparation.checks:check_schema": checks.check_schema,
    "core.schema.preparation.checks:unsatisfiable_part": checks.unsatisfiable_part,
    "core.schema.preparation.engine_form:PropertyOrder": PropertyOrder,
    "core.schema.preparation.engine_form:to_engine_form": lambda it: to_engine_form(
        it, PropertyOrder(it)
    ),
    "core.schema.preparation.prepare:with_bounded_multiples": lambda it: (
        prepare.with_bounded_multiples(it, it)
    ),
    "core.schema.preparation.prepare:prepare": prepare.prepare,
    "core.schema.preparation.prepare:prepare_canonical": prepare.prepare_canonical,
    "core.schema.preparation.prepare:prepare_compilable": lambda it: prepare.prepare_compilable(
        it, lambda _: False
    ),
    "core.schema.preparation.prepare:prepare_type_only": prepare.prepare_type_only,
    "core.schema.preparation.prepare:occurrences": prepare.occurrences,
    "core.schema.preparation.prepare:occurrences_inside": lambda it: [
        prepare.occurrences_inside(it, each, prepare.occurrences(it))
        for each in [*prepare.occurrences(it)][:3]
    ],
    "core.schema.preparation.prepare:relax": lambda it: prepare.relax(
        it, [*prepare.occurrences(it)][:1]
    ),
    "core.schema.preparation.prepare:removed_occurrences": lambda it: (
        prepare.removed_occurrences(it, [*prepare.occurrences(it)][:3])
    ),
    "core.schema.preparation.prepare:Search": lambda it: prepare.Search(it),
    "core.schema.preparation.engine_form:canonical_engine_form": lambda it: canonical_engine_form(
        it, PropertyOrder(it), whole=True
    ),
    "core.schema.preparation.engine_form:engine_form": lambda it: engine_form(
        it, PropertyOrder(it), whole=True
    ),
    "core.schema.preparation.engine_form:traits": traits,
    "core.schema.preparation.engine_form:unsupported_keywords": lambda it: [
        *unsupported_keywords(it)
    ],
    "core.schema.walk:find_references": find_references,
    "core.schema.walk:move_targets_to_defs": lambda it: move_targets_to_defs(
        it, find_references(it)
    ),
}
"""What gets canonical schemas in the quarantine only, where processor time, time and memory have
limits as well."""
PARTS = {
    "core.segmentation.call_reader:make_parser",
    "core.dialects.arguments.nested:NestedArguments",
    "core.dialects.arguments.tagged:TaggedArguments",
    "core.schema.document:upgrade",
    "core.schema.preparation.advice:advice_on",
    "core.schema.walk:children",
}
"""Functions that are called by others above, for one subschema, or that keep the schema."""


@lru_cache(maxsize=1)
def canonical(name):
    try:
        return canonical_parameters(HOSTILE[name])
    except ToolgateError:
        pytest.skip("refused by the gateway")


@rotating("name", HOSTILE, one_in=4)
def test_reading_a_schema_takes_few_steps(name):
    for work in OF_CLIENTS.values():
        with suppress(ToolgateError):
            steps_of(lambda work=work: work(deep_copy(HOSTILE[name])))  # type: ignore[misc]


@rotating("name", HOSTILE, one_in=4)
def test_functions_outside_the_quarantine_take_few_steps(name):
    for work in CANONICAL.values():
        given = deep_copy(canonical(name))
        with suppress(ToolgateError):
            steps_of(lambda work=work, given=given: work(given))  # type: ignore[misc]


@pytest.mark.exhaustive
@sampled("name, function", HOSTILE, IN_QUARANTINE, one_in=13)
def test_functions_in_the_quarantine_take_few_steps(name, function):
    given = deep_copy(canonical(name))
    with suppress(ToolgateError, RecursionError):
        steps_of(lambda: IN_QUARANTINE[function](given))


def test_every_function_that_takes_a_schema_is_among_these():
    packages = ("schema", "dialects.arguments", "custom_tools", "grammar_key", "tools")
    found = {each for one in packages for each in functions_of_schemas(f"toolgate_core.{one}")}
    known = {*OF_CLIENTS, *CANONICAL, *IN_QUARANTINE, *PARTS}
    assert found <= known
