"""Searches for tools, in killable processes: a pattern takes a minute for the largest texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from toolgate_core.errors import ChecksBusy, ChecksFailed
from toolgate_core.killable import LimitExceeded, Limits, Work, WorkerPool

from .index import Catalogue, InvalidPattern, Texts, texts_of, whole

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
    """Why the query can't be read, for the model."""


_POOL = WorkerPool(
    f"{__name__}:work",
    SearchResult,
    Limits(CPU_SECONDS[False], WALL_SECONDS),
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
    limits = Limits(CPU_SECONDS[regex], WALL_SECONDS)
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
