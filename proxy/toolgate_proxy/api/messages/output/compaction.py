"""The block of a message before which, or for which, the conversation was compacted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .blocks import Event


@dataclass(frozen=True)
class CompactionBlock:
    index: int
    summary: str
    sealed: str
    """The compacted conversation."""

    def begin(self) -> Iterator[Event]:
        """All of the text is in one event."""
        empty = {"type": "compaction", "content": None, "encrypted_content": None}
        content = {"content": self.summary, "encrypted_content": self.sealed}
        at = self.index
        yield {"type": "content_block_start", "index": at, "content_block": empty}
        delta = {"type": "compaction_delta", **content}
        yield {"type": "content_block_delta", "index": at, "delta": delta}

    def end(self) -> Iterator[Event]:
        yield {"type": "content_block_stop", "index": self.index}

    def body(self) -> dict[str, Any]:
        return {
            "type": "compaction",
            "content": self.summary,
            "encrypted_content": self.sealed,
        }
