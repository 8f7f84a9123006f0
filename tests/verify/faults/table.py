"""The fault of each check."""

import json

from toolgate_verify.terms import Api

from . import changes as c
from .own import CHAT, MESSAGES, RESPONSES, echo
from .shared import PROMPT, SHARED

OWN = {Api.CHAT: CHAT, Api.RESPONSES: RESPONSES, Api.MESSAGES: MESSAGES}


def fault_of(check):
    """The fault that breaks the rule of the check, or None if there is none."""
    name = check.id.split(".", 1)[1]
    found = OWN[check.api].get(name) or SHARED.get(name)
    return found or _of_family(check, name.split(".")[1])


def _of_family(check, rule):
    family = check.family
    if family in ("schema", "fail_open", "checked"):
        return (
            c.arguments(json.dumps(check.scenario.ask.tools[0].wrong))
            if check.scenario.ask
            else None
        )
    if family == "toolset":
        return c.arguments({"unknown": 1})
    if family == "history":
        return c.refuses()
    if family == "prompt":
        return PROMPT
    if family == "errors":
        return c.ACCEPTS
    if family == "echo":
        return echo(rule)
    return None
