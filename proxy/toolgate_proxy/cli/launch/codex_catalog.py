"""The catalogue of models that Codex reads (`model_catalog_json`).

Without an entry, Codex expects a context of 272,000 tokens, compacts too late, does not offer
`apply_patch`, and sends all tools of MCP servers instead of a search for them. With one, its
instructions are those of the entry instead of 17,000 characters.
"""

from __future__ import annotations

from typing import Any

from .target import Target

EFFORTS = {
    "low": "Short reasoning",
    "medium": "Reasoning of medium length",
    "high": "Long reasoning",
}
INSTRUCTIONS = """\
You are a coding agent in the terminal of a user, and share their workspace. Work on the task \
until it is done: read, change and run what it takes, and do not stop at a plan.

- Read files before you change them. `rg` and `rg --files` are fast. Run independent commands in \
parallel.
- Change files with `apply_patch`. Keep to the style of the code around, change no more than the \
task needs, and fix causes rather than symptoms. Commit only if you are asked to.
- Follow the files `AGENTS.md`: the rules of the one nearest to a file count for it. The user's \
messages come first.
- The working tree may have changes of the user. Never revert what you did not change yourself.
- Check your work with the tests and tools of the project, the narrowest first. If something can't \
be checked, say so.
- Respect the sandbox and the approval mode. Ask before anything that can't be undone.
- Before longer work, say in a sentence what you do next. At the end, state briefly what changed, \
where (`path:line`), and what is left. Write plain text with short lists.
"""
"""Codex sends none of its own to a model of a catalogue."""
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
        "supports_search_tool": True,
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
        "base_instructions": INSTRUCTIONS,
    }
    return {"models": [entry]}
