"""Our launcher of LiteLLM's proxy: its configuration, and its app with our repairs."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
import yaml

KEEP_ALIVE_SECONDS = 75
"""How long a client's idle connection is kept. uvicorn's 5 s are less than what SDKs and load
balancers keep theirs: one that is closed here just as a request is written to it is an error there.
"""

HOST_ENVIRONMENT = {
    # Otherwise LiteLLM fetches its table of prices from the network as it is imported.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
}
"""Set where the user has not set them."""


@dataclass(frozen=True)
class Route:
    """A model as clients name it, and the backend that serves it under a name of its own."""

    name: str
    backend_model: str
    url: str | None = None

    @classmethod
    def parse(cls, text: str) -> Route:
        """`NAME[=BACKEND_MODEL][@URL]`. Raises ValueError."""
        models, _, url = text.partition("@http")
        name, _, backend_model = models.partition("=")
        if not name:
            raise ValueError(f"{text!r} is not of the form NAME[=BACKEND_MODEL][@URL].")
        return cls(name, backend_model or name, f"http{url}" if url else None)


def make_config(routes: Sequence[Route]) -> dict[str, Any]:
    """LiteLLM's configuration for our backends alone. Keys stay in the environment."""
    return {
        "model_list": [_deployment(route) for route in routes],
        "litellm_settings": {
            "custom_provider_map": [
                {"provider": "toolgate", "custom_handler": "toolgate_proxy.provider.toolgate"}
            ],
            "drop_params": False,
            "set_verbose": False,
            "enable_post_custom_auth_checks": True,
        },
        "router_settings": {"disable_cooldowns": True, "num_retries": 0},
        "general_settings": {
            "master_key": "os.environ/TOOLGATE_MASTER_KEY",
            "cancel_on_disconnect": True,
            "custom_auth": "toolgate_proxy.auth.authenticate",
            "custom_auth_run_common_checks": True,
        },
    }


def write_config(routes: Sequence[Route]) -> Path:
    """Writes `make_config` to a new file, which the caller removes."""
    with tempfile.NamedTemporaryFile("w", prefix="toolgate-", suffix=".yaml", delete=False) as file:
        yaml.safe_dump(make_config(routes), file, sort_keys=False)
    return Path(file.name)


def serve(config: Path, *, host: str, port: int, workers: int = 1) -> None:
    """Runs the gateway until it is told to stop."""
    prepare(config)
    faulthandler.enable()  # a crash in native code says where
    # When uvicorn is done it sends itself the signal again: an exit, unlike that death, cleans up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        "toolgate_proxy.server.app:create",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )


def prepare(config: Path) -> None:
    """Sets what LiteLLM reads from the environment, in this process and those it starts."""
    os.environ["CONFIG_FILE_PATH"] = str(config)
    for name, value in HOST_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def create() -> Any:
    """LiteLLM's app. Imported this late because LiteLLM reads the environment on import."""
    from ..admin import routes
    from ..litellm_host.asgi import insert_own_route, litellm_app
    from ..litellm_host.error_bodies import repair_error_bodies
    from ..litellm_host.probe import check_touches
    from . import access_log
    from .lifespan import extend_lifespan
    from .own_route import OwnRoute
    from .request_scope import RequestScope

    check_touches()
    app = litellm_app()
    access_log.set_up()
    repair_error_bodies(app)
    app.include_router(routes.router)
    extend_lifespan(app)
    insert_own_route(app, OwnRoute)
    app.add_middleware(RequestScope)
    return app


def _deployment(route: Route) -> dict[str, Any]:
    return {
        "model_name": route.name,
        "litellm_params": {
            "model": f"toolgate/{route.backend_model}",
            "api_base": route.url or "os.environ/TOOLGATE_BACKEND_URL",
            "api_key": "os.environ/TOOLGATE_BACKEND_KEY",
        },
    }
