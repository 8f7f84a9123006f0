"""Compaction in the Responses API: when it is done, and the items that it leaves in `input`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from toolgate_core.errors import InvalidRequest

from ...api.responses.feature import ResponsesFeature, ResponsesOutput
from ...api.responses.items import TRIGGER, is_trigger
from ...api.responses.output_items import Item
from ...api.responses.turns import ItemTurns
from ...api.shared.value_types import Choice, Integer, Object
from ...request_fields import Fields
from .compacted import Summary, opened, sealed
from .respond import Compaction, Shortening

ITEM = "compaction"
PARAMETER = "context_management"
THRESHOLD = "compact_threshold"
ENTRY = Object({"type": Choice(("compaction",)), THRESHOLD: Integer(1000)}, required=("type",))
DEFAULT_THRESHOLD = 200_000
"""If an entry has none. A prompt that leaves no room for the response is compacted anyway."""


class ResponsesCompactionOutput(ResponsesOutput):
    feature: CompactionInResponses

    def item(self, event: object) -> Item | None:
        if not isinstance(event, Summary):
            return None
        return CompactionItem(sealed(event, self.feature.input.client.seal))


class CompactionInResponses(ResponsesFeature):
    ITEMS: ClassVar = {ITEM: "cmp", TRIGGER: "item"}
    FIELDS: ClassVar = {ITEM: ("encrypted_content", "created_by"), TRIGGER: ()}
    PARAMETERS = (PARAMETER,)
    OUTPUT = ResponsesCompactionOutput

    def read_back(self, item: Fields, kind: str, turns: ItemTurns) -> bool:
        """Read an item of this type. An item that was changed, or sealed for another key or
        service, is left out."""
        if kind == ITEM:
            summary = opened(item.text("encrypted_content"), self.input.client.seal)
            if summary is None:
                turns.history.note("left_out", item.place)
            else:
                turns.compacted(summary.remaining, summary.messages(), item.place)
        return True

    def fields(self) -> Mapping[str, Any]:
        sent_input = self.input.values.get("input")
        items = sent_input[self.input.recalled :] if isinstance(sent_input, list) else ()
        rule = read_compaction(self.input.values, items)
        return {"shortener": None if rule is None else Shortening(rule)}


@dataclass
class CompactionItem(Item):
    """The item before which, or for which, the conversation was compacted."""

    PREFIX = "cmp"
    sealed: str
    """The compacted conversation."""

    def body(self) -> dict[str, Any]:
        return {"id": self.id, "type": ITEM, "encrypted_content": self.sealed}


def read_compaction(values: Mapping[str, Any], items: Sequence[object]) -> Compaction | None:
    """Return the compaction that a request asks for. `items`: its own ones. Raise InvalidRequest
    and UnsupportedParameter."""
    entries = [
        ENTRY.parse(entry, f"{PARAMETER}[{at}]")
        for at, entry in enumerate(values.get(PARAMETER, ()))
    ]
    for at, item in enumerate(items[:-1]):
        if is_trigger(item):
            path = f"input[{at}]"
            raise InvalidRequest(
                f"{path!r}: an item of the type {TRIGGER!r} must be the last one of 'input'.",
                param=path,
            )
    if items and is_trigger(items[-1]):
        return Compaction(pauses=True, keeps_users=True)
    if not entries:
        return None
    return Compaction(min(entry.get(THRESHOLD, DEFAULT_THRESHOLD) for entry in entries))
