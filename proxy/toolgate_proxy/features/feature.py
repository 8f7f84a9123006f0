"""A feature: a tool that the gateway runs, or that the API of a provider defines, with everything
that it adds to each API. `all.py` lists the features.

An API asks the features about what it does not know itself: types of entries of `tools`, types of
items or blocks of the conversation, and parameters. A feature takes part in a request only if the
request has one of them. Each API has a subclass of `Feature` for its own forms
(`api/*/feature.py`).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from ..api.shared.history import History, Part
from ..api.shared.tools import EchoedTool, OfferedTool, ReadTool
from ..api.surface import Client
from ..chat.response import ChatResponse
from ..request.chat_request import ToolChoice
from ..request.gateway_tools import GatewayTool, PendingCall
from ..request.toolset import Toolset
from ..request_fields import Fields

Out = TypeVar("Out", bound="FeatureOutput")


@dataclass
class FeatureInput:
    """What features read of one request."""

    client: Client
    values: Mapping[str, Any]
    """The parameters."""
    history: History = field(default_factory=History)
    choice: ToolChoice = "auto"
    recalled: int = 0
    """The number of items of the conversation that are not the request's own."""
    tools: Toolset = field(default_factory=Toolset)
    """After the request's own tools were read. The conversation adds others."""
    shown: Sequence[EchoedTool] = ()
    """The tools of the request as the response repeats them."""


class FeatureOutput:
    """What one feature adds to one response. Each API has a subclass for its own forms."""

    feature: Any

    def __init__(self, feature: Feature[Any], response: ChatResponse) -> None:
        self.feature, self.response = feature, response


class Feature(Generic[Out]):
    """One feature in one request to one API, and its part of the response."""

    TYPES: ClassVar[re.Pattern[str] | None] = None
    """Types of entries of `tools`."""
    ITEMS: ClassVar[Container[str]] = ()
    """Types of items or blocks of the conversation."""
    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    PARTS: ClassVar[Mapping[str, Sequence[str]]] = {}
    """By type of content part: its fields."""
    OUTPUT: type[Out] | None = None
    """Its part of a response."""

    def __init__(self, feature_input: FeatureInput) -> None:
        self.input = feature_input

    @property
    def optional(self) -> frozenset[str]:
        """The names of tools that are left out if they are invalid, since the client did not write
        them."""
        return frozenset()

    def take(self, entry: Fields) -> ReadTool | None:
        """Read an entry of `tools` of one of the feature's types; None if it is not taken. Raise
        InvalidRequest and UnsupportedParameter."""
        return None

    def part(self, fields: Fields) -> list[Part]:
        """Read a content part of one of the feature's types. Raise InvalidRequest and
        UnsupportedParameter."""
        raise NotImplementedError

    def more(self) -> Iterable[OfferedTool]:
        """Return the tools that the model is offered beside those of entries of `tools`."""
        return ()

    def runners(self) -> Mapping[str, GatewayTool]:
        """Return what runs the tools of the feature inside the response, by name."""
        return {}

    def fields(self) -> Mapping[str, Any]:
        """Return further fields of the chat request, after the conversation was read. Raise
        InvalidRequest and UnsupportedParameter."""
        return {}

    def pending(self) -> Iterable[PendingCall]:
        """Return the calls that run before the response. Raise InvalidRequest."""
        return ()

    def output(self, response: ChatResponse) -> Out | None:
        return None if self.OUTPUT is None else self.OUTPUT(self, response)


F = TypeVar("F", bound=Feature[Any])


def outputs(features: Iterable[Feature[Out]], response: ChatResponse) -> list[Out]:
    """Return the parts of a response that features make."""
    results = (feature.output(response) for feature in features)
    return [output for output in results if output is not None]


class ActiveFeatures(Generic[F]):
    """Begins the features that one request uses, and joins what they add to it. `known`: those of
    its API."""

    def __init__(self, known: Sequence[type[F]], feature_input: FeatureInput) -> None:
        self.input = feature_input
        self.known = known
        self._begun: dict[type[F], F] = {}
        for kind in known:
            if any(name in feature_input.values for name in kind.PARAMETERS):
                self._begin(kind)

    def __iter__(self) -> Iterator[F]:
        return iter([*self._begun.values()])

    def of_type(self, kind: object) -> F | None:
        """Return the feature that has a type of entries of `tools`."""
        if not isinstance(kind, str):
            return None
        types = ((each, each.TYPES) for each in self.known)
        return self._begin(next((each for each, own in types if own and own.fullmatch(kind)), None))

    def of_item(self, kind: str) -> F | None:
        """Return the feature that has a type of items or blocks of the conversation."""
        return self._begin(next((each for each in self.known if kind in each.ITEMS), None))

    @property
    def parts(self) -> dict[str, Sequence[str]]:
        """By type of content parts that features read: their fields."""
        return {kind: fields for each in self.known for kind, fields in each.PARTS.items()}

    def part(self, fields: Fields, kind: str) -> list[Part] | None:
        """Read a content part; None for a type of no feature. Raise InvalidRequest and
        UnsupportedParameter."""
        feature = self._begin(next((each for each in self.known if kind in each.PARTS), None))
        return None if feature is None else feature.part(fields)

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(name for feature in self for name in feature.optional)

    def pending(self) -> tuple[PendingCall, ...]:
        return tuple(call for feature in self for call in feature.pending())

    def more(self) -> Iterator[OfferedTool]:
        for feature in self:
            yield from feature.more()

    def runners(self) -> dict[str, GatewayTool]:
        """Return what runs the tools that the request has, by name."""
        pairs = (pair for feature in self for pair in feature.runners().items())
        return {name: tool for name, tool in pairs if self.input.tools.has(name)}

    def fields(self) -> dict[str, Any]:
        return {name: value for feature in self for name, value in feature.fields().items()}

    def _begin(self, kind: type[F] | None) -> F | None:
        if kind is None:
            return None
        if kind not in self._begun:
            self._begun[kind] = kind(self.input)
        return self._begun[kind]
