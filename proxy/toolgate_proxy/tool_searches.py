"""Searches for tools, in killable processes: a pattern takes a minute for the largest texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from toolgate_core.errors import ChecksBusy, ChecksFailed

from .killable.pool import LimitExceeded, WorkerPool
from .killable.process import LimitedJob, serve
from .tool_index import Catalogue, InvalidPattern, Texts, texts_of, whole

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


class SearchJob(LimitedJob):
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


@lru_cache(maxsize=1)
def _pool(_loop: asyncio.AbstractEventLoop) -> WorkerPool[SearchResult]:
    limits: dict[str, Any] = {"cpu_seconds": CPU_SECONDS[False], "wall_seconds": WALL_SECONDS}
    return WorkerPool(__name__, SearchResult, work="search for tools", workers=WORKERS, **limits)


async def search(
    tools: Sequence[Mapping[str, Any]], query: str, limit: int, owner: str = "", *, regex: bool
) -> SearchResult:
    """As Catalogue.matching for a regular expression, and as Catalogue.ranked for words."""
    texts = await asyncio.to_thread(texts_of, tools)
    seconds = CPU_SECONDS[regex]
    job = SearchJob(
        cpu_seconds=seconds, owner=owner, texts=texts, query=whole(query), limit=limit, regex=regex
    )
    try:
        return await _pool(asyncio.get_running_loop()).run(job, owner)
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


if __name__ == "__main__":
    serve(SearchJob, run)
