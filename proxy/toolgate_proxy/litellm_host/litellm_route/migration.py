"""The set-up of LiteLLM's database, which LiteLLM's command does when it starts, and LiteLLM's app
does not. The process that starts workers does it, and imports LiteLLM for nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import yaml


def set_up(config: Path) -> None:
    """Create or migrate LiteLLM's tables, and set the variables of its connections, as `litellm`
    does. Do nothing if no database is configured. Raise SystemExit after an error."""
    general = yaml.safe_load(config.read_text(encoding="utf-8")).get("general_settings") or {}
    if not (general.get("database_url") or os.environ.get("DATABASE_URL")):
        return
    import litellm  # importing it reads the environment

    try:
        from prisma import Prisma  # noqa: F401 - exists once it is generated
    except (ImportError, RuntimeError):
        sys.exit(
            "LiteLLM's database needs prisma (LiteLLM cannot connect with releases after 0.11.0) "
            f"and the client that it generates. Run: export PATH={Path(sys.executable).parent}:"
            "$PATH; pip install prisma==0.11.0 && prisma generate "
            f"--schema {Path(litellm.__file__).with_name('proxy') / 'schema.prisma'}"
        )
    litellm.run_server(["--config", str(config), "--skip_server_startup"], standalone_mode=False)
