"""A simulated Redis that runs the real Lua scripts, loses writes, and has a clock of its own."""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from lupa import lua51  # type: ignore[import-untyped]
from redis.exceptions import NoScriptError, ResponseError

from .redis_commands import Commands, Refused, Value

Snapshot = tuple[dict[bytes, Value], dict[bytes, float]]


class RedisServer:
    def __init__(self) -> None:
        self.skew = 0.0
        """Seconds by which its clock differs."""
        self.commands = Commands(self.now)
        self.ran: list[Callable[[str, Sequence[bytes], Sequence[bytes], Any], None]] = []
        """Called after each script, with its text, keys, arguments and reply."""
        self._lua = lua51.LuaRuntime(encoding=None)
        self._lua.globals()[b"redis"] = self._lua.table_from(
            {
                b"call": self._call,
                b"sha1hex": lambda text: hashlib.sha1(text).hexdigest().encode(),
                b"error_reply": lambda text: self._lua.table_from({b"err": text}),
            }
        )
        self._scripts: dict[str, tuple[str, Any]] = {}

    def now(self) -> float:
        return (time.time() + self.skew) * 1000

    def execute(self, command: Sequence[Any]) -> Any:
        """The reply, or the error as redis-py has it."""
        name, *rest = command
        arguments = [_encoded(each) for each in rest]
        try:
            if name == "EVAL":
                return self._eval(arguments[0].decode(), arguments[1:])
            if name == "EVALSHA":
                if (sha := arguments[0].decode()) not in self._scripts:
                    return NoScriptError("NOSCRIPT No matching script.")
                return self._eval(self._scripts[sha][0], arguments[1:])
            return self.commands.run(name, *arguments)
        except Refused as refused:
            return ResponseError(str(refused))

    def snapshot(self) -> Snapshot:
        return copy.deepcopy(self.commands.values), dict(self.commands.expiries)

    def restart(self, state: Snapshot) -> None:
        """As it was then. The scripts are gone."""
        self.commands.values, self.commands.expiries = copy.deepcopy(state[0]), dict(state[1])
        self._scripts.clear()

    def _eval(self, text: str, arguments: list[bytes]) -> Any:
        sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        if sha not in self._scripts:
            source = b"return function(KEYS, ARGV)\n" + text.encode() + b"\nend"
            self._scripts[sha] = text, self._lua.execute(source)
        count = int(arguments[0])
        keys, rest = arguments[1 : 1 + count], arguments[1 + count :]
        result = self._scripts[sha][1](self._lua.table_from(keys), self._lua.table_from(rest))
        reply = _reply(result)
        for observe in self.ran:
            observe(text, keys, rest, reply)
        return reply

    def _call(self, name: bytes, *arguments: Any) -> Any:
        reply = self.commands.run(name.decode(), *map(_encoded, arguments))
        if reply is None:
            return False  # as Lua sees nil in Redis
        if isinstance(reply, dict):
            return self._lua.table_from({k.encode(): v.encode() for k, v in reply.items()})
        if isinstance(reply, list):
            return self._lua.table_from([False if each is None else each for each in reply])
        return reply


def _encoded(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return repr(value).encode() if isinstance(value, float) else str(value).encode()


def _reply(result: Any) -> Any:
    """A Lua value as Redis replies it: numbers become integers, tables lists."""
    if isinstance(result, bool):
        return 1 if result else None
    if isinstance(result, int | float):
        return int(result)
    if lua51.lua_type(result) == "table":
        if (error := result[b"err"]) is not None:
            return ResponseError(error.decode())
        return [_reply(result[at]) for at in range(1, len(result) + 1)]
    return result
