"""The fault of each check. Those in `faults.yaml` have a form, and what it takes.

A path leads to a member of a body or an event. A step into a list is an index, the type of items,
or `*` for all of them."""

import json
from pathlib import Path

import yaml

from toolgate_verify.terms import Api

from . import changes as c
from .by_hand import CHAT, MESSAGES, PROMPT, RESPONSES, SHARED, echo


def _inside(value, step):
    """What a step leads to."""
    if isinstance(value, list):
        if step.isdigit():
            return value[int(step) :][:1]
        return [each for each in value if step in ("*", each.get("type"))]
    return [value[step]] if isinstance(value, dict) and step in value else []


def _holders(value, path):
    """What has the member, and its name."""
    *steps, last = path.split(".")
    found = [value]
    for step in steps:
        found = [inner for each in found for inner in _inside(each, step)]
    return found, last


def _assign(value, members):
    for path, member in members.items():
        holders, last = _holders(value, path)
        for each in holders:
            each[last] = member


def _remove(value, path):
    holders, last = _holders(value, path)
    for each in holders:
        if isinstance(each, list):
            del each[int(last)]
        else:
            each.pop(last, None)


def _last(change, given):
    """Changes the response of the last event, in a copy."""

    def apply(sent):
        name, data = sent[-1]
        response = {**data["response"]}
        change(response, given)
        return [*sent[:-1], (name, {**data, "response": response})]

    return c.events(apply)


def _added_item(members):
    """The last event keeps its own item."""
    added = "response.output_item.added"
    return c.events(
        lambda sent: [
            (name, {**data, "item": data["item"] | members} if name == added else data)
            for name, data in sent
        ]
    )


FORMS = {
    "reply": lambda given: c.setting(**given),
    "streamed reply": lambda given: c.stream_setting(**given),
    "calls": lambda given: c.call(**given),
    "one more call": lambda given: c.another_call(**given),
    "arguments": c.arguments,
    "last arguments": c.last_arguments,
    "other tool": c.other_tool,
    "text before": c.text_before,
    "streamed text": lambda given: c.stream_text(lambda text: text.replace(*given)),
    "streamed arguments": lambda given: c.stream_fragments(lambda text: text.replace(*given)),
    "content type": lambda given: c.content_type(*given),
    "body": lambda given: c.body(lambda made: _assign(made, given)),
    "body without": lambda given: c.body(lambda made: _remove(made, given)),
    "no event": c.without,
    "added item": _added_item,
    "last response": lambda given: _last(_assign, given),
    "last response without": lambda given: _last(_remove, given),
}
"""What makes a fault. `events` and `events without`, of all events or of the type that follows, are
not among them."""


def _made(row):
    [(form, given)] = row.items()
    if form in FORMS:
        return FORMS[form](given)
    change = _remove if form.startswith("events without") else _assign
    kinds = form.removeprefix("events").removeprefix(" without").split()
    return c.each_event(lambda data: change(data, given), *kinds)


OWN = {Api.CHAT: CHAT, Api.RESPONSES: RESPONSES, Api.MESSAGES: MESSAGES, "shared": SHARED}
for api, rows in yaml.safe_load(Path(__file__).with_name("faults.yaml").read_text()).items():
    OWN[api] |= {name: _made(row) for name, row in rows.items()}


def fault_of(check):
    """The fault that breaks the rule of the check, or None if there is none."""
    name = check.id.split(".", 1)[1]
    found = OWN[check.api].get(name) or OWN["shared"].get(name)
    return found or _of_family(check, name.split(".")[1])


def _of_family(check, rule):
    match check.family:
        case "schema" | "fail_open" | "checked":
            asked = check.scenario.ask
            return c.arguments(json.dumps(asked.tools[0].wrong)) if asked else None
        case "toolset":
            return c.arguments({"unknown": 1})
        case "history":
            return c.refuses()
        case "prompt":
            return PROMPT
        case "errors":
            return c.ACCEPTS
        case "echo":
            return echo(rule)
    return None
