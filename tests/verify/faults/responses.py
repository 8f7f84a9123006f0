"""Faults of checks of the Responses API."""

from __future__ import annotations

from typing import Any

from . import changes as c
from .fault import Fault


def _items(kind: str, change: Any) -> Fault:
    """Changes the items of a type in whole responses."""

    def apply(made: Any) -> None:
        for item in made["output"]:
            if item["type"] == kind:
                change(item)

    return c.body(apply)


def _event(kind: str, change: Any) -> Fault:
    return c.each_event(change, f"response.{kind}")


def _last(change: Any) -> Fault:
    """Changes the response of the last event."""

    def apply(sent: c.Events) -> c.Events:
        name, data = sent[-1]
        response = {**data["response"]}
        change(response)
        return [*sent[:-1], (name, {**data, "response": response})]

    return c.events(apply)


def _gap(sent: c.Events) -> c.Events:
    for _, data in sent[3:]:
        data["sequence_number"] += 1
    return sent


def _no_progress(sent: c.Events) -> c.Events:
    kept = [sent[0], *sent[2:]]
    for number, (_, data) in enumerate(kept):
        data["sequence_number"] = number
    return kept


def _unnamed(sent: c.Events) -> c.Events:
    return [("", data) for _, data in sent]


def _two_ends(sent: c.Events) -> c.Events:
    name, data = sent[-1]
    return [*sent, (name, {**data, "sequence_number": len(sent)})]


def _renamed_end(sent: c.Events) -> c.Events:
    """The last event has the type of the other status."""
    _, data = sent[-1]
    other = "response.completed" if "incomplete" in data["type"] else "response.incomplete"
    return [*sent[:-1], (other, {**data, "type": other})]


def _replaced(sent: c.Events, kind: str, change: Any) -> c.Events:
    """Changes a copy of the item of an event, so that the last event keeps its own."""
    made: c.Events = []
    for name, data in sent:
        if name == f"response.{kind}":
            item = {**data["item"]}
            change(item)
            data = {**data, "item": item}
        made.append((name, data))
    return made


def _item(kind: str, change: Any) -> Fault:
    return c.events(lambda sent: _replaced(sent, kind, change))


def _overlap(sent: c.Events) -> c.Events:
    at = next(i for i, (_, data) in enumerate(sent) if data.get("output_index") == 1)
    return [*sent[:2], sent[at], *sent[2:at], *sent[at + 1 :]]


def _done_though_cut(sent: c.Events) -> c.Events:
    name = "response.function_call_arguments.done"
    delta = next(data for kind, data in sent if kind.endswith("arguments.delta"))
    text = "".join(data["delta"] for kind, data in sent if kind.endswith("arguments.delta"))
    done = {**delta, "type": name, "arguments": text}
    return [*sent[:-1], (name, done), sent[-1]]


def _state(index: int, body: Any, status: int = 200) -> Fault:
    """Another answer to the operation with this number on a stored response."""
    count = 0

    def apply(_: Any, sent: Any) -> Any:
        nonlocal count
        count += 1
        return type(sent)(status, body) if count == index else sent

    return Fault(state=apply)


def _forgets(asked: Any) -> None:
    if "previous_response_id" in asked.body:
        asked.prompt = asked.prompt[:4]


def _logprobs(change: Any) -> Fault:
    return c.body(lambda made: change(made["output"][0]["content"][0]["logprobs"]))


RESPONSES: dict[str, Fault] = {
    "calls.finish": c.body(lambda made: made.update(status="in_progress")),
    "choice.auto_finish": c.body(lambda made: made.update(status="in_progress")),
    "stream.calls_same_finish": _last(lambda response: response.update(status="in_progress")),
    "cut.same_finish": _last(lambda response: response.update(status="in_progress")),
    "body.object": c.body(lambda made: made.update(object="chat.completion")),
    "body.status": c.body(lambda made: made.update(incomplete_details=None)),
    "body.error_null": c.body(lambda made: made.pop("error")),
    "body.message_item": _items("message", lambda item: item["content"][0].pop("annotations")),
    "body.call_item": _items("function_call", lambda item: item.pop("status")),
    "body.item_ids": _items("function_call", lambda item: item.update(id=None)),
    "body.cut_item": _items("function_call", lambda item: item.update(status="completed")),
    "custom.regex": c.call(text="tomorrow"),
    "events.names": c.events(_unnamed),
    "events.sequence": c.events(_gap),
    "events.begin": c.events(_no_progress),
    "events.created": _event("created", lambda event: event["response"].update(status="queued")),
    "events.same_response": _last(lambda response: response.update(id="resp_other")),
    "events.end": c.events(_two_ends),
    "events.end_status": c.events(_renamed_end),
    "events.items_numbered": _event(
        "output_item.added", lambda e: e.update(output_index=e["output_index"] + 1)
    ),
    "events.item_before_delta": _event("output_text.delta", lambda e: e.update(item_id="other")),
    "events.parts": c.without("response.content_part.done"),
    "events.text_done": _event("output_text.done", lambda e: e.update(text=e["text"] + ".")),
    "events.arguments_done": _event(
        "function_call_arguments.done", lambda e: e.update(arguments="{}")
    ),
    "events.item_done": _item("output_item.added", lambda item: item.update(call_id="call_other")),
    "events.item_status": _item("output_item.added", lambda item: item.update(status="completed")),
    "events.final_items": _last(lambda response: response.update(output=[])),
    "events.call_order": c.events(_overlap),
    "events.call_empty_at_first": _item(
        "output_item.added", lambda item: item.update(arguments="{")
    ),
    "events.cut_not_done": c.events(_done_though_cut),
    "events.usage": _last(lambda response: response.pop("usage")),
    "echo.tools": c.body(lambda made: made.update(tools=[])),
    "state.retrieve": _state(1, {"id": "resp_other", "output": []}),
    "state.input_items": _state(2, {"object": "list", "data": []}),
    "state.continue": Fault(asked=_forgets),
    "state.delete": _state(3, {"deleted": False}),
    "state.deleted": _state(4, {"id": "resp_back"}),
    "logprobs.text": _logprobs(lambda tokens: tokens.pop(0)),
    "logprobs.top": _logprobs(lambda tokens: tokens[0].update(top_logprobs=[])),
    "logprobs.values": _logprobs(lambda tokens: tokens[0].update(logprob=0.5)),
    "logprobs.streamed": _event("output_text.delta", lambda e: e.update(logprobs=[])),
}


def echo(name: str) -> Fault:
    return c.body(lambda made: made.update({name: "something else"}))
