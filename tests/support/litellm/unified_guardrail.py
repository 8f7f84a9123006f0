"""A guardrail that LiteLLM shows the requests of each API in one form."""

from __future__ import annotations

import json
from typing import Any

from litellm.integrations.custom_guardrail import CustomGuardrail

from tests.support.litellm.guards import refusal

MARK = "marked text"
KEPT = {"messages": ("texts", "tool_calls"), "texts": ("structured_messages",), "during_call": ()}


class Unified(CustomGuardrail):  # type: ignore[misc]  # LiteLLM's types are not read
    """Replaces the mark in tools and in texts and calls, or in messages. In `during_call`, it
    refuses the mark."""

    def __init__(self, changes: str = "texts") -> None:
        mode = changes if changes == "during_call" else "pre_call"
        super().__init__(guardrail_name="unified", event_hook=mode, default_on=True)
        self._changes = changes

    async def apply_guardrail(self, inputs: Any, *args: Any, **more: Any) -> Any:
        shown = json.dumps(inputs)
        if self._changes == "during_call" and MARK in shown:
            raise refusal()
        kept = {name: inputs[name] for name in KEPT[self._changes] if name in inputs}
        return json.loads(shown.replace(MARK, "hidden")) | kept


class Exchanging(Unified):
    """Removes the tool `a`, and adds `seek`. All it returns lacks the schemas."""

    async def apply_guardrail(self, inputs: Any, *args: Any, **more: Any) -> Any:
        names = [tool["function"]["name"] for tool in inputs["tools"]]
        kept = [{"name": name} for name in names if name != "a"]
        added = {"name": "seek", "parameters": {"type": "object"}}
        return {"tools": [{"type": "function", "function": each} for each in (*kept, added)]}
