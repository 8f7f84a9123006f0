"""Instances of a tool's schema under its masks: `POST /v1/toolgate/instances`."""

from __future__ import annotations

from typing import Any

from .grammars import GrammarSource, GrammarVerdict
from .message import Many, Message

MAX_INSTANCES = 64
"""Maximum number of instances of one request."""
MAX_INSTANCE_LENGTH = 100_000
"""Maximum length of an instance as JSON, in characters."""


class WalkInstances(Message):
    grammar: GrammarSource
    instances: tuple[Any, ...]
    """JSON values, with their members in the order in which the model would write them."""


class InstanceWalk(Message):
    accepted: bool
    """Whether masks let the model write the instance."""
    pointer: str | None = None
    """JSON Pointer in the instance: where the first token is forbidden."""
    rule: str | None = None
    """With `pointer`: `member_order`, `number_form`, `closed_object`, or a keyword of the schema.
    It is the reason if the instance is valid."""


class InstanceWalks(Message):
    verdict: GrammarVerdict
    walks: Many[InstanceWalk] = ()
    """One for each instance; none if the schema is refused."""
