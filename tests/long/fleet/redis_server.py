"""A simulated Redis that runs the real Lua scripts, loses writes, and has a clock of its own.

It has the commands that gateways use, on plain Python values. Names and texts are bytes.
"""

import copy
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from lupa import lua51  # type: ignore[import-untyped]
from redis.exceptions import NoScriptError, ResponseError

Value = bytes | dict[bytes, Any]
"""A text, a hash (field → text) or a sorted set (member → score, a float)."""


class Refused(Exception):
    """An error reply."""


def score(text: bytes) -> tuple[float, bool]:
    """A bound of a range, and whether it is exclusive."""
    exclusive = text.startswith(b"(")
    return float(text.removeprefix(b"(")), exclusive


class Commands:
    """`clock`: milliseconds since 1970, by the server's clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.values: dict[bytes, Value] = {}
        self.expiries: dict[bytes, float] = {}

    def run(self, name: str, *arguments: bytes) -> Any:
        """The reply. Raises Refused."""
        handler = getattr(self, f"do_{name.lower()}", None)
        if handler is None:
            raise Refused(f"ERR unknown command {name}")
        return handler(*arguments)

    def _get(self, key: bytes, kind: type) -> Any:
        if self.expiries.get(key, math.inf) <= self.clock():
            self.values.pop(key, None)
            self.expiries.pop(key, None)
        value = self.values.get(key)
        if value is not None and not isinstance(value, kind):
            raise Refused("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def _table(self, key: bytes) -> dict[bytes, Any]:
        found = self._get(key, dict)
        if found is None:
            found = self.values[key] = {}
        assert isinstance(found, dict)
        return found

    def _tidy(self, key: bytes) -> None:
        """A hash or sorted set without members does not exist."""
        if self.values.get(key) == {}:
            del self.values[key]
            self.expiries.pop(key, None)

    def do_ping(self) -> Any:
        return True

    def do_time(self) -> list[bytes]:
        now = self.clock()
        return [b"%d" % (now // 1000), b"%d" % (now % 1000 * 1000)]

    def do_type(self, key: bytes) -> dict[str, str]:
        value = self._get(key, object)
        if value is None:
            return {"ok": "none"}
        if isinstance(value, bytes):
            return {"ok": "string"}
        return {"ok": "zset" if all(isinstance(v, float) for v in value.values()) else "hash"}

    def do_get(self, key: bytes) -> bytes | None:
        value: bytes | None = self._get(key, bytes)
        return value

    def do_getrange(self, key: bytes, first: bytes, last: bytes) -> bytes:
        return (self._get(key, bytes) or b"")[int(first) : int(last) + 1]

    def do_mget(self, *keys: bytes) -> list[bytes | None]:
        return [self._get(key, bytes) for key in keys]

    def do_set(self, key: bytes, value: bytes, *options: bytes) -> bool | None:
        if b"NX" in options and self._get(key, object) is not None:
            return None
        self.values[key] = value
        self.expiries.pop(key, None)
        if b"PX" in options:
            self.do_pexpire(key, options[options.index(b"PX") + 1])
        return True

    def do_del(self, *keys: bytes) -> int:
        for key in keys:
            self.expiries.pop(key, None)
        return sum(self.values.pop(key, None) is not None for key in keys)

    def do_pexpire(self, key: bytes, milliseconds: bytes) -> int:
        if self._get(key, object) is None:
            return 0
        self.expiries[key] = self.clock() + float(milliseconds)
        return 1

    def do_pttl(self, key: bytes) -> int:
        if self._get(key, object) is None:
            return -2
        return int(self.expiries[key] - self.clock()) if key in self.expiries else -1

    # --- hashes -------------------------------------------------------------------------------

    def do_hget(self, key: bytes, field: bytes) -> bytes | None:
        return (self._get(key, dict) or {}).get(field)

    def do_hmget(self, key: bytes, *fields: bytes) -> list[bytes | None]:
        found = self._get(key, dict) or {}
        return [found.get(field) for field in fields]

    def do_hgetall(self, key: bytes) -> list[bytes]:
        return [part for pair in (self._get(key, dict) or {}).items() for part in pair]

    def do_hlen(self, key: bytes) -> int:
        return len(self._get(key, dict) or {})

    def do_hset(self, key: bytes, *pairs: bytes) -> int:
        self._table(key).update(zip(pairs[::2], pairs[1::2], strict=True))
        return len(pairs) // 2

    def do_hdel(self, key: bytes, *fields: bytes) -> int:
        count = sum(self._table(key).pop(field, None) is not None for field in fields)
        self._tidy(key)
        return count

    def do_hexists(self, key: bytes, field: bytes) -> int:
        return int(field in (self._get(key, dict) or {}))

    def do_hincrby(self, key: bytes, field: bytes, amount: bytes) -> int:
        table = self._table(key)
        total = int(table.get(field, b"0")) + int(amount)
        table[field] = b"%d" % total
        return total

    # --- sorted sets --------------------------------------------------------------------------

    def do_zadd(self, key: bytes, *pairs: bytes) -> int:
        self._table(key).update(
            {member: float(each) for each, member in zip(pairs[::2], pairs[1::2], strict=True)}
        )
        return len(pairs) // 2

    def do_zrem(self, key: bytes, *members: bytes) -> int:
        return self.do_hdel(key, *members)

    def do_zcard(self, key: bytes) -> int:
        return len(self._get(key, dict) or {})

    def _between(self, key: bytes, low: bytes, high: bytes) -> list[tuple[bytes, float]]:
        (least, above), (most, below) = score(low), score(high)
        return sorted(
            (
                (member, each)
                for member, each in (self._get(key, dict) or {}).items()
                if (each > least if above else each >= least)
                and (each < most if below else each <= most)
            ),
            key=lambda pair: (pair[1], pair[0]),
        )

    def do_zremrangebyscore(self, key: bytes, low: bytes, high: bytes) -> int:
        gone = [member for member, _ in self._between(key, low, high)]
        return self.do_hdel(key, *gone)


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
        self._lua.globals()[b"cjson"] = self._lua.table_from(
            {b"decode": lambda text: self._table(json.loads(text))}
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

    def _table(self, value: Any) -> Any:
        """The value of Lua for a JSON value without objects."""
        if isinstance(value, list):
            return self._lua.table_from([self._table(each) for each in value])
        return value.encode() if isinstance(value, str) else value

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
