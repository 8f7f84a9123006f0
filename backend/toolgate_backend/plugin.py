"""What vLLM's plug-in loader calls. Named in VLLM_PLUGINS as `toolgate`, in both groups."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from .adapters.probe import check_server
from .errors import AdapterMisfit
from .vllm_cli import unsupported_server

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.datastructures import State


def register() -> None:
    """`vllm.general_plugins`: runs in every process of a server, more than once. Gives the workers
    the methods that the API process calls through `collective_rpc`, and the engine our grammars.

    Does nothing in a server that does not ask for Toolgate: vLLM loads every general plug-in where
    VLLM_PLUGINS is not set, but no endpoint plug-in. Raises AdapterMisfit, which stops the server,
    where it can't have our routes or lacks a name that we use.
    """
    if "VLLM_PLUGINS" not in os.environ:
        return
    refusal = unsupported_server(_serve_flags(), os.environ)
    if refusal is not None:
        raise AdapterMisfit(refusal)
    check_server()

    from vllm.v1.worker.worker_base import WorkerBase

    from .adapters import vllm_host
    from .grammars.store import WORKER_METHODS

    for name, method in WORKER_METHODS.items():
        setattr(WorkerBase, name, method)
    vllm_host.register()


def _serve_flags() -> list[str]:
    """Of `vllm serve MODEL …`; other programs' flags mean something else."""
    return sys.argv[2:] if sys.argv[1:2] == ["serve"] else []


class ToolgateEndpoints:
    """`vllm.endpoint_plugins` (vllm/plugins/endpoint_plugins/interface.py): our routes."""

    name = "toolgate"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        from .endpoint.routes import attach

        attach(app)

    async def init_state(self, engine_client: Any, state: State, args: Namespace) -> None:
        from .endpoint.service import Service

        state.toolgate = await Service.start(engine_client, state, args)
