"""One call of a tool that the gateway runs: the limit of its key, its metrics, its span, and its
line in the log (server/logs.py), which has a hash of the arguments instead of contents."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any, Literal, get_args

from opentelemetry.trace import SpanKind

from toolgate_core import tracing
from toolgate_core.errors import RateLimited
from toolgate_core.metric_series import begin_at_zero

from ..context import RequestContext
from ..request.gateway_tools import CallResult, GatewayResult, GatewayTool, ToolLabel
from . import metrics

logger = logging.getLogger("toolgate.tools")

Ending = CallResult | Literal["cancelled"]
TOO_MANY = "The call did not run: the request allows no more calls. Answer with what is known."
TOO_LATE = "The call did not end within the time limit of the response."
ENDINGS: tuple[Ending, ...] = (*get_args(CallResult), "cancelled")


def begin_series(kind: str, servers: Iterable[str]) -> None:
    """Begin the series of configured servers, so that their first failure is seen."""
    begin_at_zero(metrics.TOOL_CALLS, product((kind,), set(servers), ENDINGS))


async def run(
    tool: GatewayTool,
    arguments: str,
    context: RequestContext,
    deadline: float | None = None,
    *,
    within_limit: bool = True,
) -> GatewayResult:
    """Run a call with valid arguments, if the limits of the request (`within_limit`) and of the key
    admit it. `deadline`: of the response, by time.monotonic."""
    label, began = tool.label, time.monotonic()
    ending: Ending = "cancelled"  # unless something else comes of it
    span = tracing.begin(
        f"execute_tool {label.tool}",
        SpanKind.CLIENT if label.server else SpanKind.INTERNAL,
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": label.tool,
            "toolgate.tool_kind": label.kind,
            "toolgate.tool_server": label.server or None,
        },
    )
    try:
        with tracing.current(span):
            if within_limit:
                limit = None if deadline is None else deadline - began
                result = await _result(tool, arguments, context, limit)
            else:
                result = tool.refused(TOO_MANY)
        ending = result.result
    except Exception:
        ending = "error"
        raise
    finally:
        seconds = time.monotonic() - began
        if ending != "ok":
            tracing.fail(span, ending)
        span.end()
        metrics.TOOL_CALLS.labels(label.kind, label.server, ending).inc()
        metrics.TOOL_SECONDS.labels(label.kind, label.server).observe(seconds)
        logger.info("%s", _record(label, arguments, context, ending, seconds))
    return result


async def _result(
    tool: GatewayTool, arguments: str, context: RequestContext, seconds: float | None
) -> GatewayResult:
    try:
        async with asyncio.timeout(seconds):
            if tool.label.counted:
                await context.meter.admit_tool_call()
            result = await tool.run(arguments)
        return replace(result, content=await context.guarded(result.content, "tool"))
    except RateLimited as error:
        return tool.refused(error.message)
    except TimeoutError:
        return replace(tool.refused(TOO_LATE), result="timeout")


def _record(
    label: ToolLabel, arguments: str, context: RequestContext, ending: Ending, seconds: float
) -> Mapping[str, Any]:
    return {
        "level": "info" if ending == "ok" else "warning",
        "request_id": context.request_id or context.call_id,
        "call_id": context.call_id,
        "key": context.caller.name,
        "caller": context.caller.identity,
        "team": context.caller.team,
        "model": context.model,
        "kind": label.kind,
        "server": label.server or None,
        "tool": label.tool,
        "result": ending,
        "seconds": round(seconds, 4),
        "arguments": _hash(arguments),
    }


def _hash(arguments: str) -> str:
    """Return the hash of the value of the arguments, which is the same whatever the order of their
    members and their white space; of the text, if it is not JSON."""
    with suppress(ValueError, RecursionError):
        arguments = json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(arguments.encode('utf-8', 'surrogatepass')).hexdigest()}"
