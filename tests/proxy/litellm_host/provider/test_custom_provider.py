"""Our provider behind `litellm.acompletion`, with a scripted backend: streams and log events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from pydantic import SecretStr

from tests.support.documents import worker
from tests.support.documents.pdfs import in_base64
from tests.support.litellm.router import made, reset_litellm, row
from tests.support.servers.fake_backend import KEY, FakeBackend
from tests.support.servers.script import Script
from toolgate_proxy.documents.reader import Documents
from toolgate_proxy.litellm_host.errors import carried
from toolgate_proxy.litellm_host.provider import custom_provider
from toolgate_proxy.litellm_host.provider.patches import PassThroughStream
from toolgate_proxy.settings import Settings
from toolgate_proxy.state import GatewayState


class Recorder(CustomLogger):  # type: ignore[misc]  # LiteLLM's types are not read
    """The log events of LiteLLM."""

    def __init__(self) -> None:
        super().__init__()
        self.responses: list[Any] = []
        self.failures: list[Any] = []

    async def async_log_success_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.responses.append(response_obj)

    async def async_log_failure_event(
        self, kwargs: Any, response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        self.failures.append(kwargs["exception"])

    async def settled(self) -> None:
        for _ in range(200):
            if self.responses or self.failures:
                return
            await asyncio.sleep(0.01)


@pytest.fixture
async def recorder(
    backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Recorder]:
    here = GatewayState(
        Settings(backend_url=backend.url, backend_key=SecretStr(KEY), redis_url=None)
    )
    monkeypatch.setattr(custom_provider, "gateway", lambda: here)
    reset_litellm(monkeypatch)
    recorder = Recorder()
    monkeypatch.setattr(litellm, "callbacks", [recorder])
    yield recorder
    await here.aclose()


async def ask(script: str, **params: Any) -> Any:
    messages = [{"role": "user", "content": script}]
    return await litellm.acompletion(model="toolgate/tiny", messages=messages, **params)


async def test_stream_is_logged_as_one_complete_response(
    recorder: Recorder, backend: FakeBackend
) -> None:
    backend.scripts["hi"] = Script(("Hello", "Good day"))
    stream = await ask("hi", stream=True, n=2)
    assert isinstance(stream, PassThroughStream)
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices for chunk in chunks)
    await recorder.settled()
    (logged,) = recorder.responses
    assert [choice.message.content for choice in logged.choices] == ["Hello", "Good day"]
    whole = await ask("hi", n=2)
    assert logged.usage.model_dump() == whole.usage.model_dump()


async def test_our_stream_is_recognised_by_litellms_router_and_proxy(
    recorder: Recorder, backend: FakeBackend
) -> None:
    """They check the type, and close `completion_stream` when the client disconnects."""
    backend.scripts["hi"] = Script(("Hello there",))
    stream = await ask("hi", stream=True)
    assert isinstance(stream, CustomStreamWrapper)
    assert stream.completion_stream is not None
    assert stream.sent_first_chunk
    first = await anext(stream)
    assert first._hidden_params is stream._hidden_params
    await stream.aclose()


@pytest.mark.parametrize("stream", [True, False])
async def test_litellms_router_has_fallbacks_for_prompts_that_are_too_long(
    recorder: Recorder, backend: FakeBackend, stream: bool
) -> None:
    error = {"message": "Long.", "code": "context_length_exceeded", "param": "messages"}
    long = Script(("x",), error_status=400, error=error)
    backend.turns[:] = [long, Script(("From the large one",))]
    at = {"api_base": backend.url, "api_key": KEY}
    router = made(
        row("a", **at),
        row("b", group="large", **at),
        context_window_fallbacks=[{"tiny": ["large"]}],
    )
    messages: list[Any] = [{"role": "user", "content": "a long prompt"}]
    answer: Any = await router.acompletion(model="tiny", messages=messages, stream=stream)
    if stream:
        texts = [chunk.choices[0].delta.content or "" async for chunk in answer]
        assert "".join(texts) == "From the large one"
    else:
        assert answer.choices[0].message.content == "From the large one"


async def test_a_file_becomes_text(
    recorder: Recorder, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = custom_provider.gateway()
    monkeypatch.setattr(here, "documents", Documents(module=worker.__name__))
    backend.turns[:] = [Script(("Hello",))]
    file = {"file_data": in_base64(b"%PDF-Lamp 4"), "filename": "a.pdf"}
    messages = [{"role": "user", "content": [{"type": "file", "file": file}]}]
    await litellm.acompletion(model="toolgate/tiny", messages=messages)
    assert backend.messages()[-1]["content"][0]["text"] == (
        '<document title="a.pdf">\nLamp 4\n</document>'
    )


async def test_custom_tools_are_refused(recorder: Recorder, backend: FakeBackend) -> None:
    with pytest.raises(litellm.BadRequestError) as refusal:
        await ask("hi", tools=[{"type": "custom", "custom": {"name": "shell"}}])
    ours = carried(refusal.value)
    assert ours is not None
    assert (ours.code, ours.param) == ("unsupported_parameter", "tools")


async def test_stream_keeps_its_chunks_for_billing(
    recorder: Recorder, backend: FakeBackend
) -> None:
    """LiteLLM bills a client that leaves a stream for the chunks sent so far."""
    backend.scripts["hi"] = Script(("one two three",))
    stream = await ask("hi", stream=True)
    chunks = [chunk async for chunk in stream]
    assert stream.chunks == chunks
    texts = [choice.delta.content or "" for chunk in stream.chunks for choice in chunk.choices]
    assert "".join(texts) == "one two three"


@pytest.mark.parametrize("name", ["pre_call_rules", "post_call_rules"])
async def test_litellms_rules_apply(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, backend: FakeBackend, name: str
) -> None:
    backend.scripts["hi"] = Script(("secret",))
    monkeypatch.setattr(litellm, name, [lambda text: "secret" not in text])
    with pytest.raises(litellm.APIResponseValidationError):
        await ask("a secret" if name == "pre_call_rules" else "hi")
    assert len(backend.requests) == (0 if name == "pre_call_rules" else 1)


async def test_litellms_mock_response_replaces_the_backends(
    recorder: Recorder, backend: FakeBackend
) -> None:
    router = made(row("a", mock_response="Hello"))
    messages = [{"role": "user", "content": "hi"}]
    response = await router.acompletion(model="tiny", messages=messages)
    assert response.choices[0].message.content == "Hello"
    assert backend.requests == []
