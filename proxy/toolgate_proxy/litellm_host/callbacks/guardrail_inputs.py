"""What guardrails with `apply_guardrail` get of a request, and what they change in it.

This replaces the reading of LiteLLM's handlers for chat completions, Responses and Messages. They
don't read calls and results of Responses, documents, search results and reasoning. They convert
tools and messages to OpenAI's form and back, which loses members. Here, a guardrail gets every text
that reaches the prompt. It changes texts, and adds or removes tools by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import litellm
from litellm.llms.anthropic.chat.guardrail_translation.handler import AnthropicMessagesHandler
from litellm.llms.openai.chat.guardrail_translation.handler import OpenAIChatCompletionsHandler
from litellm.llms.openai.responses.guardrail_translation.handler import OpenAIResponsesHandler

from toolgate_core.host_probe import optional

from ...request_fields import copied
from ..errors import HostRefused

HANDLERS = (AnthropicMessagesHandler, OpenAIChatCompletionsHandler, OpenAIResponsesHandler)
TEXTS, CALLS, TOOLS, MESSAGES = "texts", "tool_calls", "tools", "structured_messages"
SCHEMA = "input_schema"
SKIPS = {role: f"skip_{role}_message_in_guardrail" for role in ("system", "tool")}
"""LiteLLM's settings, of a guardrail or of all, by the role that they leave out."""
RESULTS = ("tool", "function")
"""Roles of results of calls."""
CALL_IDS = ("tool_call_id", "call_id", "tool_use_id")
"""Members of a result with the id of its call, in each API."""
PROMPT = {"system": "system", "instructions": "system", "messages": "user", "input": "user"}
PROMPT |= dict.fromkeys(("functions", "documents", "chat_template_kwargs"), "user")
"""Parameters whose texts reach the prompt, and the role of texts outside of messages."""
NO_TEXT = set(
    """$id $ref $schema cache_control caller created_by detail encrypted_content
    encrypted_index execution file_data format id image_url is_error media_type pattern phase
    required role server_label signature status type""".split()  # noqa: SIM905
)
"""Members that are texts only if they have white space: ids and the like, and what is shown as part
of a call or as an image."""
OPEN = {"chat_template_kwargs", "env", "input_schema", "parameters"}
"""Objects in which the client chooses the names of members. They are shown as JSON."""


class GuardrailInput:
    """What a guardrail gets of a request. `data`: the parameters, which are changed in place."""

    def __init__(self, handler: Any, data: dict[str, Any], guardrail: Any) -> None:
        self._handler = handler
        self._skipped = {role for role in SKIPS if _setting(guardrail, SKIPS[role])}
        self._only_results = optional(guardrail, "scan_only_tool_results") is True
        self._data = data
        self.places: dict[str, list[tuple[Any, Any]]] = {TEXTS: [], CALLS: []}
        """Dicts and lists, with the key of a text or of arguments."""
        self.heads: list[dict[str, Any]] = []
        """What the message of each text begins with."""
        self.inputs: dict[str, Any] = {TEXTS: [], CALLS: [], MESSAGES: [], "images": [], TOOLS: []}
        self._message: object = None
        """That of the text before."""
        for name in (name for name in PROMPT if name in data):
            self._read(data, name, {"role": PROMPT[name]})
        if self._covers("user"):
            self.inputs[TOOLS] = [*_functions(data.get(TOOLS))]
            for tool in data[TOOLS] if isinstance(data.get(TOOLS), list) else ():
                if isinstance(tool, dict) and tool.get("type") == "namespace" and tool.get("name"):
                    self._add_text(tool, "name", {"role": "user"}, None)
        self.inputs["model"] = data.get("model")

    def write(self, left: dict[str, Any]) -> None:
        """Apply what the guardrail changed, be it in the texts and calls or in the messages. Raise
        ValueError if their number changed."""
        if (messages := left[MESSAGES]) != self.inputs[MESSAGES]:
            texts = [text for each in messages for text in texts_of(each)]
            calls = [call for each in messages for call in each.get(CALLS) or ()]
            left = {**left, TEXTS: texts, CALLS: calls}
        for name, places in self.places.items():
            values = self.inputs[name]
            for (holder, key), old, new in zip(places, values, left[name] or values, strict=True):
                if new != old:
                    text = new if name == TEXTS else new["function"]["arguments"]
                    holder[key] = text if isinstance(holder[key], str) else json.loads(text)
                    if name == CALLS:
                        holder["name"] = new["function"]["name"]
        if left[TOOLS] != self.inputs[TOOLS]:
            names = {_name(tool) for tool in _functions(self._data.get(TOOLS))}
            changed = {_name(tool): tool for tool in left[TOOLS]}
            removed = names - changed.keys() if self.inputs[TOOLS] else set()
            self._data[TOOLS] = [*_kept(self._data.get(TOOLS) or (), removed, changed)]
            added = [changed[name] for name in changed if name not in names]
            self._data[TOOLS] += [_in_form_of(self._handler, tool) for tool in added]

    def _read(self, holder: Any, key: Any, head: dict[str, Any], message: object = None) -> None:
        """Read a value of a message that begins with `head`."""
        value, role = holder[key], head["role"]
        if isinstance(value, dict):
            kind = str(value.get("type"))
            role = "tool" if kind.endswith(("_output", "_result")) else value.get("role") or role
            head = _head(role, value, head)
        if key in ("arguments", "input") and isinstance(holder.get("name"), str):
            if self._covers(role):
                self._add_call(holder, key, value)
        elif isinstance(value, str) or (isinstance(value, dict) and key in OPEN):
            if value and self._covers(role):
                self._add_text(holder, key, head, message)
        elif isinstance(value, list):
            for at, each in enumerate(value):
                self._read(value, at, head, each if message is None else message)
        elif isinstance(value, dict):
            self.inputs["images"] += _images(value)
            for name, each in value.items():
                is_text = name not in NO_TEXT and not name.endswith("_id")
                is_text &= name != "data" or kind == "text"
                is_text &= name != "name" or value.keys().isdisjoint(("arguments", "input"))
                if is_text or (isinstance(each, str) and len(each.split(None, 1)) > 1):
                    self._read(value, name, head, message)

    def _covers(self, role: object) -> bool:
        return str(role) in RESULTS if self._only_results else str(role) not in self._skipped

    def _add_text(self, holder: Any, key: Any, head: dict[str, Any], message: object) -> None:
        text = _as_text(holder[key])
        self.places[TEXTS].append((holder, key))
        self.inputs[TEXTS].append(text)
        self.heads.append(head)
        messages = self.inputs[MESSAGES]
        if message is self._message is not None and head.items() <= messages[-1].items():
            parts = messages[-1]["content"]
            parts = [{"type": "text", "text": parts}] if isinstance(parts, str) else parts
            messages[-1]["content"] = [*parts, {"type": "text", "text": text}]
        else:
            messages.append({**head, "content": text})
        self._message = message

    def _add_call(self, holder: Any, key: Any, value: Any) -> None:
        self.places[CALLS].append((holder, key))
        function = {"name": holder["name"], "arguments": _as_text(value)}
        call = {"id": holder.get("call_id") or holder.get("id"), "type": "function"}
        self.inputs[CALLS].append({**call, "function": function})
        message = {"role": "assistant", "content": None, CALLS: self.inputs[CALLS][-1:]}
        self.inputs[MESSAGES].append(message)
        self._message = None


