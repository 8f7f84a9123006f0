"""The texts of a dialect that a segmenter looks for, encoded for one tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from ..dialects.dialect import Calls, Dialect, Part, Slot
from ..dialects.marks import Marks


class TurnForm:
    """All texts are encoded (`Marks.encode`). `tokens` maps the text of each mark to its id."""

    def __init__(self, dialect: Dialect, tokens: Mapping[str, int]) -> None:
        self.marks = Marks(tokens)
        encode = self.marks.encode
        reasoning, calls = dialect.reasoning, dialect.calls
        self.reasoning_begin = encode(reasoning.begin) if reasoning else ""
        self.reasoning_end = encode(reasoning.end) if reasoning else ""
        self.after_reasoning = encode(reasoning.after) if reasoning else ""
        self.end_after_reasoning = encode(reasoning.content_end) if reasoning else ""
        """Text that ends the content after reasoning."""
        content = dialect.content
        self.content_begin = encode(content.begin)
        """Text before the content, if the family writes typed messages."""
        self.content_end = encode(content.end)
        self.content_last = encode(content.last)
        self.preamble = encode(content.preamble)
        self.preamble_end = encode(content.preamble_end)
        self.calls = calls
        self.calls_end = encode(calls.end) if calls else ""
        self.first_call = self._parts(calls, calls.begin) if calls else ()
        self.further_call = self._parts(calls, calls.separator) if calls else ()
        self.text_in_reasoning = bool(self.reasoning_end) and not self._is_mark(self.reasoning_end)
        """Whether the reasoning ends with ordinary text."""

    def _parts(self, calls: Calls, opening: str) -> tuple[Part, ...]:
        """The parts of a call with the text before it; adjacent literals are joined."""
        parts: list[Part] = []
        for part in (opening, *calls.call):
            literal = part if isinstance(part, Slot) else self.marks.encode(part)
            if literal == "":
                continue
            if parts and isinstance(literal, str) and isinstance(parts[-1], str):
                parts[-1] += literal
            else:
                parts.append(literal)
        return tuple(parts)

    def _is_mark(self, text: str) -> bool:
        return len(text) == 1 and self.marks.is_mark(text)

    def triggers(self, names: Iterable[str]) -> tuple[str, ...]:
        """The texts that begin the calls in content: up to the first mark, or to the first slot. If
        a call begins with the name, the names of the tools with the text after them."""
        if not self.first_call:
            return ()
        first = self.first_call[0]
        if self.content_begin and isinstance(first, str):
            return (first,)
        if isinstance(first, Slot):
            after = self.first_call[1]
            return tuple(name + after for name in names) if isinstance(after, str) else ()
        marks = (at for at, char in enumerate(first) if self.marks.is_mark(char))
        return (first[: next(marks, len(first)) + 1],)

    def trigger_token(self) -> int | None:
        """The token that begins the calls, if that is one mark."""
        found = self.triggers(())
        return self.marks.token(found[0]) if found and self._is_mark(found[0]) else None

    def further_begin(self) -> str:
        """The text with which another call begins, up to its first slot."""
        first = self.further_call[0] if self.further_call else ""
        return first if isinstance(first, str) else ""


@lru_cache(maxsize=64)
def turn_form(dialect: Dialect, tokens: tuple[tuple[str, int], ...]) -> TurnForm:
    """Cached: the form is the same for all requests to a backend."""
    return TurnForm(dialect, dict(tokens))
