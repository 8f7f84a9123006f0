"""An index of the definitions of tools, for ranked search by words and for search by pattern.

The ranking is BM25 of SQLite's full-text search (https://sqlite.org/fts5.html), over names,
descriptions, and the names, descriptions and values of arguments. Parts of the words count as well,
so that a word also finds longer ones that it is in. Patterns are read by RE2, in linear time.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import re2
from pydantic import BaseModel

from toolgate_core.errors import ChecksBusy, ChecksFailed
from toolgate_core.killable import JobLimits, LimitExceeded, Work, WorkerPool

MAX_WORDS = 64
"""Most words of a query."""
MAX_PATTERN = 200
"""Most characters of a pattern."""
MAX_TEXT = 4_000
"""Most characters of a description, and of the arguments of a tool, that are searched."""
MAX_TEXTS = 8_000_000
"""Most characters of all tools of a request. Of many tools, less of each is searched."""
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


Texts = tuple[str, str, str]
"""The name, the description and the arguments of a tool."""


class InvalidPattern(ValueError):
    """A pattern that RE2 cannot read, or that is too long. The message is for the model."""


class Catalogue:
    def __init__(self, texts: Sequence[Texts]) -> None:
        self._texts = texts

    @cached_property
    def _index(self) -> sqlite3.Connection:
        index = sqlite3.connect(":memory:")
        index.execute(
            "create virtual table tools using fts5(name, description, arguments, content='', "
            "tokenize='porter unicode61')"
        )
        index.executemany(
            "insert into tools(rowid, name, description, arguments) values (?, ?, ?, ?)",
            (
                (at, _words(name), _words(description), _words(arguments))
                for at, (name, description, arguments) in enumerate(self._texts)
            ),
        )
        index.execute("create virtual table parts using fts5(text, content='', tokenize='trigram')")
        index.executemany(
            "insert into parts(rowid, text) values (?, ?)",
            (
                (at, _words(f"{name} {description}"))
                for at, (name, description, _) in enumerate(self._texts)
            ),
        )

        return index

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
        return [self._texts[at][0] for (at,) in found]

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
        for text in self._texts:
            if any(compiled.search(part) for part in text):
                found.append(text[0])
                if len(found) == limit:
                    break
        return found


def texts_of(tools: Sequence[Mapping[str, Any]]) -> tuple[Texts, ...]:
    """Return what is searched of functions with `name`, `description` and `parameters`."""
    most = min(MAX_TEXT, MAX_TEXTS // (2 * len(tools) or 1))
    return tuple(_text(tool, most) for tool in tools)


def _text(tool: Mapping[str, Any], most: int) -> Texts:
    description = tool.get("description")
    described = description[:most] if isinstance(description, str) else ""
    arguments = "\n".join(_arguments(tool.get("parameters"), MAX_DEPTH))[:most]
    return whole(str(tool["name"])), whole(described), whole(arguments)


def whole(text: str) -> str:
    """Return the text without halves of surrogate pairs, which no process can be sent."""
    return text.encode(errors="replace").decode()


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


WORKERS = 2
"""Maximum number of processes. One key uses all but one of them at most."""
CPU_SECONDS = {True: 3.0, False: 20.0}
"""Limits on the processor time of a search, by whether it is one by pattern. An index takes a
second for each million characters."""
WALL_SECONDS = 30.0
"""Limit on the time of a search, and the time that it waits for a process."""
MAX_CATALOGUES = 8
"""Most catalogues that a process keeps: the requests of a conversation have the same tools."""
LIMITED = "The search takes too long. Search with other words, or with a simpler pattern."
BUSY = "Other searches are running. Search again."


class SearchJob(BaseModel):
    owner: str
    """The sender. Each has catalogues of its own, so that nobody can tell from the time of a search
    which tools another one has searched."""
    texts: tuple[Texts, ...]
    query: str
    limit: int
    regex: bool


class SearchResult(BaseModel):
    names: list[str] = []
    error: str | None = None
    """Why the query cannot be read, for the model."""


_POOL = WorkerPool(
    f"{__name__}:work",
    SearchResult,
    JobLimits(CPU_SECONDS[False], WALL_SECONDS),
    task="search for tools",
    workers=WORKERS,
    wait_seconds=WALL_SECONDS,
)


async def search(
    tools: Sequence[Mapping[str, Any]], query: str, limit: int, owner: str = "", *, regex: bool
) -> SearchResult:
    """As Catalogue.matching for a regular expression, and as Catalogue.ranked for words."""
    texts = await asyncio.to_thread(texts_of, tools)
    job = SearchJob(owner=owner, texts=texts, query=whole(query), limit=limit, regex=regex)
    limits = JobLimits(CPU_SECONDS[regex], WALL_SECONDS)
    try:
        return await _POOL.run(job, owner, limits)
    except LimitExceeded:
        return SearchResult(error=LIMITED)
    except (ChecksBusy, ChecksFailed):
        return SearchResult(error=BUSY)


@lru_cache(maxsize=MAX_CATALOGUES)
def _catalogue(_owner: str, texts: tuple[Texts, ...]) -> Catalogue:
    return Catalogue(texts)


def run(job: SearchJob) -> SearchResult:
    catalogue = _catalogue(job.owner, job.texts)
    find = catalogue.matching if job.regex else catalogue.ranked
    try:
        return SearchResult(names=find(job.query, job.limit))
    except InvalidPattern as error:
        return SearchResult(error=str(error))


def work(_: bytes) -> Work:
    return Work(SearchJob, lambda job: [run(job)])
