"""Whatever masks let come to its end is JSON, and valid by the schema or caught by the check."""

import json
import re

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from tests.support.dialects.codec_walks import CodecModel
from tests.support.effort import repeats
from tests.support.schemas.judge import Judge
from tests.support.schemas.strategies import schemas
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.canonical import canonical_json, canonical_schema
from toolgate_core.schema.document import normalise

# --- walks ---
FEW = settings(
    max_examples=repeats(15, nightly=100),
    deadline=None,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


@pytest.fixture(scope="module")
def model():
    return CodecModel(DIALECTS["qwen3"])


def compiled(model, schema):
    """The schema as it is checked, and the outcome; only of what is not refused."""
    canonical = canonical_schema(schema, param="schema")
    outcome = model.compiler.compile("key", "f", canonical_json(canonical))
    assume(outcome.grammar is not None)
    return canonical, outcome


@FEW
@given(schema=schemas(), seed=st.integers(0, 2**32))
def test_completed_walks_are_valid_instances(model, schema, seed):
    canonical, outcome = compiled(model, schema)
    text = model.walk(outcome.grammar, seed, limit=120)
    assume(text is not None)
    assert text is not None
    value = json.loads(text)
    valid = jsonschema_rs.validator_for(canonical, validate_formats=True).is_valid(value)
    assert valid or outcome.verdict.residual


def test_a_value_that_an_engine_refuses_leaves_the_others_masked(model):
    """llguidance has no anchors inside a pattern."""
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-c]{3}$"},
            "path": {"type": "string", "pattern": "^(/?[a-z]+($|/))*$"},
        },
        "required": ["id", "path"],
        "additionalProperties": False,
    }
    canonical = canonical_json(canonical_schema(schema, param="schema"))
    outcome = model.compiler.compile("key", "f", canonical)
    assert [each.pointer for each in outcome.verdict.residual] == ["/properties/path/pattern"]
    texts = [model.walk(outcome.grammar, seed, limit=120) for seed in range(30)]
    values = [json.loads(text) for text in texts if text is not None]
    assert values
    assert all(re.fullmatch("[a-c]{3}", value["id"]) for value in values)


@pytest.mark.exhaustive
@FEW
@given(schema=schemas(), data=st.data())
def test_grammars_accept_valid_instances(model, schema, data):
    """Instances are drawn from the schema itself, by hypothesis-jsonschema."""
    assume(not _names_objects(schema))
    canonical, _ = compiled(model, schema)
    draft7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
    try:
        value = data.draw(from_schema(canonical | draft7))
    except Exception:  # noqa: BLE001 - what that library cannot read is not what is tested here
        assume(False)
    judged = Judge(model.compiler, model.vocabulary).judge(schema, [(None, value)])
    for instance in judged.instances:
        assert not instance.passed or instance.taken or instance.by_decision or not _plain(value)


def _names_objects(schema):
    """Whether it gives whole objects of several members: a grammar writes those in their order
    only, and their instances may have any."""
    if isinstance(schema, list):
        return any(map(_names_objects, schema))
    if not isinstance(schema, dict):
        return False
    given = [schema[keyword] for keyword in ("const", "enum") if keyword in schema]
    return any(map(_has_members, given)) or any(map(_names_objects, schema.values()))


def _has_members(value):
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_has_members, value.values()))
    return isinstance(value, list) and any(map(_has_members, value))


def _plain(value):
    """Spelt in the one way in which our grammars spell it: not so large numbers, and control
    characters, which have several escapes."""
    text = json.dumps(value)
    return "\\u00" not in text and "e" not in text.replace("false", "").replace("true", "")


def test_external_references_are_refused_before_compilation():
    with pytest.raises(SchemaNotEnforceable):
        normalise({"properties": {"a": {"$ref": "other.json"}}})
