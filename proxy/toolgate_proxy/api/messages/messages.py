"""Convert `system` and `messages` to messages in the form of chat templates.

An assistant message has blocks of text, thinking and calls. In a template it is one message. The
results of calls are blocks of the next user message, and messages of their own in a template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...features.feature import ActiveFeatures
from ...request_fields import Fields, invalid_value
from ..shared.history import History, Part, PromptMessages, Turns, joined, tool_of
from ..shared.tool_changes import ADDITION, REFERENCE, REMOVAL, Define, ToolChanges, text_part
from .content import (
    CHANGE_FIELDS,
    IMAGE_FIELDS,
    SEARCH_RESULT_FIELDS,
    TEXT_FIELDS,
    blocks_of,
    check_fields,
    read_part,
    read_system,
    read_text,
    unsupported_block,
)
from .feature import MessagesFeature
from .opaque import original_id, verified

IMAGE_BLOCKS, USER_BLOCKS = ("text", "image"), ("search_result", "tool_result")
"""Types of blocks in a user message, beside those of features."""
MESSAGE_FIELDS = ("role", "content")
TOOL_USE_FIELDS = ("type", "id", "name", "input", "caller", "cache_control")
TOOL_RESULT_FIELDS = ("type", "tool_use_id", "content", "is_error", "cache_control")
ROLES = '"user", "assistant" or "system"'
THINKING_FIELDS = ("type", "thinking", "signature")
REDACTED_FIELDS = ("type", "data")
SERVER_FIELDS = ("type", "id", "name", "input", "caller", "cache_control", "server_name")
SYSTEM_ROLES = ("system", "developer")
BLOCK_FIELDS = {
    "text": TEXT_FIELDS,
    "image": IMAGE_FIELDS,
    "search_result": SEARCH_RESULT_FIELDS,
    "thinking": THINKING_FIELDS,
    "redacted_thinking": REDACTED_FIELDS,
    "tool_use": TOOL_USE_FIELDS,
    "tool_result": TOOL_RESULT_FIELDS,
    "server_tool_use": SERVER_FIELDS,
    ADDITION: CHANGE_FIELDS,
    REMOVAL: CHANGE_FIELDS,
}
"""The members of blocks, by type."""


def parse_messages(
    messages: object, system: object, features: ActiveFeatures[MessagesFeature], define: Define
) -> PromptMessages:
    """`features`: the features of the request. `define` parses the definition of a tool. Raise
    InvalidRequest, UnknownTool and UnsupportedParameter, which name the path of the field."""
    if not isinstance(messages, list) or not messages:
        raise invalid_value("messages", "a non-empty array of messages", messages)
    turns = Turns(features.input.history, features.input.tools)
    for kind in _kinds(messages):
        features.of_item(kind)
    begin = max((feature.begin(messages) for feature in features), default=0)
    reader = _BlockReader(features, turns, define)
    if system is not None:
        reader.system(read_system(Fields({"system": system}), "system", turns.history), "system")
    users = (at for at, message in enumerate(messages) if _role(message) == "user")
    latest = max(users, default=0)
    for at, message in enumerate(messages[begin:], begin):
        path = f"messages[{at}]"
        fields = Fields.of(message, path)
        reader.read(_as_known(fields, turns.history, features) if at < latest else fields, path)
    reader.require_results("messages")
    conversation = turns.finished()
    if not any(message["role"] != "system" for message in conversation.messages):
        raise InvalidRequest(
            "'messages' must have a message of the role user or assistant with content.",
            param="messages",
        )
    return conversation


@dataclass
class _BlockReader:
    """Reads the messages of one request, block by block."""

    _features: ActiveFeatures[MessagesFeature]
    turns: Turns
    _define: Define
    _ids: set[str] = field(default_factory=set)
    """The ids of all calls."""
    _server_calls: set[str] = field(default_factory=set)
    """The ids of calls that a service ran, without a result so far."""
    _open: dict[str, str] = field(default_factory=dict)
    """The ids of the calls of the last assistant message that have no result yet, by path."""

    def read(self, message: Fields, path: str) -> None:
        role = message.text("role")
        if role in SYSTEM_ROLES:
            check_fields(message, (*MESSAGE_FIELDS, "output_config"))
            self.turns.history.note_unknown(message, MESSAGE_FIELDS)
            history = self.turns.history
            changes = ToolChanges(self.turns.tools, history)
            self.system(read_system(message, "content", history, changes, self._define), path)
            return
        check_fields(message, MESSAGE_FIELDS)
        self.turns.tools.begin()
        if role == "user":
            self._user(message, path)
        elif role == "assistant":
            self._assistant(message)
        else:
            raise message.wrong("role", ROLES)

    def system(self, parts: list[Part], path: str) -> None:
        if parts:
            self.turns.begin({"role": "system"}, path).extend((part, path) for part in parts)

    def require_results(self, path: str) -> None:
        """Raise InvalidRequest if calls have no result."""
        for call_id, where in self._open.items():
            raise InvalidRequest(
                f"The call {call_id!r} at {where!r} has no result. Send a tool_result block for "
                "each tool_use block in the next message.",
                param=path,
            )

    def _user(self, message: Fields, path: str) -> None:
        parts: list[tuple[Part, str]] = []
        blocks = blocks_of(message, "content")
        for block, kind in blocks:
            if kind == "tool_result":
                self._result(block)
                continue
            read = self._part(block, kind)
            if read is None:
                known = (*IMAGE_BLOCKS, *self._features.parts, *USER_BLOCKS)
                raise unsupported_block(block, kind, "a user message", known)
            parts += [(part, block.place) for part in read]
        self.require_results(message.path("content"))
        if parts:
            last = self.turns.last("user")
            (last or self.turns.begin({"role": "user", "content": ""}, path)).extend(parts)
        elif not any(kind == "tool_result" for _, kind in blocks):
            raise message.refusal("content", "must not be empty.", InvalidRequest)

    def _result(self, block: Fields) -> None:
        check_fields(block, TOOL_RESULT_FIELDS)
        call_id = block.required_text("tool_use_id")
        if self._open.pop(call_id, None) is None:
            raise block.refusal(
                "tool_use_id",
                "names no call of the previous assistant message that has no result yet. Send the "
                "message with the tool_use block as well, and one result for each call.",
                InvalidRequest,
            )
        path = block.place
        parts: list[Part] = []
        paths: list[str] = []
        given = block.values.get("content")
        changes = ToolChanges(self.turns.tools)
        for inner, kind in () if given is None else blocks_of(block, "content"):
            read = self._result_part(inner, kind, changes)
            parts += read
            paths += [inner.place] * len(read)
        parts += changes.parts()
        if block.flag("is_error"):
            _mark_error(parts, paths, path)
        content = joined(parts) if parts else ""
        self.turns.result(original_id(call_id), content, path).part_paths = paths

    def _result_part(self, block: Fields, kind: str, changes: ToolChanges) -> list[Part]:
        if kind == REFERENCE:
            check_fields(block, ("type", "tool_name", "cache_control"))
            if changes.refer(block.required_text("tool_name")):
                return []
        try:
            read = self._part(block, kind)
        except UnsupportedParameter:
            read = None
        if read is None:
            return [text_part(self.turns.history.result_text(block.values, block.place))]
        return read

    def _part(self, block: Fields, kind: str) -> list[Part] | None:
        read = read_part(block, kind)
        return self._features.part(block, kind) if read is None else read

    def _assistant(self, message: Fields) -> None:
        self.require_results(message.path("content"))
        for block, kind in blocks_of(message, "content"):
            path = block.place
            match kind:
                case "text":
                    if text := read_text(block):
                        self._text(text, path)
                case "thinking":
                    self._thinking(block, path)
                case "redacted_thinking":
                    check_fields(block, REDACTED_FIELDS)
                    block.required_text("data")  # only the provider that encrypted it can read it
                    self.turns.history.note("left_out", path)
                case "tool_use":
                    self._call(block, of_service=False)
                case _ if self._is_use(kind, block.values.get("name")):
                    self._call(block, of_service=True)
                case _:
                    self._foreign(block, kind)

    def _text(self, text: str, path: str) -> None:
        last = self.turns.last("assistant")
        if last is not None and "tool_calls" in last.message:
            last = None
        self.turns.assistant(last, path).extend([(text_part(text), path)])

    def _is_use(self, kind: str, name: object) -> bool:
        """Return whether a block has a call that the gateway or another service ran."""
        named = [each.USES[kind] for each in self._features.known if kind in each.USES]
        return any(names is None or name in names for names in named)

    def _foreign(self, block: Fields, kind: str) -> None:
        feature = self._features.of_item(kind)
        if feature is not None and feature.read_back(block, kind, self.turns):
            return
        content = "" if feature is None else feature.content(block, kind)
        if content:
            call_id = block.values.get("tool_use_id")
            if call_id in self._server_calls:
                self._server_calls.remove(call_id)
                self.turns.result(original_id(call_id), content, block.place)
            else:
                name = kind.removesuffix("_result")
                self.turns.other_result(name, content, block.place)
        elif text := self.turns.history.text(block.values, block.place):
            self.turns.other_result(tool_of(kind), text, block.place)

    def _thinking(self, block: Fields, path: str) -> None:
        check_fields(block, THINKING_FIELDS)
        text, signature = block.given_text("thinking"), block.text("signature")
        original = verified(self._features.input.client.seal, text, signature or "", path)
        if original is None:
            self.turns.history.note("left_out", path)
        elif original:
            self.turns.reasoning(original, path)

    def _call(self, block: Fields, *, of_service: bool) -> None:
        """Read a call. The result of one that the gateway or another service ran is in the same
        message."""
        check_fields(block, SERVER_FIELDS if of_service else TOOL_USE_FIELDS)
        call_id = block.required_text("id")
        arguments = self.turns.history.arguments(block, "input")
        if of_service:
            self._server_calls.add(call_id)
        elif call_id in self._ids:
            problem = "is the id of an earlier call. Ids must be unique."
            raise block.refusal("id", problem, InvalidRequest)
        else:
            self._ids.add(call_id)
            self._open[call_id] = block.place
        name = block.required_text("name")
        self.turns.call(original_id(call_id), name, arguments, block.place)


def _kinds(messages: Sequence[Any]) -> set[str]:
    """Return the types of the blocks in the messages of the assistant."""
    contents = [each.get("content") for each in messages if _role(each) == "assistant"]
    blocks = [each for content in contents if isinstance(content, list) for each in content]
    kinds = (each.get("type") for each in blocks if isinstance(each, dict))
    return {kind for kind in kinds if isinstance(kind, str)}


def _role(message: object) -> object:
    return message.get("role") if isinstance(message, dict) else None


def _as_known(
    message: Fields, history: History, features: ActiveFeatures[MessagesFeature]
) -> Fields:
    """Return a message of an earlier turn, which another service may have made, with text in place
    of the blocks that are not known, and without the members that are not known."""
    history.note_unknown(message, MESSAGE_FIELDS)
    values = {name: message.values[name] for name in MESSAGE_FIELDS if name in message.values}
    known: dict[str, Sequence[str]] = {
        kind: SERVER_FIELDS for each in features.known for kind in each.USES
    }
    known |= BLOCK_FIELDS | features.parts
    if isinstance(content := values.get("content"), list):
        role, path = message.values.get("role"), message.path("content")
        values["content"] = [
            _known_block(block, role, f"{path}[{at}]", history, known)
            for at, block in enumerate(content)
        ]
    return Fields(values, message.place)


def _known_block(
    block: Any, role: object, path: str, history: History, fields: Mapping[str, Sequence[str]]
) -> Any:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return block
    if (known := fields.get(kind)) is not None:
        history.note_unknown(Fields(block, path), known)
        return {name: value for name, value in block.items() if name in known}
    if role == "assistant":
        return block
    return text_part(history.result_text(block, path))


def _mark_error(parts: list[Part], paths: list[str], path: str) -> None:
    """Say in the text that the call failed: templates have no field for it."""
    if parts and parts[0]["type"] == "text":
        parts[0] = text_part(f"Error: {parts[0]['text']}")
        return
    parts.insert(0, text_part("Error"))
    paths.insert(0, path)
