"""Stored responses: retrieve, list, continue, delete; and exact token counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...asking import PATHS, request
from ...asking.ask import Ask, User
from ...check import Judge, rule
from ...exchange import Request
from ...scenario import Evidence, Scenario
from ...terms import Api, Severity, Skipped, Suite, require
from ..common import longer_prompt, single
from .body import RESPONSES

PATH = PATHS[Api.RESPONSES]
STORED = Ask((User("My name is Ada. What is a lighthouse?"),), max_tokens=16, extra={"store": True})
GO_ON = Ask((User("And my name?"),), max_tokens=8)
GET, ITEMS, CONTINUED, ALONE, DELETED, GONE = 1, 2, 3, 4, 5, 6


def _then(evidence: Evidence) -> tuple[Request, ...]:
    """Sent one after another: see `Scenario.follow`. GET and DELETE have no body."""
    identity = evidence.answer(0).id
    path = f"{PATH}/{identity}"
    return (
        Request(path, method="GET"),
        Request(f"{path}/input_items", method="GET"),
        request(Api.RESPONSES, replace(GO_ON, extra={"previous_response_id": identity})),
        request(Api.RESPONSES, GO_ON),
        Request(path, method="DELETE"),
        Request(path, method="GET"),
    )


_STORED = single("stored", STORED, follow=_then, followers=6, in_order=True)


def _rule(
    name: str, title: str, requirement: str, severity: Severity = Severity.MAJOR
) -> Callable[[Judge], Judge]:
    return rule(
        f"state.{name}",
        title,
        requirement,
        topic="state",
        scenario=_STORED,
        apis=RESPONSES,
        suite=Suite.FULL,
        severity=severity,
    )


@_rule("retrieve", "A stored response can be retrieved", "`GET` of a stored response returns it.")
def _retrieve(evidence: Evidence) -> None:
    body, first = evidence.ok(GET).body, evidence.ok(0).body
    require(isinstance(body, dict), "the body is no object")
    for name in ("id", "output", "status"):
        require(body.get(name) == first.get(name), f"`{name}` differs from that of the response")


@_rule("input_items", "The input of a response can be listed", "`input_items` has the input.")
def _items(evidence: Evidence) -> None:
    body = evidence.ok(ITEMS).body
    require(isinstance(body, dict) and body.get("object") == "list", "the body is no list")
    require("Ada" in evidence.ok(ITEMS).text, "the list does not have the input")


@_rule(
    "continue",
    "`previous_response_id` adds the earlier conversation",
    "The model reads the conversation of the previous response.",
    Severity.CRITICAL,
)
def _continue(evidence: Evidence) -> None:
    longer_prompt(evidence, CONTINUED, ALONE)


@_rule("delete", "A stored response can be deleted", "`DELETE` deletes a response.")
def _delete(evidence: Evidence) -> None:
    body = evidence.ok(DELETED).body
    require(isinstance(body, dict) and body.get("deleted") is True, "`deleted` is not true")


@_rule("deleted", "A deleted response is a 404", "`GET` of a deleted response is a 404.")
def _deleted(evidence: Evidence) -> None:
    evidence.ok(DELETED)
    status = evidence.at(GONE).status
    require(status == 404, f"status {status}")


def counted(api: Api) -> Scenario:
    """The count of a request, and the request itself."""
    ask = Ask(max_tokens=4)
    sent = request(api, ask)
    keep = ("input", "messages", "system", "tools", "model", "reasoning", "thinking")
    body = {key: value for key, value in (sent.body or {}).items() if key in keep}
    path = f"{PATHS[api]}/{'input_tokens' if api == Api.RESPONSES else 'count_tokens'}"
    return Scenario(f"{api}.count", api, (Request(path, body), sent), ask)


@rule(
    "count.exact",
    "The count of prompt tokens is that of the answer",
    "The operation that counts tokens returns the input tokens of the request.",
    topic="count",
    scenario=counted,
    apis=(Api.RESPONSES, Api.MESSAGES),
    suite=Suite.FULL,
)
def _count(evidence: Evidence) -> None:
    body = evidence.ok(0).body
    tokens = body.get("input_tokens") if isinstance(body, dict) else None
    usage = evidence.answer(1).usage
    if usage is None:
        raise Skipped("the answer has no usage")
    require(tokens == usage.prompt, f"the count is {tokens}, the answer has {usage.prompt}")
