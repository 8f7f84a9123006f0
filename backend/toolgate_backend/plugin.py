"""What vLLM's plug-in loader calls. Named in VLLM_PLUGINS as `toolgate`, in both groups."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.datastructures import State


def register() -> None:
    """`vllm.general_plugins`: runs in every process of a server, more than once. Gives the workers
    the methods that the API process calls through `collective_rpc`, and the engine our grammars."""
    from vllm.v1.worker.worker_base import WorkerBase

    from .adapters import vllm_host
    from .grammars.store import WORKER_METHODS

    for name, method in WORKER_METHODS.items():
        setattr(WorkerBase, name, method)
    vllm_host.register()


class ToolgateEndpoints:
    """`vllm.endpoint_plugins` (vllm/plugins/endpoint_plugins/interface.py): our routes."""

    name = "toolgate"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        from .routes import attach

        attach(app)

    async def init_state(self, engine_client: Any, state: State, args: Namespace) -> None:
        from .service import Service

        state.toolgate = await Service.start(engine_client, state, args)
