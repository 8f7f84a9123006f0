"""An index of the definitions of tools, for ranked search by words and for search by pattern.

The ranking is BM25 of SQLite's full-text search (https://sqlite.org/fts5.html), over names,
descriptions, and the names, descriptions and values of arguments. Parts of the words count as well,
so that a word also finds longer ones that it is in. Patterns are read by RE2, in linear time.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson
import re2

MAX_WORDS = 64
"""Most words of a query."""
MAX_PATTERN = 200
"""Most characters of a pattern."""
MAX_TEXT = 4_000
"""Most characters of a description, and of the arguments of a tool, that are searched."""
MAX_DEPTH = 5
"""Levels of objects and arrays whose arguments are searched."""
WEIGHTS = (4, 2, 1)
"""Weights of names, descriptions and arguments in the ranking."""
PARTS_WEIGHT = 0.3
"""Weight of parts of words. On 845 questions of BFCL over its 1,233 tools, 87 % of the right tools
are among the first five, and 92 % among the first ten: 84 and 89 % by words alone, 85 and 90 %
without STOP_WORDS. Less than 2 % more come from n-grams of 3 to 5 characters, from how much of a
name the query has, from synonyms by co-occurrence, or from other weights and saturation."""
RANKED = """
    with by_word as materialized (
        select rowid, bm25(tools, ?, ?, ?) as score from tools where tools match ?
    ), by_part as materialized (
        select rowid, bm25(parts) as score from parts where parts match ?
    )
    select by_word.rowid from by_word left join by_part using (rowid)
    order by by_word.score + ? * coalesce(by_part.score, 0), by_word.rowid limit ?
"""
PART = 3
"""Characters of a part of a word."""
MIN_SPLIT = 4
"""Fewest characters of a word that is searched by its parts."""
MAX_PARTS = 200
"""Most parts of a query."""
COMMON = """
    a an and are as at be been but by can could did do does for from had has have he her his how i
    if in into is it its me my no not of on or our she so than that the their them then there these
    they this those to us was we were what when where which while who whom why will with would you
    your
"""
STOP_WORDS = frozenset(COMMON.split())
"""Words that say nothing about a tool. They are rare in descriptions, and would count for much."""
WORD = re.compile(r"[^\W_]+")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class InvalidPattern(ValueError):
    """A pattern that RE2 can't read, or that is too long. The message is for the model."""


class Catalogue:
    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        """`tools`: functions with `name`, `description` and `parameters`."""
        self._names = [str(tool["name"]) for tool in tools]
        self._texts = [_text(tool) for tool in tools]
        # Queries run in worker threads, one at a time.
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute(
            "create virtual table tools using fts5(name, description, arguments, content='', "
            "tokenize='porter unicode61')"
        )
        self._index.executemany(
            "insert into tools(rowid, name, description, arguments) values (?, ?, ?, ?)",
            (
                (at, _words(name), _words(description), _words(arguments))
                for at, (name, description, arguments) in enumerate(self._texts)
            ),
        )
        self._index.execute(
            "create virtual table parts using fts5(text, content='', tokenize='trigram')"
        )
        self._index.executemany(
            "insert into parts(rowid, text) values (?, ?)",
            (
                (at, _words(f"{name} {description}"))
                for at, (name, description, _) in enumerate(self._texts)
            ),
        )

    @property
    def size(self) -> int:
        """The characters of the texts."""
        return sum(len(part) for text in self._texts for part in text)

    def ranked(self, query: str, limit: int) -> list[str]:
        """Return the names of the tools that have words of the query, the best first."""
        words = dict.fromkeys(word.lower() for word in WORD.findall(_split(query)))
        telling = [word for word in words if word not in STOP_WORDS][:MAX_WORDS]
        if not telling:
            return []
        parts = dict.fromkeys(
            word[at : at + PART]
            for word in telling
            if len(word) >= MIN_SPLIT
            for at in range(len(word) - PART + 1)
        )
        either, inside = _either(telling), _either([*parts][:MAX_PARTS])
        found = self._index.execute(RANKED, (*WEIGHTS, either, inside, PARTS_WEIGHT, limit))
        return [self._names[at] for (at,) in found]

    def matching(self, pattern: str, limit: int) -> list[str]:
        """Return the names of the tools of which the name, the description or an argument's name
        matches, in their order. Raise InvalidPattern."""
        if len(pattern) > MAX_PATTERN:
            raise InvalidPattern(f"The pattern has more than {MAX_PATTERN} characters.")
        options = re2.Options()
        options.log_errors = False
        try:
            compiled = re2.compile(pattern, options)
        except re2.error as error:
            raise InvalidPattern(f"The pattern is not a regular expression: {error}") from error
        found: list[str] = []
        for name, text in zip(self._names, self._texts, strict=True):
            if any(compiled.search(part) for part in text):
                found.append(name)
                if len(found) == limit:
                    break
        return found


