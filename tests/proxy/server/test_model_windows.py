"""Models have the context length of their backend, under each name that clients read it from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.litellm.own_route import Gateway, ours
from tests.support.litellm.router import foreign, row, use
from tests.support.servers.fake_backend import KEY, FakeBackend
from toolgate_core import wire
from toolgate_proxy.litellm_host.deployments.router import placements

HI = [{"role": "user", "content": "hi"}]
ANTHROPIC = [(b"anthropic-version", b"2023-06-01")]
NAMES = {
    "vLLM": "max_model_len",
    "OpenRouter": "context_length",
    "Groq": "context_window",
    "LiteLLM": "max_input_tokens",
}


@pytest.fixture(params=[(32_768, 4_096), (1_000_000, 32_000)], ids=["small", "large"])
def window(request: pytest.FixtureRequest, backend: FakeBackend) -> Iterator[tuple[int, int]]:
    """The context length of the backend, and what clients reserve for the response."""
    info, (context, _) = backend.info, request.param
    backend.info = with_context(info, context)
    yield request.param
    backend.info = info


def with_context(info: wire.Info, context: int) -> wire.Info:
    limits = info.limits.model_copy(update={"max_model_len": context})
    return info.model_copy(update={"limits": limits})


async def models(gateway: Gateway, path: str = "/v1/models", *, anthropic: bool = False) -> object:
    headers = [*ANTHROPIC] if anthropic else []
    response = await gateway.ask({}, path=path, method="GET", headers=headers)
    assert response.status == 200, response.bodies
    return response.json


async def test_models_in_openais_form(gateway: Gateway, window: tuple[int, int]) -> None:
    assert (await gateway.ask({"model": "tiny", "messages": HI})).status == 200
    context, output = window
    shown = await models(gateway, "/v1/models/tiny")
    assert isinstance(shown, dict)
    assert {name: shown[name] for name in NAMES.values()} == dict.fromkeys(NAMES.values(), context)
    assert shown["max_output_tokens"] == output
    assert await models(gateway) == {"object": "list", "data": [shown]}


async def test_models_in_anthropics_form(gateway: Gateway, window: tuple[int, int]) -> None:
    assert (await gateway.ask({"model": "tiny", "messages": HI})).status == 200
    shown = await models(gateway, "/v1/models/tiny", anthropic=True)
    assert isinstance(shown, dict)
    assert (shown["max_input_tokens"], shown["max_tokens"]) == window
    listed = await models(gateway, anthropic=True)
    assert isinstance(listed, dict)
    assert listed["data"] == [shown]


async def test_a_length_that_is_not_known_is_not_shown(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a backend has responded, and of other providers."""
    use(monkeypatch, ours(gateway.backend), foreign("other"))
    for name in ("tiny", "other"):
        shown = await models(gateway, f"/v1/models/{name}")
        assert isinstance(shown, dict)
        assert not {*NAMES.values(), "max_output_tokens"} & shown.keys()
        shown = await models(gateway, f"/v1/models/{name}", anthropic=True)
        assert isinstance(shown, dict)
        assert (shown["max_input_tokens"], shown["max_tokens"]) == (None, None)


async def test_the_smallest_backend_of_a_model_decides(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, window: tuple[int, int]
) -> None:
    gone = row("b", api_base="http://127.0.0.1:9", api_key=KEY)
    use(monkeypatch, ours(gateway.backend), gone)
    info = gateway.backend.info
    contexts = (info, with_context(info, 8_192))
    for place, each in zip(placements("tiny"), contexts, strict=True):
        gateway.here.deployments.at(place).backend._last_info = each
    shown = await models(gateway, "/v1/models/tiny")
    assert isinstance(shown, dict)
    assert shown["max_model_len"] == 8_192
