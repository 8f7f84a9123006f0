"""The backend's part of a request over vLLM's own configuration and renderer, without an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.config import ModelConfig, VllmConfig
from vllm.renderers import renderer_from_config

from tests.models import tiny_model
from toolgate_backend.endpoint.service import Service
from toolgate_backend.settings import Settings
from toolgate_backend.tokens.vocabulary import from_model_config
from toolgate_core import wire
from toolgate_core.errors import ContextLengthExceeded

CONTEXT = 100
LONG = {"role": "user", "content": "one two three " * CONTEXT}


class Engine:
    """Keeps the prompts and parameters that it is asked with, and generates nothing."""

    def __init__(self) -> None:
        self.model_config = ModelConfig(
            model=str(tiny_model()), dtype="float32", max_model_len=CONTEXT
        )
        self.vllm_config = VllmConfig(model_config=self.model_config)
        self.renderer = renderer_from_config(self.vllm_config)
        self.engine_core = SimpleNamespace(core_engines=[b"0"])
        self.asked: list[tuple[list[int], int]] = []

    async def generate(
        self, prompt: Any, params: Any, request_id: str, **others: Any
    ) -> AsyncIterator[Any]:
        self.asked.append((prompt["prompt_token_ids"], params.max_tokens))
        return
        yield


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.renderer.shutdown()


@pytest.fixture
def service(engine: Engine) -> Service:
    models = SimpleNamespace(base_model_paths=[SimpleNamespace(name="tiny")], lora_requests={})
    engine.asked.clear()
    return Service(engine, models, from_model_config(engine.model_config), Settings())


def cut(
    *, side: Any = None, max_tokens: int | None = None, accepted: tuple[int, ...] = ()
) -> wire.GenerateRequest:
    """A prompt that is longer than the context, to be cut to what there is room for."""
    tokenizing = wire.Tokenizing(truncate_prompt_tokens=-1, truncation_side=side)
    return wire.GenerateRequest(
        request_id="r",
        model="tiny",
        prompt=wire.ChatPrompt(messages=(LONG,), tokenizing=tokenizing),
        sampling=wire.Sampling(max_tokens=max_tokens),
        accepted=accepted,
    )


async def prompt_and_budget(
    service: Service, engine: Engine, request: wire.GenerateRequest
) -> tuple[list[int], int]:
    async for _ in service.generate(request):
        pass
    [asked] = engine.asked
    engine.asked.clear()
    return asked


@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize(("max_tokens", "kept"), [(None, 99), (1, 99), (20, 80), (99, 1)])
async def test_a_truncated_prompt_leaves_room_for_max_tokens(
    service: Service, engine: Engine, side: Any, max_tokens: int | None, kept: int
) -> None:
    request = cut(side=side, max_tokens=max_tokens)
    ids, budget = await prompt_and_budget(service, engine, request)
    assert (len(ids), budget) == (kept, CONTEXT - kept)


@pytest.mark.parametrize("max_tokens", [CONTEXT, CONTEXT + 1])
async def test_max_tokens_without_room_for_the_prompt_are_rejected(
    service: Service, engine: Engine, max_tokens: int
) -> None:
    with pytest.raises(ContextLengthExceeded) as refused:
        await prompt_and_budget(service, engine, cut(max_tokens=max_tokens))
    assert refused.value.param == "max_tokens"


async def test_a_resumed_request_gets_the_same_truncated_prompt(
    service: Service, engine: Engine
) -> None:
    first, _ = await prompt_and_budget(service, engine, cut(side="left", max_tokens=20))
    again = cut(side="left", max_tokens=15, accepted=(5, 6, 7, 8, 9))
    ids, budget = await prompt_and_budget(service, engine, again)
    assert ids == [*first, 5, 6, 7, 8, 9]
    assert budget == 15
