"""How a model family writes reasoning and tool calls, as data. A new family is one more entry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dialect:
    """A family's marks and envelope.

    The four marks are special tokens of the tokenizer, known by id on both sides. The envelope is
    the text between `call_begin` and `call_end`: head, name, middle, arguments (JSON), tail.
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
    """Between two members of a JSON object or array, as the family was trained to write them."""
    key_separator: str
    reasoning_begin: str | None = None
    reasoning_end: str | None = None
    after_reasoning: str = ""
    """Text the family writes between the end of its reasoning and its answer."""

    @property
    def calls(self) -> bool:
        """Whether the family has a way to call tools that can be enforced."""
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

# A tokenizer with the marks of none of these: all it writes is text.
PLAIN = replace(HERMES, name="plain", call_begin="", call_end="")

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (QWEN3, HERMES, PLAIN)}


def detect(single_tokens: Iterable[str]) -> Dialect:
    """The richest dialect all of whose marks are single tokens of this tokenizer."""
    known = set(single_tokens)
    fitting = (dialect for dialect in DIALECTS.values() if known.issuperset(dialect.marks))
    return max(fitting, key=lambda dialect: len(dialect.marks))
