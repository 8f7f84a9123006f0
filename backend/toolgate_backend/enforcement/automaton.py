"""Enforcement of one sequence, with the methods of a vLLM grammar.

The methods are those of vllm/v1/structured_output/backend_types.py: accept_tokens, validate_tokens,
rollback, fill_bitmask, is_terminated, reset. `next_row` is a cheaper form of `fill_bitmask`. This
module does not import vLLM.

A sequence is a node of a graph that it shares with equal requests (turn_graph.py). Accepting a
token follows an edge, and a mask is the node's. The rules (turn.py) are asked only where there is
no edge, and where a limit on tokens may decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from ..errors import BackendError, NoTokenAllowed
from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.graph.node import Node
from ..tokens.masks import BitmaskRow, Row
from .spec import Spec
from .state import UNLIMITED, Phase, State
from .token_limits import FREE, NEVER, TOKENS_BETWEEN_CHECKS, Progress, TokenLimits
from .turn_graph import Entry, Placement, TurnGraphs, TurnNode, state_of

ROLLBACK_WINDOW = 256
"""Maximum number of tokens that can be rolled back. Drafts have a few dozen at most."""


class Automaton:
    def __init__(
        self,
        turns: TurnGraphs,
        spec: Spec,
        grammars: Sequence[MeasuredGrammar],
        content: MeasuredGrammar | None = None,
    ) -> None:
        """Raise BackendError if `spec.accepted` contains tokens that the spec does not allow."""
        self._model = turns.model
        self._spec = spec
        self._graph = turns.graph(spec, grammars, content)
        self.reset()

    def reset(self) -> None:
        self._node: TurnNode | Node
        self._progress: Progress
        self._slow_at: int
        """The length from which on the next token is accepted slowly: it leads to where a limit may
        decide."""
        self.row: Row | None = None
        """The mask of the next token, if the rules are not needed for it; otherwise see
        `next_row`."""
        self._tokens: list[int] = []
        self._trail: deque[TurnNode | Node] = deque(maxlen=ROLLBACK_WINDOW)
        self._earlier_progress: deque[tuple[int, Progress]] = deque(maxlen=ROLLBACK_WINDOW)
        """The courses before the present one, each with the length at which it ended."""
        accepted = self._spec.accepted
        # The accepted tokens were sampled under an earlier budget, of which less remains now.
        self._set_budget(None if accepted else self._spec.budget)
        self._start()
        if not self.accept_tokens(accepted):
            raise BackendError(
                "The tokens to continue from (`accepted`) violate the constraints of the request. "
                "Send only tokens of an earlier response to the same request."
            )
        if accepted:
            self._set_budget(self._spec.budget)
            self._continue()
        self._trail.clear()
        self._earlier_progress.clear()
        self._exclude(frozenset(self._spec.excluded))
        self._settle()

    # --- tokens ---

    def accept(self, token: int) -> bool:
        """Advance by a token. Return False and changes nothing if it is not allowed."""
        node, tokens = self._node, self._tokens
        loop = node.loop
        if loop is not None and 0 <= token < len(loop) and loop[token]:
            after: TurnNode | Node | None = node
        else:
            after = node.next.get(token)
        if after is None or len(tokens) >= self._slow_at:
            return self._accept_slowly(token)
        self._trail.append(node)
        tokens.append(token)
        if after is not node:
            self._node = after
            self.row = after.row
        return True

    def accept_tokens(self, tokens: Sequence[int]) -> bool:
        """Advance by `tokens`. Stops at the first token that is not allowed and returns False."""
        return all(map(self.accept, tokens))

    def validate_tokens(self, tokens: Sequence[int]) -> list[int]:
        """Return the prefix of `tokens` that is allowed, up to the end of the turn."""
        accepted = 0
        for token in tokens:
            if self.is_terminated() or not self.accept(token):
                break
            accepted += 1
        self.rollback(accepted)
        return list(tokens[:accepted])

    def rollback(self, count: int) -> None:
        """Undo the last `count` tokens, at most ROLLBACK_WINDOW."""
        if not count:
            return
        for _ in range(count):
            self._node = self._trail.pop()
        del self._tokens[-count:]
        progress = self._progress
        while self._earlier_progress and self._earlier_progress[-1][0] >= len(self._tokens):
            _, progress = self._earlier_progress.pop()
        self._take(progress)
        self._settle()

    def is_terminated(self) -> bool:
        node = self._node
        return isinstance(node, TurnNode) and node.state.ended

    # --- masks ---

    def next_row(self) -> Row:
        """Return the tokens allowed next. Raise NoTokenAllowed if there are none."""
        row = self.row
        if row is None:
            row = self._find_row()
            self._settle()
        return row

    def fill_bitmask(self, row: BitmaskRow) -> None:
        row[:] = self.next_row().words

    def next_mask(self) -> BitmaskRow:
        """As `next_row`, by the rules."""
        state, excluded = self.state, self._excluded
        remaining = self._limits.remaining(self._progress, state, len(self._tokens))
        mask = self._graph.turn.mask(state, remaining)
        left = mask & ~self._model.allowing(excluded)
        return left if left.any() else mask

    # --- what others ask ---

    @property
    def state(self) -> State:
        return state_of(self._node, self._progress.entry)

    @property
    def tokens(self) -> Sequence[int]:
        return self._tokens

    def last_steps(self, count: int) -> Iterator[tuple[TurnNode | Node, int]]:
        """Return the last `count` tokens, each after the node where it was accepted, last first. At
        most ROLLBACK_WINDOW."""
        return islice(zip(reversed(self._trail), reversed(self._tokens), strict=False), count)

    @property
    def call_tokens(self) -> Sequence[int]:
        """The tokens of the present candidates' text."""
        return self._tokens[self._progress.began :]

    # --- the slow way ---

    def _accept_slowly(self, token: int) -> bool:
        node, length, before = self._node, len(self._tokens), self._progress
        if not 0 <= token < self._model.vocabulary.size:
            return False
        if token in self._excluded:
            return False
        placed = self._step(node, before.entry, length, token)
        if placed is None:
            return False
        self._trail.append(node)
        self._tokens.append(token)
        self._node = placed.node
        is_limited, due = length >= before.limited_from, length + 1 >= before.check_at
        if placed.entry is not before.entry or placed.entry is None or is_limited:
            self._take(self._limits.progress_at(placed.state, placed.entry, length + 1, before))
        if due or length + 1 >= self._progress.check_at:
            self._look()
        if self._progress is not before:
            self._earlier_progress.append((length, before))
        self._settle()
        return True

    def _step(
        self, node: TurnNode | Node, entry: Entry | None, length: int, token: int
    ) -> Placement | None:
        """Return the place after a token; None if it is not allowed."""
        graph = self._graph
        if isinstance(node, TurnNode):
            remaining = self._limits.remaining(self._progress, node.state, length)
            if remaining is UNLIMITED:
                return graph.step(node, token)
            state = graph.turn.step(node.state, remaining, token)
            return None if state is None else graph.place(state)
        assert entry is not None
        after = entry.graph.step(node, token)
        if after is None or not after.finished:
            return None if after is None else Placement(after, entry.state, entry)
        remaining = self._limits.remaining(self._progress, entry.state, length)
        if remaining is UNLIMITED:
            return graph.finish(entry, node, token)
        following = graph.turn.step(entry.at(node), remaining, token)
        return None if following is None else graph.place(following)

    def _take(self, progress: Progress) -> None:
        self._progress = progress
        self._slow_at = min(progress.limited_from, progress.check_at) - 1

    def _settle(self) -> None:
        """Find out whether the next mask is the node's."""
        is_limited = len(self._tokens) >= self._progress.limited_from
        self.row = None if is_limited else self._node.row

    def _look(self) -> None:
        """Look whether the text of the candidates repeats itself. If it does so for the first time,
        it may not go on with the same token. After that, or if no other token is allowed, it is
        cut."""
        before, state = self._progress, self.state
        token = self._limits.repeated(state, self.call_tokens)
        again = before._replace(repetitions=before.repetitions + (token is not None))
        self._take(self._limits.scheduled(again, state, len(self._tokens)))
        if token is None:
            return
        ends = bool(self._model.cut_ends)
        if (before.repetitions and ends) or (not self._exclude(frozenset({token})) and ends):
            cut = state._replace(phase=Phase.END, candidates=None, cut=True)
            self._place(cut, again._replace(check_at=NEVER, limited_from=NEVER))

    def _place(self, state: State, progress: Progress) -> None:
        placed = self._graph.place(state)
        self._node = placed.node
        self._take(progress._replace(entry=placed.entry))

    # --- the beginning ---

    def _set_budget(self, budget: int | None) -> None:
        self._limits = TokenLimits(self._spec, self._graph.turn.budget, budget)

    def _start(self) -> None:
        state, before = self._graph.root, Progress()
        remaining = self._limits.remaining(before, state, 0)
        if remaining is not UNLIMITED:
            state = self._graph.turn.initial_state(remaining)
        self._place(state, self._limits.progress_at(state, None, 0, before))

    def _continue(self) -> None:
        """Go on after the accepted tokens, with what they leave of the budget."""
        state, length = self.state, len(self._tokens)
        remaining = self._limits.remaining(self._progress, state, length)
        if remaining is not UNLIMITED:
            state = self._graph.turn.limited(state, self.call_tokens, remaining)
        self._place(state, self._limits.scheduled(self._progress, state, length))

    def _exclude(self, tokens: frozenset[int]) -> bool:
        """Leave `tokens` out of the next mask. Return False if no other token is allowed there, so
        that the mask stays as it is."""
        excluded, length = self._excluded | tokens, len(self._tokens)
        try:
            if not tokens or not (self.next_mask() & ~self._model.allowing(excluded)).any():
                return False
        except NoTokenAllowed:  # the next step reports it
            return False
        self._take(
            self._progress._replace(excluded=excluded, exclude_at=length, limited_from=length)
        )
        return True

    @property
    def _excluded(self) -> frozenset[int]:
        """The tokens that are left out of the next mask."""
        progress = self._progress
        return progress.excluded if progress.exclude_at == len(self._tokens) else frozenset()

    def _find_row(self) -> Row:
        node, progress = self._node, self._progress
        is_limited = bool(self._excluded)
        if isinstance(node, TurnNode) and not is_limited:
            remaining = self._limits.remaining(progress, node.state, len(self._tokens))
            is_limited = remaining is not UNLIMITED
        if is_limited:
            return self._model.rows.row(self.next_mask())
        return self._graph.row(node, progress.entry)


