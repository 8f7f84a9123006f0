"""Enforcement of one sequence, with the methods of a vLLM grammar.

The methods are those of vllm/v1/structured_output/backend_types.py: accept_tokens, validate_tokens,
rollback, fill_bitmask, is_terminated, reset. `next_mask` is a cheaper form of `fill_bitmask`. This
module does not import vLLM. The phases and their transitions are in state_machine.py.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Sequence

import numpy as np

from ..errors import BackendError, NoTokenAllowed
from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.engines.engine import Matcher
from ..tokens import masks
from ..tokens.masks import BitmaskRow, words_per_row
from ..tokens.rows import Row
from .budget import Budget
from .permissions import Permissions
from .spec import Spec
from .state import Phase, State
from .state_machine import StateMachine
from .static_masks import StaticMasks

ROLLBACK_WINDOW = 256
"""Maximum number of tokens that can be rolled back. Drafts have a few dozen at most."""


class Automaton:
    def __init__(
        self,
        static: StaticMasks,
        spec: Spec,
        grammars: Sequence[MeasuredGrammar],
        content: MeasuredGrammar | None = None,
        accepted: Sequence[MeasuredGrammar] | None = None,
    ) -> None:
        """`accepted` are the grammars of the calls in `spec.accepted`; None: `grammars`. Raises
        BackendError if `spec.accepted` contains tokens that the spec does not allow."""

        def create_machine(limits: Spec, grammars: Sequence[MeasuredGrammar]) -> StateMachine:
            permissions = Permissions(static, limits, Budget(static, limits, grammars))
            return StateMachine(static, limits, permissions, content)

        self._static = static
        self._accepted = spec.accepted
        self._excluded = frozenset(spec.excluded)
        self._limited = create_machine(spec, grammars)
        # The accepted tokens were sampled under an earlier budget, of which less remains now.
        unlimited = dataclasses.replace(spec, budget=None)
        self._unlimited = create_machine(unlimited, grammars if accepted is None else accepted)
        self.reset()

    @property
    def state(self) -> State:
        return self._state

    def reset(self) -> None:
        self._length = 0  # tokens of the response so far
        self._first_mask: masks.Mask | None = None
        self._history: deque[State] = deque(maxlen=ROLLBACK_WINDOW)
        self._machine = self._unlimited if self._accepted else self._limited
        self._state = self._machine.initial_state()
        if not self.accept_tokens(self._accepted):
            raise BackendError(
                "The tokens to continue from (`accepted`) violate the constraints of the request. "
                "Send only tokens of an earlier response to the same request."
            )
        self._machine = self._limited
        if self._accepted:
            self._state = self._machine.resumed(self._state, self._length)
        self._history.clear()
        self._first_mask = self._without_excluded()

    def accept_tokens(self, tokens: Sequence[int]) -> bool:
        """Advance by `tokens`. Stops at the first token that is not allowed and returns False."""
        for token in tokens:
            if self._excludes(token):
                return False
            after = self._machine.step(self._state, self._length, token)
            if after is None:
                return False
            self._history.append(self._state)
            self._length += 1
            self._state = after
        return True

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """The longest prefix of `tokens` that is allowed. The state is unchanged."""
        accepted = 0
        for token in tokens:
            if not self.accept_tokens([token]):
                break
            accepted += 1
        self.rollback(accepted)
        return list(tokens[:accepted])

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens, at most ROLLBACK_WINDOW."""
        for _ in range(count):
            self._state = self._history.pop()
            if self._state.candidates is not None:
                self._state.candidates.truncate(self._state.grammar_tokens)
        self._length -= count

    def is_terminated(self) -> bool:
        return self._state.ended

    def fill_bitmask(self, row: BitmaskRow) -> None:
        masks.render(self.next_mask(), row, self._static.vocabulary_size)

    def next_row(self) -> Row:
        """The tokens allowed next, as a shared row. Raises NoTokenAllowed if there are none."""
        words = np.empty(words_per_row(self._static.vocabulary_size), np.int32)
        self.fill_bitmask(words)
        return self._static.rows.row(words)

    def next_mask(self) -> masks.Mask:
        """The tokens allowed next. Raises NoTokenAllowed if there are none."""
        if self._first_mask is not None and self._length == len(self._accepted):
            return self._first_mask
        return self._machine.mask(self._state, self._length)

    @property
    def grammar_matcher(self) -> Matcher | None:
        """The matcher that computes the next mask inside a call (`CandidateSet.grammar_matcher`);
        None where the mask needs more than that."""
        state = self._state
        if state.phase is not Phase.TOOL_CALL or state.forced or state.candidates is None:
            return None
        if self._first_mask is not None and self._length == len(self._accepted):
            return None
        return state.candidates.grammar_matcher

    def _excludes(self, token: int) -> bool:
        here = self._first_mask is not None and self._length == len(self._accepted)
        return here and token in self._excluded

    def _without_excluded(self) -> masks.Mask | None:
        """The mask after `spec.accepted`; None if nothing has to be excluded from it."""
        if not self._excluded:
            return None
        try:
            return masks.without(self._machine.mask(self._state, self._length), self._excluded)
        except NoTokenAllowed:  # the next step reports it
            return None
