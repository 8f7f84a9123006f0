"""One test for each touch of LiteLLM, failing when the host moves. What the touches amount to on
the wire is shown by test_gateway.py."""

from __future__ import annotations

import asyncio
import inspect
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import litellm
import litellm.main
import pytest
from fake_backend import KEY, FakeBackend
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.proxy import common_request_processing, proxy_server
from litellm.proxy._types import ProxyException
from litellm.proxy.db.exception_handler import PrismaDBExceptionHandler
from litellm.types.completion import CompletionDispatchContext
from pydantic import SecretStr
from script import Script

from toolgate_core.errors import (
    BackendTimeout,
    BackendUnavailable,
    EnforcementFailed,
    SchemaNotEnforceable,
    ToolgateError,
    UnknownTool,
)
from toolgate_proxy.litellm_host import patches as host
from toolgate_proxy.litellm_host import router as litellm_router
from toolgate_proxy.provider import Toolgate, toolgate
from toolgate_proxy.settings import Settings


def source(function: Any) -> str:
    return inspect.getsource(inspect.unwrap(function))


def test_the_version_whose_lines_are_named() -> None:
    assert version("litellm") == "1.106.2"
    assert "LiteLLM 1.106.2" in (host.__doc__ or "")


def test_registering_twice_touches_once() -> None:
    touched = litellm.main._complete_custom_providers
    assert host.register(toolgate) is toolgate
    assert litellm.main._complete_custom_providers is touched
    assert inspect.unwrap(touched) is not touched
    assert inspect.unwrap(touched) is inspect.unwrap(inspect.unwrap(touched))


def test_completion_finds_custom_providers_by_the_name_we_replace() -> None:
    assert "_complete_custom_providers(_dispatch_ctx)" in source(litellm.main.completion)
    assert "asyncio.iscoroutine(init_response)" in source(litellm.main.acompletion)
    fields = set(CompletionDispatchContext.__dataclass_fields__)
    used = {"custom_llm_provider", "stream", "acompletion", "model", "messages", "api_base"}
    assert used | {"api_key", "optional_params", "litellm_params", "logging"} <= fields
    assert 'item["provider"] == custom_llm_provider' in source(
        litellm.main._complete_custom_providers
    )


def test_the_stock_stream_has_what_ours_leans_on() -> None:
    names = ("aclose", "_restore_consumer_correlation_context", "__anext__")
    assert all(hasattr(CustomStreamWrapper, name) for name in names)
    finalize = source(CustomStreamWrapper._finalize_completed_stream)
    assert '"_on_deferred_stream_complete"' in finalize
    assert "_deferred_stream_complete_args = (" in finalize
    assert "dispatch_success_handlers" in finalize
    assert "stream_to_close.aclose()" in source(CustomStreamWrapper.aclose)
    assert "isinstance(response, CustomStreamWrapper)" in source(litellm.Router._acompletion)


def test_every_openai_parameter_reaches_the_provider() -> None:
    params = litellm.main.get_optional_params(
        model="gpt-5",
        custom_llm_provider="toolgate",
        reasoning_effort="low",
        verbosity="high",
        functions=[{"name": "x"}],
        top_k=3,
        stop=["a"] * 5,
        temperature=3,
    )
    assert params["reasoning_effort"] == "low"
    assert params["verbosity"] == "high"
    assert params["functions"] == [{"name": "x"}]
    assert params["top_k"] == 3
    assert params["temperature"] == 3
    with pytest.raises(litellm.BadRequestError):
        litellm.main.get_optional_params(
            model="m", custom_llm_provider="custom", reasoning_effort="low"
        )


def test_stop_is_not_cut_to_four() -> None:
    from litellm.utils import validate_openai_optional_params

    assert validate_openai_optional_params(stop=["a"] * 5) == ["a"] * 5


def test_what_litellm_takes_away_is_read_from_the_body() -> None:
    kwargs = {
        "model": "m",
        "messages": [],
        "optional_params": {"tools": [], "extra_body": {"top_k": 1}},
        "litellm_params": {"proxy_server_request": {"body": {"tools": ["x"], "priority": 3}}},
        "api_base": None,
        "api_key": None,
        "logging_obj": None,
    }
    call = host.read_call(kwargs)
    assert call.params == {"tools": ["x"], "top_k": 1, "priority": 3}


