"""A Lua script that Redis runs atomically."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from importlib import resources

from redis.exceptions import NoScriptError

from .client import Argument, Command

Run = Callable[[Command], Awaitable[object]]
"""Returns the reply to a command; an exception if Redis refused it; None without a response."""


class Script:
    """The file `name` of a package."""

    def __init__(self, package: str, name: str) -> None:
        self._text = resources.files(package).joinpath(name).read_text()
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, run: Run, keys: Sequence[str], *arguments: Argument) -> object:
        """The result, as `run` returns it. Redis gets the text only if it does not have it."""
        rest = (len(keys), *keys, *arguments)
        reply = await run(("EVALSHA", self._sha, *rest))
        if isinstance(reply, NoScriptError):
            reply = await run(("EVAL", self._text, *rest))
        return reply
