"""The `messages` of a request: checked as far as a template relies on them, and passed on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from ...request_fields import Fields


def parse_messages(messages: object) -> tuple[dict[str, Any], ...]:
    """Fields that are not known here are passed on as they came: a template may know them."""
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("'messages' must be an array of at least one.", param="messages")
    parsed = [_message(message, f"messages[{at}]") for at, message in enumerate(messages)]
    return tuple(_in_order_of_calls([*_modern(parsed)]))


def _message(message: object, param: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise InvalidRequest(f"'{param}' must be an object.", param=param)
    fields = Fields(message, param)
    role = fields.text("role")
    if not role:
        # Which roles there are is the template's business: some know more than OpenAI's five.
        raise fields.wrong("role", "a string")
    _refuse(fields, "audio")
    for name in ("name", "reasoning_content", "reasoning", "refusal", "tool_call_id"):
        fields.text(name)
    content = _content(message.get("content"), fields.path("content"), sees=role == "user")
    calls = [_call(call, f"{param}.tool_calls[{at}]") for at, call in enumerate(_calls(fields))]
    if content is None and role == "assistant":
        content = fields.text("refusal")  # what it said instead of an answer
    if content is None and role != "assistant":
        raise fields.wrong("content", "a string or an array of text parts")
    # OpenAI's `developer` is what its older models, and every open model's template, call `system`.
    checked = message | {"role": "system" if role == "developer" else role, "content": content}
    return checked | {"tool_calls": calls} if calls else checked


def _modern(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The deprecated `function_call` and the role `function` as the tool calls and results that
    templates know. A result belongs to the last call of its function."""
    ids: dict[str, str] = {}
    for at, message in enumerate(messages):
        function = message.get("function_call")
        if function is not None and message["role"] == "assistant":
            call = _call({"function": function}, f"messages[{at}].function_call")
            ids[call["function"]["name"]] = call["id"] = f"call_{at}"
            rest = {name: value for name, value in message.items() if name != "function_call"}
            yield rest | {"tool_calls": [*message.get("tool_calls", ()), call]}
        elif message["role"] == "function":
            answered = ids.get(str(message.get("name")), f"call_{at}")
            yield message | {"role": "tool", "tool_call_id": answered}
        else:
            yield message


def _in_order_of_calls(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Results of parallel calls in the order of the calls: templates write them without their ids,
    so that a model can only tell by the order which result is whose."""
    order: dict[str, int] = {}
    results: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(message)
            continue
        yield from _sorted(results, order)
        results = []
        yield message
        calls = message.get("tool_calls") or []
        order = {str(call.get("id")): at for at, call in enumerate(calls)}
    yield from _sorted(results, order)


def _sorted(results: list[dict[str, Any]], order: dict[str, int]) -> list[dict[str, Any]]:
    return sorted(results, key=lambda each: order.get(str(each.get("tool_call_id")), len(order)))


def _content(content: object, param: str, *, sees: bool) -> str | list[dict[str, Any]] | None:
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"'{param}' must be a string or an array of text parts.", param=param)
    return [_part(part, f"{param}[{at}]", sees=sees) for at, part in enumerate(content)]


def _part(part: object, param: str, *, sees: bool) -> dict[str, Any]:
    """A text, or of a user's message an image: images.py looks at that one."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise InvalidRequest(f"'{param}' must be an object.", param=param)
    kind = part.get("type")
    if kind == "image_url" and sees:
        return _image(Fields(part, param))
    if kind not in ("text", "refusal"):
        raise UnsupportedParameter(
            f"Content of type {kind!r} is not supported here: text, and images of a user.",
            param=f"{param}.type",
        )
    text = Fields(part, param).text(kind)
    if text is None:
        raise Fields(part, param).wrong(kind, "a string")
    return {"type": "text", "text": text}


def _image(fields: Fields) -> dict[str, Any]:
    """`{"url": …}`, or the URL alone, as some clients write it. How fine it is looked at (`detail`)
    is the model's own business."""
    given = fields.values.get("image_url")
    url = given.get("url") if isinstance(given, dict) else given
    if not isinstance(url, str) or not url:
        raise fields.wrong("image_url", "an object with a url")
    return {"type": "image_url", "image_url": {"url": url}}


def _calls(fields: Fields) -> list[Any]:
    calls = fields.items("tool_calls") or []
    if calls and fields.values.get("role") != "assistant":
        raise fields.wrong("tool_calls", "left to messages of the role assistant")
    return calls


def _call(call: object, param: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise InvalidRequest(f"'{param}' must be an object.", param=param)
    fields = Fields(call, param)
    if call.get("type", "function") != "function":
        raise UnsupportedParameter(
            f"Calls of type {call.get('type')!r} are not supported: function only.",
            param=fields.path("type"),
        )
    function = fields.mapping("function")
    if function is None:
        raise fields.wrong("function", "an object")
    named = Fields(function, fields.path("function"))
    if not named.text("name"):
        raise named.wrong("name", "a string")
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        # The wire form is a string; the backend's renderer makes it an object again.
        arguments = json.dumps(arguments, ensure_ascii=False)
    if arguments is not None and not (isinstance(arguments, str) and _is_object(arguments)):
        # Templates go through the members; of what was cut there is nothing to go through.
        raise named.wrong("arguments", "an object, or a string that holds one as JSON")
    return call | {"type": "function", "function": function | {"arguments": arguments or "{}"}}


def _is_object(text: str) -> bool:
    try:
        return not text or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _refuse(fields: Fields, *names: str) -> None:
    for name in names:
        if fields.values.get(name) is not None:
            path = fields.path(name)
            raise UnsupportedParameter(f"{path!r} is not supported.", param=path)
