"""Operations of LiteLLM that models of our provider do not support."""

from __future__ import annotations

from typing import Any, get_args

import litellm
import pytest
from litellm.types.utils import CallTypes, CallTypesLiteral

from tests.support.litellm.router import foreign, row, use
from toolgate_proxy.litellm_host.operations import UNSUPPORTED, check_operation


def test_chat_and_other_models_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, row("a"), foreign("openai/x"), row("b", group="mixed"))
    for call_type in ("acompletion", "aresponses", "anthropic_messages"):
        check_operation("tiny", call_type)
    for model in ("openai/x", "unknown", None):
        check_operation(model, "aembedding")


def test_operations_have_litellms_names() -> None:
    names = {each.value for each in CallTypes} | set(get_args(CallTypesLiteral))
    assert UNSUPPORTED.keys() - {"image_variation"} <= names | {"create_fine_tuning_job"}


async def test_provider_refuses_embeddings_of_a_model_with_other_deployments() -> None:
    ours: dict[str, Any] = {"model": "toolgate/tiny", "api_base": "http://127.0.0.1:1"}
    with pytest.raises(litellm.BadRequestError, match="do not support embeddings"):
        await litellm.aembedding(input="x", **ours)
    with pytest.raises(litellm.BadRequestError, match="do not support image generation"):
        await litellm.aimage_generation(prompt="x", **ours)
