"""Check the `messages` of a request and bring them into the form that chat templates expect."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...request_fields import Fields, invalid_value
from ..shared.messages import function_call, in_order_of_calls, is_object

IMAGE_ROLES = ("user", "tool")
PLACE = re.compile(r"(?<![\w.])messages\[(\d+)\]")


def parse_messages(messages: object) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """The messages in the order of the prompt, and their paths in the request, empty if the order
    is the same. Unknown fields are passed on unchanged, because a template may use them."""
    if not isinstance(messages, list) or not messages:
        raise invalid_value("messages", "a non-empty array of messages", messages)
    parsed = [_message(message, f"messages[{at}]") for at, message in enumerate(messages)]
    given = [*_without_functions(parsed)]
    ordered = tuple(in_order_of_calls(given))
    if all(one is other for one, other in zip(given, ordered, strict=True)):
        return ordered, ()
    places = {id(message): at for at, message in enumerate(given)}
    return ordered, tuple(f"messages[{places[id(message)]}]" for message in ordered)


def in_order_of_request(body: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """The body of an error of a later step, which names messages by their place in the prompt, with
    their `paths` in the request."""

    def path_of(found: re.Match[str]) -> str:
        return paths[int(found[1])] if int(found[1]) < len(paths) else found[0]

    error = body["error"]
    texts = {name: error[name] for name in ("message", "param") if isinstance(error[name], str)}
    return {"error": error | {name: PLACE.sub(path_of, text) for name, text in texts.items()}}


def _message(message: object, param: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise invalid_value(param, "an object", message)
    fields = Fields(message, param)
    role = fields.text("role")
    if not role:
        # The template defines the roles: some support more than OpenAI's five.
        raise fields.wrong("role", "a non-empty string")
    _refuse(fields, "audio")
    for name in ("name", "reasoning_content", "reasoning", "refusal", "tool_call_id"):
        fields.text(name)
    images = role in IMAGE_ROLES
    content = _content(message.get("content"), fields.path("content"), images=images)
    calls = [_call(call, f"{param}.tool_calls[{at}]") for at, call in enumerate(_calls(fields))]
    if content is None and role == "assistant":
        content = fields.text("refusal")  # the text of the message, if it has no content
    if content is None and role != "assistant":
        raise fields.wrong("content", "a string or an array of content parts")
    # OpenAI's role `developer` is `system` in the templates of open models.
    checked = message | {"role": "system" if role == "developer" else role, "content": content}
    return checked | {"tool_calls": calls} if calls else checked


def _without_functions(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Convert the deprecated `function_call` and the role `function` to tool calls and results.
    A result belongs to the last call of its function."""
    ids: dict[str, str] = {}
    for at, message in enumerate(messages):
        function = message.get("function_call")
        if function is not None and message["role"] == "assistant":
            call = _call({"function": function}, f"messages[{at}].function_call")
            ids[call["function"]["name"]] = call["id"] = f"call_{at}"
            rest = {name: value for name, value in message.items() if name != "function_call"}
            yield rest | {"tool_calls": [*message.get("tool_calls", ()), call]}
        elif message["role"] == "function":
            call_id = ids.get(str(message.get("name")), f"call_{at}")
            yield message | {"role": "tool", "tool_call_id": call_id}
        else:
            yield message


def _content(content: object, param: str, *, images: bool) -> str | list[dict[str, Any]] | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid_value(param, "a string or an array of content parts", content)
    return [_part(part, f"{param}[{at}]", images=images) for at, part in enumerate(content)]


def _part(part: object, param: str, *, images: bool) -> dict[str, Any]:
    """A text part, or with `images` an image part. images.py checks the image itself."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise invalid_value(param, "an object", part)
    kind = part.get("type")
    if kind == "image_url" and images:
        return _image(Fields(part, param))
    if kind not in ("text", "refusal"):
        raise UnsupportedParameter(
            f"A content part of the type {kind!r} is not supported in this message. Use text, or "
            "image_url in a message of the role user or tool.",
            param=f"{param}.type",
        )
    text = Fields(part, param).text(kind)
    if text is None:
        raise Fields(part, param).wrong(kind, "a string")
    return {"type": "text", "text": text}


def _image(fields: Fields) -> dict[str, Any]:
    """`{"url": …}`, or the URL alone, which some clients send. `detail` has no effect."""
    given = fields.values.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given
    if not isinstance(url, str) or not url:
        raise fields.wrong("image_url", "an object with a non-empty url")
    return {"type": "image_url", "image_url": {"url": url}}


def _calls(fields: Fields) -> list[Any]:
    calls = fields.items("tool_calls") or []
    if calls and fields.values.get("role") != "assistant":
        path = fields.path("tool_calls")
        raise InvalidRequest(
            f"{path!r} is only allowed in a message with the role assistant.", param=path
        )
    return calls


def _call(call: object, param: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise invalid_value(param, "an object", call)
    fields = Fields(call, param)
    if call.get("type") == "custom":
        return _custom_call(call, fields)
    if call.get("type", "function") != "function":
        raise UnsupportedParameter(
            f"A call of the type {call.get('type')!r} is not supported. Use the type function or "
            "custom.",
            param=fields.path("type"),
        )
    function = fields.mapping("function")
    if function is None:
        raise fields.wrong("function", "an object with a name and arguments")
    named = Fields(function, fields.path("function"))
    if not named.text("name"):
        raise named.wrong("name", "a non-empty string")
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        # The field is a string in OpenAI's API. The backend's renderer parses it again.
        arguments = json.dumps(arguments, ensure_ascii=False)
    if arguments is not None and not (isinstance(arguments, str) and is_object(arguments)):
        # Templates iterate over the members, so incomplete JSON can't be rendered.
        raise named.wrong("arguments", "a JSON object, or a string that contains one")
    return call | {"type": "function", "function": function | {"arguments": arguments or "{}"}}


def _custom_call(call: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """A call of a custom tool as the call of a function, which templates can render."""
    custom = fields.mapping("custom")
    if custom is None:
        raise fields.wrong("custom", "an object with a name and an input")
    named = Fields(custom, fields.path("custom"))
    name, text = named.text("name"), named.text("input")
    if not name:
        raise named.wrong("name", "a non-empty string")
    if text is None:
        raise named.wrong("input", "a string")
    rest = {key: value for key, value in call.items() if key not in ("type", "custom")}
    return rest | {"type": "function", "function": function_call(name, text)}


def _refuse(fields: Fields, *names: str) -> None:
    for name in names:
        if fields.values.get(name) is not None:
            path = fields.path(name)
            raise UnsupportedParameter(f"{path!r} is not supported. Remove it.", param=path)
