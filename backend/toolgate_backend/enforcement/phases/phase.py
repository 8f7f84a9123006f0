"""What a phase of a turn is, and what all phases use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...grammars.compiled_grammar import MeasuredGrammar
from ...tokens import masks
from ..model_data import ModelData
from ..permissions import Permissions
from ..room import Room
from ..spec import Spec
from ..state import State

if TYPE_CHECKING:
    from ..turn import Turn


class PhaseRules(Protocol):
    """The rules of one phase. They are functions of the state and the room."""

    def mask(self, state: State, room: Room) -> masks.Mask:
        """The tokens allowed next. Raises NoTokenAllowed if there are none."""
        ...

    def step(self, state: State, room: Room, token: int) -> State | None:
        """The state after `token`; None if the token is not allowed. `room` is that before it."""
        ...


@dataclass(frozen=True)
class Rules:
    """What the phases of one turn have in common."""

    model: ModelData
    spec: Spec
    permissions: Permissions
    content: MeasuredGrammar | None
    turn: Turn
    """How a phase hands over to another one."""

    def call_id(self, index: int) -> str:
        return self.model.call_ids.call_id(self.spec, index)

    def candidates_step(self, state: State, token: int) -> State | None:
        """The state after a token of one of its candidates."""
        assert state.candidates is not None
        after = state.candidates.after(token)
        return None if after is None else state._replace(candidates=after)

    @property
    def closed_ends(self) -> frozenset[int]:
        """The tokens that end a turn of which a part was closed."""
        closed = self.model.marks.closed
        return self.model.call_ends if closed is None else frozenset({closed})
