"""LiteLLM's own guardrails, with a stand-in for their services that lets each request pass."""

from pathlib import Path

import litellm
import yaml
from litellm.proxy.guardrails.guardrail_registry import InMemoryGuardrailHandler
from starlette.requests import Request
from starlette.responses import JSONResponse

from tests.support.litellm.guards import use_callback

ROWS = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
GUARDRAILS = {name: ({}, ROWS["general"]) for name in ROWS["of general"]} | ROWS["others"]
"""By name: parameters, and what the service returns."""
NOT_RUN = frozenset(ROWS["not run"])


class Service:
    """Answers like the service of the guardrail `name`. `url`: its address."""

    name = ""
    url = ""

    async def __call__(self, scope, receive, send):
        await Request(scope, receive).body()
        # A connection that stayed open could end just when the next request is sent over it.
        headers = {"connection": "close"}
        await JSONResponse(GUARDRAILS[self.name][1], headers=headers)(scope, receive, send)

    def use(self, monkeypatch, name, mode="pre_call"):
        """Make the guardrail the only callback. Raise ValueError if it does not have the mode."""
        self.name = name
        given = {"guardrail": name, "mode": mode, "api_base": "URL", "api_key": "k"}
        params = {
            key: value.replace("URL", self.url) if isinstance(value, str) else value
            for key, value in (given | GUARDRAILS[name][0]).items()
        }
        use_callback(monkeypatch)
        guardrail = {"guardrail_name": name, "litellm_params": params | {"default_on": True}}
        InMemoryGuardrailHandler().initialize_guardrail(guardrail)
        use_callback(monkeypatch, *litellm.callbacks)
        assert litellm.callbacks
