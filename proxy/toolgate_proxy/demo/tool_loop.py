"""A conversation of two turns: the model's calls, then its response to their results."""

from __future__ import annotations

import json
from typing import Any

from openai import OpenAI

from .cases import NO_THINKING, TWO_CITIES, WEATHER

RESULTS = {
    "Beijing": {"city": "Beijing", "temperature": 21, "unit": "celsius", "sky": "clear"},
    "Shanghai": {"city": "Shanghai", "temperature": 25, "unit": "celsius", "sky": "cloudy"},
}
"""Results of the tool. They are constants, so that the demo needs no network."""

REQUIRED_WORDS = ("Beijing", "21", "clear", "Shanghai", "25", "cloudy")
"""Words that the final response must contain."""


def first_request() -> dict[str, Any]:
    return {"messages": list(TWO_CITIES), "tools": [WEATHER], "tool_choice": "auto", **NO_THINKING}


def run(client: OpenAI, common: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Returns the second request, which contains the results, and the content of its response."""
    request = first_request()
    message = client.chat.completions.create(**common, **request).choices[0].message
    messages = [*request["messages"], message.model_dump(exclude_none=True)]
    for call in message.tool_calls or []:
        city = json.loads(call.function.arguments)["city"]
        result = RESULTS.get(city, {"error": "no such city"})
        messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
    request = {**request, "messages": messages}
    message = client.chat.completions.create(**common, **request).choices[0].message
    return request, message.content or ""


def uses_results(content: str) -> bool:
    return all(text in content for text in REQUIRED_WORDS) and content.rstrip().endswith(".")
