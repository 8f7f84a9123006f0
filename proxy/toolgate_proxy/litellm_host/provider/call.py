"""The arguments with which LiteLLM calls our custom provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...routing.deployments import Deployment, Placement
from ..context import owner_of
from ..deployments.router import group_of, rows_of
from ..state import selection


@dataclass(frozen=True)
class ProviderCall:
    """One call. `body`: the request's body in the form in which the client sent it."""

    placement: Placement
    group: str | None
    """The model's name in LiteLLM's router."""
    owner: str
    """The team or key that sent the request."""
    body: dict[str, Any]
    logging: Any

    def alternatives(self, tried: Deployment) -> list[Placement]:
        rows = rows_of(self.group) if self.group else []
        return selection().alternatives(rows, tried)


def read_call(arguments: Mapping[str, Any], *, stream: bool) -> ProviderCall:
    """Reads the arguments of `CustomLLM.acompletion` and `astreaming`.

    LiteLLM removes some fields of the body, which are restored here: `priority`, which it uses for
    its own queue, and `tools` that are not objects, which it drops without an error.
    """
    params = dict(arguments["optional_params"])
    params |= params.pop("extra_body", None) or {}
    about = arguments["litellm_params"]
    sent = (about.get("proxy_server_request") or {}).get("body") or {}
    tools = sent.get("tools")
    if tools and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        params["tools"] = tools
    if "priority" in sent:
        params["priority"] = sent["priority"]
    model = arguments["model"]
    return ProviderCall(
        placement=Placement(model, arguments["api_base"], arguments["api_key"]),
        group=group_of(about),
        owner=owner_of(about),
        body={**params, "model": model, "messages": arguments["messages"], "stream": stream},
        logging=arguments["logging_obj"],
    )
