"""The form of a model's turn, as data.

A turn is: [reasoning] [content] [calls] end-of-turn token. Everything is declared as text. Which
parts of that text are single tokens follows from the tokenizer (marks.py). The form of a call's
arguments is a codec. Its parser (text → JSON) is in `arguments/`, its grammar (schema → allowed
text) in the backend's `grammars/codecs/`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib import resources
from typing import Any, Literal


@dataclass(frozen=True)
class Json:
    """One JSON object."""

    item_separator: str = ", "
    """Text between two members of an object or array, as in the family's training data."""
    key_separator: str = ": "


@dataclass(frozen=True)
class FlatTags:
    """One pair of tags for each argument: `begin` KEY `middle` VALUE `end`, one after another.

    A string value is raw text, all other values are JSON. A raw value cannot contain `close`,
    because readers end the value there. Arguments may come in any order."""

    begin: str
    middle: str
    """Text between the key and the value. With `types`, it contains `{type}`."""
    end: str
    close: str = ""
    """The part of `end` that ends a raw value. Empty: `end` without line breaks."""
    types: tuple[tuple[str, str], ...] = ()
    """By JSON type of the value: the type attribute that replaces `{type}`. Empty: the reader takes
    the type from the schema."""
    escapes: tuple[tuple[str, str], ...] = ()
    """Characters of keys, each with the text that is written in its place."""
    cdata: bool = False
    """Whether a raw value with `<`, `&` or a line break is written as `<![CDATA[VALUE]]>`."""
    item_separator: str = ", "
    key_separator: str = ": "

    def __post_init__(self) -> None:
        object.__setattr__(self, "close", self.close or self.end.strip("\n"))


@dataclass(frozen=True)
class NestedTags:
    """As `FlatTags`, but objects and arrays are tags too. `namespace` precedes every tag. There is
    no form for null (MiniMax M3)."""

    namespace: str
    item: str = "item"


@dataclass(frozen=True)
class GemmaValues:
    """`{key:value,…}` with bare keys, and strings between two `quote` marks (Gemma 4)."""

    quote: str
    braces: bool = True
    """Whether the outermost object has braces in this codec's text."""


@dataclass(frozen=True)
class Pythonic:
    """Keyword arguments of a Python call: `a="x", n=3, ok=True`."""

    quote: str = '"'
    json_objects: bool = False
    """Whether objects are written as JSON (`true`), not as Python (`True`)."""


Codec = Json | FlatTags | NestedTags | GemmaValues | Pythonic


class Slot(Enum):
    """The variable parts of a call."""

    NAME = "name"
    ID = "id"
    ARGUMENTS = "arguments"


JSON = Json()
NAME, ID, ARGUMENTS = Slot.NAME, Slot.ID, Slot.ARGUMENTS
Part = str | Slot


@dataclass(frozen=True)
class CallIds:
    """Ids that the family writes at `ID`.

    The gateway passes them to the client, except those that each turn counts anew: ids of the API
    identify a call in the conversation."""

    kind: Literal["conversation", "turn", "random"]
    """`conversation` and `turn` count the calls; `random` is a string of letters and digits."""
    first: int = 0
    """The first number of a counter."""
    length: int = 9
    """Length of a random id."""
    form: str = "{id}"
    """The id in the API. `{name}` is the tool's name, `{id}` the text at `ID`."""


@dataclass(frozen=True)
class Calls:
    """`begin` CALL (`separator` CALL)* `end`, where CALL is `call` with its slots filled.

    Example of `call`: `('<tool_call>{"name": "', NAME, '", "arguments": ', ARGUMENTS, "}")`."""

    call: tuple[Part, ...]
    begin: str = ""
    """Text before the first call, such as the begin mark of a section."""
    separator: str = ""
    end: str = ""
    """Text after the last call."""
    codec: Codec = JSON
    ids: CallIds | None = None
    parallel: bool = True
    """Whether a turn can have several calls."""
    only_at_start: bool = False
    """Whether calls come only at the start of the turn, without content before them."""
    ends: tuple[str, ...] = ()
    """The end-of-turn tokens after calls. Empty: the same as after content."""


@dataclass(frozen=True)
class Switch:
    """The argument of the chat template that turns reasoning on and off."""

    argument: str
    on: Any = True
    off: Any = None
    """None: it cannot be turned off."""
    levels: tuple[str, ...] = ()
    """The values of `reasoning_effort` that are passed on as they are."""


@dataclass(frozen=True)
class Reasoning:
    begin: str = "<think>"
    end: str = "</think>"
    after: str = "\n\n"
    """Text between the end of the reasoning and the content."""
    content_end: str = ""
    """Text that ends the content after reasoning, in families that write it only then."""
    switch: Switch | None = Switch("enable_thinking", off=False)
    """None: the family always reasons."""


