"""Requests that every API refuses: a 4xx in the API's own form, before anything is generated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...asking import PATHS, request
from ...asking.ask import Assistant, ToolResult
from ...check import ALL, rule
from ...exchange import Exchange, Request
from ...scenario import Evidence, brief
from ...terms import Api, Failed, Severity, Skipped, Suite, require
from ...tools.everyday import LIGHT, closed
from ...tools.tool import Tool
from ..common import sending
from ..histories import ASKED, DONE, LIGHT_CALL
from .wrong import BASE, WRONG, body_of

WRONG_KEY = "toolgate-verify-wrong-key"


def is_refused(evidence: Evidence) -> Exchange:
    """The exchange, if it is a 4xx with an error in the API's form. Raises Failed otherwise."""
    exchange = evidence.at(0)
    require(not exchange.problem, exchange.problem)
    require(exchange.status != 200, f"accepted with status 200: {brief(exchange.text)}")
    require(400 <= exchange.status < 500, f"status {exchange.status}: {brief(exchange.text)}")
    require(exchange.status != 429, "status 429: the request was not judged")
    body = exchange.body
    error = body.get("error") if isinstance(body, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    require(
        isinstance(message, str) and message,
        f"status {exchange.status} without `error.message`: {brief(exchange.text)}",
    )
    return exchange


def _refusal(evidence: Evidence) -> None:
    is_refused(evidence)


def refused(
    name: str,
    title: str,
    requirement: str,
    make: Callable[[Api], Request],
    **more: Any,
) -> None:
    """Registers a check that the request is refused."""

    more = {"topic": "http_errors", "apis": ALL, **more}
    scenario = sending(name, lambda api: (make(api),), BASE)
    rule(name, title, requirement, scenario=scenario, **more)(_refusal)


for _name, _wrong in WRONG.items():
    refused(
        f"errors.{_name}",
        _wrong.title,
        _wrong.requirement,
        lambda api, wrong=_wrong: body_of(api, wrong.change(api) or {}),  # type: ignore[misc]
        topic="request",
        apis=[api for api in ALL if _wrong.change(api) is not None],
        suite=_wrong.suite,
        severity=_wrong.severity,
    )

STRANGE = Tool("strange", "A tool.", closed(a={"type": "strange"}))
REMOTE = Tool("remote", "A tool.", closed(a={"$ref": "https://example.com/no-such-schema.json"}))
NAMELESS = Tool("", "A tool.", closed())
SPACES = Tool("two words!", "A tool.", closed())

for _name, _title, _requirement, _tools, _severity in (
    (
        "schema_type",
        "A schema with an unknown type is refused",
        "The parameters of a tool are a JSON Schema.",
        (STRANGE,),
        Severity.CRITICAL,
    ),
    (
        "schema_remote",
        "A strict schema with a remote reference is refused",
        "A strict schema is enforced, or refused if it cannot be.",
        (REMOTE,),
        Severity.CRITICAL,
    ),
    (
        "tool_nameless",
        "A tool with an empty name is refused",
        "A tool has a name of 1 to 64 characters.",
        (NAMELESS,),
        Severity.MAJOR,
    ),
    (
        "tool_name",
        "A tool name with spaces is refused",
        "Names of tools have letters, digits, underscores and dashes.",
        (SPACES,),
        Severity.MINOR,
    ),
    (
        "tool_twice",
        "Two tools with one name are refused",
        "The names of tools are unique.",
        (LIGHT, replace(LIGHT, parameters=closed())),
        Severity.MINOR,
    ),
):
    refused(
        f"errors.{_name}",
        _title,
        _requirement,
        lambda api, tools=_tools: request(api, replace(BASE, tools=tools, choice="required")),  # type: ignore[misc]
        severity=_severity,
        suite=Suite.QUICK if _name == "schema_remote" else Suite.FULL,
    )

refused(
    "errors.result_without_call",
    "A result without its call is refused",
    "A result refers to a call of the turn before it.",
    lambda api: request(api, replace(BASE, turns=(ASKED, DONE))),
    topic="calls",
    apis=(Api.RESPONSES, Api.MESSAGES),  # the reference of chat completions does not state it
)
refused(
    "errors.call_without_result",
    "A call without its result is refused",
    "Each call of a turn is followed by its result.",
    lambda api: request(
        api,
        replace(
            BASE,
            turns=(
                ASKED,
                Assistant(calls=(LIGHT_CALL, replace(LIGHT_CALL, id="call_2"))),
                ToolResult("call_2", "done"),
            ),
        ),
    ),
    topic="calls",
    apis=(Api.MESSAGES,),
)
refused(
    "errors.not_json",
    "A body that is not JSON is refused",
    "The body of a request is a JSON object.",
    lambda api: Request(PATHS[api], raw='{"model": '),
    suite=Suite.QUICK,
)
refused(
    "errors.streamed",
    "An error of a streamed request has its status",
    "A request that is refused before anything is generated has a 4xx, also if it is streamed.",
    lambda api: body_of(
        api,
        {"stream": True, **(WRONG["choice_unknown_tool"].change(api) or {})},
    ),
)


_FORM = sending(
    "errors.form",
    lambda api: (body_of(api, WRONG["temperature_type"].change(api) or {}),),
    BASE,
)


@rule(
    "errors.form",
    "Errors have the API's form",
    "The body of an error has the members that the API specifies.",
    topic="errors",
    scenario=_FORM,
)
def _form(evidence: Evidence) -> None:
    body = is_refused(evidence).body
    error = body["error"]
    require(isinstance(error.get("type"), str) and error["type"], "`error.type` is missing")
    if evidence.api == Api.MESSAGES:
        require(body.get("type") == "error", "`type` is not 'error'")
        require(error["type"].endswith("_error"), f"`error.type` is {error['type']!r}")


@rule(
    "errors.names_parameter",
    "Errors name the parameter",
    "An error states which parameter is wrong.",
    topic="errors",
    scenario=_FORM,
    severity=Severity.MINOR,
)
def _names(evidence: Evidence) -> None:
    text = is_refused(evidence).text
    require("temperature" in text, f"the error does not name `temperature`: {brief(text)}")


_KEYS = sending(
    "errors.key",
    lambda api: tuple(replace(request(api, BASE), key=key) for key in (WRONG_KEY, "")),
    BASE,
)
"""A wrong key, and none."""


@rule(
    "errors.wrong_key",
    "A wrong key is a 401",
    "A request without a valid key has the status 401.",
    topic="errors",
    scenario=_KEYS,
    severity=Severity.CRITICAL,
)
def _wrong_key(evidence: Evidence) -> None:
    if evidence.at(1).status == 200:
        raise Skipped("the server answers requests without a key: it does not check keys")
    exchange = is_refused(evidence)
    if exchange.status == 403:
        raise Skipped("status 403 instead of 401")
    if exchange.status != 401:
        raise Failed(f"status {exchange.status} instead of 401")
