"""The adapter structured_output: the automaton as one of vLLM's native grammars.

The interface is in vllm/v1/structured_output/backend_types.py. The automaton runs in the
scheduler's process, once for each sequence however many ranks the model has. It works with both
model runners, async scheduling and speculative decoding: vLLM parks a request until its grammar is
built, and validates drafts with the grammar's methods. engine_hooks.py contains the hooks that make
vLLM use these grammars, and mask_worker.py the workers' part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import TypeVar

import numpy as np
import torch
from vllm.logger import init_logger
from vllm.v1.structured_output.backend_types import StructuredOutputGrammar

from ..enforcement.automaton import Automaton
from ..enforcement.jump_forward import JumpForward, RepeatedText, StepPlan, learn
from ..enforcement.model_data import ModelData
from ..errors import BackendError
from ..tokens.masks import BitmaskRows, Row
from .row_numbers import NumberedRows, RowNumbers

logger = init_logger(__name__)

FAILED = "Toolgate: enforcement failed, ending the sequence with an error"
MASK_SECONDS = 0.02
"""Maximum processor time of one sequence's mask in a step, while all other sequences wait: wall
time would blame a sequence for a busy machine. The slowest of 3,257 masks of real calls took 1.3
ms."""
MAX_SLOW = 8
"""Slow masks in a row after which the sequence ends with an error."""
T = TypeVar("T")


def is_token(draft: int) -> bool:
    """vLLM pads drafts with −1."""
    return draft >= 0


@dataclass(frozen=True)
class EngineContext:
    """What all sequences of an engine process share."""

    failed: FailedSequence
    jump_forward: JumpForward
    everything: Row
    """The mask that allows every token."""


class EnforcementGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # vLLM is not type-checked
    """The grammar of one sequence.

    An exception from its methods would end the whole engine (EngineDeadError). An error therefore
    ends only this sequence: see FailedSequence."""

    def __init__(
        self,
        automaton: Automaton | FailedSequence,
        shared: EngineContext,
        text: RepeatedText | None = None,
    ) -> None:
        """`text`: that of the sequence, if drafts of the next step are wanted."""
        self.automaton = automaton
        self._shared = shared
        self._text = text
        self._slow = 0  # slow masks in a row

    # Called at each token, so these handle errors themselves.

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """False ends the request with `finish_reason="error"`."""
        try:
            if len(tokens) == 1:
                return self.automaton.accept(tokens[0])
            return self.automaton.accept_tokens(tokens)
        except Exception:
            logger.exception(FAILED)
            return self._fail().accept_tokens(tokens)

    def next_row(self) -> Row:
        """Return the tokens allowed next. Fails if this sequence's masks stay slow."""
        started = time.thread_time()
        try:
            row = self.automaton.next_row()
        except Exception:
            logger.exception(FAILED)
            return self._fail().next_row()
        self._slow = self._slow + 1 if time.thread_time() - started > MASK_SECONDS else 0
        if self._slow < MAX_SLOW:
            return row
        self.fail(
            f"{MAX_SLOW} masks in a row each took more than {MASK_SECONDS * 1e3:.0f} ms of "
            "processor time. Simplify the tool's schema"
        )
        return self.automaton.next_row()

    # Called with drafts, or in few steps.

    def draft_rows(self, drafts: list[int]) -> list[Row]:
        """Return the masks of the positions of these drafts, and of the token after them: each
        after the drafts before it. As in vLLM, everything is allowed after padding and after the
        end of the turn, where no token is taken, and what follows a draft that is not allowed has
        its mask."""
        valid = [*takewhile(is_token, drafts)]
        rows = [self._row_unless_ended()]
        for draft in valid:
            if self.is_terminated() or not self.accept_tokens("", [draft]):
                break
            rows.append(self._row_unless_ended())
        self.rollback(len(rows) - 1)
        rest = self._shared.everything if len(rows) > len(valid) else rows[-1]
        return rows + [rest] * (1 + len(drafts) - len(rows))

    def _row_unless_ended(self) -> Row:
        if self.is_terminated():
            return self._shared.everything
        return self.automaton.row or self.next_row()

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        bitmask[batch_index].numpy()[:] = self.next_row().words

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the prefix of a draft that is allowed. vLLM requests no masks beyond the end of
        the turn, where it ends."""
        return self._unless_failed([], lambda automaton: automaton.validate_tokens(tokens))

    def drafts(self, proposed: list[int], limit: int) -> list[int]:
        """Return the draft to use instead of `proposed`, with forced text in it."""
        jump_forward = self._shared.jump_forward
        return self._unless_failed(
            [], lambda automaton: jump_forward.drafts(automaton, proposed, limit)
        )

    def plan(self, drafts: Sequence[int], limit: int) -> StepPlan:
        """Plan a step with the draft `drafts`, and at most `limit` drafts of the step after it."""
        row = self.automaton.row or self.next_row()

        def plan(automaton: Automaton) -> StepPlan | None:
            if self._text is not None:
                learn(automaton.last_steps(self._text.update(automaton.tokens)))
            with suppress(BackendError):  # after a text that may never come
                return self._shared.jump_forward.plan(automaton, drafts, limit, self._text)
            return None

        return self._unless_failed(None, plan) or StepPlan([row] * (1 + len(drafts)), 0, ())

    def rollback(self, num_tokens: int) -> None:
        self._unless_failed(None, lambda automaton: automaton.rollback(num_tokens))

    def is_terminated(self) -> bool:
        return self.automaton.is_terminated()

    def reset(self) -> None:
        self.automaton.reset()

    def _unless_failed(self, otherwise: T, action: Callable[[Automaton], T]) -> T:
        """Return the result of `action`; `otherwise` if the sequence has failed, or fails in it."""
        if not isinstance(self.automaton, FailedSequence):
            try:
                return action(self.automaton)
            except Exception:
                logger.exception(FAILED)
                self._fail()
        return otherwise

    def fail(self, reason: str) -> None:
        """End the sequence with an error, unless it has failed."""
        if not isinstance(self.automaton, FailedSequence):
            logger.error("%s: %s", FAILED, reason)
            self._fail()

    def _fail(self) -> FailedSequence:
        self.automaton = self._shared.failed
        return self._shared.failed


class FailedSequence:
    """Takes the automaton's place when the enforcement of a sequence has failed. Its mask allows
    the failure token only, and it accepts no token, so that the response is an error."""

    def __init__(self, model: ModelData) -> None:
        self.row = model.rows.row(model.failure_mask)

    def accept(self, token: int) -> bool:
        return False

    def accept_tokens(self, tokens: Sequence[int]) -> bool:
        return False

    def next_row(self) -> Row:
        return self.row

    def is_terminated(self) -> bool:
        return False

    def reset(self) -> None: ...


class StepMasks:
    """The masks of the steps whose structured requests are all Toolgate's. Not thread-safe."""

    numbers: RowNumbers | None = None
    """If all workers have tables of rows."""

    def fill(
        self, grammars: Mapping[str, EnforcementGrammar], drafts: Mapping[str, list[int]]
    ) -> NumberedRows | BitmaskRows:
        """Return the masks of these sequences, by request id, in this order: one for each of the
        `drafts` of a sequence, and one for the token after them."""
        if drafts:
            of_each = (each.draft_rows(drafts.get(name, [])) for name, each in grammars.items())
            rows = [*chain.from_iterable(of_each)]
        else:
            rows = [each.automaton.row or each.next_row() for each in grammars.values()]
        return self.sent(rows)

    def sent(self, rows: Sequence[Row]) -> NumberedRows | BitmaskRows:
        """Return what vLLM sends for these masks. Without tables it is a bitmask, which like
        everything else that is sent is not written again."""
        if self.numbers is None:
            return np.stack([row.words for row in rows])
        return self.numbers.number(rows)
