"""Callbacks of a team that read and change responses."""

import copy
import json

import litellm
from fastapi import HTTPException
from litellm.integrations.custom_guardrail import CustomGuardrail
from litellm.integrations.custom_logger import CustomLogger

from toolgate_proxy.litellm_host.routing import model_route

SCHEMA = {"type": "object", "properties": {"a": {"enum": ["ZZZZ", "QQQQ"]}}, "required": ["a"]}
HIDDEN = "xxxxx"
TOOLS = {
    "chat": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}],
    "responses": [{"type": "function", "name": "look", "parameters": SCHEMA}],
    "messages": [{"name": "look", "input_schema": SCHEMA}],
}


def refusal(status=400):
    return HTTPException(status, {"error": "Not on Mondays."})


class Team(CustomLogger):
    """`change` changes texts wherever they are in LiteLLM's object. `refuses`: the hook that
    raises. `passes`: events of a stream that pass before that."""

    def __init__(self, change=None, refuses=None, passes=0):
        super().__init__()
        self._change = change
        self._refuses = refuses
        self._passes = passes
        self.hooks = []
        self.seen = []
        """What the hooks got."""

    async def async_moderation_hook(self, data, user_api_key_dict, call_type):
        self.seen.append(data)
        self._run("moderation")

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        self.seen.append(response)
        self._run("success")
        return None if self._change is None else changed(response, self._change)

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict, response, request_data
    ):
        passed = 0
        async for item in response:
            self.seen.append(item)
            if passed == self._passes:
                self._run("stream")
            passed += 1
            yield item if self._change is None else changed(item, self._change)

    def _run(self, hook):
        self.hooks.append(hook)
        if hook == self._refuses:
            raise refusal()


class Guardrail(CustomGuardrail):
    """Refuses in one mode."""

    def __init__(self, mode, *, default_on=True, name="no-names"):
        super().__init__(guardrail_name=name, event_hook=mode, default_on=default_on)

    async def async_pre_call_hook(self, *args, **more):
        raise refusal()

    async def async_moderation_hook(self, *args, **more):
        raise refusal()

    async def async_post_call_success_hook(self, *args, **more):
        raise refusal()

    async def async_post_call_streaming_iterator_hook(
        self, user_api_key_dict, response, request_data
    ):
        async for _ in response:
            raise refusal()
        yield


class Masking(CustomGuardrail):
    """Changes requests of the models that name it."""

    def __init__(self, old, new):
        super().__init__(guardrail_name="masking", event_hook="pre_call", default_on=False)
        self._change = lambda text: text.replace(old, new)

    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        name = "input" if "input" in data else "messages"
        return data | {name: changed(copy.deepcopy(data[name]), self._change)}


class WholeGuardrail(CustomGuardrail):
    """Refuses, or changes, whole responses only."""

    def __init__(self, change=None):
        super().__init__(guardrail_name="whole", event_hook="post_call", default_on=True)
        self._change = change

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        if self._change is None:
            raise refusal()
        return changed(response, self._change)


def use_callback(monkeypatch, *callbacks):
    monkeypatch.setattr(litellm, "callbacks", [*callbacks])
    model_route.model_routes().decided.cache_clear()


def changed(value, change):
    """LiteLLM's object, whose texts are changed in place where they can be."""
    if isinstance(value, bytes):
        return change(value.decode()).encode()
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        value[:] = [changed(each, change) for each in value]
    elif isinstance(value, dict):
        value.update({name: changed(each, change) for name, each in value.items()})
    elif hasattr(value, "model_fields_set"):
        for name in {*type(value).model_fields, *(value.model_extra or {})}:
            if hasattr(value, name):
                setattr(value, name, changed(getattr(value, name), change))
    return value


MARK = "marked text"
KEPT = {"messages": ("texts", "tool_calls"), "texts": ("structured_messages",), "during_call": ()}


class Unified(CustomGuardrail):
    """Replaces the mark in tools and in texts and calls, or in messages. In `during_call`, it
    refuses the mark."""

    def __init__(self, changes="texts", mark=MARK):
        mode = changes if changes == "during_call" else "pre_call"
        super().__init__(guardrail_name="unified", event_hook=mode, default_on=True)
        self._changes, self._mark = changes, mark

    async def apply_guardrail(self, inputs, *args, **more):
        shown = json.dumps(inputs)
        if self._changes == "during_call" and self._mark in shown:
            raise refusal()
        kept = {name: inputs[name] for name in KEPT[self._changes] if name in inputs}
        return json.loads(shown.replace(self._mark, "hidden")) | kept


class Exchanging(Unified):
    """Removes the tool `a`, and adds `seek`. All it returns lacks the schemas."""

    async def apply_guardrail(self, inputs, *args, **more):
        names = [tool["function"]["name"] for tool in inputs["tools"]]
        kept = [{"name": name} for name in names if name != "a"]
        added = {"name": "seek", "parameters": {"type": "object"}}
        return {"tools": [{"type": "function", "function": each} for each in (*kept, added)]}
