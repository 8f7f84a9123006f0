"""Grammars of deferred tools, loaded in the background when a conversation begins. The turn after
one of them is found then waits for no compiler."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest, DeferredTool
from toolgate_core.errors import InvalidRequest, ToolgateError
from toolgate_core.tools import Tool, refuse
from toolgate_core.toolset import PREPARED

from ..background import in_background
from ..grammars.tool_check import check_tool
from ..routing.deployments import Deployment

BATCH = 16
"""Number of grammars per message to the backend. Grammars of requests are loaded in between."""


class DeferredGrammars:
    def __init__(self) -> None:
        self._busy: set[str] = set()
        """URLs of the backends that load grammars for a conversation."""

    def begin(self, request: ChatRequest, deployment: Deployment, info: wire.Info) -> None:
        """Load the grammars, unless the backend still loads those of another conversation: they
        are loaded when their tools are found."""
        begins = all(message["role"] != "assistant" for message in request.messages)
        if request.deferred_tools and begins and deployment.url not in self._busy:
            self._busy.add(deployment.url)
            in_background(self._load(request.deferred_tools[:PREPARED], deployment, info))

    async def _load(
        self, deferred: Sequence[DeferredTool], deployment: Deployment, info: wire.Info
    ) -> None:
        """Half of the backend's room is left to tools that are in use. An error has no consequence:
        missing grammars are loaded when they are needed."""
        grammars = deployment.grammars
        try:
            for at in range(0, len(deferred), BATCH):
                tools = [tool for each in deferred[at : at + BATCH] if (tool := _valid(each))]
                if grammars.loaded_count + len(tools) > info.limits.max_grammars // 2:
                    return
                with suppress(ToolgateError):
                    await grammars.prepare(tools, info)
        finally:
            self._busy.discard(deployment.url)


def _valid(deferred: DeferredTool) -> Tool | None:
    try:
        tool = deferred(refuse)
        if tool is not None:
            check_tool(tool, tool.param)
    except InvalidRequest:
        return None
    return tool