CALL = host.Call("m", [], {}, None, None, SimpleNamespace(), {})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnknownTool("No.", param="tool_choice"), litellm.BadRequestError),
        (BackendUnavailable("No.", retry_after=3), litellm.ServiceUnavailableError),
        (BackendTimeout("No."), litellm.Timeout),
        (EnforcementFailed("No."), litellm.InternalServerError),
    ],
)
def test_errors_become_the_hosts_and_their_bodies_stay_ours(
    error: ToolgateError, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as raised, host.errors_raised(CALL):
        raise error
    assert getattr(raised.value, "status_code", None) == error.status
    assert getattr(raised.value, "message", None) == error.message
    try:
        raise raised.value
    except Exception:  # noqa: BLE001  # as the host handles it
        shown = ProxyException(message="litellm.X: other", type="t", param=None, code=error.status)
    assert shown.to_dict() == error.body()["error"]
    assert shown.code == str(error.status)


def test_the_hosts_own_errors_keep_their_bodies() -> None:
    shown = ProxyException(message="No.", type="t", param="p", code=400)
    assert shown.to_dict() == {"message": "No.", "type": "t", "param": "p", "code": "400"}


def test_a_pointer_survives() -> None:
    error = SchemaNotEnforceable("No.", pointer="/a", param="tools[0]")
    with pytest.raises(litellm.BadRequestError) as raised, host.errors_raised(CALL):
        raise error
    try:
        raise raised.value
    except Exception:  # noqa: BLE001  # as the host handles it
        shown = ProxyException(message="x", type="t", param=None, code=400)
    assert shown.to_dict()["pointer"] == "/a"


def test_where_the_host_makes_its_bodies() -> None:
    assert "exc.to_dict()" in source(proxy_server.openai_exception_handler)
    assert "proxy_exception.to_dict()" in source(proxy_server.async_data_generator)
    handle = common_request_processing.ProxyBaseLLMRequestProcessing.handle_llm_api_exception
    assert "raise ProxyException(" in source(handle)
    assert ProxyException in proxy_server.app.exception_handlers


def test_without_a_database_nothing_is_a_databases_fault() -> None:
    assert not PrismaDBExceptionHandler.is_database_service_unavailable_error(ValueError())
    assert not PrismaDBExceptionHandler.is_database_service_unavailable_error_in_chain(ValueError())


class Recorder(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """What LiteLLM's logging is told."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []
        self.failures: list[Any] = []

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.answers.append(response_obj)

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.failures.append(kwargs["exception"])

    async def settled(self) -> None:
        for _ in range(200):
            if self.answers or self.failures:
                return
            await asyncio.sleep(0.01)


@pytest.fixture
async def recorder(backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    provider = Toolgate(Settings(backend_url=backend.url, backend_key=SecretStr(KEY)))
    entry = {"provider": host.PROVIDER, "custom_handler": provider}
    monkeypatch.setattr(litellm, "custom_provider_map", [entry])
    litellm.utils.custom_llm_setup()
    recorder = Recorder()
    for name in ("success_callback", "failure_callback"):  # else LiteLLM keeps the test before's
        monkeypatch.setattr(litellm, name, [])
        monkeypatch.setattr(litellm, f"_async_{name}", [])
    monkeypatch.setattr(litellm, "callbacks", [recorder])
    return recorder


async def ask(script: str, **params: Any) -> Any:
    messages = [{"role": "user", "content": script}]
    return await litellm.acompletion(model="toolgate/tiny", messages=messages, **params)


async def test_a_stream_is_logged_as_the_answer_it_was(
    recorder: Recorder, backend: FakeBackend
) -> None:
    backend.scripts["hi"] = Script(("Hello", "Good day"))
    stream = await ask("hi", stream=True, n=2)
    assert isinstance(stream, host.PassThroughStream)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices for chunk in chunks)
    await recorder.settled()
    (logged,) = recorder.answers
    assert [choice.message.content for choice in logged.choices] == ["Hello", "Good day"]
    whole = await ask("hi", n=2)
    assert logged.usage.model_dump() == whole.usage.model_dump()


async def test_a_stream_that_breaks_is_logged_as_a_failure(
    recorder: Recorder, backend: FakeBackend
) -> None:
    backend.scripts["bad"] = Script(("Hello there",), error_after=2)
    stream = await ask("bad", stream=True)

    async def read() -> None:
        async for _ in stream:
            pass

    with pytest.raises(litellm.InternalServerError):
        await read()
    await recorder.settled()
    assert [failure.message for failure in recorder.failures] == ["It broke."]
    assert not recorder.answers


async def test_an_abandoned_stream_is_closed(recorder: Recorder, backend: FakeBackend) -> None:
    backend.scripts["hang"] = Script(("Hello there",), hang_after=2)
    stream = await ask("hang", stream=True)
    await anext(stream)
    await stream.aclose()
    assert await backend.idle_within(1.0)


def test_our_deployments_are_found_by_the_names_that_clients_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def row(name: str, model: str, base: str) -> dict[str, Any]:
        params = {"model": model, "api_base": base, "api_key": "k"}
        return {"model_name": name, "litellm_params": params}

    router = litellm.Router(
        model_list=[
            row("small", "toolgate/tiny", "http://a"),
            row("small", "toolgate/tiny", "http://b"),
            row("large", "toolgate/big", "http://c"),
            row("foreign", "openai/gpt", "http://d"),
        ],
        model_group_alias={"nick": "small"},
    )
    monkeypatch.setattr(proxy_server, "llm_router", router)

    def bases(model: str | None) -> set[str | None]:
        return {place.api_base for place in litellm_router.placements(model)}

    assert bases("small") == bases("nick") == {"http://a", "http://b"}
    assert bases(None) == {"http://a", "http://b", "http://c"}
    assert bases("foreign") == bases("unheard of") == set()
    monkeypatch.setattr(proxy_server, "llm_router", None)
    assert litellm_router.placements(None) == []
