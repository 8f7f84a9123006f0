"""The tools in a log event are its own: requests share those that were sent."""

from __future__ import annotations

from typing import Any

from toolgate_proxy.litellm_host.callbacks.request_events import _response


def test_a_log_event_has_tools_of_its_own() -> None:
    properties: dict[str, Any] = {"room": {"type": "string"}}
    tool = {
        "type": "function",
        "name": "look_up",
        "description": None,
        "parameters": {"type": "object", "properties": properties},
        "strict": None,
    }
    whole = {
        "id": "resp_1",
        "created_at": 1,
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [tool],
        "temperature": 1.0,
        "top_p": 1.0,
    }
    logged = _response("aresponses", whole, stream=False)
    logged.tools[0].parameters["properties"]["room"].clear()
    assert properties == {"room": {"type": "string"}}
