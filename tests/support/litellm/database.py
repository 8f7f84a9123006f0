"""LiteLLM's database mode in this process: LiteLLM's real client, authentication, budgets and spend
writer, on the stand-in for the client that prisma generates, or on PostgreSQL (`make
test-database`)."""

import asyncio
import json
import os
import uuid
from contextlib import asynccontextmanager

import litellm
from litellm.proxy import proxy_server
from litellm.proxy.db.db_spend_update_writer import DBSpendUpdateWriter
from litellm.proxy.spend_tracking.budget_reservation import release_unbound_budget_reservation
from litellm.proxy.utils import PrismaClient, hash_token, update_daily_tag_spend, update_spend

from tests.support.litellm import prisma_stand_in
from tests.support.waiting import until

URL = os.environ.get("TOOLGATE_TEST_DATABASE_URL")
"""Of a PostgreSQL with LiteLLM's tables; None: the stand-in."""
QUEUES = (
    "spend_log_transactions",
    "tool_usage_transactions",
    "model_usage_transactions",
    "autorouter_turn_transactions",
)
"""Lists of LiteLLM's client that all clients of the process share."""


class Database:
    """LiteLLM's database. Names of keys, teams and users are unique, so that neither LiteLLM's
    caches nor earlier tests have them."""

    def __init__(self, client):
        self.client = client
        self.db = client.db
        self.reservations = []
        """Those of the requests that ended, as they were then."""

    async def begin(self):
        if not self.db.is_connected():
            await self.client.connect()
        # Of requests with the same id, LiteLLM logs the first one only.
        await self.db.litellm_spendlogs.delete_many()

    async def add(self, table, **columns):
        """Add a row. Objects are stored as JSON."""
        stored = {
            name: json.dumps(value) if isinstance(value, dict) else value
            for name, value in columns.items()
        }
        return await getattr(self.db, f"litellm_{table}").create(stored)

    async def key(self, **columns):
        secret = f"sk-{uuid.uuid4().hex}"
        columns = {"models": []} | columns
        await self.add("verificationtoken", token=hash_token(secret), **columns)
        return secret

    async def team(self, **columns):
        name = f"team-{uuid.uuid4().hex}"
        await self.add("teamtable", **{"team_id": name, "members_with_roles": "[]"} | columns)
        return name

    async def user(self, **columns):
        name = f"user-{uuid.uuid4().hex}"
        await self.add("usertable", **{"user_id": name, "user_role": "internal_user"} | columns)
        return name

    async def row_of(self, key):
        return await self.db.litellm_verificationtoken.find_unique({"token": hash_token(key)})

    async def settled(self, requests):
        """Wait until LiteLLM has the rows of so many requests for its log."""
        await until(lambda: len(self.client.spend_log_transactions) >= requests)

    async def logged(self):
        """Return the only row of the request log, after LiteLLM has written all spend."""
        await self.settled(1)
        await asyncio.sleep(0.05)  # a second row of the request would come
        await self.write()
        [row] = await self.rows()
        return row

    async def rows(self):
        """Return the rows of the request log, as LiteLLM has written them."""
        return await self.db.litellm_spendlogs.find_many(order={"startTime": "asc"})

    async def write(self):
        """Run LiteLLM's jobs that write to the database. From 1.110 on, one run writes a part."""
        logging = proxy_server.proxy_logging_obj
        for _ in range(4):
            await update_spend(self.client, None, logging)
        await update_daily_tag_spend(self.client, logging)

    async def release(self, reservation):
        """Take the place of LiteLLM's release of a reservation at the end of a request."""
        self.reservations.append({**reservation})
        await release_unbound_budget_reservation(reservation)


@asynccontextmanager
async def started(monkeypatch):
    """Start LiteLLM's database mode, as its server does, for the router that is in use."""
    if URL is None:
        prisma_stand_in.install(monkeypatch)
    else:
        monkeypatch.setenv("DATABASE_URL", URL)
    logging = proxy_server.proxy_logging_obj
    client = PrismaClient(URL or "postgresql://stand-in", logging)
    for name in QUEUES:
        monkeypatch.setattr(client, name, [], raising=False)
    monkeypatch.setattr(proxy_server, "prisma_client", client)
    monkeypatch.setattr(proxy_server, "user_custom_auth", None)
    monkeypatch.setattr(proxy_server, "spend_event_producer", None)
    monkeypatch.setattr(logging, "db_spend_update_writer", DBSpendUpdateWriter())
    monkeypatch.setattr(logging, "proxy_hook_mapping", {})
    for cache in (
        proxy_server.user_api_key_cache,
        proxy_server.spend_counter_cache,
        logging.internal_usage_cache.dual_cache,
    ):
        cache.flush_cache()
    logging._init_litellm_callbacks(proxy_server.llm_router)
    litellm.logging_callback_manager.add_litellm_callback(proxy_server.model_max_budget_limiter)
    proxy_server.cost_tracking()
    database = Database(client)
    await database.begin()
    yield database
    if URL is not None:
        await client.disconnect()
