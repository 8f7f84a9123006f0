"""Cost of validations: cheap ones in the process, others in workers that can be killed. No schema
takes long in the gateway's own process."""

import asyncio
import json
import sys

import pytest

from tests.proxy.kit import beside
from tests.support.effort import rotating
from tests.support.schemas.hostile import HOSTILE
from tests.support.schemas.steps import functions_of_schemas, steps_of
from toolgate_core import errors
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.limits import SchemaLimits, check_limits
from toolgate_core.tools import parse_tools
from toolgate_proxy.validation.service import MAX_COMPILED, UNBOUNDED, ValidationService, steps
from toolgate_proxy.validation.validator import InvalidSchema, Validator, Violation

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"maximum": 9}}}
TREE = {"$defs": {"node": NODE}, "properties": {"root": {"$ref": "#/$defs/node"}}}
FLAT = {"properties": {"root": NODE | {"properties": {"n": {"maximum": 9}}}}}
UNIQUE = {"properties": {"a": {"items": {"type": "integer"}, "uniqueItems": True}}}
LINKS = {
    f"a{i}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/a{i + 1}"}}}
    for i in range(400)
}
CHAIN = {"$defs": {**LINKS, "a400": {"maximum": 9}}, "$ref": "#/$defs/a0"}


def doubling(levels):
    """A schema with `levels` definitions, each of which refers to the next one twice."""
    defs = {
        f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]}
        for i in range(levels)
    }
    return {"$defs": {**defs, f"a{levels}": {"maxProperties": 3}}, "$ref": "#/$defs/a0"}


def tool(schema, name="t"):
    entry = {"type": "function", "function": {"name": name, "parameters": schema}}
    (parsed,) = parse_tools([entry])
    return parsed


@pytest.mark.parametrize(
    ("schema", "least", "most"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, 2, 20),
        (doubling(5), 2**5, 1_000),
        (doubling(60), UNBOUNDED, UNBOUNDED),
        (TREE, UNBOUNDED, UNBOUNDED),
        ({"$ref": "#"}, UNBOUNDED, UNBOUNDED),
        ({"$dynamicRef": "#a"}, UNBOUNDED, UNBOUNDED),
        ({"$id": "https://example.com/a", "properties": {"a": {"type": "null"}}}, 2, 20),
        ({"properties": {"a": {"$id": "b", "$ref": "#/x"}}}, UNBOUNDED, UNBOUNDED),
        ({"properties": {"a": {"pattern": "^[a-z]{1,20}$"}}}, 2, 1_000),
        ({"properties": {"a": {"pattern": "^(?=a)b"}}}, UNBOUNDED, UNBOUNDED),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, UNBOUNDED, UNBOUNDED),
        ({"properties": {"a": {"pattern": "((a{99}){99}){99}"}}}, UNBOUNDED, UNBOUNDED),
        ({"patternProperties": {"(?<!a)b": {}}}, UNBOUNDED, UNBOUNDED),
        ({"pattern": "a{" + "9" * 5_000 + "}"}, UNBOUNDED, UNBOUNDED),
        ({"pattern": "a{99999999999}" * 50_000}, UNBOUNDED, UNBOUNDED),
    ],
    ids=lambda value: str(value)[:50],
)
def test_validation_cost_is_estimated_from_the_schema(schema, least, most):
    assert least <= min(steps(schema), UNBOUNDED) <= most


ARGUMENTS = '{"a": {"a": {"a": "x", "b": ["y"]}, "b": [["z"]]}}'


def _validator(schema):
    """As ValidationService uses it: expensive schemas are left to other processes."""
    if steps(schema) <= MAX_COMPILED:
        try:
            Validator(schema).check(ARGUMENTS, unique=True)
        except InvalidSchema:
            return


FUNCTIONS = {
    "proxy.validation.service:steps": steps,
    "proxy.validation.validator:Validator": _validator,
}


@rotating("name", HOSTILE, one_in=6)
def test_validation_takes_few_steps(name):
    try:
        schema = canonical_parameters(HOSTILE[name])
        check_limits(schema, SchemaLimits(), param="it")
    except errors.ToolgateError:
        pytest.skip("refused before")
    for work in FUNCTIONS.values():
        steps_of(lambda work=work: work(schema))


def test_every_function_that_takes_a_schema_is_among_these():
    assert {*functions_of_schemas("toolgate_proxy.validation")} <= {*FUNCTIONS}


async def test_validation_in_process_and_in_workers_finds_the_same_violations():
    """A worker has recursive schemas, long chains of references, and long arguments."""
    validators = ValidationService()
    numbers = [*range(50_000)]
    for schema, valid, invalid, pointer, keyword in (
        (FLAT, {"root": {"n": 9}}, {"root": {"n": 10}}, "/root/n", "maximum"),
        (TREE, {"root": {"n": 9}}, {"root": {"n": 10}}, "/root/n", "maximum"),
        (CHAIN, {"x": {"x": {}}}, {"x": {"x": 3}}, "/x/x", "type"),
        (UNIQUE, {"a": numbers}, {"a": [*numbers, 7]}, "/a", "uniqueItems"),
    ):
        checked = tool(schema)
        await validators.prepare([checked])
        assert await validators.check(checked, json.dumps(valid)) is None
        violation = await validators.check(checked, json.dumps(invalid))
        assert violation is not None
        assert (violation.pointer, violation.keyword) == (pointer, keyword)


