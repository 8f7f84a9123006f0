"""Codecs: the forms in which model families write the arguments of a call.

A codec is data. Its parser (text → JSON) is in `arguments/`, its grammar (schema → allowed text) in
the backend's `grammars/codecs/`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Json:
    """One JSON object."""

    item_separator: str = ", "
    """Text between two members of an object or array, as in the family's training data."""
    key_separator: str = ": "


@dataclass(frozen=True)
class Tagged:
    """One pair of tags for each argument: `begin` KEY `middle` VALUE `end`, one after another.

    A string value is raw text, all other values are JSON. A raw value cannot contain `close`,
    because readers end the value there. Arguments may come in any order.
    """

    begin: str
    middle: str
    """Text between the key and the value. With `types`, it contains `{type}`."""
    end: str
    close: str
    """The part of `end` that ends a raw value: `end` without line breaks."""
    types: tuple[tuple[str, str], ...] = ()
    """By JSON type of the value: the type attribute that replaces `{type}`. Empty: the reader takes
    the type from the schema."""
    escapes: tuple[tuple[str, str], ...] = ()
    """Characters of keys, each with the text that is written in its place."""
    cdata: bool = False
    """Whether a raw value with `<`, `&` or a line break is written as `<![CDATA[VALUE]]>`."""
    item_separator: str = ", "
    key_separator: str = ": "


@dataclass(frozen=True)
class NestedTags:
    """As `Tagged`, but objects and arrays are tags too. `namespace` precedes every tag. There is no
    form for null (MiniMax M3)."""

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


Codec = Json | Tagged | NestedTags | GemmaValues | Pythonic
