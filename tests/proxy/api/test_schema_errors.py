"""A schema that can't be enforced is reported at its path in the request of each API."""

from __future__ import annotations

from typing import Any

import pytest

from toolgate_core.errors import SchemaNotEnforceable
from toolgate_proxy.api.surfaces import SURFACES

OUTSIDE = {"type": "object", "properties": {"a": {"$ref": "http://example.com/schema"}}}
TALK = [{"role": "user", "content": "Hi."}]
FUNCTION = {"name": "f", "parameters": OUTSIDE}
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "chat completions": (
        {"messages": TALK, "tools": [{"type": "function", "function": FUNCTION}]},
        "tools[0].function.parameters",
    ),
    "responses": (
        {"input": TALK, "tools": [{"type": "web_search"}, {"type": "function", **FUNCTION}]},
        "tools[1].parameters",
    ),
    "messages": (
        {
            "messages": TALK,
            "max_tokens": 9,
            "tools": [{"name": "f", "input_schema": OUTSIDE}],
        },
        "tools[0].input_schema",
    ),
}


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_error_has_the_path_and_the_pointer(surface: Any) -> None:
    body, path = CASES[surface.name]
    with pytest.raises(SchemaNotEnforceable) as refusal:
        surface.parse({"model": "m", **body}, model="m")
    assert refusal.value.param == path
    assert refusal.value.pointer == "/properties/a/$ref"
    assert surface.error(refusal.value)["error"]["param"] == path
