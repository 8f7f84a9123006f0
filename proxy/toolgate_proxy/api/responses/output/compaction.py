"""The item of a response before which, or for which, the conversation was compacted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..state.item_ids import item_id
from .items import Event, item_added, item_done


@dataclass(frozen=True)
class CompactionItem:
    response_id: str
    index: int
    sealed: str
    """The compacted conversation."""

    def events(self) -> Iterator[Event]:
        yield item_added(self.index, self.body())
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {
            "id": item_id("cmp", self.response_id, self.index),
            "type": "compaction",
            "encrypted_content": self.sealed,
        }
