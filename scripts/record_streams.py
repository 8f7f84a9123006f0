"""Record token streams of a backend for tests/proxy/chat.

    python scripts/record_streams.py URL KEY

The backend must serve the tiny random model (`make tiny`) under the name `tiny`. Writes
tests/proxy/chat/recorded_streams.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
TARGET = ROOT / "tests" / "proxy" / "chat" / "recorded_streams.json"

from tests import tools  # noqa: E402
from toolgate_proxy.ops.demo.model import closers  # noqa: E402

USER = [{"role": "user", "content": "What is the weather?"}]
BOTH = [tools.WEATHER, tools.TAGS]
FORMAT = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}


def requests(bias: dict[str, float]) -> dict[str, dict[str, Any]]:
    thinking = {"enable_thinking": True, "reasoning_budget": 12, "seed": 5, "logit_bias": bias}
    direct = {"enable_thinking": False, "seed": 7, "logit_bias": bias}
    forced = {"tools": BOTH, "tool_choice": "required"}
    return {
        "reasoning, then calls, two choices": {**thinking, **forced, "n": 2, "max_tokens": 90},
        "a named call with logprobs": {
            **direct,
            "tools": BOTH,
            "tool_choice": {"type": "function", "function": {"name": "set_tags"}},
            "logprobs": True,
            "top_logprobs": 1,
            "max_tokens": 60,
        },
        "a call without a bias": {**thinking, **forced, "logit_bias": None, "max_tokens": 60},
        "content, and perhaps calls": {**thinking, "tools": BOTH, "n": 2, "max_tokens": 60},
        "content of any bytes": {"enable_thinking": False, "seed": 9, "max_tokens": 60},
        "content with its ids": {
            "enable_thinking": False,
            "seed": 3,
            "max_tokens": 40,
            "return_token_ids": True,
            "logprobs": True,
        },
        "a format": {**direct, "response_format": FORMAT, "max_tokens": 60},
    }


async def record(url: str, key: str) -> None:
    from tests.models import tiny_model
    from toolgate_proxy.api.surface import Reading
    from toolgate_proxy.api.surfaces import COMPLETIONS
    from toolgate_proxy.context import RequestContext
    from toolgate_proxy.routing.deployments import Placement
    from toolgate_proxy.state import gateway

    state = gateway()
    deployment = state.deployments.at(Placement("tiny", url, key))
    streams = []
    for name, params in requests(closers(tiny_model())).items():
        given = {k: v for k, v in params.items() if v is not None}
        body = {"messages": USER, "stream": True, **given}
        request, _ = COMPLETIONS.read(body, Reading("tiny"))
        generation = await state.engine.generate(request, deployment, RequestContext())
        events = [event async for batch in generation.events for event in batch]
        recorded = [event.model_dump(mode="json", exclude_defaults=True) for event in events]
        for event, fields in zip(events, recorded, strict=True):
            fields["event"] = event.event  # a default, but needed for parsing
            fields.pop("verdicts", None)
        streams.append({"name": name, "params": {**given, "logit_bias": None}, "events": recorded})
    info = (await deployment.backend.info()).model_dump(mode="json")
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in streams)
    TARGET.write_text(f'{{"info": {json.dumps(info)},\n"streams": [\n{lines}\n]}}\n')
    print(f"wrote {TARGET.relative_to(ROOT)}: {len(streams)} streams")


if __name__ == "__main__":
    os.environ.setdefault("TOOLGATE_REDIS_URL", "")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    if len(sys.argv) != 3 or not all(sys.argv):
        sys.exit("usage: python scripts/record_streams.py URL KEY")
    asyncio.run(record(*sys.argv[1:]))
