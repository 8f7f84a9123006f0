"""Cost of validations: cheap ones in the process, others in workers that can be killed."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from toolgate_core.errors import ArgumentsNotChecked, ChecksBusy, ChecksFailed, SchemaNotEnforceable
from toolgate_core.tools import Tool, parse_tools
from toolgate_proxy.validation.service import UNBOUNDED, ValidationService, steps

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"maximum": 9}}}
TREE = {"$defs": {"node": NODE}, "properties": {"root": {"$ref": "#/$defs/node"}}}


def doubling(levels: int) -> dict[str, Any]:
    """A schema with `levels` definitions, each of which refers to the next one twice."""
    defs: dict[str, Any] = {
        f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]}
        for i in range(levels)
    }
    return {"$defs": {**defs, f"a{levels}": {"maxProperties": 3}}, "$ref": "#/$defs/a0"}


def tool(schema: dict[str, Any], name: str = "t") -> Tool:
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
    ],
)
def test_validation_cost_is_estimated_from_the_schema(
    schema: dict[str, Any], least: int, most: int
) -> None:
    assert least <= min(steps(schema), UNBOUNDED) <= most


async def test_validation_in_process_and_in_workers_finds_the_same_violations() -> None:
    validators = ValidationService()
    for schema in ({"properties": {"root": NODE | {"properties": {"n": {"maximum": 9}}}}}, TREE):
        checked = tool(schema)
        assert await validators.check(checked, '{"root": {"n": 9}}') is None
        violation = await validators.check(checked, '{"root": {"n": 10}}')
        assert violation is not None
        assert (violation.pointer, violation.keyword) == ("/root/n", "maximum")


async def test_long_arguments_of_a_cheap_schema_are_validated() -> None:
    checked = tool({"properties": {"a": {"items": {"type": "integer"}, "uniqueItems": True}}})
    values = [*range(200_000)]
    validators = ValidationService()
    assert await validators.check(checked, json.dumps({"a": values})) is None
    violation = await validators.check(checked, json.dumps({"a": [*values, 7]}))
    assert violation is not None
    assert violation.keyword == "uniqueItems"


async def test_endless_validations_are_killed_and_the_next_one_succeeds() -> None:
    validators = ValidationService(cpu_seconds=0.2, workers=1)
    hostile, tree = tool(doubling(60)), tool(TREE)
    ticks = 0

    async def count() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    counter = asyncio.create_task(count())
    with pytest.raises(ArgumentsNotChecked):
        await validators.check(hostile, "{}")
    counter.cancel()
    assert ticks > 5, "the event loop was not blocked"
    assert await validators.check(tree, "{}") is None


@pytest.mark.parametrize("recursive", [False, True])
async def test_invalid_schemas_are_refused_before_their_use(recursive: bool) -> None:
    bad: dict[str, Any] = {"properties": {"a": {"type": "text"}}}
    if recursive:
        bad["properties"]["b"] = {"$ref": "#"}
    tools = [tool({}), tool(bad, "bad")]
    validators = ValidationService()
    for _ in range(2):  # the refusal is not cached
        with pytest.raises(SchemaNotEnforceable) as refused:
            await validators.prepare(tools, {"t": "first", "bad": "second"})
        assert refused.value.pointer == "/properties/a/type"
        assert refused.value.param == "second"


async def test_least_recently_used_schemas_are_removed_first() -> None:
    validators = ValidationService(capacity=2)
    tools = [tool({"maxProperties": at}, f"t{at}") for at in range(3)]
    for each in tools:
        assert await validators.check(each, "{}") is None
    assert len(validators._cache) == 2
    violation = await validators.check(tools[0], '{"a": 1}')
    assert violation is not None


async def test_long_chains_of_references_are_validated_in_a_worker() -> None:
    links = 400
    defs: dict[str, Any] = {
        f"a{i}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/a{i + 1}"}}}
        for i in range(links)
    }
    schema = {"$defs": {**defs, f"a{links}": {"maximum": 9}}, "$ref": "#/$defs/a0"}
    chain, validators = tool(schema), ValidationService()
    await validators.prepare([chain], {"t": "tools"})
    assert await validators.check(chain, '{"x": {"x": {}}}') is None
    assert await validators.check(chain, '{"x": {"x": 3}}') is not None


async def test_waiting_for_a_worker_is_limited() -> None:
    validators = ValidationService(workers=1, wall_seconds=0.2)
    tree = tool(TREE)
    async with validators._pool._slots.slot(""):
        with pytest.raises(ChecksBusy) as busy:
            await validators.prepare([tree], {"t": "tools"})
        assert (busy.value.status, busy.value.retry_after) == (503, 1)
        assert tree.hash not in validators._cache


async def test_killed_workers_are_a_503_and_no_verdict_on_the_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next request with the schema checks it again."""
    validators, new = ValidationService(), tool(doubling(40))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/bin/false")
        with pytest.raises(ChecksFailed) as failed:
            await validators.prepare([new], {"t": "tools"})
    assert failed.value.status == 503
    assert new.hash not in validators._cache
    await validators.prepare([new], {"t": "tools"})
