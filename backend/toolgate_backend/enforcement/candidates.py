"""The texts that the current call can still become: calls of tools, constrained content, or a text
of the dialect.

While all candidates are inside their fixed prefixes (`CallPrefixes`), masks are look-ups. After
that, each remaining candidate has a position in the graph of its grammar: the mask is the OR of
their masks, and a token removes the candidates that refuse it. Tool names differ, so usually only
one candidate remains by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from os.path import commonprefix
from typing import NamedTuple, Self

import numpy as np

from ..errors import NoTokenAllowed
from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.graph.node import Node
from ..grammars.graph.token_graph import TokenGraph, TokenGraphs
from ..tokens.masks import BitmaskRow, pack
from ..tokens.units import TokenIndex

CACHED_POSITIONS = 4096
"""Maximum number of cached positions for one set of tools."""


@dataclass(frozen=True)
class PrefixPosition:
    """A position at which every remaining candidate is still inside its fixed prefix."""

    candidates: tuple[int, ...]
    """Indices of the remaining candidates in their set."""
    tokens: frozenset[int]
    """Those with which they go on."""
    forced: bytes
    """The text that comes next in all remaining candidates."""


class CallPrefixes:
    """The fixed prefixes of one set of candidates; shared by all sequences that offer this set.

    The fixed prefix of a call is its text up to the tool's first free argument, the same in every
    call of a tool. As long as only prefixes distinguish the candidates, the mask is a look-up of
    the tokens that spell them, and no matcher is created. With 300 tools this reduces a step from
    two milliseconds to microseconds. Every tokenization of the text is allowed, as in xgrammar's
    masks; llguidance's masks would allow only one."""

    def __init__(self, prefixes: Sequence[bytes], token_index: TokenIndex) -> None:
        # Without a reference to this object, which Python would have to look for.
        self.position_after = lru_cache(CACHED_POSITIONS)(partial(_position, prefixes, token_index))


def _position(
    prefixes: Sequence[bytes], token_index: TokenIndex, written: bytes
) -> PrefixPosition | None:
    """Return the position after the text `written`. None if one token could go beyond a prefix:
    from there on, matchers are needed."""
    remaining = {
        index: prefix[len(written) :]
        for index, prefix in enumerate(prefixes)
        if prefix.startswith(written)
    }
    texts = set(remaining.values())
    if not texts or any(token_index.has_extension(text) for text in texts):
        return None
    return PrefixPosition(
        candidates=tuple(remaining),
        tokens=frozenset(token for text in texts for token in token_index.prefixes_of(text)),
        forced=commonprefix([*texts]) or b"",
    )


@dataclass(frozen=True)
class Candidate:
    """A text that may come next: `head`, then a text of the grammar."""

    grammar: MeasuredGrammar
    head: bytes
    """Units (tokens/units.py)."""

    @property
    def prefix(self) -> bytes:
        """The text with which every text of the candidate begins."""
        return self.head + self.grammar.fixed_prefix


class CandidateSet:
    """Candidates, shared by all sequences that offer them. Compared by identity."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        prefixes: CallPrefixes,
        graphs: TokenGraphs,
    ) -> None:
        """`prefixes` are those of `candidates`."""
        self.candidates = candidates
        self.prefixes = prefixes
        self._graphs = graphs
        self.tokens = graphs.shared

    def graph(self, number: int) -> TokenGraph:
        """Return the graph of the grammar of one candidate."""
        return self._graphs.graph_of(self.candidates[number].grammar)

    def mask(self, tokens: Collection[int]) -> BitmaskRow:
        """Return the mask of some tokens."""
        return pack(tokens, len(self.tokens.allowed) * 32)

    def begun(self, written: bytes = b"") -> Candidates:
        """Return the candidates of which `written` has been written."""
        return Candidates(self, written)._continued(written, range(len(self.candidates)), ())


class Runner(NamedTuple):
    """The position in one candidate's text."""

    number: int
    """That of the candidate in its set."""
    at: int
    """Bytes of the head so far."""
    node: Node
    """The position in the graph of the grammar; at its root inside the head."""


