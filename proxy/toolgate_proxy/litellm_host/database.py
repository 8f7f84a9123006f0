"""LiteLLM's database. LiteLLM's command sets it up when it starts, and LiteLLM's app does not."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import yaml

PRISMA = "prisma==0.11.0"
"""LiteLLM cannot connect with later releases."""


class DatabaseFailed(SystemExit):
    """The message has the commands that help, or says where LiteLLM's message is."""


def set_up(config: Path) -> None:
    """Create or migrate LiteLLM's tables, and set the variables of its connections, as `litellm`
    does. Does nothing if no database is configured. Raises DatabaseFailed."""
    general = yaml.safe_load(config.read_text(encoding="utf-8")).get("general_settings") or {}
    if not (general.get("database_url") or os.environ.get("DATABASE_URL")):
        return
    try:
        from prisma import Prisma  # noqa: F401 - exists once it is generated
    except (ImportError, RuntimeError):
        found = find_spec("litellm")
        schema = Path(str(found and found.origin)).parent / "proxy" / "schema.prisma"
        raise DatabaseFailed(
            "LiteLLM's database needs prisma and the client that it generates. Run: export "
            f"PATH={Path(sys.executable).parent}:$PATH; pip install {PRISMA} && prisma generate "
            f"--schema {schema}"
        ) from None
    from litellm.proxy.proxy_cli import run_server

    try:
        run_server(["--config", str(config), "--skip_server_startup"], standalone_mode=False)
    except SystemExit:
        raise DatabaseFailed(
            "LiteLLM's database could not be set up; its message is above. Check DATABASE_URL, and "
            "that the user in it may create tables."
        ) from None


async def has_tables() -> bool:
    """Return whether LiteLLM's database, if there is one, has its tables."""
    from litellm.proxy.proxy_server import prisma_client

    try:
        if prisma_client is not None:
            await prisma_client.db.query_raw('SELECT 1 FROM "LiteLLM_VerificationToken" LIMIT 1')
    except Exception as error:  # noqa: BLE001 - LiteLLM reports a database that does not respond
        return "does not exist" not in str(error)
    return True
