"""Convert the items of `input` to messages in the form of chat templates.

An assistant turn consists of several items: reasoning, a message, calls. In a template it is one
message. An item begins a new message where the current one already has its kind of content.
"""

from __future__ import annotations

import json
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...request_fields import Fields, invalid_value
from ...sealing import OwnerSeal
from ..shared.messages import function_call, in_order_of_calls, is_object
from .content import Content, as_text, check_fields, read_content
from .state.encrypted_reasoning import decrypt
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
Message = dict[str, Any]
PREVIOUS = "previous_response_id"


def parse_input(
    given: object, instructions: str | None, *, recalled: int = 0, seal: OwnerSeal | None = None
) -> tuple[list[Message], tuple[str, ...]]:
    """The messages, and the path of each message in the request's body. `recalled`: number of items
    at the beginning that are not the request's own. `seal`: of the sender.

    Raises InvalidRequest and UnsupportedParameter, which name the path of the invalid field."""
    turns = _Turns(instructions)
    if isinstance(given, str) and given:
        turns.message("user", given, "input")
        return turns.ordered()
    if not isinstance(given, list) or not given:
        raise invalid_value("input", "a non-empty string or a non-empty array of items", given)
    for item in given[:recalled]:
        _add_earlier(item, turns, seal)
    for at, item in enumerate(given[recalled:]):
        _add(item, f"input[{at}]", turns, seal)
    return turns.ordered()


def _add_earlier(item: object, turns: _Turns, seal: OwnerSeal | None) -> None:
    try:
        _add(item, PREVIOUS, turns, seal)
    except InvalidRequest as error:
        raise InvalidRequest(
            f"The conversation of {PREVIOUS!r} can't be continued, because an item of it is not "
            f"valid as input: {error.message} Continue an earlier response.",
            param=PREVIOUS,
        ) from error


def _add(item: object, path: str, turns: _Turns, seal: OwnerSeal | None) -> None:
    if isinstance(item, str):
        turns.message("user", item, path)  # as the gateway has always accepted it
        return
    if not isinstance(item, dict):
        raise invalid_value(path, "an object", item)
    fields = Fields(item, path)
    kind = fields.text("type") or ("message" if "role" in item else None)
    if kind is None:
        raise fields.wrong("type", "the type of an item")
    if kind not in FIELDS:
        raise _unknown_type(kind, fields.path("type"))
    check_fields(fields, (*COMMON, *FIELDS[kind]))
    fields.text("id")
    status = fields.text("status")
    if status is not None and status not in STATUSES:
        raise fields.wrong("status", '"in_progress", "completed" or "incomplete"')
    match kind:
        case "message":
            role = ROLES.get(fields.text("role") or "")
            if role is None:
                raise fields.wrong("role", '"user", "assistant", "system" or "developer"')
            turns.message(role, read_content(fields, "content", role), path)
        case "function_call":
            turns.call(_call(fields), path)
        case "custom_tool_call":
            turns.call(_custom_call(fields), path)
        case "function_call_output" | "custom_tool_call_output":
            call_id = _required(fields, "call_id")
            turns.result(call_id, read_content(fields, "output", "tool"), path)
        case _:
            turns.reasoning(_reasoning(fields, seal), path)


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


def _call(fields: Fields) -> dict[str, Any]:
    arguments = fields.values.get("arguments")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str) or not is_object(arguments):
        # Templates iterate over the members, so incomplete JSON can't be rendered.
        raise fields.wrong("arguments", "a string that contains a JSON object")
    function = {"name": _name(fields), "arguments": arguments or "{}"}
    return {"id": _required(fields, "call_id"), "type": "function", "function": function}


def _custom_call(fields: Fields) -> dict[str, Any]:
    text = fields.text("input")
    if text is None:
        raise fields.wrong("input", "a string")
    function = function_call(_name(fields), text)
    return {"id": _required(fields, "call_id"), "type": "function", "function": function}


def _reasoning(fields: Fields, seal: OwnerSeal | None) -> str:
    """The encrypted text, or the text of the reasoning, or of its summary if it has none."""
    encrypted = fields.text("encrypted_content")
    if encrypted is not None:
        return decrypt(seal, encrypted, fields.path("encrypted_content"))
    texts = {
        name: [
            _text(part, f"{fields.path(name)}[{at}]", kind)
            for at, part in enumerate(fields.items(name) or [])
        ]
        for name, kind in (("content", "reasoning_text"), ("summary", "summary_text"))
    }
    return "".join(texts["content"]) or "\n\n".join(texts["summary"])


def _text(part: object, path: str, kind: str) -> str:
    if not isinstance(part, dict):
        raise invalid_value(path, "an object", part)
    fields = Fields(part, path)
    if fields.text("type") != kind:
        raise fields.wrong("type", f'"{kind}"')
    text = fields.text("text")
    if text is None:
        raise fields.wrong("text", "a string")
    return text


class _Turns:
    """Messages under construction."""

    def __init__(self, instructions: str | None) -> None:
        self._messages: list[Message] = []
        self._paths: list[str] = []
        self._call_ids: set[str] = set()
        self._instructions = bool(instructions)
        """Whether the only message so far is that of the instructions."""
        if instructions:
            self._append({"role": "system", "content": instructions}, "instructions")

    def ordered(self) -> tuple[list[Message], tuple[str, ...]]:
        paths = {id(message): path for message, path in self._pairs()}
        messages = [*in_order_of_calls(self._messages)]
        return messages, tuple(paths[id(message)] for message in messages)

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
                f"{param!r} names no call before it. Send the item of the call as well.",
                param=param,
            )
        self._append({"role": "tool", "tool_call_id": call_id, "content": content}, path)

    def _append(self, message: Message, path: str) -> None:
        self._instructions = path == "instructions"
        self._messages.append(message)
        self._paths.append(path)

    def _pairs(self) -> list[tuple[Message, str]]:
        return [*zip(self._messages, self._paths, strict=True)]
