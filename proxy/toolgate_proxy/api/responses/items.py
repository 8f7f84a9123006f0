"""Convert the items of `input` to messages in the form of chat templates.

An assistant turn consists of several items: reasoning, a message, calls. In a template it is one
message. An item begins a new message where the current one already has its kind of content.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...features.feature import ActiveFeatures
from ...request.toolset import Toolset
from ...request_fields import Fields, invalid_value
from ...sealing import OwnerSeal
from ..shared.history import History, PromptMessages, text_of, tool_of
from .feature import ResponsesFeature
from .tools import full_name
from .turns import Define, ItemTurns, read_content

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
"""By role in the API: the role in templates of open models."""
STATUSES = ("in_progress", "completed", "incomplete")
COMMON = ("id", "type", "status")
FIELDS = {
    "message": ("role", "content", "phase"),
    "function_call": ("call_id", "name", "arguments", "namespace", "caller"),
    "function_call_output": ("call_id", "output", "name", "namespace", "caller"),
    "reasoning": ("summary", "content", "encrypted_content"),
    "additional_tools": ("role", "tools"),
}
"""By type of item: its fields."""
PREVIOUS = "previous_response_id"
TRIGGER = "compaction_trigger"
"""Type of the item that asks for a summary of the conversation."""


def is_trigger(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == TRIGGER


def parse_input(
    items: object,
    instructions: str | None,
    features: ActiveFeatures[ResponsesFeature],
    define: Define,
    *,
    recalled: int = 0,
) -> PromptMessages:
    """Return the messages. `features`: the features of the request. `define`: parses tools in
    items. `recalled`: number of items at the beginning that are not the request's own.

    Raise InvalidRequest and UnsupportedParameter, which name the path of the invalid field."""
    turns = ItemTurns(features, define)
    if instructions:
        turns.message("system", instructions, "instructions")
    if isinstance(items, str) and items:
        turns.message("user", items, "input")
        return turns.finished()
    if not isinstance(items, list) or not items:
        raise invalid_value("input", "a non-empty string or a non-empty array of items", items)
    for item in items[:recalled]:
        _add(item, PREVIOUS, turns, features)
    for at, item in enumerate(items[recalled:]):
        _add(item, f"input[{at}]", turns, features)
    if not turns.count:
        raise InvalidRequest("'input' must have an item besides tools.", param="input")
    return turns.finished()


def _add(
    item: object, path: str, turns: ItemTurns, features: ActiveFeatures[ResponsesFeature]
) -> None:
    if isinstance(item, str):
        turns.message("user", item, path)  # as the gateway has always accepted it
        return
    fields, history = Fields.of(item, path), turns.history
    kind = fields.text("type") or ("message" if "role" in fields.values else None)
    if kind is None:
        raise fields.wrong("type", "the type of an item")
    if kind not in FIELDS:
        feature = features.of_item(kind)
        if feature is not None and kind in feature.FIELDS:
            _check(fields, feature.FIELDS[kind], history, any_status=kind in feature.STATUS)
        if feature is not None and feature.read_back(fields, kind, turns):
            return
        if kind == "item_reference":
            raise UnsupportedParameter(
                f"{path!r} is an item_reference, which needs the `id` of a stored item, and "
                "nothing else. Send the item itself.",
                param=fields.path("type"),
            )
        if text := history.text(fields.values, path):
            turns.other_result(tool_of(kind), text, path)
        return
    _check(fields, FIELDS[kind], history, any_status=False)
    match kind:
        case "message":
            role = ROLES.get(fields.text("role") or "")
            if role is None:
                raise fields.wrong("role", '"user", "assistant", "system" or "developer"')
            turns.message(role, read_content(fields, "content", role, features), path)
        case "function_call":
            arguments, name = history.arguments(fields), called_name(fields, turns.tools)
            turns.call(fields.required_text("call_id"), name, arguments, path)
        case "additional_tools":
            turns.additional(turns.defined(fields), path)
        case "function_call_output":
            turns.output(fields)
        case "reasoning":
            if text := _reasoning(fields, features.input.client.seal, history):
                turns.reasoning(text, path)


def _check(fields: Fields, known: Sequence[str], history: History, *, any_status: bool) -> None:
    history.note_unknown(fields, (*COMMON, *known))
    fields.text("id")
    status = fields.text("status")
    if status is not None and status not in STATUSES and not any_status:
        raise fields.wrong("status", '"in_progress", "completed" or "incomplete"')


def called_name(fields: Fields, tools: Toolset) -> str:
    """Return the name of a call's tool that the model sees."""
    name, namespace = fields.required_text("name"), fields.text("namespace")
    if not namespace:
        return name
    full = full_name(namespace, name)
    # The namespace of a deferred function without one is its name.
    return name if namespace == name and not tools.has(full) else full


def _reasoning(fields: Fields, seal: OwnerSeal | None, history: History) -> str:
    """Return the encrypted text, unless it was changed, or encrypted for another key or service.
    Otherwise the text of the reasoning, or of its summary if it has none."""
    encrypted = fields.text("encrypted_content")
    if encrypted is not None:
        text = None if seal is None else seal.open_text(encrypted, purpose=PURPOSE)
        if text is not None:
            return text
        history.note("left_out", fields.path("encrypted_content"))
    content, summary = (
        [text_of(part) for part in fields.items(name) or []] for name in ("content", "summary")
    )
    return "".join(content) or "\n\n".join(summary)


ENCRYPTED = "reasoning.encrypted_content"
"""The value of `include` that asks for encrypted reasoning."""
PURPOSE = "responses reasoning"
"""Of the seals of `encrypted_content`: the text of reasoning, which only the owner's requests can
send back. Clients that store nothing here keep it between the turns."""


def encrypt(seal: OwnerSeal, text: str) -> str:
    return seal.seal_text(text, purpose=PURPOSE)
