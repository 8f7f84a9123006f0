"""Reasoning in the terms of a model's chat template.

Requests switch reasoning by `enable_thinking` or `reasoning_effort`. Each family's template has an
argument of its own for it (`Switch` in toolgate_core.dialects.dialect).
"""

from __future__ import annotations

from dataclasses import replace

from toolgate_core.chat_request import ChatRequest
from toolgate_core.dialects.dialect import Dialect, Switch

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The values of `reasoning_effort`, in ascending order."""


def with_reasoning_switch(request: ChatRequest, dialect: Dialect) -> ChatRequest:
    """The request with the template argument of the family. An argument that the request already
    has in `chat_template_kwargs` is kept, and decides if nothing else does."""
    switch = dialect.reasoning.switch if dialect.reasoning else None
    if switch is None:
        return request
    given = request.template_kwargs or {}
    effort = given.get("reasoning_effort")
    own = given.get(switch.argument)
    if request.reasoning == "default" and own is not None and own != effort:
        if own == switch.off:
            return replace(request, reasoning="off")
        return replace(request, reasoning="on") if own == switch.on else request
    if request.reasoning == "default":
        return request
    value = _value(switch, effort, on=request.reasoning == "on")
    if switch.argument in given and switch.argument != "reasoning_effort":
        value = given[switch.argument]
    kwargs = {name: each for name, each in given.items() if name != switch.argument}
    if value is not None:
        kwargs[switch.argument] = value
    return replace(request, template_kwargs=kwargs)


def _value(switch: Switch, effort: object, *, on: bool) -> object:
    """The value of the family's argument; None to leave it out."""
    if not on:
        return switch.off
    if not switch.levels or effort not in EFFORTS:
        return switch.on
    wanted = EFFORTS.index(str(effort))
    known = [level for level in EFFORTS if level in switch.levels]
    return min(known, key=lambda level: abs(EFFORTS.index(level) - wanted))
