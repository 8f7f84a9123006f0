"""The event grammar of the Responses API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...check import rule
from ...reading import responses
from ...reading.sse import events
from ...scenario import Evidence, brief
from ...terms import Failed, Severity, Skipped, require
from ..calls import CALL, SEVERAL
from ..cut_calls import CUT, of_cut
from ..text import TEXT
from .body import RESPONSES

ITEM_KEYS = ("id", "type", "name", "call_id", "role")


def sent(evidence: Evidence) -> list[dict[str, Any]]:
    require(events := evidence.events(), "the stream has no events")
    return events


def of(evidence: Evidence, kind: str) -> list[dict[str, Any]]:
    return [each for each in sent(evidence) if each.get("type") == f"response.{kind}"]


def last_response(evidence: Evidence) -> dict[str, Any]:
    response = sent(evidence)[-1].get("response")
    if not isinstance(response, dict):
        raise Failed("the last event has no response")
    return response


def _rule(name: str, title: str, requirement: str, **more: Any) -> Callable[[Any], Any]:
    options = {"topic": "stream", "scenario": TEXT, "apis": RESPONSES, **more}
    return rule(f"events.{name}", title, requirement, **options)


@_rule("names", "`event:` is the type of the event", "The name of an event is its `type`.")
def _names(evidence: Evidence) -> None:
    evidence.ok(1)
    for event in events(evidence.ok(1).text):
        kind = event.data.get("type") if isinstance(event.data, dict) else None
        if event.text.strip() != "[DONE]":
            require(event.name == kind, f"`event: {event.name}` with the type {kind!r}")


@_rule(
    "sequence",
    "`sequence_number` counts from 0 without gaps",
    "Events are numbered, so that a client can tell whether it has missed one.",
)
def _sequence(evidence: Evidence) -> None:
    numbers = [event.get("sequence_number") for event in sent(evidence)]
    require(numbers == list(range(len(numbers))), f"the numbers begin with {numbers[:6]}")


@_rule(
    "begin",
    "The stream begins with `response.created` and `response.in_progress`",
    "The first event is `response.created`, the second `response.in_progress`.",
)
def _begin(evidence: Evidence) -> None:
    types = [event.get("type") for event in sent(evidence)[:2]]
    require(types == ["response.created", "response.in_progress"], f"it begins with {types}")


@_rule(
    "created",
    "`response.created` has an empty response in progress",
    "The first response has the status `in_progress` and no output yet.",
)
def _created(evidence: Evidence) -> None:
    for event in (*of(evidence, "created"), *of(evidence, "in_progress")):
        response = event.get("response") or {}
        require(response.get("status") == "in_progress", f"`status` is {response.get('status')!r}")
        require(response.get("output") == [], "`output` is not empty")


@_rule(
    "same_response",
    "All events are of one response",
    "The response of the first event and that of the last have the same ID.",
)
def _same_response(evidence: Evidence) -> None:
    ids = {event["response"].get("id") for event in sent(evidence) if event.get("response")}
    require(len(ids) == 1, f"responses with the IDs {sorted(map(str, ids))}")


@_rule(
    "end",
    "The stream ends with exactly one final event",
    "The last event is `response.completed`, `response.incomplete` or `response.failed`.",
    severity=Severity.CRITICAL,
)
def _end(evidence: Evidence) -> None:
    kinds = [event.get("type") for event in sent(evidence)]
    final = [kind for kind in kinds if kind in responses.LAST]
    require(len(final) == 1 and kinds[-1] == final[0], f"it ends with {kinds[-1]!r}: {final}")


@_rule(
    "end_status",
    "The final event matches the status of its response",
    "`response.completed` has the status completed, `response.incomplete` incomplete.",
)
def _end_status(evidence: Evidence) -> None:
    kind = str(sent(evidence)[-1].get("type")).removeprefix("response.")
    status = last_response(evidence).get("status")
    require(kind == status, f"`response.{kind}` with the status {status!r}")


@_rule(
    "items_numbered",
    "Items are announced in order",
    "`response.output_item.added` announces items with `output_index` 0, 1, …",
)
def _numbered(evidence: Evidence) -> None:
    indices = [event.get("output_index") for event in of(evidence, "output_item.added")]
    require(indices, "no item is announced")
    require(indices == list(range(len(indices))), f"items with the indices {indices}")


@_rule(
    "item_before_delta",
    "Deltas follow the announcement of their item",
    "An item is announced before its deltas, which have its index and ID.",
    severity=Severity.CRITICAL,
)
def _announced(evidence: Evidence) -> None:
    known: dict[Any, Any] = {}
    for event in sent(evidence):
        kind = str(event.get("type"))
        if kind == "response.output_item.added":
            known[event.get("output_index")] = (event.get("item") or {}).get("id")
        elif kind.endswith(".delta"):
            index = event.get("output_index")
            require(index in known, f"{kind} of item {index}, which was not announced")
            name = event.get("item_id")
            require(name == known[index], f"{kind} of the item ID {name!r}, not {known[index]!r}")


@_rule(
    "parts",
    "Parts of text are announced and ended",
    "A part of a message is announced by `content_part.added` and ended by `content_part.done`.",
)
def _parts(evidence: Evidence) -> None:
    if not evidence.streamed.text:
        raise Skipped("the stream has no text")
    added, done = len(of(evidence, "content_part.added")), len(of(evidence, "content_part.done"))
    require(added > 0 and added == done, f"{added} parts are announced, {done} ended")


@_rule(
    "text_done",
    "`output_text.done` has the text of the deltas",
    "The event that ends a text repeats it; it equals its deltas.",
    severity=Severity.CRITICAL,
)
def _text_done(evidence: Evidence) -> None:
    _equal_deltas(evidence, "output_text", "text")


@_rule(
    "arguments_done",
    "`function_call_arguments.done` has the arguments of the deltas",
    "The event that ends the arguments repeats them; they equal their deltas.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _arguments_done(evidence: Evidence) -> None:
    _equal_deltas(evidence, "function_call_arguments", "arguments")


def _equal_deltas(evidence: Evidence, kind: str, member: str) -> None:
    joined: dict[Any, str] = {}
    for event in of(evidence, f"{kind}.delta"):
        index = event.get("output_index")
        joined[index] = joined.get(index, "") + str(event.get("delta"))
    if not joined:
        raise Skipped("the stream has no such deltas")
    done = {event.get("output_index"): event.get(member) for event in of(evidence, f"{kind}.done")}
    cut = last_response(evidence).get("status") == "incomplete"
    for index, text in joined.items():
        if cut and index not in done:
            continue
        whole = done.get(index)
        require(whole == text, f"{brief(str(whole), 80)} is not {brief(text, 80)}")


@_rule(
    "item_done",
    "A finished item is the announced one",
    "The item of `output_item.done` has the ID, type and name that were announced.",
    scenario=CALL,
)
def _item_done(evidence: Evidence) -> None:
    added = of(evidence, "output_item.added")
    announced = {event.get("output_index"): event.get("item") or {} for event in added}
    done = of(evidence, "output_item.done")
    if not done:
        raise Skipped("no item was finished")
    for event in done:
        before, after = announced.get(event.get("output_index"), {}), event.get("item") or {}
        for name in ITEM_KEYS:
            require(
                name not in before or before[name] == after.get(name),
                f"`{name}` was {before.get(name)!r} and is {after.get(name)!r}",
            )


@_rule(
    "item_status",
    "Items are announced in progress and finished completed",
    "An announced item has the status `in_progress`, a finished one `completed` or `incomplete`.",
    scenario=CALL,
)
def _item_status(evidence: Evidence) -> None:
    for kind, allowed in (("added", ("in_progress",)), ("done", ("completed", "incomplete"))):
        for event in of(evidence, f"output_item.{kind}"):
            item = event.get("item") or {}
            if item.get("type") in ("function_call", "message"):
                status = item.get("status")
                require(status in allowed, f"output_item.{kind} with the status {status!r}")


@_rule(
    "final_items",
    "The final response has the items that were finished",
    "The output of the last event is what the events before it said.",
    scenario=CALL,
    severity=Severity.CRITICAL,
)
def _final_items(evidence: Evidence) -> None:
    output = last_response(evidence).get("output") or []
    done = of(evidence, "output_item.done")
    for event in done:
        index = event.get("output_index")
        fits = isinstance(index, int) and index < len(output) and output[index] == event.get("item")
        require(fits, f"item {index} of the final response is not the one that was finished")


@_rule(
    "call_order",
    "An item ends before the next one begins",
    "Events of two items do not overlap.",
    scenario=SEVERAL,
)
def _order(evidence: Evidence) -> None:
    order = [event["output_index"] for event in sent(evidence) if "output_index" in event]
    require(order == sorted(order), "events of items overlap")


@_rule(
    "call_empty_at_first",
    "A call is announced with its name and without arguments",
    "Arguments come as deltas after the announcement of the call.",
    scenario=CALL,
)
def _empty(evidence: Evidence) -> None:
    items = [event.get("item") or {} for event in of(evidence, "output_item.added")]
    calls = [item for item in items if item.get("type") == "function_call"]
    if not calls:
        raise Skipped("the stream has no call")
    for call in calls:
        require(call.get("name") and call.get("call_id"), "a call is announced without its name")
        arguments = call.get("arguments")
        require(not arguments, f"it is announced with {brief(str(arguments))}")


@_rule(
    "cut_not_done",
    "A cut call is not reported as done",
    "Clients execute a call at `function_call_arguments.done`, so a cut call has no such event.",
    scenario=CUT,
    severity=Severity.CRITICAL,
)
@of_cut
def _cut(evidence: Evidence) -> None:
    if last_response(evidence).get("status") != "incomplete":
        raise Skipped("the answer was not cut")
    done = of(evidence, "function_call_arguments.done")
    require(not done, "`function_call_arguments.done` of a call that was cut")


@_rule(
    "usage",
    "The final event has the usage",
    "The response of the last event has the usage, those before it have none.",
)
def _usage(evidence: Evidence) -> None:
    require(last_response(evidence).get("usage"), "the last response has no usage")
    early = [event for event in of(evidence, "created") if event["response"].get("usage")]
    require(not early, "the first response has usage")
