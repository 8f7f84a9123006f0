"""What earlier releases had, and what to use instead.

Whoever still sends, sets or calls one of these gets one answer that names it: a parameter or
path is refused, a setting is reported at start, and a command ends with status 2.
"""

from __future__ import annotations

CONVERSATIONS = "Conversations were removed. Continue a response by `previous_response_id`."

PARAMETERS = {
    "conversation": CONVERSATIONS,
    "toolgate.on_budget": "Calls are no longer closed at `max_tokens`; a call that needs more ends "
    "with `finish_reason: length`. Raise `max_tokens`.",
    "toolgate.receipt": "Receipts were removed. `toolgate verify` tests what an endpoint enforces.",
}
"""By place in the body."""

PATHS = {
    "/conversations": CONVERSATIONS,
    "/toolgate/openapi.json": "The gateway's own document was removed. LiteLLM's is /openapi.json.",
}
"""By the beginning of the path behind the version."""

SETTINGS = {
    **dict.fromkeys(
        ("BLOB_CACHE_MB", "GRAPH_MB", "RULES_CACHE_MB"),
        "TOOLGATE_CACHE_MB bounds all caches of the backend.",
    ),
    "HEALTH_INTERVAL": "Backends are probed every second.",
    "IDLE_TIMEOUT": "A backend may be silent for 120 s during a response.",
    "KEY_BODY_BYTES": "TOOLGATE_MAX_BODY_BYTES also bounds the bodies of one key's requests.",
    "KEY_GRACE": "Cached keys stay valid for 5 minutes while Redis is down.",
    "PAGE": "The page needs no key and has no data, so the gateway always serves it.",
    "PREFIX_AFFINITY": "Prompts always go where their prefix is cached, while there is capacity.",
    "RECEIPT_KEY": "Receipts were removed, so no key is needed.",
    "TRACES": "Set OpenTelemetry's own OTEL_TRACES_EXPORTER to `otlp` or `console`.",
}
"""By name, without the prefix TOOLGATE_."""

COMMANDS = {
    "chat": "The page of the gateway has a playground; `toolgate launch` starts agents.",
    "parse": "The playground of the gateway's page shows what a text breaks.",
    "audit": "Receipts were removed. `toolgate verify URL` tests what an endpoint enforces.",
}
