"""What a feature adds to the Responses API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from toolgate_core.deltas import CallStart

from ...features.feature import Feature, FeatureOutput
from ...request_fields import DEFERRED, Fields
from ..shared.tools import EchoedTool, ReadTool
from .output_items import CallItem, Event, Item
from .turns import ItemTurns

IGNORED_FIELDS = (DEFERRED, "output_schema", "allowed_callers")
"""Fields without effect. Without a search of the client, deferred tools are loaded at once."""


def check_entry(entry: Fields, known: Sequence[str]) -> None:
    """Check an entry of `tools`. `known`: its fields. Raise UnsupportedParameter."""
    entry.check_known((*known, *IGNORED_FIELDS))
    callers = entry.values.get("allowed_callers")
    if callers is not None and (not isinstance(callers, list) or "direct" not in callers):
        problem = "must contain 'direct'. Programs of the model cannot call tools here."
        raise entry.refusal("allowed_callers", problem)


def repeated_entry(entry: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """Return an entry of `tools` as the response repeats it. `fields`: of its type."""
    repeated = {name: entry.get(name) for name in fields}
    return {**repeated, DEFERRED: True} if entry.get(DEFERRED) else repeated


def chosen_of(
    shown: Iterable[EchoedTool], is_chosen: Callable[[EchoedTool], bool]
) -> list[dict[str, Any]]:
    """Return those tools of a response that are chosen, in their namespaces."""
    kept: list[dict[str, Any]] = []
    for tool in shown:
        if tool.inner is None:
            kept += [tool.body] if is_chosen(tool) else []
        elif inner := chosen_of(tool.inner, is_chosen):
            kept.append({**tool.body, "tools": inner})
    return kept


class ResponsesOutput(FeatureOutput):
    """What one feature adds to one response."""

    def first(self) -> Iterable[Item]:
        """Return the items before all others."""
        return ()

    def call(self, start: CallStart, call_id: str) -> CallItem | None:
        """Return the item of a call of a tool of the feature; None for other calls."""
        return None

    def item(self, event: object) -> Item | None:
        """Return the item of an event that no item of a call takes."""
        return None

    def annotations(self, text: str) -> Iterable[Event]:
        """Return the annotations of a complete text."""
        return ()


class ResponsesFeature(Feature[ResponsesOutput]):
    ITEMS: ClassVar[Mapping[str, str]] = {}
    """By type of item: the beginning of its id."""
    FIELDS: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By type of item: its own fields. Types without are read as those of another service."""
    STATUS: ClassVar[Sequence[str]] = ()
    """Types of items that have another status than most."""
    CHOICES: ClassVar[tuple[str, ...]] = ()
    """Types in `tool_choice` that an error names."""

    @property
    def finds_deferred(self) -> bool:
        """Whether deferred tools stay deferred, because the model or the client finds them."""
        return False

    def own(self, entry: Fields, namespace: str) -> ReadTool | None:
        """Read a tool of a client that may be in a namespace; None if its type cannot be."""
        return None

    def chosen(self, choice: Fields) -> str | None:
        """Return the name of the tool that `tool_choice` names by its type."""
        return None

    def read_back(self, item: Fields, kind: str, turns: ItemTurns) -> bool:
        """Read an item of the conversation. Return False if it is shown as its text, since it is
        damaged. Raise InvalidRequest."""
        return False
