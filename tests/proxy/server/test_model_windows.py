"""Models have the context length of their backend, under each name that clients read it from."""

from __future__ import annotations

import socket
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
NOBODY = "http://127.0.0.1:9"


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


def entry(shown: object, name: str) -> dict[str, object]:
    """The model in a list or by itself."""
    assert isinstance(shown, dict)
    [found] = [each for each in shown.get("data", [shown]) if each["id"] == name]
    assert isinstance(found, dict)
    return found


async def test_models_in_openais_form(gateway: Gateway, window: tuple[int, int]) -> None:
    """The backend is asked for it."""
    context, output = window
    shown = await models(gateway, "/v1/models/tiny")
    assert isinstance(shown, dict)
    assert {name: shown[name] for name in NAMES.values()} == dict.fromkeys(NAMES.values(), context)
    assert shown["max_output_tokens"] == output
    assert await models(gateway) == {"object": "list", "data": [shown]}


async def test_models_in_anthropics_form(gateway: Gateway, window: tuple[int, int]) -> None:
    shown = await models(gateway, "/v1/models/tiny", anthropic=True)
    assert isinstance(shown, dict)
    assert (shown["max_input_tokens"], shown["max_tokens"]) == window
    listed = await models(gateway, anthropic=True)
    assert isinstance(listed, dict)
    assert listed["data"] == [shown]


@pytest.mark.parametrize("path", ["/v1/models/{}", "/v1/models"])
@pytest.mark.parametrize("hangs", [False, True])
async def test_a_length_that_is_not_known_is_not_shown(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, path: str, hangs: bool
) -> None:
    """Of backends that have not responded, and of other providers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = f"http://127.0.0.1:{listener.getsockname()[1]}" if hangs else NOBODY
        use(monkeypatch, row("a", api_base=silent, api_key=KEY), foreign("other"))
        for name in ("tiny", "other"):
            shown = await models(gateway, path.format(name))
            assert not {*NAMES.values(), "max_output_tokens"} & entry(shown, name).keys()
            shown = entry(await models(gateway, path.format(name), anthropic=True), name)
            assert (shown["max_input_tokens"], shown["max_tokens"]) == (None, None)


async def test_a_declared_length_is_shown_until_a_backend_has_responded(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, window: tuple[int, int]
) -> None:
    declared = {"max_input_tokens": 65_536}
    use(monkeypatch, row("a", api_base=NOBODY, api_key=KEY, info=declared))
    shown = entry(await models(gateway, "/v1/models/tiny"), "tiny")
    assert (shown["max_model_len"], shown["max_output_tokens"]) == (65_536, 8_192)
    use(monkeypatch, row("a", api_base=gateway.backend.url, api_key=KEY, info=declared))
    shown = entry(await models(gateway, "/v1/models/tiny"), "tiny")
    assert (shown["max_model_len"], shown["max_output_tokens"]) == window


async def test_a_backend_that_is_down_is_not_asked(
    gateway: Gateway, window: tuple[int, int]
) -> None:
    [place] = placements("tiny")
    gateway.here.deployments.at(place).state.note_failure("x", at_once=True)
    assert "max_model_len" not in entry(await models(gateway), "tiny")


async def test_the_smallest_backend_of_a_model_decides(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, window: tuple[int, int]
) -> None:
    gone = row("b", api_base=NOBODY, api_key=KEY)
    use(monkeypatch, ours(gateway.backend), gone)
    info = gateway.backend.info
    contexts = (info, with_context(info, 8_192))
    for place, each in zip(placements("tiny"), contexts, strict=True):
        gateway.here.deployments.at(place).backend._last_info = each
    shown = await models(gateway, "/v1/models/tiny")
    assert isinstance(shown, dict)
    assert shown["max_model_len"] == 8_192
