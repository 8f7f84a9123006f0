"""Check the `messages` of a request and bring them into the form that chat templates expect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...features.feature import ActiveFeatures
from ...request.toolset import Toolset
from ...request_fields import Fields, invalid_value
from ..shared.history import History, PromptMessages, Turns
from ..shared.tool_changes import ADDITION, REFERENCE, REMOVAL, Define, ToolChanges, text_part
from .feature import ChatFeature

SYSTEM_ROLES = ("system", "developer")
MEDIA_ROLES = ("user", "tool")
"""Roles whose messages may have images and files."""
RESULT_ROLES = ("tool", "function")
FOREIGN_ROLES = ("assistant", *RESULT_ROLES)
"""Roles whose messages models and tools have written. Parts of other services in them are not the
fault of the client."""
OF_RESPONSES = {"input_text": "text", "output_text": "text", "input_image": "image_url"}
"""By type of a part in the Responses API: its type here."""
PART_FIELDS = {"text": ("text",), "refusal": ("refusal",), "image_url": ("image_url",)}
"""By type of part: its fields, beside those that only have a meaning elsewhere."""
IGNORED_FIELDS = (
    "type",
    "annotations",
    "cache_control",
    "citations",
    "detail",
    "prompt_cache_breakpoint",
)
PLACE = re.compile(r"(?<![\w.])messages\[(\d+)\]")


def parse_messages(
    messages: object, features: ActiveFeatures[ChatFeature], define: Define
) -> PromptMessages:
    """Return the messages in the order of the prompt. Unknown fields are passed on unchanged,
    because a template may use them. `define` parses the definition of a tool. `features`: the
    features of the request."""
    if not isinstance(messages, list) or not messages:
        raise invalid_value("messages", "a non-empty array of messages", messages)
    turns = Turns(features.input.history, features.input.tools)
    reader = _MessageReader(features, turns.history, turns.tools, define)
    path = ""
    for at, each in enumerate(messages):
        message = reader.read(each, f"messages[{at}]")
        if message is None:
            continue
        path = f"messages[{at}]"
        message = reader.without_function(message, path)
        for turn in reader.with_turns(message, path):
            for more in (more for feature in features for more in feature.before(turn)):
                turns.begin(more, path)
            turns.begin(turn, path)
    if turns.count:
        for more in (more for feature in features for more in feature.at_end()):
            turns.begin(more, path)
    conversation = turns.finished()
    if not conversation.messages:
        raise InvalidRequest("'messages' must have a message with content.", param="messages")
    return conversation


def in_order_of_request(body: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Return the body of an error of a later step, which names messages by their place in the
    prompt, with their `paths` in the request."""

    def path_of(match: re.Match[str]) -> str:
        return paths[int(match[1])] if int(match[1]) < len(paths) else match[0]

    error = body["error"]
    texts = {name: error[name] for name in ("message", "param") if isinstance(error[name], str)}
    return {"error": error | {name: PLACE.sub(path_of, text) for name, text in texts.items()}}


