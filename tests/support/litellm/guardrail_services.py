"""LiteLLM's own guardrails, with a stand-in for their services that lets each request pass."""

import litellm
from litellm.proxy.guardrails.guardrail_registry import InMemoryGuardrailHandler
from starlette.requests import Request
from starlette.responses import JSONResponse

from tests.support.litellm.guards import use_callback

PASS = "def apply_guardrail(inputs, request_data, input_type):\n    return allow()"
GENERAL = {
    "flagged": False,
    "verdict": "allow",
    "status": "passed",
    "is_safe": True,
    "violation": 0,
}
GUARDRAILS = {
    **dict.fromkeys(
        ("block_code_execution", "crowdstrike_aidr", "enkryptai", "generic_guardrail_api",
         "grayswan", "lasso", "litellm_content_filter", "mcp_end_user_permission", "mcp_security",
         "noma", "onyx", "pangea", "pillar", "prompt_security", "promptguard",
         "qostodian_nexus", "qualifire", "rubrik", "singulr", "straiker", "tool_policy",
          "typesafe", "xecguard"),
        ({}, GENERAL),
    ),
    "aim": ({}, {"required_action": None, "analysis_result": {}}),
    "akto": ({"akto_base_url": "URL", "akto_api_key": "k"},
             {"data": {"guardrailsResult": {"Allowed": True}}}),
    "aporia": ({"mode": "during_call"}, {"action": "passthrough"}),
    "azure/prompt_shield": ({}, {"userPromptAnalysis": {}, "documentsAnalysis": []}),
    "azure/text_moderations": ({}, {"blocklistsMatch": [], "categoriesAnalysis": []}),
    "cato_networks": ({}, {"required_action": None, "analysis_result": {}}),
    "cisco_ai_defense": ({}, {"is_safe": True, "action": "Allow", "classifications": []}),
    "custom_code": ({"custom_code": PASS}, {}),
    "deepkeep": ({"deepkeep_firewall_id": "x"}, {"action": "NONE"}),
    "dynamoai": ({"mode": "pre_call"}, {"finalAction": "NONE", "appliedPolicies": []}),
    "guardrails_ai": ({"guard_name": "x"}, {"validatedOutput": "", "validationPassed": True}),
    "javelin": ({"guard_name": "x"}, {"assessments": []}),
    "lakera_v2": ({}, {"flagged": False, "payload": [], "breakdown": []}),
    "noma_v2": ({}, {"action": "NONE"}),
    "openai_moderation": ({}, {"id": "x", "model": "x", "results": []}),
    "panw_prisma_airs": ({}, {"action": "allow", "category": "benign"}),
    "presidio": ({f"presidio_{each}_api_base": "URL/" for each in ("analyzer", "anonymizer")}, []),
    "repelloai": ({"asset_id": "x"}, {"verdict": "passed"}),
    "tool_permission": ({"default_action": "allow"}, {}),
    "vigil_guard": ({}, {"decision": "ALLOWED"}),
    "zscaler_ai_guard": ({"policy_id": 1}, {"statusCode": 200, "action": "ALLOW"}),
}  # fmt: skip
"""By name: parameters, and what the service returns."""
NOT_RUN = frozenset(
    """agent_365 alice bedrock compresr conduct decision_model headroom hiddenlayer hide-secrets
    ibm_guardrails lakera llm_as_a_judge llm_shield_proxy mcp_jwt_signer microsoft_purview
    model_armor ovalix semantic_guard""".split()  # noqa: SIM905
)
"""Those that need a model, an identity service, a missing package, a protocol of their own, MCP, or
LiteLLM's route."""


class Service:
    """Answers like the service of the guardrail `name`. `url`: its address."""

    name = ""
    url = ""

    async def __call__(self, scope, receive, send):
        await Request(scope, receive).body()
        await JSONResponse(GUARDRAILS[self.name][1])(scope, receive, send)

    def use(self, monkeypatch, name):
        """Make the guardrail the only callback."""
        self.name = name
        given = {"guardrail": name, "mode": "pre_call", "api_base": "URL", "api_key": "k"}
        params = {
            key: value.replace("URL", self.url) if isinstance(value, str) else value
            for key, value in (given | GUARDRAILS[name][0]).items()
        }
        use_callback(monkeypatch)
        guardrail = {"guardrail_name": name, "litellm_params": params | {"default_on": True}}
        InMemoryGuardrailHandler().initialize_guardrail(guardrail)
        use_callback(monkeypatch, *litellm.callbacks)
        assert litellm.callbacks
