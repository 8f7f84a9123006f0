"""Marks: special tokens of a tokenizer that occur in the texts of a dialect.

Marks are compared by token id, so text that looks like a mark stays text. To handle literals and
output as strings nevertheless, each mark is represented as one lone surrogate, which decoded text
never contains.

Places without a tokenizer have the marks as text: which parts of a dialect's texts are usually
special tokens, and which texts begin and end things.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import takewhile

from .dialect import Dialect, GemmaValues, Slot

FIRST_SURROGATE = 0xD800


class Marks:
    """The marks of one dialect and tokenizer. `tokens` maps the text of each mark to its id."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        texts = sorted(tokens, key=lambda text: (-len(text), text))
        self._tokens = dict(tokens)
        self._symbols = {text: chr(FIRST_SURROGATE + at) for at, text in enumerate(texts)}
        self._texts = {symbol: text for text, symbol in self._symbols.items()}
        self.symbol_of_token = {tokens[text]: self._symbols[text] for text in texts}
        """By token id: the surrogate that represents the mark."""
        self._pattern = re.compile("|".join(map(re.escape, texts))) if texts else None

    def encode(self, literal: str) -> str:
        """Return a literal of the dialect with each mark replaced by its surrogate; longest mark
        first."""
        if self._pattern is None:
            return literal
        return self._pattern.sub(lambda match: self._symbols[match.group()], literal)

    def decode(self, encoded: str) -> str:
        """Return the text of `encoded`, with each surrogate replaced by the mark's text."""
        return "".join(self._texts.get(char, char) for char in encoded)

    def token(self, symbol: str) -> int:
        """Return the token id of a surrogate."""
        return self._tokens[self._texts[symbol]]

    def is_mark(self, char: str) -> bool:
        return char in self._texts


def marks_in(literals: Iterable[str], added_tokens: Iterable[str]) -> frozenset[str]:
    """Return the added tokens of a tokenizer that occur in the literals of a dialect. A literal is
    split as the tokenizer splits it: at the longest added token, from the left."""
    texts = sorted({token for token in added_tokens if token}, key=lambda text: (-len(text), text))
    if not texts:
        return frozenset()
    pattern = re.compile("|".join(map(re.escape, texts)))
    return frozenset(mark for literal in literals for mark in pattern.findall(literal))


END_OF_TURN = "<|im_end|>"
"""Stands for the end-of-turn tokens of dialects that name none."""

_MARK = re.compile(r'<\|"\|>|<[^<>\s"]+>|\[/?[A-Z_]+\]|｜[A-Z]+｜|\]<\]\w+\[>\[')


def mark_texts(dialect: Dialect) -> tuple[str, ...]:
    """Return the texts that are marks: those that the recognition names, and those in the form of
    special tokens (`<tool_call>`, `<|call|>`, `[ARGS]`)."""
    marks = {mark for text in dialect.literals for mark in _MARK.findall(text)}
    marks.update(dialect.recognition.tokens)
    if dialect.calls and isinstance(dialect.calls.codec, GemmaValues):
        marks.add(dialect.calls.codec.quote)
    return tuple(sorted(marks))


def end_texts(dialect: Dialect) -> tuple[str, ...]:
    """Return the end-of-turn tokens that the dialect names, those after content first."""
    after_calls = dialect.calls.ends if dialect.calls else ()
    return tuple(dict.fromkeys((*dialect.ends_after_content, *after_calls)))


def special_tokens(dialect: Dialect) -> tuple[str, ...]:
    """Return the marks that are special tokens of the family's tokenizers."""
    marks = [mark for mark in mark_texts(dialect) if mark not in dialect.text_marks]
    # `</｜DSML｜invoke>` is text around the token `｜DSML｜`.
    return tuple(m for m in marks if not any(part != m and part in m for part in marks))


def markup(dialect: Dialect) -> tuple[str, ...]:
    """Texts that content does not contain; never empty. Of marks that are text, only the text that
    begins the calls is kept out of content."""
    special = special_tokens(dialect)
    marks = {*special, *(end_texts(dialect) or (END_OF_TURN,))}
    opening = _opening(dialect)
    is_text = opening and not any(mark in opening for mark in special)
    if is_text and dialect.calls and not dialect.calls.only_at_start:
        marks.add(opening)
    return tuple(sorted(marks))


def _opening(dialect: Dialect) -> str:
    """Return the text from the beginning of the calls to the first name or id."""
    if dialect.calls is None:
        return ""
    parts = takewhile(lambda part: not isinstance(part, Slot), dialect.calls.call)
    return "".join((dialect.calls.begin, *map(str, parts))).strip()


def closing_texts(dialect: Dialect) -> tuple[str, ...]:
    """Texts that end reasoning, content, values, calls and turns, each also in its parts that are
    marks."""
    texts = [dialect.content.end, dialect.content.last]
    if dialect.reasoning:
        texts.append(dialect.reasoning.end)
    if calls := dialect.calls:
        last = calls.call[-1]
        codec = [getattr(calls.codec, name, "") for name in ("close", "end", "quote")]
        texts += [*codec, last if isinstance(last, str) else "", calls.end]
    return _with_marks(dialect, (*texts, *(end_texts(dialect) or (END_OF_TURN,))))


def call_texts(dialect: Dialect) -> tuple[str, ...]:
    """Return texts of calls, each also in its parts that are marks: hostile inside a string value.
    If the calls have none, the texts that end them."""
    return _with_marks(dialect, _call_literals(dialect) or end_texts(dialect))


def evaluation_marks(dialect: Dialect) -> dict[str, list[str]]:
    """Return the marks in the form of black-box evaluations: texts that must not occur in content,
    texts that end something, and texts of calls to put into strings."""
    return {
        "markup": list(markup(dialect)),
        "close": list(closing_texts(dialect)),
        "hostile": list(call_texts(dialect)),
    }


def _call_literals(dialect: Dialect) -> tuple[str, ...]:
    calls = dialect.calls
    if calls is None:
        return ()
    codec = (getattr(calls.codec, name, "") for name in ("begin", "close", "quote", "namespace"))
    parts = (part for part in calls.call if isinstance(part, str))
    literals = (calls.begin, *parts, calls.separator, calls.end, *codec)
    return tuple(dict.fromkeys(text.strip() for text in literals if text.strip()))


def _with_marks(dialect: Dialect, texts: tuple[str, ...]) -> tuple[str, ...]:
    marks = set(mark_texts(dialect))
    both: list[str] = []
    for text in texts:
        stripped = text.strip()
        both += [stripped, *(mark for mark in _MARK.findall(text) if mark in marks)]
    return tuple(dict.fromkeys(each for each in both if each))
