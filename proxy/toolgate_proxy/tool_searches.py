"""Searches for tools, in killable processes: a pattern takes a minute for the largest texts."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson
from pydantic import BaseModel

from toolgate_core.errors import ChecksBusy, ChecksFailed

from .killable.pool import LimitExceeded, WorkerPool
from .killable.process import LimitedJob, serve
from .tool_index import Catalogue, InvalidPattern, Texts, texts_of, whole

WORKERS = 2
"""Maximum number of processes. One key uses all but one of them at most."""
RANKED_SECONDS, MATCHING_SECONDS = 20.0, 3.0
"""Limits on the processor time of a search. An index takes a second for each million characters."""
WALL_SECONDS = 30.0
"""Limit on the time of a search, and the time that it waits for a process."""
MAX_SIZE = 20_000_000
"""Most characters of all catalogues of a process. An index needs about three bytes for each."""
LIMITED = "The search takes too long. Search with other words, or with a simpler pattern."
BUSY = "Other searches are running. Search again."
Functions = Sequence[Mapping[str, Any]]


class SearchFailed(Exception):
    """A search without a result. The message is for the model."""


class SearchJob(LimitedJob):
    catalogue: str
    """The owner and the digest of the tools."""
    query: str
    limit: int
    is_pattern: bool
    texts: list[Texts] | None = None
    """None: of an earlier job."""


class SearchResult(BaseModel):
    names: list[str] | None = None
    """None: the process needs the texts."""
    error: str | None = None
    """Why the query can't be read."""


class SharedFunctions(list[Mapping[str, Any]]):
    """Functions that many requests have in common, so nobody changes them."""

    @cached_property
    def digest(self) -> str:
        return _digest(self)


def _digest(tools: Functions) -> str:
    return hashlib.sha256(orjson.dumps([dict(tool) for tool in tools])).hexdigest()


class ToolSearches:
    """Searches of all requests. Each owner has catalogues of its own, so that nobody can tell from
    the time of a search which tools another one has searched."""

    def __init__(self) -> None:
        self._pool: WorkerPool[SearchResult] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def ranked(
        self, tools: Functions, query: str, limit: int, *, owner: str = ""
    ) -> list[str]:
        """As Catalogue.ranked. `owner`: the sender. Raise SearchFailed."""
        return await self._search(tools, query, limit, owner, is_pattern=False)

    async def matching(
        self, tools: Functions, pattern: str, limit: int, *, owner: str = ""
    ) -> list[str]:
        """As Catalogue.matching. Raise SearchFailed."""
        return await self._search(tools, pattern, limit, owner, is_pattern=True)

    async def _search(
        self, tools: Functions, query: str, limit: int, owner: str, *, is_pattern: bool
    ) -> list[str]:
        shared = tools if isinstance(tools, SharedFunctions) else SharedFunctions(tools)
        job = SearchJob(
            cpu_seconds=MATCHING_SECONDS if is_pattern else RANKED_SECONDS,
            catalogue=f"{owner} {await asyncio.to_thread(lambda: shared.digest)}",
            query=whole(query),
            limit=limit,
            is_pattern=is_pattern,
        )
        try:
            result = await self._run(job, owner)
            if result.names is None and result.error is None:
                texts = await asyncio.to_thread(texts_of, tools)
                result = await self._run(job.model_copy(update={"texts": texts}), owner)
        except LimitExceeded:
            raise SearchFailed(LIMITED) from None
        except (ChecksBusy, ChecksFailed) as error:
            raise SearchFailed(BUSY) from error
        if result.error is not None:
            raise SearchFailed(result.error)
        return result.names or []

    async def _run(self, job: SearchJob, owner: str) -> SearchResult:
        loop = asyncio.get_running_loop()
        if self._pool is None or self._loop is not loop:
            self._loop = loop
            self._pool = WorkerPool(
                __name__,
                SearchResult,
                work="search for tools",
                workers=WORKERS,
                cpu_seconds=RANKED_SECONDS,
                wall_seconds=WALL_SECONDS,
            )
        return await self._pool.run(job, owner)


SEARCHES = ToolSearches()
"""Those of this process."""


class Catalogues:
    """Catalogues that a process has searched lately: the requests of one conversation have the same
    tools. Those that were not used for the longest time are dropped first."""

    def __init__(self, max_size: int = MAX_SIZE) -> None:
        self._max_size = max_size
        self._made: OrderedDict[str, Catalogue] = OrderedDict()

    def run(self, job: SearchJob) -> SearchResult:
        catalogue = self._made.pop(job.catalogue, None)
        if catalogue is None and job.texts is None:
            return SearchResult()
        catalogue = self._made[job.catalogue] = catalogue or Catalogue(job.texts or [])
        while len(self._made) > 1 and sum(e.size for e in self._made.values()) > self._max_size:
            self._made.popitem(last=False)
        search = catalogue.matching if job.is_pattern else catalogue.ranked
        try:
            return SearchResult(names=search(job.query, job.limit))
        except InvalidPattern as error:
            return SearchResult(error=str(error))


if __name__ == "__main__":
    serve(SearchJob, Catalogues().run)
