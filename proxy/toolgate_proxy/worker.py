"""A process that serves requests: it makes the app, and ends with its parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from typing import Any

from toolgate_core.host_probe import importing

from .server import logs
from .settings import settings

_created = threading.Event()
"""Set when this process has its app."""
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1
"""Parameters of glibc's `mallopt`."""
SEPARATE = 1_000_000
"""Size in bytes from which a block is mapped by itself. glibc raises this limit to the size of each
such block that is freed: bodies would then lie among small objects, which keep their memory."""
TOP = 16_000_000
"""Free memory at the end of the heap that is kept."""


@importing()
def create() -> Any:
    """Return LiteLLM's app with our paths and middleware. LiteLLM reads the environment on import,
    so the imports are inside."""
    end_with_parent()  # first, because the imports take seconds
    return_freed()
    from starlette.middleware import Middleware

    from .app import Gateway
    from .litellm_host.app import insert_own_route, repair_error_bodies, repair_spans
    from .litellm_host.private_names import check_private_names
    from .litellm_host.proxy_server import litellm_proxy
    from .ops.admin import routes
    from .server.authorization import ClosedRoutes
    from .server.lifespan import extend_lifespan
    from .server.request_scope import RequestScope

    check_private_names()
    app = litellm_proxy().app
    logs.set_up(as_json=settings().log_format == "json")
    logs.add_filters()
    repair_error_bodies(app)
    repair_spans()
    app.include_router(routes.router)
    extend_lifespan(app)
    insert_own_route(app, Gateway)
    app.user_middleware.append(Middleware(ClosedRoutes, host=app))  # inside all others
    app.add_middleware(RequestScope)
    _created.set()
    return app


def end_with_parent() -> None:
    """End this process if it is a worker process and its parent is gone. uvicorn's workers would
    keep running, and keep the port, if their supervisor is killed. A worker that serves requests
    finishes them. One that still starts would obey SIGTERM only afterwards, so it is killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM if _created.is_set() else signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def return_freed() -> None:
    """Let the memory of large bodies go back to the system when they are freed. Does nothing with
    other C libraries than glibc."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, SEPARATE)
        mallopt(M_TRIM_THRESHOLD, TOP)
