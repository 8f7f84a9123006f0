"""Grammars of arguments in each form, walked at random and read by an independent reader."""

from __future__ import annotations

import json
from itertools import islice

import jsonschema
import pytest

from tests.backend.grammars.codecs.forms import FORMS, TAGGED, model
from tests.support.dialects.codec_schemas import CODEC_SCHEMAS
from tests.support.dialects.text_reader import arguments_of
from tests.support.effort import repeats, sampled
from toolgate_core.dialects.codecs import Tagged

ENOUGH = 4
"""Whole calls after which a test has seen enough of a form and a schema."""
ENDLESS = "two_patterns"
"""A schema whose raw texts, where strings have no quotes, do not end in a walk."""


@pytest.mark.exhaustive
@sampled("name, schema_name", FORMS, CODEC_SCHEMAS, one_in=4)
def test_random_walks_give_valid_arguments(name: str, schema_name: str) -> None:
    form, schema, made = FORMS[name], CODEC_SCHEMAS[schema_name], model(name)
    assert name in TAGGED or not made.verdict(schema)[0].residual
    hostile = [made.form.marks.decode(text) for text in form.hostile]
    walks = made.valid_walks(schema, repeats(8, nightly=12), hostile)
    seen = [*islice(walks, ENOUGH)]
    after = made.form.marks.decode(made.form.grammar_texts("f")[1])
    for arguments, text in seen:
        assert (arguments, len(text)) == arguments_of(text + after, form.codec, schema), text
    assert seen or (name in TAGGED and schema_name == ENDLESS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TAGGED)
def test_counted_texts_with_parts_of_the_end_do_not_exceed_a_limit_of_the_engine(name: str) -> None:
    made = model(name)
    codec = FORMS[name].codec
    assert isinstance(codec, Tagged)
    schema = {
        "properties": {"a": {"type": ["string", "null"], "maxLength": 100}},
        "required": ["a"],
    }
    grammar = made.grammar(schema)
    hostile = ["\n" * 5, codec.end, codec.close, codec.end[:-2], codec.close + " ", "x" * 20]
    for seed in range(repeats(3, nightly=6)):
        written = made.walk(grammar, seed, [made.form.marks.decode(text) for text in hostile])
        if written is not None:
            jsonschema.validate(json.loads(made.parsed(schema, written)), schema)


@pytest.mark.parametrize("name", FORMS)
def test_arguments_come_in_any_order_and_required_ones_must_come(name: str) -> None:
    made, write = model(name), FORMS[name].write
    names = [f"p{at}" for at in range(12)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": names[:2]}
    grammar = made.grammar(schema)
    assert made.accepts(grammar, write({"p7": 1, "p1": 2, "p0": 3, "p11": 4}))
    assert not made.accepts(grammar, write({"p7": 1, "p1": 2}))
    assert not made.accepts(grammar, write({}))
