"""`usage` of a message."""

from __future__ import annotations

from typing import Any

from ....chat.response import TokenCounts


def usage_of(counts: TokenCounts) -> dict[str, Any]:
    """Anthropic's `input_tokens` are those that were not read from the cache."""
    return {
        **_tokens(counts),
        "output_tokens_details": {"thinking_tokens": counts.reasoning},
    }


def with_iterations(
    counts: TokenCounts, compaction: TokenCounts | None, *, answered: bool
) -> dict[str, Any]:
    """Return the usage of a message. If the conversation was compacted, the tokens of the summary
    are in `iterations` only. `answered`: whether the message has more than the summary."""
    usage = usage_of(counts)
    if compaction is None:
        return usage
    iterations = [{"type": "compaction", **_iteration(compaction)}]
    if answered:
        iterations.append({"type": "message", **_iteration(counts)})
    return {**usage, "iterations": iterations}


def _iteration(counts: TokenCounts) -> dict[str, Any]:
    created = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    return {**_tokens(counts), "cache_creation": created}


def _tokens(counts: TokenCounts) -> dict[str, Any]:
    return {
        "input_tokens": counts.prompt - counts.cached,
        "cache_creation_input_tokens": 0,  # nothing is billed for writing to the cache
        "cache_read_input_tokens": counts.cached,
        "output_tokens": counts.completion,
    }
