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
    """The summary is one of the messages before this place."""
    recent: tuple[int, ...]
    """The places of the messages that stay. The first system messages are not among them."""


def divided(messages: Sequence[Message], *, recent: int, whole: bool) -> Division | None:
    """Return the division of a conversation; None if there is nothing to replace.

    What truncation never drops stays: the last message of the user, and the newest message or calls
    with their results. `recent`: the tokens, as estimated, of further recent messages that stay.
    `whole`: if that is everything, replace it nevertheless, except calls without results."""
    begin = sum(1 for _ in takewhile(lambda message: message["role"] in HEAD, messages))
    units, left = droppable(messages), recent * BYTES_PER_TOKEN
    while units and (size := text_bytes([messages[at] for at in units[-1]])) <= left:
        units.pop()
        left -= size
    if units:
        replaced = {at for unit in units for at in unit}
        stays = (at for at in range(begin, len(messages)) if at not in replaced)
        return Division(units[-1][-1] + 1, tuple(stays))
    end = len(messages) - bool(messages and messages[-1].get("tool_calls"))
    if not whole or end <= begin:
        return None
    return Division(end, tuple(range(end, len(messages))))
