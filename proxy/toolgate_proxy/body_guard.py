"""Fields of a body that would steer the gateway instead of the model.

LiteLLM reads settings of its own from the bodies of requests: `api_base`, `mock_response`,
`fallbacks`, `tags`, `no-log` … It refuses some of them itself; whatever it knows for its own is
refused here, by its own list, so that what a release adds is refused as well. That list has gaps:
of a chat with a model of ours only known parameters pass.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from .api.chat_completions.parameters import BY_NAME
from .checks import Fields
from .litellm_host.auth import is_banned, is_control

NESTED = ("extra_body", "litellm_params")
"""Objects whose fields LiteLLM spreads over the request."""


def parse(body: bytes) -> dict[str, Any]:
    """Raises InvalidRequest. What LiteLLM's parsers make something of, these do too."""
    try:
        values = from_json(body)
    except ValueError:
        try:
            values = json.loads(body)  # takes what the stricter one does not: lone surrogates
        except (ValueError, RecursionError) as error:
            raise InvalidRequest("The body is not valid JSON.") from error
    if not isinstance(values, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return values


def check_controls(values: dict[str, Any]) -> None:
    """Raises UnsupportedParameter."""
    fields = [(name, name) for name in values]
    for outer in NESTED:
        inner = values.get(outer)
        if isinstance(inner, dict):
            fields += [(f"{outer}.{name}", name) for name in inner]
    metadata = values.get("metadata")
    banned = [name for name in metadata if is_banned(name)] if isinstance(metadata, dict) else []
    fields += [(f"metadata.{name}", name) for name in banned]
    for path, name in fields:
        if is_control(name):
            raise UnsupportedParameter(
                f"{path!r} is the gateway's to set, not a request's; leave it out.", param=path
            )


def first_unknown(values: dict[str, Any]) -> str | None:
    """The first field of a chat that is no parameter of ours. Raises InvalidRequest."""
    spread = Fields(values).mapping("extra_body") or {}
    fields = [(name, value) for name, value in values.items() if name != "extra_body"]
    for name, value in [*fields, *spread.items()]:
        if value is not None and name not in BY_NAME:
            return name
    return None
