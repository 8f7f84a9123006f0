"""Dialects: how a model family writes reasoning and tool calls. A new family is a new entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dialect:
    """The marker tokens and the envelope of calls of a model family.

    The marker tokens are special tokens of the tokenizer. Gateway and backend compare their ids.
    The envelope is the text between `call_begin` and `call_end`: head, name, middle, arguments
    (JSON), tail.
    """

    name: str
    call_begin: str
    call_end: str
    call_separator: str
    """Text between one call's `call_end` and the next call's `call_begin`."""
    envelope_head: str
    envelope_middle: str
    envelope_tail: str
    item_separator: str
    """Text between two members of a JSON object or array, as in the family's training data."""
    key_separator: str
    reasoning_begin: str | None = None
    reasoning_end: str | None = None
    after_reasoning: str = ""
    """Text between the end of the reasoning and the content."""

    @property
    def calls(self) -> bool:
        """Whether the family has marker tokens for calls, without which nothing can be enforced."""
        return bool(self.call_begin)

    @property
    def marks(self) -> tuple[str, ...]:
        reasoning = (self.reasoning_begin, self.reasoning_end)
        return tuple(mark for mark in (self.call_begin, self.call_end, *reasoning) if mark)


# Qwen3, Qwen2.5, Hermes 2 and 3: the chat templates of Qwen3-8B and Hermes-3-Llama-3.1-8B.
HERMES = Dialect(
    name="hermes",
    call_begin="<tool_call>",
    call_end="</tool_call>",
    call_separator="\n",
    envelope_head='\n{"name": "',
    envelope_middle='", "arguments": ',
    envelope_tail="}\n",
    item_separator=", ",
    key_separator=": ",
)

QWEN3 = replace(
    HERMES,
    name="qwen3",
    reasoning_begin="<think>",
    reasoning_end="</think>",
    after_reasoning="\n\n",
)

# For tokenizers without the marker tokens of any family: all output is text.
PLAIN = replace(HERMES, name="plain", call_begin="", call_end="")

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (QWEN3, HERMES, PLAIN)}


def detect(single_tokens: Iterable[str]) -> Dialect:
    """The dialect with the most marker tokens, all of which are single tokens of the tokenizer."""
    known = set(single_tokens)
    possible = (dialect for dialect in DIALECTS.values() if known.issuperset(dialect.marks))
    return max(possible, key=lambda dialect: len(dialect.marks))
