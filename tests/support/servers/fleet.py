"""Gateways of a fleet without their processes: each has its own memory and its own connections."""

import time
from contextlib import asynccontextmanager

from pydantic import SecretStr

from tests.support.servers.fake_backend import ASKED, KEY
from toolgate_core.tools import parse_tools
from toolgate_proxy.chat.engine import EngineRun
from toolgate_proxy.chat.preparation import Engine
from toolgate_proxy.context import RequestContext
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.sealing import Sealer
from toolgate_proxy.settings import Settings

SECRET = "a-secret-of-the-fleet"
OPERATOR = Sealer(SECRET.encode()).digest(f"tiny\0{KEY}", purpose="operator")


class Gateway:
    def __init__(self, backend_url, settings, group="tiny"):
        self.deployments = Deployments(settings)
        assert self.deployments.shared_cache is not None
        self.fleet = self.deployments.shared_cache
        self.deployment = self.deployments.at(Placement("", backend_url, KEY, group))
        self.engine = Engine(settings)

    async def ask(self, *tools, text=ASKED):
        """Send a request with these tools, or with a format of content. Return whether
        its grammars were known. Raise the error that its client gets."""
        messages = ({"role": "user", "content": text},)
        named = tuple(tool for tool in tools if tool.name)
        [form] = [tool for tool in tools if not tool.name] or [None]
        request = ChatRequest("chatcmpl-1", "tiny", messages, tools=named, content_format=form)
        context = RequestContext()
        generation = await EngineRun(self.engine, self.deployment, context).generate(request)
        await generation.aclose()
        return "new" if context.notes.has_new_grammars else "known"

    async def timed(self, *tools):
        """Seconds that `ask` takes."""
        began = time.monotonic()
        await self.ask(*tools)
        return time.monotonic() - began


@asynccontextmanager
async def gateway(backend_url, redis_url, secret=SECRET, group="tiny", **settings):
    """Connected: a process has made its connection before its first request. `group`: the name of
    the model."""
    made = Gateway(
        backend_url,
        Settings(redis_url=SecretStr(redis_url), fleet_secret=SecretStr(secret), **settings),
        group,
    )
    await made.fleet.redis.connected()
    try:
        yield made
    finally:
        await made.deployments.aclose()


def tool(name, **properties):
    parameters = {"type": "object", "properties": properties}
    entry = {"type": "function", "function": {"name": name, "parameters": parameters}}
    (parsed,) = parse_tools([entry])
    return parsed


def tools(count, prefix="t"):
    return tuple(tool(f"{prefix}{at}", a={"type": "string"}) for at in range(count))
