"""One built-in tool: what the model is offered, and the items that its calls and results are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...request_fields import Fields

LIMIT = {"minimum": 1, "maximum": 2**31 - 1}
"""Of a number of milliseconds or characters."""
Event = dict[str, Any]
Member = dict[str, Any]


@dataclass(frozen=True)
class BuiltinTool:
    type: str
    """Of the entry in `tools`. It is also the name by which the model calls the tool."""
    describe: Callable[[Fields], str]
    """Returns the description for the model. The argument is the entry."""
    parameters: dict[str, Any]
    call: str
    """The type of the items of its calls. That of results ends with `_output`."""
    prefix: str
    """Beginning of the ids of its calls."""
    member: str
    """The member of a call's item that has the arguments."""
    to_member: Callable[[dict[str, Any]], Member]
    """Makes that member of valid arguments."""
    to_arguments: Callable[[Member], dict[str, Any]]
    """Makes the arguments of the member of an earlier call."""
    to_text: Callable[[Mapping[str, Any]], str]
    """Returns what the model sees of the item of a result."""
    begun: Callable[[Member], Member] = dict
    """Returns the member without the texts that the events below add."""
    deltas: Callable[[Member], Iterator[Event]] = lambda _: iter(())
    """The events between the beginning and the end of a call's item, without the item's place."""
    is_client_run: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether the client runs the tool of this entry, and not the provider."""
    fields: tuple[str, ...] = ()
    """Further fields of the entry."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further members of a call's item."""

    @property
    def output(self) -> str:
        """The type of the items of results."""
        return f"{self.call}_output"


def present(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the members that are given and not null."""
    return {name: given[name] for name in names if given.get(name) is not None}
