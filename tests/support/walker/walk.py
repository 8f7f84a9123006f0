"""One random walk over masks, whoever gives them, and the ways to choose its tokens."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tests.support.dialects.model import DialectModel
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.tokens import masks

Allowed = NDArray[np.int64]
Choose = Callable[[Allowed], int]


class Source(Protocol):
    """What gives masks and accepts tokens."""

    tokens: list[int]

    @property
    def finished(self) -> bool: ...
    def allowed(self) -> Allowed: ...
    def accept(self, token: int) -> bool: ...


def walk(
    source: Source,
    choose: Choose,
    limit: int = 300,
    between: Callable[[Allowed], object] | None = None,
) -> bool:
    """Walk until the text ends, and say whether it did within `limit` tokens. `between` is called
    before each step; if it returns something true, it has taken the step."""
    while not source.finished:
        if len(source.tokens) >= limit:
            return False
        allowed = source.allowed()
        if between is not None and between(allowed):
            continue
        assert len(allowed), f"no token is allowed after {source.tokens}"
        assert source.accept(choose(allowed)), "a token of the mask is refused"
    return True


def mask_of(machine: Automaton, size: int) -> Allowed:
    """The tokens that a mask allows."""
    row = np.zeros((size + 31) // 32, dtype=np.int32)
    machine.fill_bitmask(row)
    return masks.unpack(row)


class Enforced:
    """The enforcement of a turn."""

    def __init__(self, machine: Automaton, size: int) -> None:
        self.machine = machine
        self._size = size
        self.tokens: list[int] = []
        self.phases: list[str] = []

    @property
    def finished(self) -> bool:
        return self.machine.is_terminated()

    def allowed(self) -> Allowed:
        return mask_of(self.machine, self._size)

    def accept(self, token: int) -> bool:
        if not self.machine.accept_tokens([token]):
            return False
        self.tokens.append(token)
        self.phases.append(self.machine.state.phase.name)
        return True


class Liking:
    """Writes what it likes wherever it may, or with a probability, and else anything."""

    def __init__(self, liked: Iterable[bool], dice: random.Random, share: float = 1.0) -> None:
        self._liked = np.array([*liked])
        self._dice = dice
        self._share = share

    def __call__(self, allowed: Allowed) -> int:
        liked = allowed[self._liked[allowed]]
        use = len(liked) and (self._share == 1.0 or self._dice.random() < self._share)
        return int(self._dice.choice(liked if use else allowed))


class Hints:
    """Writes texts where they may begin, and after a while those that bring a text to its end."""

    def __init__(
        self,
        model: DialectModel,
        dice: random.Random,
        hints: Sequence[Sequence[int]],
        ends: Sequence[Sequence[int]],
        closers: Sequence[Sequence[int]],
    ) -> None:
        self._dice, self._model = dice, model
        self._hints, self._ends, self._closers = hints, ends or hints, closers
        self._patience = dice.randrange(5, 120)
        self._planned: list[int] = []
        self._count = 0

    def __call__(self, allowed: Allowed) -> int:
        self._count += 1
        ending = self._count > self._patience
        if not self._planned and len(allowed) > 1:
            self._planned = self._plan(allowed, ending)
        if self._planned and self._planned[0] in allowed:
            return self._planned.pop(0)
        self._planned = []
        liked = allowed[self._model.liked[allowed]]
        use_liked = len(liked) and (ending or self._dice.random() < 0.3)
        return int(self._dice.choice(liked if use_liked else allowed))

    def _plan(self, allowed: Allowed, ending: bool) -> list[int]:
        chances: list[tuple[Any, float]] = [(self._closers, 0.6), (self._ends, 0.8)]
        for texts, chance in chances if ending else [(self._hints, 0.3)]:
            fitting = [each for each in texts if each and each[0] in allowed]
            if fitting and self._dice.random() < chance:
                return [*self._dice.choice(fitting)]
        return []
