"""Two gateways with one database of LiteLLM's and one Redis: budgets of money hold over both.

The database is the stand-in for the client that prisma generates; it is in the process of the test.
"""

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass
from functools import partial

import pytest
import yaml
from litellm.proxy.utils import hash_token

from tests.proxy.process.kit import CHAT
from tests.support.effort import repeats
from tests.support.litellm.prisma_stand_in import Prisma
from tests.support.litellm.shared_tables import add_key, configure, install, logged, shared
from tests.support.servers.gateway_process import Gateway, start
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_proxy.server.launcher import Route, make_config

CLIENTS = repeats(100, nightly=200)
AT_ONCE = 20
PROMPT, COMPLETION = 0.001, 0.01
"""Prices of a token."""
TTL = 4
"""Seconds for which LiteLLM's counters in Redis live without a request."""
BUDGET = 3.0
WRITTEN = 120
"""Seconds in which LiteLLM writes spend to its database."""


@dataclass
class Shared:
    tables: Prisma
    gateways: list[Gateway]
    redis: RedisServer

    async def key(self, budget):
        return await add_key(self.tables, max_budget=budget)

    def logged(self, key):
        return logged(self.tables, key)

    def answered(self, key):
        """Return the number of requests that the log has as answered."""
        return [row["status"] for row in self.logged(key)].count("success")

    def spend(self, key):
        """Of the key, in the database."""
        rows = self.tables.litellm_verificationtoken.rows
        return float(next(row["spend"] for row in rows if row["token"] == hash_token(key)))

    def counted(self, key):
        """What LiteLLM checks the next request by."""
        held = self.redis.client.get(f"spend:key:{hash_token(key)}")
        return None if held is None else float(held)


@pytest.fixture(scope="module")
def gateways(backend_of_session, spare_redis, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared-budgets")
    config = make_config([Route("tiny", "tiny")])
    [row] = config["model_list"]
    row["litellm_params"] |= {"input_cost_per_token": PROMPT, "output_cost_per_token": COMPLETION}
    configure(config)
    redis = {"coordination_redis": {"url": spare_redis.url}}
    config["general_settings"] |= {"proxy_batch_write_at": 1, **redis}
    config["litellm_settings"]["default_redis_ttl"] = TTL
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    tables = Prisma()
    with shared(tables) as address:
        made = [
            start(
                ["--config", str(path)],
                backend_of_session.url,
                folder / f"log-{at}",
                spare_redis.url,
                before=partial(install, address),
                DATABASE_URL="postgresql://stand-in",
            )
            for at in range(2)
        ]
        try:
            for gateway in made:
                gateway.wait_until_alive()
            yield Shared(tables, made, spare_redis)
        finally:
            for gateway in made:
                if gateway.process.exitcode is None:
                    gateway.stop()


async def equal(value, expected):
    await until(value, WRITTEN, lambda found: found == expected)


def body(content, *, stream):
    message = {"role": "user", "content": content}
    return {"model": "tiny", "messages": [message], "max_tokens": 20, "stream": stream}


async def ask(http, key, content, *, stream=False):
    response = await http.post(CHAT, json=body(content, stream=stream), headers=bearer(key))
    # A busy gateway has begun a stream before it refuses the request.
    return 429 if response.is_success and '"error"' in response.text else response.status_code


async def test_a_budget_holds_over_both_and_spend_is_the_sum_of_the_log(
    gateways, backend_of_session
):
    backend_of_session.scripts["hi"] = Script(("Hello there you",), pause=0.01)
    key, at_once = await gateways.key(BUDGET), asyncio.Semaphore(AT_ONCE)
    urls = [gateway.url for gateway in gateways.gateways]
    async with http_client(urls[0], timeout=120) as a, http_client(urls[1], timeout=120) as b:

        async def client(at):
            async with at_once:
                return await ask((a, b)[at % 2], key, "hi", stream=at % 3 == 0)

        statuses = Counter(await asyncio.gather(*map(client, range(CLIENTS))))
    answered = statuses.pop(200)
    assert answered > 0
    assert {*statuses} <= {422, 429}, statuses
    await equal(lambda: gateways.answered(key), answered)
    spent = sum(row["spend"] for row in gateways.logged(key))
    await equal(lambda: gateways.spend(key), pytest.approx(spent))
    dearest = max(row["spend"] for row in gateways.logged(key))
    assert 0 < spent <= BUDGET + AT_ONCE * dearest
    assert all(row["spend"] == 0 for row in gateways.logged(key) if row["status"] != "success")


async def test_a_killed_gateway_holds_no_budget(gateways, backend_of_session):
    """LiteLLM's counters end with what it had reserved, and begin again with the spend of the
    database."""
    backend_of_session.scripts["hang"] = Script(("Hello there",), hang_after=1)
    backend_of_session.scripts["hi"] = Script(("Hello there",))
    key = await gateways.key(0.5)  # two requests at once, and a third one for the rest
    killed, left = gateways.gateways
    async with http_client(killed.url, timeout=60) as a, http_client(left.url, timeout=60) as b:
        hanging = [asyncio.create_task(ask(a, key, "hang", stream=True)) for _ in range(3)]
        await equal(lambda: gateways.counted(key), pytest.approx(0.5))
        assert await ask(b, key, "hi") in (422, 429)
        assert killed.process.pid is not None
        os.kill(killed.process.pid, signal.SIGKILL)
        await asyncio.gather(*hanging, return_exceptions=True)
        await equal(lambda: gateways.counted(key), None)
        assert await ask(b, key, "hi") == 200
    await equal(lambda: gateways.answered(key), 1)
    spent = sum(row["spend"] for row in gateways.logged(key))
    await equal(lambda: gateways.spend(key), pytest.approx(spent))
