"""The part of a conversation that a summary replaces, and the part that stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ..request.truncation import HEAD, droppable
from .compacted import Message


@dataclass(frozen=True)
class Division:
    end: int
    """The place of the first message that the summary does not cover."""
    recent: tuple[int, ...]
    """The places of the messages that stay. The first system messages are not among them."""


def divided(messages: Sequence[Message], recent: int) -> Division | None:
    """Return the division of a conversation; None if there is nothing to replace.

    What truncation never drops stays: the last message of the user, and the newest message or calls
    with their results. `recent`: the tokens, as estimated, of further recent messages that stay."""
    units, left = droppable(messages), recent * BYTES_PER_TOKEN
    while units and (size := text_bytes([messages[at] for at in units[-1]])) <= left:
        units.pop()
        left -= size
    if not units:
        return None
    return Division(units[-1][-1] + 1, _others(messages, units))


def divided_whole(messages: Sequence[Message]) -> Division | None:
    """Return the division for a summary of the whole conversation but calls without results; None
    if there is nothing else. What truncation never drops stays as well, if it is not everything."""
    end = len(messages) - bool(messages and messages[-1].get("tool_calls"))
    if end <= _begin(messages):
        return None
    units = droppable(messages)
    return Division(end, _others(messages, units) if units else tuple(range(end, len(messages))))


def _others(messages: Sequence[Message], units: Sequence[Sequence[int]]) -> tuple[int, ...]:
    replaced = {at for unit in units for at in unit}
    return tuple(at for at in range(_begin(messages), len(messages)) if at not in replaced)


def _begin(messages: Sequence[Message]) -> int:
    return sum(1 for _ in takewhile(lambda message: message["role"] in HEAD, messages))
