"""Launcher of the gateway: LiteLLM's configuration, and the server."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
import yaml

from ..litellm_host.litellm_route import migration
from ..settings import settings
from . import logs

KEEP_ALIVE_SECONDS = 75
"""Seconds that a client's idle connection is kept open. uvicorn's default of 5 s is shorter than
that of SDKs and load balancers. Their request would fail on a connection that is just closing."""
WORKER_SECONDS = 60
"""Time after which a worker process that does not respond is replaced. uvicorn's default of 5 s is
shorter than importing LiteLLM takes on busy cores: workers would be killed and started for ever."""

CONFIG = Path(__file__).with_name("litellm_config.yaml")
"""LiteLLM's configuration. `make docs` copies it to the repository's root and into the guide."""
HOST_ENVIRONMENT = {
    # Without it, importing LiteLLM fetches a table of prices from the network.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    "CHECKPOINT_DISABLE": "1",  # prisma's program would report its use
    "DOCS_URL": "/docs",  # LiteLLM's default is `/`, where our page is
}
"""Defaults for LiteLLM's environment variables."""


@dataclass(frozen=True)
class Route:
    """A model's name for clients, its name on the backend, and the backend's URL."""

    name: str
    backend_model: str
    url: str | None = None

    @classmethod
    def parse(cls, text: str) -> Route:
        """Parse `NAME[=BACKEND_MODEL][@URL]`. Raise ValueError."""
        url_part = re.search(r"@((?:dns\+)?http.*)", text)
        models, url = (text[: url_part.start()], url_part[1]) if url_part else (text, None)
        name, _, backend_model = models.partition("=")
        if not name:
            raise ValueError(f"Invalid model {text!r}: expected NAME[=BACKEND_MODEL][@URL].")
        if without_scheme := re.search(r"@([\w.-]+:\d+(/.*)?)$", models):
            raise ValueError(
                f"The URL in {text!r} has no scheme. Write @http://{without_scheme[1]} or @https://…."
            )
        return cls(name, backend_model or name, url)


def make_config(routes: Sequence[Route]) -> dict[str, Any]:
    """LiteLLM's configuration for Toolgate backends only. Keys stay in the environment."""
    shipped: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return shipped | {"model_list": [_deployment(route) for route in routes]}


def write_config(routes: Sequence[Route], directory: Path) -> Path:
    """Write `make_config(routes)` to a file in `directory`."""
    path = directory / CONFIG.name
    path.write_text(yaml.safe_dump(make_config(routes), sort_keys=False), encoding="utf-8")
    return path


def serve(config: Path, *, host: str, port: int, workers: int = 1) -> None:
    """Run the gateway until it receives SIGINT or SIGTERM."""
    prepare(config)
    migration.set_up(config)
    as_json = settings().log_format == "json"
    logs.set_up(as_json=as_json)
    faulthandler.enable()  # prints a traceback if native code crashes
    # After its shutdown uvicorn raises the signal again. sys.exit runs the exit handlers then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        "toolgate_proxy.worker:create",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        ws="websockets-sansio",
        ws_max_size=settings().max_body_bytes,
        ws_per_message_deflate=False,  # 30 kB can become 30 MB
        timeout_worker_healthcheck=WORKER_SECONDS,
        http="toolgate_proxy.server.http_protocol:TimedProtocol",
        log_config=logs.server_config(as_json=as_json),
        access_log=False,  # logs.py writes one line for each request
    )


def prepare(config: Path) -> None:
    """Set the environment variables that LiteLLM reads, also for child processes."""
    os.environ["CONFIG_FILE_PATH"] = str(config)
    for name, value in HOST_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _deployment(route: Route) -> dict[str, Any]:
    return {
        "model_name": route.name,
        "litellm_params": {
            "model": f"toolgate/{route.backend_model}",
            "api_base": route.url or "os.environ/TOOLGATE_BACKEND_URL",
            "api_key": "os.environ/TOOLGATE_BACKEND_KEY",
        },
    }
