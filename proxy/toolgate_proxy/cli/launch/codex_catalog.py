"""The catalogue of models that Codex reads (`model_catalog_json`).

Without an entry, Codex expects a context of 272,000 tokens, compacts too late, and does not offer
`apply_patch`.
"""

from __future__ import annotations

from typing import Any

from .target import Target

EFFORTS = {
    "low": "Short reasoning",
    "medium": "Reasoning of medium length",
    "high": "Long reasoning",
}
MAX_RESULT = 10_000
"""Most tokens of the result of a call, as of OpenAI's models."""


def catalog(target: Target) -> dict[str, Any]:
    """Return a catalogue of one model, whose window must be known. Codex compacts when three
    quarters of the window are used. The rest is for a response and the result of a call."""
    window = target.window
    assert window is not None
    entry = {
        "slug": target.model,
        "display_name": target.model,
        "description": "A model of the gateway.",
        "context_window": window.tokens,
        "max_context_window": window.tokens,
        "auto_compact_token_limit": window.tokens * 3 // 4,
        "truncation_policy": {"mode": "tokens", "limit": min(MAX_RESULT, window.tokens // 8)},
        "apply_patch_tool_type": "freeform",
        "shell_type": "default",
        "supports_parallel_tool_calls": True,
        "supports_search_tool": False,
        "experimental_supported_tools": [],
        "supported_reasoning_levels": [
            {"effort": effort, "description": description}
            for effort, description in EFFORTS.items()
        ],
        "supports_reasoning_summaries": True,
        "support_verbosity": False,
        "visibility": "list",
        "supported_in_api": True,
        "priority": 0,
        "base_instructions": "",
    }
    return {"models": [entry]}