async def test_endless_validations_are_killed_and_the_next_one_succeeds():
    validators = ValidationService(cpu_seconds=0.2, workers=1)
    ticks = 0

    async def count():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    counter = asyncio.create_task(count())
    with pytest.raises(errors.ArgumentsNotChecked):
        await validators.check(tool(doubling(60)), "{}")
    counter.cancel()
    assert ticks > 5, "the event loop was not blocked"
    assert await validators.check(tool(TREE), "{}") is None


@pytest.mark.parametrize("recursive", [False, True])
async def test_invalid_schemas_are_refused_before_their_use(recursive):
    bad = {"properties": {"a": {"type": "uuid"}}}
    if recursive:
        bad["properties"]["b"] = {"$ref": "#"}
    tools = [tool({}), tool(bad, "bad")]
    validators = ValidationService()
    for _ in range(2):  # the refusal is not cached
        with pytest.raises(errors.SchemaNotEnforceable) as refused:
            await validators.prepare(tools)
        assert refused.value.pointer == "/properties/a/type"
        assert refused.value.param == "tools[0].function.parameters"


async def test_least_recently_used_schemas_are_removed_first():
    validators = ValidationService(capacity=2)
    tools = [tool({"maxProperties": at}, f"t{at}") for at in range(3)]
    for each in tools:
        assert await validators.check(each, "{}") is None
    assert len(validators._cache) == 2
    assert await validators.check(tools[0], '{"a": 1}') is not None


async def test_waiting_for_a_worker_is_limited():
    validators = ValidationService(workers=1, wall_seconds=0.2)
    tree = tool(TREE)
    async with validators._pool._slots.slot(""):
        with pytest.raises(errors.ChecksBusy) as busy:
            await validators.prepare([tree])
        assert (busy.value.status, busy.value.retry_after) == (503, 1)
        assert tree.hash not in validators._cache


async def test_killed_workers_are_a_503_and_no_verdict_on_the_schema(monkeypatch):
    """The next request with the schema checks it again."""
    validators, new = ValidationService(), tool(doubling(40))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/bin/false")
        with pytest.raises(errors.ChecksFailed) as failed:
            await validators.prepare([new])
    assert failed.value.status == 503
    assert new.hash not in validators._cache
    await validators.prepare([new])


# --- the validator: all of JSON Schema, in the draft of the schema --------------------------------

ROWS = beside(__file__)
LARGE = f'{{"a": {"5" * 400}.0}}'
NOT_JSON = Violation(pointer="", keyword="", schema_pointer="")


def check(schema, arguments, *, unique=True):
    return Validator(canonical_parameters(schema)).check(arguments, unique=unique)


def of_a(schema):
    return {"properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "arguments", "pointer", "keyword"),
    [*ROWS["violations"], (of_a({"multipleOf": 5}), LARGE, "/a", "multipleOf")],
)  # fmt: skip
def test_violations_name_location_and_keyword(schema, arguments, pointer, keyword):
    violation = check(schema, arguments)
    assert violation is not None
    assert (violation.pointer, violation.keyword) == (pointer, keyword)
    assert violation.schema_pointer.endswith(f"/{keyword}")


@pytest.mark.parametrize(
    ("schema", "value"),
    [*ROWS["valid"], ({"type": "integer", "minimum": 9}, "7" * 9_000)],
    ids=lambda value: str(value)[:40],
)
def test_valid_arguments_pass_validation(schema, value):
    assert check(of_a(schema), f'{{"a": {value}}}') is None


@pytest.mark.parametrize(
    "arguments", ['{"a": 1, "a": 2}', '{"x": {"a": 1, "a": 1}}', '{"a": NaN}', '{"a": 1', ""]
)
def test_invalid_json_is_a_violation(arguments):
    assert check({}, arguments) == NOT_JSON


@pytest.mark.parametrize(
    ("arguments", "complete"),
    [
        ('{"a": "\\ud83d"}', False),
        ('{"a": "\ud800"}', False),  # a mark
        ('{"a": [{"b": "x \\uDE42 y"}]}', False),
        ('{"a\\ud83d": 1}', False),
        ('{"a": "\\ude42\\ud83d"}', False),
        ('{"a": "\\ud83d\\ud83d\\ude42"}', False),
        ('{"a": "\\\\\\ud83d"}', False),
        ('{"a": "\\ud83d\\n\\ude42"}', False),
        ('{"a": "\\ud83d\\ude42 \\uD83D\\uDE42"}', True),
        ('{"a": "\\\\ud83d"}', True),
        ('{"a": "\\ud7ff\\ue000"}', True),
    ],
)
def test_lone_surrogate_is_a_violation(arguments, complete):
    """Strict JSON parsers reject it."""
    for unique in (True, False):
        violation = check({"additionalProperties": {"minLength": 1}}, arguments, unique=unique)
        assert violation == (None if complete else NOT_JSON)


def test_last_of_duplicate_members_counts_unless_unique():
    integer = of_a({"type": "integer"})
    assert check(integer, '{"a": "x", "a": 1}', unique=False) is None
    violation = check(integer, '{"a": 1, "a": "x"}', unique=False)
    assert violation is not None
    assert violation.keyword == "type"


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    ROWS["drafts"],
    ids=["the latest", "named", "of one's own", "items of older drafts", "minimum of older drafts"],
)
def test_the_draft_is_that_of_the_schema(schema, valid, invalid):
    assert valid is None or check(schema, valid) is None
    assert invalid is None or check(schema, invalid) is not None


@pytest.mark.parametrize(("schema", "pointer"), ROWS["invalid"])
def test_invalid_schemas_are_refused_and_nothing_is_fetched(schema, pointer):
    with pytest.raises(InvalidSchema) as bad:
        Validator(schema)
    assert bad.value.pointer == pointer
