"""Numbers of tokens that the texts of a dialect take, for budgets."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

END_OF_TURN = 1
ID_EXAMPLE = "0" * 12
"""Stands for an id of a call where only the number of its tokens matters."""


class CallTokens:
    def __init__(self, vocabulary: Vocabulary) -> None:
        dialect, form = vocabulary.dialect, vocabulary.form
        self._vocabulary = vocabulary
        self._form = form
        reasoning, tokens = dialect.reasoning, vocabulary.literal_tokens
        encode = form.marks.encode
        self.reasoning_begin = tokens(encode(reasoning.begin)) if reasoning else ()
        self.reasoning_end = tokens(encode(reasoning.end)) if reasoning else ()
        self.after_reasoning = tokens(encode(reasoning.after)) if reasoning else ()
        content = dialect.content
        before = encode(content.begin + content.end) if content.always else ""
        self.before_calls = len(tokens(before))
        """Number of tokens of the empty message of content that comes before all calls."""
        self.trigger = tokens(form.trigger) if dialect.calls else ()
        self.end = tokens(form.end)
        """The text that ends the calls."""
        self.tail = lru_cache(1024)(self._tail)
        self.head_count = lru_cache(4096)(self._head_count)

    def _tail(self, name: str, call_id: str) -> tuple[int, ...]:
        """The tokens after the grammar of a call."""
        return self._vocabulary.literal_tokens(self._form.tail(name, call_id))

    def _head_count(self, name: str, first: bool) -> int:
        """Number of tokens of a call before its grammar. Those of the first call are counted
        without the trigger."""
        form = self._form
        text = (form.begin if first else form.separator) + form.head(name, ID_EXAMPLE)
        text = text.removeprefix(form.trigger) if first else text
        return len(self._vocabulary.literal_tokens(text))

    def after_grammar(self, name: str) -> int:
        """Number of tokens after the grammar of the last call: its tail, the end of the calls, and
        the end of the turn."""
        return len(self.tail(name, ID_EXAMPLE)) + len(self.end) + END_OF_TURN

    def shortest_call(self, name: str, grammar_tokens: int, *, first: bool) -> int:
        """Number of tokens from the beginning of a call to the end of the turn."""
        before = self.head_count(name, first)
        before += len(self.trigger) + self.before_calls if first else 0
        return before + grammar_tokens + self.after_grammar(name)

    @property
    def reasoning_end_count(self) -> int:
        """Number of tokens from the end of the reasoning to the content."""
        return len(self.reasoning_end) + len(self.after_reasoning)
