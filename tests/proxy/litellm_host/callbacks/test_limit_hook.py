"""Limits of keys on LiteLLM's way, through its hook before a request."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import litellm
import pytest

from tests.support.servers.virtual_keys import key_of
from toolgate_core.errors import RateLimited
from toolgate_proxy.context import RequestContext
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.keys.limit_kinds import Tokens
from toolgate_proxy.limit_lease import Lease
from toolgate_proxy.limits.limiter import Limiter
from toolgate_proxy.litellm_host.callbacks import limit_hook
from toolgate_proxy.litellm_host.callbacks.limit_hook import hook
from toolgate_proxy.litellm_host.context import carried, carry, current
from toolgate_proxy.server.response_headers import own_headers
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}


@pytest.fixture
def _service(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without Redis, which counts limits by itself."""
    made = GatewayState(Settings(redis_url=None, limits_without_redis="open"))
    monkeypatch.setattr(limit_hook, "gateway", lambda: made)


async def before(context: RequestContext | None, data: dict[str, Any], call: str) -> None:
    async def request() -> None:
        if context is not None:
            carry(context)
        await hook.async_pre_call_hook(None, None, data, call)

    await asyncio.create_task(request())


async def after(context: RequestContext | None, response: object) -> None:
    async def request() -> None:
        if context is not None:
            carry(context)
        await hook.async_log_success_event({}, response, None, None)

    await asyncio.create_task(request())


async def test_limit_hook_does_nothing_outside_our_gateway() -> None:
    data: dict[str, Any] = {"model": "m"}
    await before(None, data, "acompletion")
    assert data == {"model": "m"}
    await after(None, SimpleNamespace(usage=SimpleNamespace(prompt_tokens=1)))


async def test_context_is_visible_only_within_its_request() -> None:
    assert carried() is None
    context = RequestContext("mine")

    async def request() -> RequestContext:
        carry(context)
        return await asyncio.create_task(asyncio.sleep(0, current()))

    assert await asyncio.create_task(request()) is context
    assert carried() is None
    assert current() is not current()


@pytest.mark.usefixtures("_service")
async def test_tokens_are_reserved_under_litellms_call_id() -> None:
    context = RequestContext(key=key_of(new_key(), tpm=1000))
    await before(context, {**CHAT, "litellm_call_id": "call-1"}, "acompletion")
    assert (context.model, context.call_id, context.admitted) == ("tiny", "call-1", True)
    assert context.reserved_tokens.total > 100
    assert own_headers(context)["x-ratelimit-limit-tokens"] == "1000"
    assert context.lease is not None


@pytest.mark.usefixtures("_service")
async def test_embeddings_reserve_no_output_tokens() -> None:
    context = RequestContext(key=key_of(new_key(), tpm=5000))
    await before(context, {"model": "tiny", "input": "hi"}, "aembedding")
    assert 0 < context.reserved_tokens.total < 100
    assert context.call_id


@pytest.mark.usefixtures("_service")
async def test_request_is_admitted_only_once() -> None:
    """LiteLLM may call the hook again, for a fallback."""
    context = RequestContext(key=key_of(new_key(), rpm=1))
    for _ in range(2):
        await before(context, CHAT, "acompletion")
    assert context.admitted


@pytest.mark.usefixtures("_service")
async def test_request_over_the_limit_raises_litellms_rate_limit_error() -> None:
    key = key_of(new_key(), rpm=1)
    await before(RequestContext(key=key), CHAT, "acompletion")
    context = RequestContext(key=key)
    with pytest.raises(litellm.RateLimitError) as refusal:
        await before(context, CHAT, "acompletion")
    assert (refusal.value.status_code, context.admitted) == (429, False)
    assert isinstance(getattr(refusal.value, "toolgate_error", None), RateLimited)
    assert own_headers(context)["x-ratelimit-limit-requests"] == "1"


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10, "total_tokens": 15},
        {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    ],
)
@pytest.mark.parametrize("ended", [True, False])
async def test_tokens_of_other_providers_are_counted_and_settled(
    usage: dict[str, int], ended: bool
) -> None:
    settled: list[tuple[int, int]] = []
    context = RequestContext(reserved_tokens=Tokens(20, 40))

    async def settle() -> None:
        settled.append((context.prompt_tokens, context.completion_tokens))

    context.lease = Lease(settle)
    if ended:
        await context.settle()
    await after(context, SimpleNamespace(usage=SimpleNamespace(**usage)))
    assert settled == ([(0, 0), (10, 5)] if ended else [])
    assert context.used_tokens().total == 15
    await context.settle()
    assert settled[-1] == (10, 5)


@pytest.mark.parametrize(("stream", "output"), [(True, 0), (False, 100)])
@pytest.mark.usefixtures("_service")
async def test_another_provider_has_read_the_prompt_once_the_request_is_admitted(
    stream: bool, output: int
) -> None:
    context = RequestContext(key=key_of(new_key(), tpm=5000))
    await before(context, {**CHAT, "model": "gpt", "stream": stream}, "acompletion")
    assert context.uncounted == Tokens(context.reserved_tokens.input, output)


async def test_tokens_counted_by_the_engine_are_not_counted_again() -> None:
    context = RequestContext()
    context.note_tokens(3, 4)
    await after(context, SimpleNamespace(usage=SimpleNamespace(prompt_tokens=1, total_tokens=9)))
    assert (context.prompt_tokens, context.completion_tokens) == (3, 4)


async def test_master_key_has_no_limits() -> None:
    limiter = Limiter(Settings(redis_url=None, limits_without_redis="open"))
    context = RequestContext()
    await limiter.reserve(context, CHAT)
    assert not context.admitted
