"""The OpenAPI document of our own API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from toolgate_proxy.admin.routes import router
from toolgate_proxy.api.shared.parameter import Table
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_proxy.page.openapi import document
from toolgate_proxy.page.operations import OPERATIONS

DOCUMENT: dict[str, Any] = json.loads(document())


def test_each_api_and_each_route_of_the_administrator_is_an_operation() -> None:
    described = {(each.method, each.path) for each in OPERATIONS}
    for route in router.routes:
        methods: set[str] = getattr(route, "methods", set())
        assert {(method.lower(), getattr(route, "path", "")) for method in methods} <= described
    for surface in SURFACES:
        paths = [path for method, path in described if method == "post"]
        assert any(surface.path.fullmatch(path) for path in paths), surface.name
        if surface.counting is not None:
            assert any(surface.counting.path.fullmatch(path) for path in paths), surface.name


def test_all_references_resolve() -> None:
    models = DOCUMENT["components"]["schemas"]
    for reference in _references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in models


def test_each_operation_says_which_key_it_requires() -> None:
    for path, methods in DOCUMENT["paths"].items():
        for described in methods.values():
            kinds = [name for each in described["security"] for name in each]
            health = path.startswith("/toolgate/ready") or path == "/health/liveliness"
            master = path.startswith("/toolgate/") and not health
            assert kinds == (["master"] if master else [] if health else ["key"]), path


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if isinstance(each.body, dict)])
def test_a_body_has_the_supported_parameters_of_its_table(operation: Any) -> None:
    schema = _body(operation.path)
    table: Table = operation.body
    accepted = {name for name, row in table.items() if row.type is not None or row.defaults}
    assert set(schema["properties"]) == accepted
    assert set(schema["required"]) <= accepted


def test_types_have_their_bounds() -> None:
    properties = _body("/v1/chat/completions")["properties"]
    assert (properties["n"]["minimum"], properties["n"]["maximum"]) == (1, 128)
    assert properties["stream"]["type"] == "boolean"
    assert properties["stream_options"]["properties"]["include_usage"] == {"type": "boolean"}


def test_descriptions_have_no_links_to_pages_that_are_not_served() -> None:
    assert "](" not in json.dumps(DOCUMENT)


def _body(path: str) -> dict[str, Any]:
    content = DOCUMENT["paths"][path]["post"]["requestBody"]["content"]
    schema: dict[str, Any] = content["application/json"]["schema"]
    return schema


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield reference
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)