@dataclass(frozen=True)
class _MessageReader:
    """Reads single messages of one request."""

    features: ActiveFeatures[ChatFeature]
    history: History
    tools: Toolset
    define: Define

    def read(self, message: object, param: str) -> dict[str, Any] | None:
        """Return the message; None for a system message of which nothing is part of the prompt."""
        fields = Fields.of(message, param)
        # The template defines the roles: some support more than OpenAI's five.
        role = fields.required_text("role")
        for name in ("name", "reasoning_content", "reasoning", "refusal", "tool_call_id"):
            fields.text(name)
        if fields.values.get("audio") is not None:
            self.history.note("left_out", fields.path("audio"))
        if role not in SYSTEM_ROLES:
            self.tools.begin()
        sent_content = fields.values.get("content")
        content = self._content(sent_content, fields.path("content"), role)
        if not content and sent_content and role in SYSTEM_ROLES:
            return None
        if content is None and role == "assistant":
            content = fields.text("refusal")  # the text of the message, if it has no content
        elif content is None and role in RESULT_ROLES:
            content = ""
        elif content is None:
            raise fields.wrong("content", "a string or an array of content parts")
        return self._with_content(fields, role, content)

    def _content(self, content: object, param: str, role: str) -> str | list[dict[str, Any]] | None:
        if isinstance(content, str) and role in SYSTEM_ROLES:
            return self.history.system(content, param)
        if content is None or isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise invalid_value(param, "a string or an array of content parts", content)
        changes, parts = ToolChanges(self.tools, self.history), list[dict[str, Any]]()
        for at, part in enumerate(content):
            path = f"{param}[{at}]"
            if not self._is_change(part, path, role, changes):
                read = self._parts(part, path, role)
                is_system = role in SYSTEM_ROLES
                parts += self.history.system_parts(read, path) if is_system else read
        return [*parts, *changes.parts(heading=role in SYSTEM_ROLES)]

    def _is_change(self, part: object, param: str, role: str, changes: ToolChanges) -> bool:
        """Make the change, if the part adds or removes tools."""
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(kind, str):
            return False
        fields = Fields(part, param)
        if kind in (ADDITION, REMOVAL) and role in SYSTEM_ROLES:
            changes.read(fields, kind, self.define)
            return True
        if kind != REFERENCE or role not in RESULT_ROLES:
            return False
        name = fields.text("tool_name") or fields.text("name")
        if not name:
            raise fields.wrong("tool_name", "the name of a tool")
        return changes.refer(name)

    def _parts(self, part: object, param: str, role: str) -> list[dict[str, Any]]:
        """Read a part with text, with an image, which images.py checks, or of a feature. Return
        none for one that is left out."""
        if isinstance(part, str):
            return [text_part(part)]
        fields = Fields.of(part, param)
        kind = fields.values.get("type")
        kind = OF_RESPONSES.get(str(kind), kind)
        known = {**PART_FIELDS, **self.features.parts}.get(kind if isinstance(kind, str) else "")
        if known is not None:
            self.history.note_unknown(fields, (*known, *IGNORED_FIELDS))
        if kind in ("text", "refusal"):
            if fields.text(kind) is None and role in FOREIGN_ROLES:
                self.history.note("left_out", param)
                return []
            return [text_part(fields.given_text(kind))]
        if kind == "image_url" and role in MEDIA_ROLES:
            return [_image(fields)]
        if role in MEDIA_ROLES and isinstance(kind, str):
            try:
                if (parts := self.features.part(fields, kind)) is not None:
                    return parts
            except UnsupportedParameter:
                if role not in RESULT_ROLES:
                    raise
        if role in FOREIGN_ROLES and isinstance(kind, str):
            read = self.history.result_text if role in RESULT_ROLES else self.history.text
            text = read(fields.values, param)
            return [text_part(text)] if text else []
        media = " or ".join(("image_url", *self.features.parts))
        raise UnsupportedParameter(
            f"A content part of the type {kind!r} is not supported in this message. Use text, or "
            f"{media} in a message of the role user or tool.",
            param=f"{param}.type",
        )

    def _with_content(
        self, fields: Fields, role: str, content: str | list[dict[str, Any]] | None
    ) -> dict[str, Any]:
        path = fields.path("tool_calls")
        calls = [self._call(call, f"{path}[{at}]") for at, call in enumerate(_calls(fields))]
        # OpenAI's role `developer` is `system` in the templates of open models.
        own = {"role": "system" if role == "developer" else role, "content": content}
        checked = {**fields.values, **own}
        checked.pop("audio", None)
        return checked | {"tool_calls": [call for call in calls if call]} if calls else checked

    def without_function(self, message: dict[str, Any], path: str) -> dict[str, Any]:
        """Convert the deprecated `function_call` and the role `function` to calls and results."""
        function = message.get("function_call")
        if function is not None and message["role"] == "assistant":
            call = self._call({"function": function}, f"{path}.function_call")
            rest = {name: value for name, value in message.items() if name != "function_call"}
            return rest | {"tool_calls": [*(message.get("tool_calls") or ()), call]}
        return message | {"role": "tool"} if message["role"] == "function" else message

    def with_turns(self, message: dict[str, Any], path: str) -> Iterator[dict[str, Any]]:
        """Put the messages that members of features stand for, such as calls that the gateway ran
        in an earlier response, and their results, before the message that has them."""
        for name in {name for each in self.features.known for name in each.ITEMS} & message.keys():
            feature = self.features.of_item(name)
            turns = [] if feature is None else [*feature.turns(message)]
            for turn in turns:
                if calls := turn.get("tool_calls"):
                    turn["tool_calls"] = [self._call(call, f"{path}.{name}") for call in calls]
                yield turn
            message = {each: value for each, value in message.items() if each != name or not turns}
        yield message

    def _call(self, call: object, param: str) -> dict[str, Any] | None:
        """Return the call of a function; None for one of another service, which has none."""
        fields = Fields.of(call, param)
        kind, rest = fields.values.get("type", "function"), {**fields.values, "type": "function"}
        feature = None if kind == "function" else self.features.of_type(kind)
        if feature is not None and (function := feature.called(fields)) is not None:
            # As the call of a function, which templates can render.
            rest.pop(kind, None)
            return {**rest, "function": function}
        if fields.mapping("function") is None and kind != "function":
            self.history.note("left_out", param)
            return None
        named = fields.inner("function", "an object with a name and arguments")
        named.required_text("name")
        arguments = self.history.arguments(named)
        return {**rest, "function": {**named.values, "arguments": arguments}}


def _image(fields: Fields) -> dict[str, Any]:
    """`{"url": …}`, or the URL alone, which some clients send. `detail` has no effect."""
    image = fields.values.get("image_url")
    url = image.get("url") if isinstance(image, dict) else image
    if not isinstance(url, str) or not url:
        raise fields.wrong("image_url", "an object with a non-empty url")
    return {"type": "image_url", "image_url": {"url": url}}


def _calls(fields: Fields) -> list[Any]:
    calls = fields.items("tool_calls") or []
    if calls and fields.values.get("role") != "assistant":
        problem = "is only allowed in a message with the role assistant."
        raise fields.refusal("tool_calls", problem, InvalidRequest)
    return calls