async def process_input_messages(
    self: Any, data: dict[str, Any], guardrail_to_apply: Any, litellm_logging_obj: Any = None
) -> dict[str, Any]:
    """Show a request to a guardrail, and apply what it changed."""
    guarded = GuardrailInput(self, data, guardrail_to_apply)
    inputs = {name: value for name, value in guarded.inputs.items() if value or name == TEXTS}
    if not inputs[TEXTS] and CALLS not in inputs:
        return data
    left = await guardrail_to_apply.apply_guardrail(
        inputs=copied(inputs),
        request_data=data,
        input_type="request",
        logging_obj=litellm_logging_obj,
    )
    try:
        changed = {name: value for name, value in left.items() if value is not None}
        guarded.write({**guarded.inputs, **changed})
    except (ValueError, TypeError, KeyError) as error:
        raise HostRefused(
            f"The guardrail {guardrail_to_apply.guardrail_name!r} changed the request in a form "
            "that cannot be applied, so it is not sent. Ask the operator of the gateway.",
            500,
        ) from error
    return data


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _head(role: object, value: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's form without its content. `outer`: what `value` is inside of."""
    if role not in RESULTS:
        return {"role": role}
    ids = (value[name] for name in CALL_IDS if isinstance(value.get(name), str))
    head = {"role": role, "tool_call_id": next(ids, outer.get("tool_call_id", ""))}
    return head if role == "tool" else {**head, "name": value.get("name", outer.get("name", ""))}


def _setting(guardrail: Any, name: str) -> bool:
    value = optional(guardrail, name)
    return bool(getattr(litellm, name) if value is None else value)


def texts_of(message: Any) -> list[str]:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def _images(part: dict[str, Any]) -> Iterator[str]:
    image, source = part.get("image_url"), part.get("source")
    url = image.get("url") if isinstance(image, dict) else image
    if part.get("type") == "image" and isinstance(source, dict):
        url = source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}"
    if isinstance(url, str):
        yield url


def _functions(tools: Any) -> Iterator[dict[str, Any]]:
    """Yield tools in OpenAI's form, those of namespaces, too."""
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue  # it is refused later
        if isinstance(tool.get(TOOLS), list):
            yield from _functions(tool[TOOLS])
        elif "function" in tool or "name" not in tool:
            yield tool
        else:
            named = {"parameters" if name == SCHEMA else name: tool[name] for name in tool}
            yield {"type": "function", "function": named}


def _kept(tools: Any, removed: set[str], changed: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tool in tools:
        name = _name(tool)
        if isinstance(tool.get(TOOLS), list):
            if members := [*_kept(tool[TOOLS], removed, changed)]:
                yield {**tool, TOOLS: members}
        elif name not in removed:
            new = changed.get(name, tool)
            if "function" not in tool and "function" in new:
                new = {**new["function"], SCHEMA: new["function"].get("parameters")}
            yield _with_texts(tool, new)


def _in_form_of(handler: Any, tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if isinstance(handler, OpenAIChatCompletionsHandler) or not isinstance(function, dict):
        return tool
    if isinstance(handler, OpenAIResponsesHandler):
        return {"type": "function", **function}
    return {SCHEMA if name == "parameters" else name: function[name] for name in function}


def _with_texts(value: Any, changed: Any) -> Any:
    """Return `value` with the texts that `changed` has instead."""
    if isinstance(value, str) and isinstance(changed, str):
        return changed
    if isinstance(value, dict) and isinstance(changed, dict):
        return {name: _with_texts(value[name], changed.get(name)) for name in value}
    if isinstance(value, list) and isinstance(changed, list) and len(value) == len(changed):
        return [_with_texts(*each) for each in zip(value, changed, strict=True)]
    return value


def _name(tool: dict[str, Any]) -> str:
    members = (tool.get("function"), tool.get("custom"), tool)
    named = next(each for each in members if isinstance(each, dict))
    return str(named.get("name") or tool.get("server_label") or tool.get("type"))
