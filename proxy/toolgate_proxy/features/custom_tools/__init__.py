"""Custom tools in chat completions and in the Responses API: the client gets their only argument as
text, which may have to match a grammar. The model is offered functions, which
`toolgate_core/custom_tools.py` makes of them."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from toolgate_core.custom_tools import INPUT
from toolgate_core.deltas import CallStart

from ...api.chat_completions.feature import CallForm, ChatFeature, ChatOutput
from ...api.responses.body import call_item
from ...api.responses.feature import ResponsesFeature, ResponsesOutput
from ...api.responses.items import called_name
from ...api.responses.output_items import CallItem, CallKind
from ...api.responses.tools import client_tool
from ...api.responses.turns import ItemTurns
from ...api.shared.history import History
from ...api.shared.tools import ReadTool, function_name
from ...request_fields import Fields
from ..parts import Parts

TYPES = re.compile("custom")
ENTRY = ("type", "name", "description", "format")
"""Fields of an entry in the Responses API."""
CALL, RESULT = "custom_tool_call", "custom_tool_call_output"
KIND = CallKind(
    type=CALL,
    prefix="ctc",
    text="input",
    event="response.custom_tool_call_input",
    named=False,
)


class ChatCustomToolsOutput(ChatOutput):
    def form(self, start: CallStart) -> CallForm | None:
        return CallForm("custom", "input") if start.custom else None


class CustomInChat(ChatFeature):
    TYPES = TYPES
    OUTPUT = ChatCustomToolsOutput

    def called(self, call: Fields) -> dict[str, Any]:
        named = call.inner("custom", "an object with a name and an input")
        arguments = _arguments(named, self.input.history)
        return {"name": named.required_text("name"), "arguments": arguments}


class ResponsesCustomToolsOutput(ResponsesOutput):
    def call(self, start: CallStart, call_id: str) -> CallItem | None:
        return call_item(self.response, start, call_id, KIND) if start.custom else None


class CustomInResponses(ResponsesFeature):
    TYPES = TYPES
    OUTPUT = ResponsesCustomToolsOutput
    ITEMS: ClassVar = {CALL: "ctc", RESULT: "ctco"}
    FIELDS: ClassVar = {
        CALL: ("call_id", "name", "input", "namespace", "caller"),
        RESULT: ("call_id", "output", "name", "caller"),
    }

    def own(self, entry: Fields, namespace: str) -> ReadTool:
        taken = client_tool(entry, ENTRY, namespace)
        assert taken.shown is not None
        if taken.shown.body["format"] is None:
            taken.shown.body["format"] = {"type": "text"}
        own = taken.entries[0].tool["custom"]
        if isinstance(form := own.get("format"), dict) and form.get("type") == "grammar":
            inner = {key: value for key, value in form.items() if key != "type"}
            own["format"] = {"type": "grammar", "grammar": inner}
        return taken

    def chosen(self, choice: Fields) -> str:
        return function_name(choice.values) or choice.required_text("name", "the name of a tool")

    def read_back(self, item: Fields, kind: str, turns: ItemTurns) -> bool:
        if kind == RESULT:
            turns.output(item)
            return True
        arguments, name = _arguments(item, turns.history), called_name(item, turns.tools)
        turns.call(item.required_text("call_id"), name, arguments, item.place)
        return True


def _arguments(call: Fields, history: History) -> str:
    """Return the arguments of the function that the model is offered, of an earlier call, whose
    input should be a text."""
    text = call.values.get("input")
    if not isinstance(text, str):
        history.note("arguments", call.path("input"))
    return json.dumps({INPUT: text if isinstance(text, str) else ""}, ensure_ascii=False)


FEATURE = Parts(chat=CustomInChat, responses=CustomInResponses)
