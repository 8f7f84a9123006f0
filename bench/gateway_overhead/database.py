"""LiteLLM's database in both gateways: the tests' stand-in, with one key."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from litellm.proxy.utils import hash_token

from tests.support.litellm import shared_tables
from tests.support.litellm.prisma_stand_in import Prisma, modules

KEY = "sk-of-the-database"
PRICES = {"input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
ROW: dict[str, Any] = {
    "token": hash_token(KEY),
    "models": [],
    "max_budget": 1e6,
    "rpm_limit": 10**6,
    "tpm_limit": 10**9,
    "max_parallel_requests": 10**4,
}
"""A budget and all kinds of limits. None is reached."""
PACKAGE = """
from bench.gateway_overhead.database import install

install()
"""


class OneKey(Prisma):
    """The client, whose tables have the key."""

    def __init__(self, **_: object) -> None:
        super().__init__()
        self.litellm_verificationtoken.add(ROW)

    async def connect(self, *_: object, **__: object) -> None: ...

    async def disconnect(self, *_: object, **__: object) -> None: ...


def configure(config: dict[str, Any]) -> None:
    """Let a gateway use the database, and give its models prices."""
    shared_tables.configure(config)
    config["general_settings"]["disable_prisma_schema_update"] = True
    for row in config["model_list"]:
        row["litellm_params"] |= PRICES


def environment(folder: Path) -> dict[str, str]:
    """Return the variables with which a gateway imports the stand-in as the package `prisma`."""
    package = folder / "prisma"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    found = [str(folder), *(path for path in sys.path if path)]
    return {"DATABASE_URL": "postgresql://stand-in", "PYTHONPATH": ":".join(found)}


def install() -> None:
    sys.modules.update({module.__name__: module for module in modules(OneKey)})
