"""Responses requests, and checks of events and response objects by OpenAI's own models."""

import json
from functools import lru_cache
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

Event = dict[str, Any]
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
LATE_FIELDS = ("status", "encrypted_content")
"""Fields of an item that only its end has."""
LATE_FIELDS_OF = {"tool_search_call": ("arguments",)}
"""The same by type of item. No event has a part of an object."""
OWN_FIELDS = ("presence_penalty", "frequency_penalty")
"""Fields of the Open Responses specification that OpenAI's model of a response lacks."""
UNTYPED = ("response.shell_call_command", "response.apply_patch_call_operation_diff")
"""Beginnings of the types of events that the pinned version of OpenAI's SDK does not declare."""


@lru_cache
def _event_model() -> TypeAdapter[Any]:
    return TypeAdapter(ResponseStreamEvent)


def check_response(body: dict[str, Any]) -> None:
    """Validates a response object strictly. OpenAI's model has a fixed list of error codes, to
    which a gateway's codes can't belong."""
    shown = {name: value for name, value in body.items() if name not in OWN_FIELDS}
    if shown["error"] is not None:
        assert shown["error"]["code"]
        shown["error"] = {**shown["error"], "code": "server_error"}
    Response.model_validate_json(json.dumps(shown), strict=True)


def check_event(event: Event) -> None:
    if event["type"].startswith(UNTYPED):
        return
    if "response" in event:
        check_response(event["response"])
        event = {**event, "response": {**event["response"], "error": None}}
    _event_model().validate_json(json.dumps(event), strict=True)


def accumulated(made: list[Event]) -> list[dict[str, Any]]:
    """The output that the events of a stream add up to. Asserts OpenAI's rules on the way."""
    assert [event["sequence_number"] for event in made] == list(range(len(made)))
    assert [event["type"] for event in made[:2]] == ["response.created", "response.in_progress"]
    ends = ("response.completed", "response.incomplete", "response.failed")
    assert [event["type"] for event in made if event["type"] in ends] == [made[-1]["type"]]
    items: list[dict[str, Any]] = []
    done: set[int] = set()
    for event in made[2:-1]:
        check_event(event)
        at = event["output_index"]
        name = event["type"].removeprefix("response.")
        if name == "output_item.added":
            assert at == len(items)
            assert event["item"]["status"] == "in_progress"
            items.append(json.loads(json.dumps(event["item"])))
            continue
        assert at == len(items) - 1, "items do not overlap"
        assert at not in done, "nothing comes after an item's end"
        item = items[at]
        if name == "output_item.done":
            done.add(at)
            ended = event["item"]
            names = (*LATE_FIELDS, *LATE_FIELDS_OF.get(ended["type"], ()))
            late = {name: ended[name] for name in names if name in ended}
            assert {**item, **late} == ended
            items[at] = ended
            continue
        assert event["item_id"] == item["id"]
        _apply(name, event, item)
    for at, item in enumerate(items):
        if at not in done:
            item["status"] = "incomplete"
    return items


def _apply(name: str, event: Event, item: dict[str, Any]) -> None:
    if name.startswith("custom_tool_call_input"):
        if name.endswith("delta"):
            item["input"] += event["delta"]
        else:
            assert event["input"] == item["input"]
        return
    if name.startswith("function_call_arguments"):
        if name.endswith("delta"):
            item["arguments"] += event["delta"]
        else:
            assert (event["arguments"], event["name"]) == (item["arguments"], item["name"])
        return
    if name.startswith("shell_call_command"):
        _apply_command(name, event, item["action"]["commands"])
        return
    if name.startswith("apply_patch_call_operation_diff"):
        if name.endswith("delta"):
            item["operation"]["diff"] += event["delta"]
        else:
            assert event["diff"] == item["operation"]["diff"]
        return
    summary = "summary" in name
    parts = item["summary" if summary else "content"]
    at = event["summary_index" if summary else "content_index"]
    if name.endswith("part.added"):
        assert at == len(parts)
        parts.append(event["part"])
        return
    part = parts[at]
    if name.endswith("part.done"):
        assert {**part, "logprobs": 0} == {**event["part"], "logprobs": 0}
        parts[at] = event["part"]
    elif name.endswith("delta"):
        part["text"] += event["delta"]
    else:
        assert event["text"] == part["text"]


def _apply_command(name: str, event: Event, commands: list[str]) -> None:
    at = event["command_index"]
    if name.endswith("added"):
        assert at == len(commands)
        commands.append(event["command"])
    elif name.endswith("delta"):
        commands[at] += event["delta"]
    else:
        assert event["command"] == commands[at]
