"""Convert the items of `input` to messages in the form of chat templates.

An assistant turn consists of several items: reasoning, a message, calls. In a template it is one
message. An item begins a new message where the current one already has its kind of content.
"""

from __future__ import annotations

import re
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...request_fields import Fields, invalid_value
from ...sealing import OwnerSeal
from ..shared.call_results import function_call, lost_call, with_results
from ..shared.history import History, text_of
from .content import Content, as_text, read_content
from .tools import full_name

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
"""By role in the API: the role in templates of open models."""
STATUSES = ("in_progress", "completed", "incomplete")
COMMON = ("id", "type", "status")
FIELDS = {
    "message": ("role", "content", "phase"),
    "function_call": ("call_id", "name", "arguments", "namespace", "caller"),
    "function_call_output": ("call_id", "output", "name", "namespace", "caller"),
    "custom_tool_call": ("call_id", "name", "input", "namespace", "caller"),
    "custom_tool_call_output": ("call_id", "output", "name", "caller"),
    "reasoning": ("summary", "content", "encrypted_content"),
}
"""By type of item: its fields."""
FOREIGN = re.compile(
    r"(?P<name>(?!tool_search)[a-z0-9_]{1,60})_(?:call|call_output)|agent_message|mcp_list_tools"
    r"|mcp_approval_request|mcp_approval_response|program|program_output"
)
"""Types of items of hosted tools and of other agents. Those of `tool_search` define tools, so they
can't be left out."""
Message = dict[str, Any]
PREVIOUS = "previous_response_id"


def parse_input(
    given: object,
    instructions: str | None,
    history: History,
    *,
    recalled: int = 0,
    earlier: str = PREVIOUS,
    seal: OwnerSeal | None = None,
) -> tuple[list[Message], tuple[str, ...]]:
    """The messages, and the path of each message in the request's body. `recalled`: number of items
    at the beginning that are not the request's own. `earlier`: the parameter that names them.
    `seal`: of the sender.

    Raises InvalidRequest and UnsupportedParameter, which name the path of the invalid field."""
    turns = _Turns(instructions, history)
    if isinstance(given, str) and given:
        turns.message("user", given, "input")
        return turns.ordered()
    if not isinstance(given, list) or not given:
        raise invalid_value("input", "a non-empty string or a non-empty array of items", given)
    for item in given[:recalled]:
        _add(item, earlier, turns, seal)
    for at, item in enumerate(given[recalled:]):
        _add(item, f"input[{at}]", turns, seal)
    return turns.ordered()


def _add(item: object, path: str, turns: _Turns, seal: OwnerSeal | None) -> None:
    if isinstance(item, str):
        turns.message("user", item, path)  # as the gateway has always accepted it
        return
    if not isinstance(item, dict):
        raise invalid_value(path, "an object", item)
    fields, history = Fields(item, path), turns.history
    kind = fields.text("type") or ("message" if "role" in item else None)
    if kind is None:
        raise fields.wrong("type", "the type of an item")
    if kind not in FIELDS:
        if (found := FOREIGN.fullmatch(kind)) is None:
            raise _unknown_type(kind, fields.path("type"))
        if text := history.text(item, path):
            turns.other_result(found["name"] or kind, text, path)
        return
    history.note_unknown(fields, (*COMMON, *FIELDS[kind]))
    fields.text("id")
    status = fields.text("status")
    if status is not None and status not in STATUSES:
        raise fields.wrong("status", '"in_progress", "completed" or "incomplete"')
    match kind:
        case "message":
            role = ROLES.get(fields.text("role") or "")
            if role is None:
                raise fields.wrong("role", '"user", "assistant", "system" or "developer"')
            turns.message(role, read_content(fields, "content", role, history), path)
        case "function_call":
            turns.call(_call(fields, history), path)
        case "custom_tool_call":
            turns.call(_custom_call(fields, history), path)
        case "function_call_output" | "custom_tool_call_output":
            call_id = _required(fields, "call_id")
            turns.result(call_id, read_content(fields, "output", "tool", history), path)
        case _:
            turns.reasoning(_reasoning(fields, seal, history), path)


def _unknown_type(kind: str, path: str) -> UnsupportedParameter:
    if kind == "item_reference":
        reason = "It needs the `id` of a stored item, and nothing else. Send the item itself."
    else:
        reason = f"Use {', '.join(FIELDS)}."
    return UnsupportedParameter(
        f"An item of the type {kind!r} is not supported. {reason}", param=path
    )


