"""A compacted conversation: the summary, and the messages after it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes

from ...chat.choice import FeatureEvent
from ...chat.preparation import HEAD, droppable
from ...sealing import OwnerSeal, SealBroken

PAUSED = "compaction"
"""The reason why a response ends after the summary."""
Message = dict[str, Any]
SHOWN = """\
The conversation before this point was replaced by a summary of it:

<summary>
{}
</summary>\
"""


@dataclass(frozen=True)
class Summary(FeatureEvent):
    """The summary that replaces a conversation, with the messages that stay. It is also the event
    that begins a response before which the conversation was compacted."""

    summary: str
    recent: tuple[Message, ...] = ()
    """The messages of the conversation that stayed as they are. They follow the summary."""
    keeps_users: bool = False
    """Whether messages of users stay that are before the summary."""
    pauses: bool = False
    """Whether the response has nothing else."""

    def remaining(self, roles: Sequence[str]) -> list[int]:
        """Return the places of those messages before the summary that stay. `roles`: of the
        messages."""
        if self.keeps_users:
            return [at for at, role in enumerate(roles) if role in (*HEAD, "user")]
        return list(range(sum(1 for _ in takewhile(HEAD.__contains__, roles))))

    def messages(self) -> list[Message]:
        """Return the messages that replace the conversation. Many templates do not accept two
        messages of the user in a row, so the summary is part of a first message of the user."""
        text, recent = shown(self.summary), list(self.recent)
        if recent and recent[0]["role"] == "user":
            return [text_before(text, recent[0]), *recent[1:]]
        return [{"role": "user", "content": text}, *recent]


def shown(summary: str) -> str:
    """Return the text that the model sees instead of the conversation."""
    return SHOWN.format(summary)


def text_before(text: str, message: Message) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{text}\n\n{content}"}
    return {**message, "content": [{"type": "text", "text": text}, *content]}


def text_after(text: str, message: Message) -> Message:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{text}"}
    return {**message, "content": [*content, {"type": "text", "text": text}]}


PURPOSE = "compaction"


def sealed(summary: Summary, seal: OwnerSeal | None) -> str:
    """Return the conversation in base64; an empty text without a seal."""
    if seal is None:
        return ""
    data = zlib.compress(json.dumps(asdict(summary), separators=(",", ":")).encode())
    return base64.b64encode(seal.seal(data, purpose=PURPOSE)).decode()


def opened(text: object, seal: OwnerSeal | None) -> Summary | None:
    """Return the conversation; None if it was changed, or sealed for another key or by another
    service."""
    if seal is None or not isinstance(text, str):
        return None
    try:
        data = seal.open(base64.b64decode(text, validate=True), purpose=PURPOSE)
    except (SealBroken, ValueError):
        return None
    values = json.loads(zlib.decompress(data))
    return Summary(**{**values, "recent": tuple(values["recent"])})


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
