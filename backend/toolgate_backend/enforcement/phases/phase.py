"""What a phase of a turn is, and what all phases use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...grammars.compiled_grammar import MeasuredGrammar
from ...tokens import masks
from ..permissions import Permissions
from ..room import Room
from ..spec import Spec
from ..state import Phase, State
from ..static_masks import StaticMasks


class PhaseRules(Protocol):
    """The rules of one phase. They are functions of the state and the room."""

    def mask(self, state: State, room: Room) -> masks.Mask:
        """The tokens allowed next. Raises NoTokenAllowed if there are none."""
        ...

    def step(self, state: State, room: Room, token: int) -> State | None:
        """The state after `token`; None if the token is not allowed. `room` is that before it."""
        ...


class Transitions(Protocol):
    """How a phase hands over to another one."""

    def begin(self, state: State, phase: Phase, room: Room) -> State:
        """The state at the beginning of `phase`, which follows `state`."""
        ...

    def force(self, state: State, tokens: tuple[int, ...], then: Phase, room: Room) -> State:
        """`state` with `tokens` to come, and then the phase `then`."""
        ...

    def begin_call(self, room: Room, written: bytes) -> State:
        """The state in the first call, of which `written` has been written."""
        ...

    def after_call_token(self, state: State, room: Room) -> State:
        """The state after a token of a call, at whose end something else begins."""
        ...


@dataclass(frozen=True)
class Rules:
    """What the phases of one turn have in common."""

    static: StaticMasks
    spec: Spec
    permissions: Permissions
    content: MeasuredGrammar | None
    turn: Transitions

    def call_id(self, index: int) -> str:
        return self.static.call_ids.call_id(self.spec, index)

    def candidates_step(self, state: State, token: int) -> State | None:
        """The state after a token of one of its candidates."""
        assert state.candidates is not None
        after = state.candidates.after(token)
        return None if after is None else state._replace(candidates=after)

    @property
    def closed_ends(self) -> frozenset[int]:
        """The tokens that end a turn of which a part was closed."""
        closed = self.static.marks.closed
        return self.static.call_ends if closed is None else frozenset({closed})
