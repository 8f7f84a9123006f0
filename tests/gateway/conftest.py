"""The whole stack, started once: Valkey, vLLM with the tiny random model, the LiteLLM gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from rich.console import Console

from tests.models import tiny_model
from toolgate_core import wire
from toolgate_proxy.demo import closers
from toolgate_proxy.processes import free_port
from toolgate_proxy.stack import Stack, StackOptions


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    options = StackOptions(
        model=str(tiny_model()),
        port=free_port(),
        backend_flags=["--max-num-seqs", "16"],
        log_directory=tmp_path_factory.mktemp("logs"),
    )
    with Stack(options, Console(stderr=True)) as running:
        yield running


@pytest.fixture
def client(stack: Stack) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{stack.url}/v1", api_key=stack.master_key, max_retries=0)


@pytest.fixture
def async_client(stack: Stack) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=stack.master_key, max_retries=0)


@pytest.fixture
def backend(stack: Stack) -> Iterator[httpx.Client]:
    """The backend itself, past the gateway."""
    headers = {"authorization": f"Bearer {stack.backend_key}"}
    url = f"{stack.backend_url}/v1/toolgate"
    with httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False) as http:
        yield http


@pytest.fixture(scope="session")
def bias() -> dict[str, float]:
    """logit_bias that makes the random model end strings, objects and turns."""
    return closers(tiny_model())


@pytest.fixture(scope="session")
def common(bias: dict[str, float]) -> dict[str, Any]:
    return {"model": "tiny", "max_tokens": 400, "temperature": 1.0, "seed": 11, "logit_bias": bias}


def status(backend: httpx.Client) -> wire.Status:
    """The backend's status after a step of the engine in which nothing of ours takes part: what
    ended leaves the batch with the next step."""
    request = wire.GenerateRequest(
        request_id=f"status-{free_port()}",
        model="tiny",
        prompt=wire.TokensPrompt(token_ids=(1, 2, 3)),
        sampling=wire.Sampling(max_tokens=2),
        stream=False,
    )
    backend.post("/generate", content=request.model_dump_json()).raise_for_status()
    return wire.Status.model_validate_json(backend.get("/status").content)
