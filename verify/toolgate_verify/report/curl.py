"""A `curl` command that sends a request again, without the key."""

from __future__ import annotations

import shlex

from ..engine.target import ANTHROPIC_VERSION, Target
from ..exchange import Request
from ..terms import Api

KEY = "$TOOLGATE_VERIFY_KEY"
"""The variable that the command reads the key from."""


def curl(target: Target, api: Api, request: Request) -> str:
    """The command. A request whose client leaves is limited by `--max-time`."""
    parts = ["curl", "-sS"]
    if request.streamed:
        parts.append("-N")
    if request.leave_after is not None:
        parts += ["--max-time", "1"]
    if request.method != "POST":
        parts += ["-X", request.method]
    parts.append(shlex.quote(f"{target.url}{request.path}"))
    key = (KEY if target.key else "") if request.key is None else request.key
    if key:
        parts += ["-H", f'"Authorization: Bearer {key}"']
    if api == Api.MESSAGES:
        parts += ["-H", shlex.quote(f"anthropic-version: {ANTHROPIC_VERSION}")]
    if request.content:
        parts += ["-H", shlex.quote("content-type: application/json")]
        parts += ["-d", shlex.quote(request.content)]
    return " ".join(parts)
