"""`toolgate verify`: the command of the distribution toolgate-verify, if that is installed."""

from __future__ import annotations

from importlib.util import find_spec

from .app import PASSED_ON, new_app
from .required import require

if find_spec("toolgate_verify") is not None:
    from toolgate_verify.cli import app
else:
    app = new_app()

    @app.command(context_settings=PASSED_ON)
    def verify() -> None:
        """Verify that an endpoint keeps the rules of its API. Requires the extra [verify]."""
        require("verify", "verify")