class Ahead:
    """A position after tokens that a sequence may write next. The sequence stays where it is.

    It ends where a limit on tokens may decide, where free text begins, and where a text is one of
    this sequence only: look-ups are worth it there, steps of the engine are not."""

    __slots__ = ("_automaton", "_end", "_entry", "_length", "node", "row")

    node: TurnNode | Node
    row: Row
    """The mask of the next token."""

    def __init__(self, automaton: Automaton) -> None:
        """Raise NoTokenAllowed."""
        self._automaton = automaton
        node, self._entry = automaton._node, automaton._progress.entry
        self.node = node
        self.row = automaton.row or automaton.next_row()
        self._length = len(automaton._tokens)
        is_private = isinstance(node, Node) and node.private is not None
        self._end = 0 if is_private else automaton._slow_at

    def accept(self, token: int) -> bool:
        """Go on by a token. Return False and changes nothing if it is not allowed, or too far.
        Raise BackendError and NoTokenAllowed."""
        if self._length >= self._end:
            return False
        node = self.node
        loop = node.loop
        if loop is not None and 0 <= token < len(loop) and loop[token]:
            self._length += 1
            return True
        after, entry = node.next.get(token), self._entry
        if after is None:
            placed = self._beyond(node, token)
            if placed is None:
                return False
            after, entry = placed.node, placed.entry
            self._end = min(self._end, self._length + TOKENS_BETWEEN_CHECKS)
        self.row = after.row or self._automaton._graph.row(after, entry)
        self.node, self._entry = after, entry
        self._length += 1
        return True

    @property
    def goes_on(self) -> bool:
        """Whether `accept` may accept a token."""
        return self._length < self._end

    @property
    def state(self) -> State:
        return state_of(self.node, self._entry)

    def _beyond(self, node: TurnNode | Node, token: int) -> Placement | None:
        """Return the place after a token that may begin or end something; None if it is too far."""
        machine = self._automaton
        before = node.state if isinstance(node, TurnNode) else None
        is_token = 0 <= token < len(self.row.view) * 32
        if not is_token or not self.row.allows(token) or (before is not None and before.ended):
            return None
        placed = machine._step(node, self._entry, self._length, token)
        if placed is None:
            return None
        if isinstance(placed.node, Node):
            return None if placed.node.private is not None else placed
        after = placed.node.state
        goes_on = before is not None and before.phase is after.phase and not before.forced
        return placed if goes_on or after.forced or after.phase not in FREE else None
