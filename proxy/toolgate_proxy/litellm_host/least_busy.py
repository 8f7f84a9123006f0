"""Touches of LiteLLM 1.106.2 that its strategy `least-busy` needs to count our requests right.

- litellm/litellm_core_utils/litellm_logging.py:1392 `Logging.pre_call`: providers call it as they
  begin, and `least-busy` counts one more; the call's success or failure counts one less.
- litellm/router_strategy/least_busy.py:120 `async_log_failure_event`: a call that its client leaves
  is neither. Of a stream that has begun LiteLLM makes a success; of any other call
  (litellm/proxy/utils.py:3692) it counts one more and one less, and so the first stays for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import litellm
from litellm.router_strategy.least_busy import LeastBusyLoggingHandler


def began(logging: Any, messages: list[Any], api_base: str | None) -> None:
    logging.pre_call(messages, None, additional_args={"api_base": api_base})


async def until_left(answer: Coroutine[Any, Any, Any], logging: Any) -> Any:
    """The answer, or the beginning of a stream."""
    try:
        return await answer
    except asyncio.CancelledError:
        for each in litellm.input_callback:
            if isinstance(each, LeastBusyLoggingHandler):
                await each.async_log_failure_event(logging.model_call_details, None, None, None)
        raise