@dataclass(frozen=True)
class Content:
    """The content in families that write a turn as a list of typed messages.

    A turn is then: [reasoning message] [content message] [calls]. Each message begins with its own
    text: `Reasoning.begin`, `begin` or the text before the first call."""

    begin: str = ""
    """Text before the content. Empty: the family has no messages, and content needs no mark."""
    end: str = ""
    """Text after the content. Empty: an end-of-turn token ends it."""
    last: str = ""
    """Text after `end` if no call follows."""
    preamble: str = ""
    """Text before content that calls follow; may be the same as `begin`. Empty: no call follows
    content."""
    preamble_end: str = ""
    """Text between such content and the calls. If `preamble` is `begin`, the same as `end`."""
    turn: str = ""
    """Text with which prompts begin the turn of the assistant, if it has marks of the dialect."""
    always: bool = False
    """Whether a message of content, perhaps empty, comes before all calls."""


@dataclass(frozen=True)
class Recognition:
    """The features of a tokenizer and chat template from which the family is recognised."""

    template: tuple[str, ...] = ()
    """Substrings of the chat template; all must occur."""
    without: tuple[str, ...] = ()
    """Substrings that must not occur."""
    tokens: tuple[str, ...] = ()
    """Added tokens of the tokenizer; all must exist."""


@dataclass(frozen=True)
class GoldenCall:
    name: str
    arguments: dict[str, Any]
    id: str | None = None
    """The id in the API, if the text contains one."""


@dataclass(frozen=True)
class Golden:
    """A transcript: the text of a turn, from where the model begins, and the message that it is.

    The tools of all transcripts are `f` with the parameters `a` (string), `n` (integer), `ok`
    (boolean), `l` (array of strings), `o` (object), and `g` without parameters."""

    text: str
    content: str | None = None
    reasoning: str | None = None
    calls: tuple[GoldenCall, ...] = ()
    reasoning_open: bool = False
    """Whether the prompt ends inside the reasoning."""


def read_goldens(file: str) -> dict[str, tuple[Golden, ...]]:
    """Return the transcripts in the text of a file, by dialect. A call is a list of its name, its
    arguments and, if the text contains one, its id."""
    return {
        name: tuple(
            Golden(**row | {"calls": tuple(GoldenCall(*call) for call in row.get("calls", ()))})
            for row in rows
        )
        for name, rows in tomllib.loads(file).items()
    }


@cache
def goldens() -> dict[str, tuple[Golden, ...]]:
    """Return all transcripts by dialect. Only tests, documents and one command need them."""
    return read_goldens(resources.files(__package__).joinpath("goldens.toml").read_text("utf-8"))


@dataclass(frozen=True, kw_only=True)
class Dialect:
    name: str
    models: tuple[str, ...] = ()
    """Model series that use the dialect."""
    shape: str = ""
    """The shape of a call: one of SHAPES in registry.py."""
    calls: Calls | None
    """None: the family has no form for calls."""
    reasoning: Reasoning | None = None
    content: Content = field(default_factory=Content)
    ends_after_content: tuple[str, ...] = ()
    """The end-of-turn tokens after content. Empty: all end-of-turn tokens of the model."""
    text_marks: tuple[str, ...] = ()
    """Marks in the form of special tokens (`</parameter>`) that the family's tokenizers do not
    have as tokens. For a model, its tokenizer decides; this is for test models and evaluations."""
    recognition: Recognition = Recognition()
    source: str = ""
    """Where the form comes from: a chat template, a parser, documentation."""
    limits: tuple[str, ...] = ()
    """What the form cannot represent besides the texts that end a string, one sentence each."""

    @property
    def goldens(self) -> tuple[Golden, ...]:
        """Transcripts in this form."""
        return goldens().get(self.name, ())

    @property
    def all_limits(self) -> tuple[str, ...]:
        """What the form cannot represent, one sentence each."""
        match self.calls and self.calls.codec:
            case FlatTags(cdata=True):
                end = "`]]>` together with `<`, `&` or a line break"
            case FlatTags(close=text) | NestedTags(namespace=text) | GemmaValues(quote=text):
                end = f"`{text}`"
            case _:
                return self.limits
        return (f"A string value cannot contain {end}.", *self.limits)

    @property
    def literals(self) -> tuple[str, ...]:
        """All texts of the dialect that can contain special tokens."""
        literals = [text for text in vars(self.content).values() if isinstance(text, str)]
        if self.reasoning:
            literals += [self.reasoning.begin, self.reasoning.end, self.reasoning.after]
            literals.append(self.reasoning.content_end)
        if self.calls:
            literals += [self.calls.begin, self.calls.separator, self.calls.end]
            literals += [part for part in self.calls.call if isinstance(part, str)]
            literals += [text for text in vars(self.calls.codec).values() if isinstance(text, str)]
            types = getattr(self.calls.codec, "types", ())
            literals += [text for _, text in types]
        return tuple(text for text in literals if text)
