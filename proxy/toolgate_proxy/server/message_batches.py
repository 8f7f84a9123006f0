"""Batches of messages, which neither our models nor LiteLLM's route for other models have."""

from __future__ import annotations

import re

from toolgate_core.errors import RouteClosed

PATH = re.compile(r"/v1/messages/batches(?:/.*)?", re.DOTALL)


def refusal(path: str) -> RouteClosed | None:
    """The error for a path of batches; None for any other path."""
    if PATH.fullmatch(path) is None:
        return None
    return RouteClosed(
        "Message batches are not supported. Send each request to POST /v1/messages; limits of the "
        "API key allow several at once."
    )
