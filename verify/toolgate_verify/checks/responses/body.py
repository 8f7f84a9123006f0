"""The response object of the Responses API: members, items, what it repeats of the request."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from ...asking.ask import Ask
from ...check import rule
from ...scenario import Evidence
from ...terms import Api, Severity, Skipped, Suite, require
from ..calls import CALL
from ..common import single
from ..cut_calls import CUT, of_cut
from ..text import TEXT

RESPONSES = (Api.RESPONSES,)


_rule = partial(rule, topic="body", scenario=TEXT, apis=RESPONSES)


@_rule(
    "body.object",
    "`object` is `response`",
    "A response has the object type `response`, `created_at` and `output`.",
)
def _object(evidence: Evidence) -> None:
    body = evidence.body()
    require(body.get("object") == "response", f"`object` is {body.get('object')!r}")
    created = body.get("created_at")
    require(isinstance(created, int | float), f"`created_at` is {created!r}")


@_rule(
    "body.status",
    "`status` has a specified value",
    "The status is completed, incomplete or failed; `incomplete_details` has the reason.",
    topic="finish",
)
def _status(evidence: Evidence) -> None:
    body = evidence.body()
    status, details = body.get("status"), body.get("incomplete_details")
    require(status in ("completed", "incomplete", "failed"), f"`status` is {status!r}")
    if status == "incomplete":
        reason = details.get("reason") if isinstance(details, dict) else None
        require(reason in ("max_output_tokens", "content_filter"), f"the reason is {reason!r}")
    else:
        require(details is None, f"`incomplete_details` is {details!r}")


@_rule(
    "body.error_null",
    "`error` is null in a response that did not fail",
    "The response object always has `error`, which is null unless the response failed.",
    severity=Severity.MINOR,
)
def _error(evidence: Evidence) -> None:
    body = evidence.body()
    require("error" in body and body["error"] is None, f"`error` is {body.get('error')!r}")


@_rule(
    "body.message_item",
    "Text is an item of the type `message`",
    "A message has an ID, a status, the role `assistant` and parts `output_text` with annotations.",
)
def _message(evidence: Evidence) -> None:
    items = [item for item in evidence.body()["output"] if item.get("type") == "message"]
    if not items:
        raise Skipped("the response has no message")
    for item in items:
        require(item.get("id"), "a message has no `id`")
        require(item.get("role") == "assistant", f"`role` is {item.get('role')!r}")
        require(
            item.get("status") in ("completed", "incomplete"), f"`status` is {item.get('status')!r}"
        )
        for part in item["content"]:
            require(part.get("type") == "output_text", f"a part is {part.get('type')!r}")
            require(isinstance(part.get("annotations"), list), "a part has no `annotations`")


@_rule(
    "body.call_item",
    "A call is an item with `call_id`, `id` and a status",
    "A call has `id`, `call_id`, `name`, `arguments` and a status.",
    topic="calls",
    scenario=CALL,
)
def _call(evidence: Evidence) -> None:
    items = [item for item in evidence.body()["output"] if item.get("type") == "function_call"]
    if not items:
        raise Skipped("the response has no call")
    for item in items:
        for name in ("id", "call_id", "name"):
            require(isinstance(item.get(name), str) and item[name], f"a call has no `{name}`")
        require(isinstance(item.get("arguments"), str), "`arguments` is not a text")
        status = item.get("status")
        require(status in ("completed", "incomplete"), f"`status` is {status!r}")


@_rule(
    "body.item_ids",
    "Items have different IDs",
    "Each item of the output has an ID of its own.",
    scenario=CALL,
)
def _item_ids(evidence: Evidence) -> None:
    ids = [
        item.get("id") for item in (*evidence.body()["output"], {"id": evidence.body().get("id")})
    ]
    require(len({*ids}) == len(ids) and all(ids), f"items have the IDs {ids}")


@_rule(
    "body.cut_item",
    "A cut call is an incomplete item",
    "An item that was not generated to its end has the status `incomplete`.",
    topic="finish",
    scenario=CUT,
    severity=Severity.CRITICAL,
)
@of_cut
def _cut(evidence: Evidence) -> None:
    body = evidence.body()
    calls = [item for item in body["output"] if item.get("type") == "function_call"]
    if body.get("status") != "incomplete" or not calls:
        raise Skipped("no call was cut")
    require(calls[-1].get("status") == "incomplete", f"`status` is {calls[-1].get('status')!r}")


ECHOES: dict[str, tuple[Any, Severity]] = {
    "temperature": (0.5, Severity.MINOR),
    "top_p": (0.5, Severity.MINOR),
    "max_output_tokens": (20, Severity.MINOR),
    "instructions": ("Be brief.", Severity.MINOR),
    "metadata": ({"purpose": "verify"}, Severity.MAJOR),
    "parallel_tool_calls": (False, Severity.MINOR),
    "truncation": ("disabled", Severity.MINOR),
    "safety_identifier": ("user-1", Severity.MINOR),
}


ECHO = single("echo", Ask(extra={name: value for name, (value, _) in ECHOES.items()}))


def _echoes(name: str, value: Any) -> Callable[[Evidence], None]:
    def judge(evidence: Evidence) -> None:
        body = evidence.body()
        require(body.get(name) == value, f"`{name}` is {body.get(name)!r} instead of {value!r}")

    return judge


for _name, (_value, _severity) in ECHOES.items():
    rule(
        f"echo.{_name}",
        f"The response repeats `{_name}`",
        f"The response object has the `{_name}` of its request.",
        topic="body",
        scenario=ECHO,
        apis=RESPONSES,
        severity=_severity,
        suite=Suite.FULL,
    )(_echoes(_name, _value))


@_rule(
    "echo.tools",
    "The response repeats the tools and the choice",
    "The response object has the `tools` and the `tool_choice` of its request.",
    scenario=CALL,
    severity=Severity.MINOR,
)
def _tools(evidence: Evidence) -> None:
    body = evidence.body()
    names = [tool.get("name") for tool in body.get("tools") or ()]
    require(names == [tool.name for tool in evidence.ask.tools], f"`tools` has {names}")
    require(body.get("tool_choice") == "required", f"`tool_choice` is {body.get('tool_choice')!r}")


PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
NOTE_DATE = {
    "type": "custom",
    "name": "note_date",
    "description": "Notes a date.",
    "format": {"type": "grammar", "syntax": "regex", "definition": PATTERN},
}
CUSTOM = single(
    "custom",
    Ask(
        max_tokens=100,
        extra={"tools": [NOTE_DATE], "tool_choice": "required", "parallel_tool_calls": False},
    ),
)


@_rule(
    "custom.regex",
    "The input of a custom tool matches its grammar",
    "The input of a custom tool is a text by the tool's grammar.",
    topic="custom",
    scenario=CUSTOM,
    severity=Severity.CRITICAL,
    suite=Suite.FULL,
)
def _custom(evidence: Evidence) -> None:
    items = [item for item in evidence.body()["output"] if item.get("type") == "custom_tool_call"]
    if not items and evidence.answer(0).cut:
        raise Skipped("the answer was cut before its call")
    require(items, "no call of the custom tool")
    for item in items:
        matches = re.fullmatch(PATTERN, str(item.get("input")))
        require(matches, f"the input {item.get('input')!r} does not match {PATTERN!r}")
