"""The events of a stream as LiteLLM's objects for its hooks, and back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import orjson
from pydantic import BaseModel

from toolgate_core.errors import ToolgateError

from .response_forms import DONE, FRAME_END, frame_of

UNSEEN = "id"
"""LiteLLM encrypts it in responses of its own. Ours can be found by it."""


class EventSource:
    """The events of a stream as LiteLLM's objects, and back."""

    def __init__(
        self, frames: AsyncGenerator[bytes, None], item_of: Callable[[bytes], Any]
    ) -> None:
        self._frames = frames
        self._item_of = item_of
        self._made: dict[bytes, bytes] = {}
        """The events, by the content of LiteLLM's objects."""
        self.taken: list[bytes] = []
        self.end = b""
        """The end of the stream, which the hooks do not get."""
        self.error: ToolgateError | None = None
        """The error that ended the stream."""

    async def items(self) -> AsyncGenerator[Any, None]:
        try:
            async with aclosing(self._frames) as frames:
                async for data in frames:
                    for frame in data.split(FRAME_END)[:-1]:
                        if frame.endswith(DONE):
                            self.end = frame + FRAME_END
                        else:
                            yield self._taken(frame + FRAME_END)
        except ToolgateError as error:
            self.error = error
            raise

    def frame(self, item: Any) -> bytes:
        """Return the event of what the hooks yield: the original one, if they have not changed it.
        Hooks may yield copies."""
        return self._made.get(_content(item)) or frame_of(item)

    def _taken(self, frame: bytes) -> Any:
        item = self._item_of(frame)
        self.taken.append(frame)
        self._made[_content(item)] = frame
        return item


def _content(item: Any) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, BaseModel) and getattr(item, "response", None) is None:
        return item.model_dump_json(exclude_none=True).encode()
    content = item
    if isinstance(item, BaseModel):
        content = item.model_dump(mode="json", exclude_none=True)
    if isinstance(content, dict) and isinstance(content.get("response"), Mapping):
        content["response"] = {**content["response"], UNSEEN: None}
    return orjson.dumps(content)
