"""Entry points for vLLM's plug-in loader. VLLM_PLUGINS names both groups `toolgate`."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from .adapters import probe
from .adapters.private_names import SERVER
from .errors import IncompatibleServer
from .vllm_cli import unsupported_server

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.datastructures import State


def register() -> None:
    """Entry point of `vllm.general_plugins`. Runs in every process of a server, more than once.

    Adds the methods that load grammars to vLLM's workers, and the hooks to its engine. Does nothing
    if VLLM_PLUGINS is not set: vLLM then loads every general plug-in, but no endpoint plug-in.

    Raise IncompatibleServer, which stops the server, if the server could not have Toolgate's routes
    or if vLLM lacks a private name that Toolgate uses."""
    if "VLLM_PLUGINS" not in os.environ:
        return
    # The flags of `vllm serve MODEL …`. Those of other programs have other meanings.
    flags = sys.argv[2:] if sys.argv[1:2] == ["serve"] else []
    reason = unsupported_server(flags, os.environ)
    if reason is not None:
        raise IncompatibleServer(reason)
    probe.check(SERVER)

    from .adapters import vllm_host
    from .adapters.lifetimes import end_with_parent

    vllm_host.register()
    end_with_parent()


class ToolgateEndpoints:
    """Entry point of `vllm.endpoint_plugins` (vllm/plugins/endpoint_plugins/interface.py): adds
    Toolgate's routes."""

    name = "toolgate"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        from .endpoint.routes import attach

        attach(app)

    async def init_state(self, engine_client: Any, state: State, args: Namespace) -> None:
        from toolgate_core import tracing

        from .endpoint.service import Service

        tracing.start("toolgate-backend")
        state.toolgate = await Service.start(engine_client, state, args)
