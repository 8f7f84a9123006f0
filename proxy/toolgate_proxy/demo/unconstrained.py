"""Unconstrained baseline: output of the same model by vLLM's own chat endpoint, without masks."""

from __future__ import annotations

from typing import Any

import httpx

TIMEOUT_SECONDS = 120.0
FORWARDED = ("messages", "tools", "max_tokens", "temperature", "seed", "logit_bias", "n")


def unconstrained_output(backend_url: str, key: str, model: str, request: dict[str, Any]) -> str:
    """The raw output of the first choice; see unconstrained_outputs."""
    return unconstrained_outputs(backend_url, key, model, request)[0]


def unconstrained_outputs(
    backend_url: str, key: str, model: str, request: dict[str, Any]
) -> list[str]:
    """Returns the raw output of each choice, including markers, for an OpenAI request to the
    gateway.

    The model receives the same prompt. Parameters that require enforcement (`tool_choice`,
    `parallel_tool_calls`) are not sent. Raises httpx.HTTPError."""
    body = {name: request[name] for name in FORWARDED if name in request}
    body |= {
        "model": model,
        "skip_special_tokens": False,
        "chat_template_kwargs": {"enable_thinking": request.get("reasoning_effort") != "none"},
    }
    if "tools" in request:
        body["tool_choice"] = "none"  # the prompt contains the tools, but vLLM parses no calls
    headers = {"authorization": f"Bearer {key}"}
    url = f"{backend_url}/v1/chat/completions"
    response = httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)
    response.raise_for_status()
    messages = [choice["message"] for choice in response.json()["choices"]]
    return [(message["content"] or "").replace("<|im_end|>", "") for message in messages]
