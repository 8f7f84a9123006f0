"""No function of the backend takes more steps for a schema than a multiple of its size."""

import json
from contextlib import suppress
from functools import lru_cache

import pytest

from tests.support.effort import rotating
from tests.support.schemas.hostile import HOSTILE
from tests.support.schemas.steps import functions_of_schemas, steps_of
from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.codecs.factory import make_rules
from toolgate_backend.grammars.codecs.nodes import (
    alternatives,
    structure_of,
    without_root_references,
)
from toolgate_backend.grammars.codecs.raw_strings import uncounted_lengths
from toolgate_backend.grammars.codecs.rules import exact_numbers
from toolgate_backend.grammars.compiled_grammar import extra_tokens, limits_of
from toolgate_backend.grammars.engines import choice, llguidance_members, xgrammar_members
from toolgate_backend.grammars.least_tokens import LeastTokens
from toolgate_backend.grammars.read_back import misread
from toolgate_backend.grammars.text_kinds import JSON_IN_XGRAMMAR, free_texts
from toolgate_backend.tokens.call_form import CallForm
from toolgate_backend.tokens.units import TokenIndex
from toolgate_core.dialects.dialect import Json
from toolgate_core.dialects.marks import Marks
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.closed_objects import close_objects
from toolgate_core.schema.limits import SchemaLimits, check_limits
from toolgate_core.schema.preparation.prepare import prepare

# --- hostile steps ---
LEAST = LeastTokens(
    CallForm(DIALECTS["qwen3"], {}), TokenIndex([bytes([at]) for at in range(256)], frozenset())
)
MEASURING = {
    "backend.grammars.compiled_grammar:extra_tokens": extra_tokens,
    "backend.grammars.least_tokens:LeastTokens.of": lambda it: LEAST.of("f", prepare(it).schema),
    "backend.grammars.engines.choice:fallback_choices": lambda it: [
        *choice.fallback_choices(it, lambda _: True)
    ],
}
"""What gets canonical schemas. All of it runs in the quarantine."""
COMPILING = {
    "backend.grammars.engines.choice:make_choice": lambda it, _: choice.make_choice(it, ()),
    "backend.grammars.codecs.factory:make_rules": lambda it, given: [
        _rules(each, it, given) for each in CODECS
    ],
    "backend.grammars.codecs.raw_strings:uncounted_lengths": lambda _, given: (
        uncounted_lengths(given)
    ),
    "backend.grammars.codecs.nodes:alternatives": lambda it, _: alternatives(it, it),
    "backend.grammars.codecs.nodes:without_root_references": lambda it, _: (
        without_root_references(it)
    ),
    "backend.grammars.codecs.nodes:structure_of": lambda it, _: structure_of(it),
    "backend.grammars.engines.llguidance_members:member_rules": lambda it, _: _lark(it),
    "backend.grammars.engines.xgrammar_members:member_rules": lambda it, _: (
        xgrammar_members.member_rules(it, (", ", ": "))
        if choice.make_choice(it, ()).engine == "xgrammar"
        else None
    ),
    "backend.grammars.codecs.rules:exact_numbers": lambda it, _: exact_numbers(it, {}),
    "backend.grammars.compiled_grammar:limits_of": lambda it, _: limits_of(it),
    "backend.grammars.read_back:misread": lambda it, _: misread(it, lambda _: True),
    "backend.grammars.text_kinds:free_texts": lambda it, _: free_texts(
        close_objects(it), (JSON_IN_XGRAMMAR,)
    ),
}
"""What gets prepared schemas and canonical ones, in the quarantine and once more in the engine."""
PARTS = {
    "backend.grammars.codecs.rules:near_bounds",
    "backend.grammars.codecs.factory:rules_of_call",
    "backend.grammars.codecs.typed_values:GemmaGrammar",
    "backend.grammars.codecs.nested:NestedGrammar",
    "backend.grammars.codecs.typed_values:PythonicGrammar",
    "backend.grammars.codecs.raw_strings:patterns_of",
    "backend.grammars.codecs.raw_strings:too_long",
    "backend.grammars.codecs.nodes:listed",
    "backend.grammars.codecs.nodes:restricted",
    "backend.grammars.codecs.nodes:types",
    "backend.grammars.codecs.structured:StructuredGrammar",
    "backend.grammars.least_tokens:numbers_of",
    "backend.grammars.least_tokens:texts_of",
    "backend.grammars.codecs.tagged:TaggedGrammar",
    "backend.grammars.compiled_grammar:measure",
    "backend.grammars.completions.detours:detours",
    "backend.grammars.completions.hints:texts_of",
    "backend.grammars.engines.llguidance_matcher:new_matcher",
}
"""Functions that are called by others above, or that only call these."""
NATIVE = {
    "backend.grammars.engines.xgrammar_members:grammar_of_schema",
}
"""Functions in the quarantine that validate values or compile. The limit on its processor time ends
them."""
CODECS = [
    *{
        type(each.calls.codec): each.calls.codec
        for each in DIALECTS.values()
        if each.calls is not None and not isinstance(each.calls.codec, Json)
    }.values()
]
"""One of each form of arguments that is not JSON."""
_OPTIONS = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def _rules(codec, prepared, given):
    with suppress(GrammarRefused, RecursionError):
        make_rules(codec, close_objects(prepared), Marks({}), given)


def _lark(prepared):
    with suppress(llguidance_members.TooLarge):
        llguidance_members.member_rules(close_objects(prepared), _OPTIONS)


@lru_cache(maxsize=1)
def canonical(name):
    try:
        parameters = canonical_parameters(HOSTILE[name])
        check_limits(parameters, SchemaLimits(), param="it")
    except ToolgateError:
        pytest.skip("refused before the quarantine")
    return json.dumps(parameters)


@rotating("name", HOSTILE, one_in=7)
def test_functions_in_the_quarantine_take_few_steps(name):
    for work in MEASURING.values():
        given = json.loads(canonical(name))
        with suppress(ToolgateError, GrammarRefused, RecursionError):
            steps_of(lambda work=work, given=given: work(given))


@rotating("name", HOSTILE, one_in=7)
def test_compiling_takes_few_steps_outside_of_native_code(name):
    given = json.loads(canonical(name))
    try:
        prepared = prepare(given).schema
    except (ToolgateError, RecursionError):
        pytest.skip("refused by the quarantine")
    for work in COMPILING.values():
        with suppress(GrammarRefused, RecursionError):
            steps_of(lambda work=work: work(prepared, given))


def test_every_function_that_takes_a_schema_is_among_these():
    found = {*functions_of_schemas("toolgate_backend.grammars")}
    assert found <= {*MEASURING, *COMPILING, *PARTS, *NATIVE}


def test_every_reference_counts_once_in_the_usual_length():
    assert extra_tokens(HOSTILE["doubling properties"]) == 512
    assert extra_tokens(HOSTILE["doubling allOf at the root"]) == 512
