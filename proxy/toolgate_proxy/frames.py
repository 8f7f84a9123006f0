"""Chunks as the bytes of the stream, where nothing between us and the client reads them.

What LiteLLM does with each chunk that it only passes on is most of what a token costs in the
gateway. Here all chunks of one read from the backend are one piece of bytes, and a chunk that
differs from an earlier one in nothing but its text is that one with another text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
from litellm.types.utils import ModelResponseStream

from toolgate_core.deltas import ArgumentsDelta, ContentDelta, ReasoningDelta

from .api.chat_completions.shaping import Chunks
from .chat.answer import Piece

if TYPE_CHECKING:
    from .litellm_host.raw_stream import Unread

MARK = "\0text\0"

LINE_ENDS = {
    character.encode(): f"\\u{ord(character):04x}".encode() for character in "\u0085\u2028\u2029"
}
"""JSON may hold them as they are, and clients that decode before they look for lines (httpx's
`aiter_lines`, for one) take them for ends of lines."""


class Frame(bytes):
    """Server-sent events, whole ones. LiteLLM writes bytes that begin with `data:` as they are."""

    text: str = ""
    """What of it the model said."""
    _hidden_params: dict[str, object]
    """LiteLLM's own word on where it came from, as on its chunks."""


class Frames:
    """Pieces → frames, with the interface of Chunks; `model` as the client named it."""

    def __init__(self, chunks: Chunks, model: str) -> None:
        self._chunks = chunks
        self._model = model
        self._around: dict[tuple[object, ...], tuple[bytes, bytes]] = {}

    def of(self, pieces: Iterable[Piece]) -> Iterator[Frame]:
        """One frame for all of them, if they show anything."""
        parts: list[bytes] = []
        texts: list[str] = []
        for piece in pieces:
            match piece.event:
                case ContentDelta(text) | ReasoningDelta(text) | ArgumentsDelta(_, text):
                    texts.append(text)
                    if self._chunks.opens_or_varies(piece):
                        parts += map(self._written, self._chunks.of([piece]))
                        continue
                    before, after = self._template(piece)
                    parts += (before, orjson.dumps(text), after)
                case _:
                    parts += map(self._written, self._chunks.of([piece]))
        if parts:
            frame = Frame(_unbroken(b"".join(parts)))
            frame.text = "".join(texts)
            yield frame

    def usage(self) -> Frame:
        return Frame(self._written(self._chunks.usage()))

    def _template(self, piece: Piece) -> tuple[bytes, bytes]:
        """What stands before and after the text in chunks of this kind."""
        event = piece.event
        key = (piece.choice, type(event), getattr(event, "index", None))
        if key not in self._around:
            assert isinstance(event, ContentDelta | ReasoningDelta | ArgumentsDelta)
            [chunk] = self._chunks.of([replace(piece, event=replace(event, text=MARK))])
            before, after = self._written(chunk).split(orjson.dumps(MARK))
            self._around[key] = (before, after)
        return self._around[key]

    def _written(self, chunk: ModelResponseStream) -> bytes:
        """As litellm/proxy/proxy_server.py:9852 would write it, and with the `finish_reason` that
        OpenAI gives every choice of a chunk: null but in its last."""
        chunk.model = self._model
        body = chunk.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        for choice in body["choices"]:
            choice.setdefault("finish_reason", None)
        return b"data: " + orjson.dumps(body) + b"\n\n"


def _unbroken(events: bytes) -> bytes:
    for character, escaped in LINE_ENDS.items():
        events = events.replace(character, escaped)
    return events


def shaped(chunks: Chunks, unread: Unread | None) -> Chunks | Frames:
    """Chunks, or frames where nobody reads chunks."""
    return chunks if unread is None else Frames(chunks, unread.model)
