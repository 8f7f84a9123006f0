"""The context length of vLLM, as clients read it from the gateway."""

from __future__ import annotations

import openai
from typer.testing import CliRunner

from tests.gateway.servers import Gateway
from tests.models.tiny_random import CONTEXT
from toolgate_proxy.cli.main import app

NAMES = ("max_model_len", "context_length", "context_window", "max_input_tokens")


def test_a_model_has_the_context_length_of_its_engine(client: openai.OpenAI) -> None:
    shown = client.models.retrieve("tiny").model_dump()
    assert {name: shown[name] for name in NAMES} == dict.fromkeys(NAMES, CONTEXT)
    assert shown["max_output_tokens"] == CONTEXT // 8
    assert shown in [each.model_dump() for each in client.models.list()]


def test_launch_reads_it(gateway: Gateway) -> None:
    arguments = ["launch", "codex", "--print", "--url", gateway.url, "--key", gateway.key]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert f"has {CONTEXT:,} tokens" in result.output