def _text(tool: Mapping[str, Any]) -> tuple[str, str, str]:
    description = tool.get("description")
    described = description[:MAX_TEXT] if isinstance(description, str) else ""
    return str(tool["name"]), described, _joined(_arguments(tool.get("parameters"), MAX_DEPTH))


def _joined(texts: Iterable[str]) -> str:
    joined, size = [], 0
    for text in texts:
        joined.append(text[: MAX_TEXT - size])
        size += len(text) + 1
        if size >= MAX_TEXT:
            break
    return "\n".join(joined)


def _arguments(schema: object, depth: int) -> Iterator[str]:
    """Yield the names, descriptions and values of arguments."""
    if not isinstance(schema, dict) or not depth:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield str(name)
        if isinstance(inner, dict):
            values = inner.get("enum")
            described = [inner.get("description"), *(values if isinstance(values, list) else ())]
            yield from (each for each in described if isinstance(each, str))
            yield from _arguments(inner, depth - 1)
    yield from _arguments(schema.get("items"), depth - 1)


def _either(words: Sequence[str]) -> str:
    """Return the query for any of the words."""
    return " OR ".join(f'"{word}"' for word in words) or '""'


def _words(text: str) -> str:
    """Return the text with its names split into words."""
    return " ".join(WORD.findall(_split(text)))


def _split(text: str) -> str:
    return CAMEL.sub(" ", text)


MAX_SIZE = 20_000_000
"""Most characters of all catalogues. An index needs about three bytes for each."""

Functions = Sequence[Mapping[str, Any]]


class SharedFunctions(list[Mapping[str, Any]]):
    """Functions that many requests have in common, so nobody changes them."""

    @cached_property
    def digest(self) -> bytes:
        return _digest(self)


def _digest(tools: Functions) -> bytes:
    return hashlib.sha256(orjson.dumps([dict(tool) for tool in tools])).digest()


class Catalogues:
    """Catalogues that were searched lately: the requests of one conversation have the same tools.
    Those that were not used for the longest time are dropped first. Each sender has its own, so
    that nobody can tell from the time of a search which tools another one has searched."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self._max_size = max_size
        self._made: OrderedDict[tuple[str, bytes], Catalogue] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    async def ranked(
        self, tools: Functions, query: str, limit: int, *, owner: str = ""
    ) -> list[str]:
        """As Catalogue.ranked. `owner`: the sender."""
        return await self._search(tools, owner, lambda catalogue: catalogue.ranked(query, limit))

    async def matching(
        self, tools: Functions, pattern: str, limit: int, *, owner: str = ""
    ) -> list[str]:
        """As Catalogue.matching. Raise InvalidPattern."""
        return await self._search(
            tools, owner, lambda catalogue: catalogue.matching(pattern, limit)
        )

    async def _search(
        self, tools: Functions, owner: str, search: Callable[[Catalogue], list[str]]
    ) -> list[str]:
        def found() -> list[str]:
            digest = tools.digest if isinstance(tools, SharedFunctions) else _digest(tools)
            # One at a time: an index is not made twice, and SQLite's connection is not shared.
            with self._lock:
                return search(self._catalogue(tools, (owner, digest)))

        return await asyncio.to_thread(found)

    def _catalogue(self, tools: Functions, key: tuple[str, bytes]) -> Catalogue:
        known = self._made.get(key)
        if known is not None:
            self._made.move_to_end(key)
            return known
        made = self._made[key] = Catalogue(tools)
        self._size += made.size
        while self._size > self._max_size and len(self._made) > 1:
            _, dropped = self._made.popitem(last=False)
            self._size -= dropped.size
        return made


CATALOGUES = Catalogues()
"""Those of this process."""