class Candidates(NamedTuple):
    """The candidates that remain, and how far they have come."""

    of: CandidateSet
    begun: bytes
    """The text before the first token."""
    written: bytes | None = None
    """The text so far, while all candidates are inside their fixed prefixes; None beyond these."""
    running: tuple[Runner, ...] = ()
    """The positions in the remaining candidates, beyond the fixed prefixes."""
    touched: bool = False
    """Whether there was a token."""

    @property
    def position(self) -> PrefixPosition | None:
        """The position in the fixed prefixes; None beyond these."""
        return None if self.written is None else self.of.prefixes.position_after(self.written)

    @property
    def in_prefix(self) -> bool:
        """Whether all remaining candidates are inside their fixed prefixes."""
        return self.written is not None

    @property
    def grammars(self) -> list[MeasuredGrammar]:
        """The grammars of the remaining candidates."""
        return [self.of.candidates[number].grammar for number in self.numbers]

    @property
    def finished(self) -> bool:
        """Whether the text is complete and nothing may follow it."""
        return (only := self.only) is not None and only.node.finished

    @property
    def complete(self) -> bool:
        """Whether the text is complete, although more may follow."""
        return (only := self.only) is not None and only.node.complete

    @property
    def only(self) -> Runner | None:
        """The position in the grammar of the only remaining candidate, beyond its head."""
        if len(self.running) != 1:
            return None
        [runner] = self.running
        return runner if runner.at == len(self.of.candidates[runner.number].head) else None

    def at_node(self, node: Node) -> Self:
        """Return the same candidates with the only one at another position of its grammar."""
        [runner] = self.running
        return self._replace(running=(runner._replace(node=node),))

    def after(self, token: int) -> Self | None:
        """Return the candidates after a token; None if none of them accepts it."""
        position = self.position
        if position is None:
            moved = (self._moved(runner, token) for runner in self.running)
            running = tuple(runner for runner in moved if runner is not None)
            return self._replace(running=running, touched=True) if running else None
        if token not in position.tokens:
            return None
        assert self.written is not None
        text = self.of.tokens.unit_bytes[token]
        after = self._continued(self.written + text, position.candidates, (token,))
        return after._replace(touched=True)

    def forced(self) -> bytes:
        """Return the text that must come next in all remaining candidates."""
        if (position := self.position) is not None:
            return position.forced
        return commonprefix([self._forced(runner) for runner in self.running]) or b""

    def mask(self) -> BitmaskRow:
        """Return the tokens that some candidate accepts next. Raise NoTokenAllowed if none does."""
        if (position := self.position) is not None:
            return self.of.mask(position.tokens)
        rows = [self._row(runner) for runner in self.running]
        return rows[0] if len(rows) == 1 else np.bitwise_or.reduce(rows)

    @property
    def numbers(self) -> Sequence[int]:
        """Those of the remaining candidates in their set."""
        position = self.position
        return [each.number for each in self.running] if position is None else position.candidates

    # --- single candidates ---

    def _row(self, runner: Runner) -> BitmaskRow:
        candidate = self.of.candidates[runner.number]
        if runner.at == len(candidate.head):
            return self.of.graph(runner.number).row(runner.node).words
        tokens = self.of.tokens.token_index.prefixes_of(candidate.prefix[runner.at :])
        if not tokens:
            raise NoTokenAllowed("No token spells the text that must come next in this call.")
        return self.of.mask(tokens)

    def _forced(self, runner: Runner) -> bytes:
        candidate = self.of.candidates[runner.number]
        if runner.at == len(candidate.head):
            return self.of.graph(runner.number).forced(runner.node)
        return candidate.prefix[runner.at :]

    def _moved(self, runner: Runner, token: int) -> Runner | None:
        if runner.at < len(self.of.candidates[runner.number].head):
            return self._advanced(runner, self.of.tokens.unit_bytes[token])
        node = self.of.graph(runner.number).step(runner.node, token)
        return None if node is None else runner._replace(node=node)

    def _advanced(self, runner: Runner, text: bytes) -> Runner | None:
        """Return the position after `text`, which begins inside the head. It may extend into the
        fixed prefix of the grammar, but not beyond that."""
        candidate, graph = self.of.candidates[runner.number], self.of.graph(runner.number)
        rest = candidate.head[runner.at :]
        if rest.startswith(text):
            return runner._replace(at=runner.at + len(text))
        if not text.startswith(rest) or not candidate.prefix.startswith(text, runner.at):
            return None
        tokens = self.of.tokens.token_index.cover(text[len(rest) :])
        node: Node | None = runner.node if tokens is not None else None
        for token in tokens or ():
            node = node and graph.step(node, token)
        return None if node is None else runner._replace(at=len(candidate.head), node=node)

    def _continued(self, written: bytes, numbers: Iterable[int], tokens: Sequence[int]) -> Self:
        """Return the candidates after `written`, of which `tokens` are the last ones. Beyond the
        prefixes, those of `numbers` that accept the text."""
        if self.of.prefixes.position_after(written) is not None:
            return self._replace(written=written)
        before = written[: len(written) - sum(len(self.of.tokens.unit_bytes[t]) for t in tokens)]
        started = (Runner(number, 0, self.of.graph(number).root) for number in numbers)
        written_runners = (self._advanced(runner, before) for runner in started)
        running = [runner for runner in written_runners if runner is not None]
        for token in tokens:
            moved = (self._moved(runner, token) for runner in running)
            running = [runner for runner in moved if runner is not None]
        return self._replace(written=None, running=tuple(running))
