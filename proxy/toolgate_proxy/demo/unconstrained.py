"""What a model says by itself: vLLM's own route of the backend, which no mask of ours reaches."""

from __future__ import annotations

from typing import Any

import httpx

TIMEOUT_SECONDS = 120.0
PASSED_ON = ("messages", "tools", "max_tokens", "temperature", "seed", "logit_bias")


def alone(backend_url: str, key: str, model: str, request: dict[str, Any]) -> str:
    """The raw text of the answer, marks included, for an OpenAI request that the gateway takes.

    The model sees the same prompt; what only enforcement can hold (`tool_choice`,
    `parallel_tool_calls`) is not asked of it. Raises httpx.HTTPError."""
    body = {name: request[name] for name in PASSED_ON if name in request}
    body |= {
        "model": model,
        "skip_special_tokens": False,
        "chat_template_kwargs": {"enable_thinking": request.get("reasoning_effort") != "none"},
    }
    if "tools" in request:
        body["tool_choice"] = "none"  # vLLM parses nothing then, and still shows the tools
    headers = {"authorization": f"Bearer {key}"}
    url = f"{backend_url}/v1/chat/completions"
    answer = httpx.post(url, json=body, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)
    answer.raise_for_status()
    message = answer.json()["choices"][0]["message"]
    text: str = message["content"] or ""
    return text.replace("<|im_end|>", "")