def _required(fields: Fields, name: str) -> str:
    text = fields.text(name)
    if not text:
        raise fields.wrong(name, "a non-empty string")
    return text


def _name(fields: Fields) -> str:
    """The name of a call's tool that the model sees."""
    name, namespace = _required(fields, "name"), fields.text("namespace")
    return full_name(namespace, name) if namespace else name


def _call(fields: Fields, history: History) -> dict[str, Any]:
    arguments = history.arguments(fields.values.get("arguments"), fields.path("arguments"))
    function = {"name": _name(fields), "arguments": arguments}
    return {"id": _required(fields, "call_id"), "type": "function", "function": function}


def _custom_call(fields: Fields, history: History) -> dict[str, Any]:
    text = history.custom_input(fields.values.get("input"), fields.path("input"))
    function = function_call(_name(fields), text)
    return {"id": _required(fields, "call_id"), "type": "function", "function": function}


def _reasoning(fields: Fields, seal: OwnerSeal | None, history: History) -> str:
    """The encrypted text, or the text of the reasoning, or of its summary if it has none."""
    encrypted = fields.text("encrypted_content")
    if encrypted is not None:
        text = decrypted(seal, encrypted)
        if text is not None:
            return text
        history.note("left_out", fields.path("encrypted_content"))
    content, summary = (
        [text_of(part) for part in fields.items(name) or []] for name in ("content", "summary")
    )
    return "".join(content) or "\n\n".join(summary)


class _Turns:
    """Messages under construction."""

    def __init__(self, instructions: str | None, history: History) -> None:
        self.history = history
        self._messages: list[Message] = []
        self._paths: list[str] = []
        self._call_ids: set[str] = set()
        self._instructions = bool(instructions)
        """Whether the only message so far is that of the instructions."""
        if instructions:
            self._append({"role": "system", "content": instructions}, "instructions")

    def ordered(self) -> tuple[list[Message], tuple[str, ...]]:
        pairs = with_results(zip(self._messages, self._paths, strict=True), self.history)
        return [message for message, _ in pairs], tuple(path for _, path in pairs)

    def message(self, role: str, content: Content, path: str) -> None:
        last = self._messages[-1] if self._messages else {}
        if role == "system" and self._instructions:
            # Many templates accept one system message only, at the beginning.
            last["content"] = f"{last['content']}\n\n{as_text(content)}"
            return
        if role == "assistant" and last.get("role") == "assistant" and last["content"] is None:
            last["content"] = content
            return
        self._append({"role": role, "content": content}, path)

    def reasoning(self, text: str, path: str) -> None:
        if not text:
            return
        last = self._messages[-1] if self._messages else {}
        if "reasoning_content" in last and last["content"] is None and "tool_calls" not in last:
            last["reasoning_content"] += f"\n\n{text}"
            return
        self._append({"role": "assistant", "content": None, "reasoning_content": text}, path)

    def call(self, call: dict[str, Any], path: str) -> None:
        self._call_ids.add(call["id"])
        last = self._messages[-1] if self._messages else {}
        if last.get("role") != "assistant":
            last = {"role": "assistant", "content": None}
            self._append(last, path)
        last.setdefault("tool_calls", []).append(call)

    def result(self, call_id: str, content: Content, path: str) -> None:
        if call_id not in self._call_ids:
            param = f"{path}.call_id"
            raise InvalidRequest(
                f"{param!r}: no function call with this call_id precedes it. Include that item in "
                "`input`.",
                param=param,
            )
        self._append({"role": "tool", "tool_call_id": call_id, "content": content}, path)

    def other_result(self, name: str, text: str, path: str) -> None:
        """The text of a tool that another service ran, as the result of a call of it."""
        call_id = f"other_{len(self._messages)}"
        self.call(lost_call(call_id, name), path)
        self._append({"role": "tool", "tool_call_id": call_id, "content": text}, path)

    def _append(self, message: Message, path: str) -> None:
        self._instructions = path == "instructions"
        self._messages.append(message)
        self._paths.append(path)


PURPOSE = "responses reasoning"
"""Of the seals of `encrypted_content`: the text of reasoning, which only the owner's requests can
send back. Clients that store nothing here keep it between the turns."""


def encrypt(seal: OwnerSeal, text: str) -> str:
    return seal.seal_text(text, purpose=PURPOSE)


def decrypted(seal: OwnerSeal | None, encrypted: str) -> str | None:
    """Return the text; None if it was changed, or encrypted for another key or service."""
    return None if seal is None else seal.open_text(encrypted, purpose=PURPOSE)
