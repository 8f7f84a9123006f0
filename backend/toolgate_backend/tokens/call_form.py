"""The text of a call, split between the literals that the automaton enforces and the grammar, and
its numbers of tokens.

A call is: opening, head, grammar text, tail. The opening is the text before the first call or
between two calls. The head ends with the last mark or id before the arguments, the tail begins with
the first mark or id after them. An engine compiles only the text between them, because marks have
no text in a grammar of xgrammar, and an id differs in each request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache

from toolgate_core import grammar_key
from toolgate_core.dialects.dialect import (
    ARGUMENTS,
    ID,
    NAME,
    Calls,
    Codec,
    Dialect,
    Json,
    Part,
    Slot,
)
from toolgate_core.dialects.marks import Marks

CONTENT_CODEC = Json()
NO_CALL = Calls(call=(NAME, ARGUMENTS))


class CallForm:
    """The form of the calls of one dialect with one tokenizer. `tokens` maps the text of each mark
    to its token id. All texts are encoded (`Marks.encode`)."""

    def __init__(self, dialect: Dialect, tokens: Mapping[str, int]) -> None:
        calls = dialect.calls or NO_CALL
        self.calls = calls
        self.marks = Marks(tokens)
        self.codec: Codec = calls.codec
        self.begin = self.marks.encode(calls.begin)
        self.separator = self.marks.encode(calls.separator)
        self.end = self.marks.encode(calls.end)
        parts = [part if isinstance(part, Slot) else self.marks.encode(part) for part in calls.call]
        at = parts.index(ARGUMENTS)
        before, after = _atoms(parts[:at]), _atoms(parts[at + 1 :])
        # A grammar of arguments that are not JSON needs the text after them to know their end.
        inside = len(before) - self._boundary(before[::-1])
        outside = self._boundary(after, ids_only=not isinstance(calls.codec, Json))
        self._head, self._before = before[:inside], before[inside:]
        self._after, self._tail = after[:outside], after[outside:]

    def _boundary(self, atoms: list[Part], *, ids_only: bool = False) -> int:
        """Return the number of atoms before the first id or mark."""
        for at, atom in enumerate(atoms):
            if atom is ID or (isinstance(atom, str) and self.marks.is_mark(atom) and not ids_only):
                return at
        return len(atoms)

    @cached_property
    def grammar_marks(self) -> frozenset[int]:
        """The marks that can be part of a grammar's text. JSON contains none."""
        if isinstance(self.codec, Json):
            return frozenset()
        return frozenset(self.marks.symbol_of_token)

    @cached_property
    def has_ids(self) -> bool:
        return ID in self._head or ID in self._tail

    @cached_property
    def first_opening(self) -> str:
        """The text with which the calls begin, up to the first name or id."""
        return self.begin + _leading_text([*self._head, *self._before])

    @cached_property
    def trigger(self) -> str:
        """The beginning of `first_opening` that begins the calls when it occurs in content: up to
        the first mark, or all of it if it has none."""
        opening = self.first_opening
        marks = (at for at, char in enumerate(opening) if self.marks.is_mark(char))
        return opening[: next(marks, len(opening)) + 1]

    def head(self, name: str, call_id: str = "") -> str:
        return _fill(self._head, name, call_id)

    def tail(self, name: str, call_id: str = "") -> str:
        return _fill(self._tail, name, call_id)

    def grammar_texts(
        self, name: str, parameters: Mapping[str, object] | None = None
    ) -> tuple[str, str]:
        """Return the text of the grammar before and after the arguments.

        Content has no such text. A value whose end is ambiguous, such as a number, is followed by a
        newline."""
        if name == grammar_key.CONTENT:
            return "", "" if (parameters or {}).get("type") in ("object", "array") else "\n"
        return _fill(self._before, name, ""), _fill(self._after, name, "")

    def json_of(self, name: str) -> Json | None:
        """Return the codec of a tool's arguments if that is JSON, as that of content always is."""
        if isinstance(self.codec, Json):
            return self.codec
        return CONTENT_CODEC if name == grammar_key.CONTENT else None


def _atoms(parts: list[Part]) -> list[Part]:
    """Slots and single characters."""
    return [atom for part in parts for atom in ([part] if isinstance(part, Slot) else part)]


def _leading_text(atoms: list[Part]) -> str:
    text = ""
    for atom in atoms:
        if isinstance(atom, Slot):
            break
        text += atom
    return text


def _fill(atoms: list[Part], name: str, call_id: str) -> str:
    return "".join({NAME: name, ID: call_id}[a] if isinstance(a, Slot) else a for a in atoms)


END_OF_TURN = 1
ID_EXAMPLE = "0" * 12
"""Stands for an id of a call where only the number of its tokens matters."""


class CallTokens:
    """The tokens that the texts of a dialect take, and their numbers, for budgets."""

    def __init__(
        self, dialect: Dialect, form: CallForm, tokens: Callable[[str], tuple[int, ...]]
    ) -> None:
        """`tokens` returns the tokens of an encoded text (`Marks.encode`)."""
        self._form = form
        self._tokens = tokens
        reasoning, encode = dialect.reasoning, form.marks.encode
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
        """Return the tokens after the grammar of a call."""
        return self._tokens(self._form.tail(name, call_id))

    def _head_count(self, name: str, first: bool) -> int:
        """Return the number of tokens of a call before its grammar. Those of the first call are
        counted without the trigger."""
        form = self._form
        text = (form.begin if first else form.separator) + form.head(name, ID_EXAMPLE)
        text = text.removeprefix(form.trigger) if first else text
        return len(self._tokens(text))

    def after_grammar(self, name: str) -> int:
        """Return the number of tokens after the grammar of the last call: its tail, the end of the
        calls, and the end of the turn."""
        return len(self.tail(name, ID_EXAMPLE)) + len(self.end) + END_OF_TURN

    def shortest_call(self, name: str, grammar_tokens: int, *, first: bool) -> int:
        """Return the number of tokens from the beginning of a call to the end of the turn."""
        before = self.head_count(name, first)
        before += len(self.trigger) + self.before_calls if first else 0
        return before + grammar_tokens + self.after_grammar(name)

    @property
    def reasoning_end_count(self) -> int:
        """Number of tokens from the end of the reasoning to the content."""
        return len(self.reasoning_end) + len(self.after_reasoning)
