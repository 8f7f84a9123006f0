"""What all sequences of one model share: marks, texts of the dialect, masks, graphs, caches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import lru_cache
from weakref import WeakValueDictionary

from toolgate_core import grammar_key

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.engines.engine import empty_grammar
from ..grammars.graph.node_maker import GraphContext
from ..grammars.graph.token_graph import TokenGraphs
from ..grammars.graph.value_bounds import ValueBounds
from ..settings import settings
from ..tokens import masks
from ..tokens.masks import BitmaskRow, Rows
from ..tokens.units import TokenIndex, units
from ..tokens.vocabulary import Vocabulary
from .candidates import CallPrefixes, Candidate, Candidates, CandidateSet
from .dialect_texts import DialectTexts, TextMatch
from .spec import CallIdentifiers

CACHED_TOOL_SETS = 256
"""Maximum number of tool sets whose call prefixes are cached."""
CACHED_HEADS = 8192
"""Maximum number of cached texts between the opening of a call and its grammar."""
CACHED_FREE_MASKS = 64
"""Maximum number of cached masks of free phases: a few for all requests, and one for each set of
stop tokens."""


class ModelData:
    """Most of it is made once. Rows, graphs and caches grow with what is written, within limits of
    memory."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.special = vocabulary.special
        self.form = vocabulary.form
        self.unit_bytes = vocabulary.unit_bytes
        marks = vocabulary.marks
        failing = [marks.failure] if marks.failure is not None else marks.end_of_turn
        self.failure_mask = self.allowing(failing)
        """The mask of a sequence whose enforcement has failed."""
        self.cut_ends = frozenset() if marks.cut is None else frozenset({marks.cut})
        """The token that ends a turn whose last text is cut; none if the vocabulary has no such
        token."""
        self.rows = Rows()
        self.call_ids = CallIdentifiers(vocabulary.dialect)
        mark_ids = frozenset(marks.tokens.values())
        grammar_marks = self.form.grammar_marks
        self.token_index = TokenIndex(vocabulary.token_bytes, self.special, mark_ids)
        self.texts = DialectTexts(vocabulary, self.token_index)
        refused = self.special - grammar_marks  # these are never part of a grammar's text
        self._all = self.allowing(range(vocabulary.size))
        self.in_grammars = self._all & ~self.allowing(refused)
        """The tokens that the grammar of a call may allow."""
        shared = GraphContext(
            unit_bytes=self.unit_bytes,
            token_index=self.token_index,
            allowed=self.in_grammars,
            refused=refused,
            rows=self.rows,
            bounds=ValueBounds(self.form, self.unit_bytes, vocabulary.size),
            max_bytes=settings().graph_bytes,
        )
        self.graphs = TokenGraphs(shared)
        self.plain = self._plain_tokens()
        self._call_prefixes = lru_cache(CACHED_TOOL_SETS)(
            lambda prefixes: CallPrefixes(prefixes, self.token_index)
        )
        self._head = lru_cache(CACHED_HEADS)(self._make_head)
        self._candidate_sets: WeakValueDictionary[tuple[Candidate, ...], CandidateSet] = (
            WeakValueDictionary()
        )
        self._free_text = lru_cache(CACHED_FREE_MASKS)(self._create_free_text_mask)
        self.end_of_calls = MeasuredGrammar(empty_grammar(), 0, "end of calls")
        """The text that ends the calls, among the candidates."""
        self._beginnings = {
            kind: Candidate(MeasuredGrammar(empty_grammar(), 0, f"message: {kind}"), text)
            for kind, text in self.texts.begins.items()
        }

    # --- candidates ---

    def candidates(
        self,
        opening: str,
        grammars: Sequence[MeasuredGrammar],
        call_id: str,
        *,
        kinds: Sequence[str] = (),
        content: MeasuredGrammar | None = None,
        content_head: bytes = b"",
        end: bytes = b"",
    ) -> CandidateSet:
        """Calls of these tools behind the text `opening`, messages of free text of these `kinds`,
        constrained content behind `content_head`, and the text `end`, after which nothing may
        be called."""
        candidates = [Candidate(g, self._head(opening, g.name, call_id)) for g in grammars]
        candidates += [self._beginnings[kind] for kind in kinds if kind in self._beginnings]
        candidates += [Candidate(content, content_head)] if content is not None else []
        candidates += [Candidate(self.end_of_calls, end)] if end else []
        return self._candidate_set(candidates)

    def first_calls(self, grammars: Sequence[MeasuredGrammar], call_id: str) -> CandidateSet:
        return self.candidates(self.form.begin, grammars, call_id)

    def message_kind(self, candidates: Candidates) -> str | None:
        """Return the kind of the only message that remains: `reasoning`, `content`, `preamble`,
        `format` or `call`; None if there are several."""
        names = {grammar.name for grammar in candidates.grammars}
        if names == {grammar_key.CONTENT}:
            return "format"
        kinds = [
            kind
            for kind, each in self._beginnings.items()
            if any(grammar is each.grammar for grammar in candidates.grammars)
        ]
        if not kinds:
            return None if grammar_key.CONTENT in names else "call"
        return kinds[0] if len(candidates.numbers) == 1 else None

    def _make_head(self, opening: str, name: str, call_id: str) -> bytes:
        return units(opening + self.form.head(name, call_id), self.form.marks)

    def _candidate_set(self, candidates: Sequence[Candidate]) -> CandidateSet:
        """Return one for equal candidates, so that states with them are equal."""
        key = tuple(candidates)
        known = self._candidate_sets.get(key)
        if known is None:
            prefixes = self._call_prefixes(tuple(candidate.prefix for candidate in candidates))
            new = CandidateSet(key, prefixes, self.graphs)
            known = self._candidate_sets.setdefault(key, new)
        return known

    def may_continue(self, grammars: Sequence[MeasuredGrammar], call_id: str, text: bytes) -> bool:
        """Whether the first call of one of the tools can begin with `text`."""
        calls = self.first_calls(grammars, call_id).candidates
        return any(each.prefix.startswith(text) for each in calls)

    def prepare_prefixes(self, grammars: Sequence[MeasuredGrammar]) -> None:
        """Compute the common prefix of the tools, and the position at which they diverge, before
        the first step needs them. For hundreds of tools this takes milliseconds."""
        prefixes = self.first_calls(grammars, "").prefixes
        first = prefixes.position_after(self.texts.trigger.text if self.texts.trigger else b"")
        if first is not None:
            prefixes.position_after(first.forced)

    # --- masks ---

    def allowing(self, tokens: Iterable[int]) -> BitmaskRow:
        """Return the mask of these tokens."""
        return masks.pack(tokens, self.vocabulary.size)

    def _plain_tokens(self) -> bytes:
        """By token: whether it is text that contains no beginning of a text of the dialect."""
        firsts = self.texts.first_bytes
        return bytes(
            token not in self.special and firsts.isdisjoint(text)
            for token, text in enumerate(self.unit_bytes)
        )

    # --- masks of the free phases ---

    def free_text_mask(
        self, allowed: frozenset[int], partial_mark: bytes, banned: Set[int] = frozenset()
    ) -> BitmaskRow:
        """Return all text except `banned`, and of the special tokens only `allowed`."""
        shared = self._free_text(allowed)
        spelled = self.texts.spelled_mark
        completing = spelled.completing(partial_mark) if spelled and partial_mark else frozenset()
        if not completing and not banned:
            return shared
        return shared & ~self.allowing(completing | banned)

    def _create_free_text_mask(self, allowed: frozenset[int]) -> BitmaskRow:
        """Return all text, and of the special tokens only `allowed`."""
        spelled = self.texts.spelled_mark
        containing = spelled.containing if spelled else frozenset()
        return self._all & ~self.allowing((self.special | containing) - allowed)

    def completes_mark(self, partial_mark: bytes, token: int) -> bool:
        """Return whether an ordinary token would complete a spelled mark after `partial_mark`."""
        spelled = self.texts.spelled_mark
        if spelled is None:
            return False
        if token in spelled.containing:
            return True
        return bool(partial_mark) and token in spelled.completing(partial_mark)

    def partial(self, match: TextMatch | None, before: bytes, token: int) -> bytes:
        """Return the beginning of the text of `match` at the end of what was written; `before` is
        the previous one."""
        return match.partial(before + self.unit_bytes[token]) if match else b""
