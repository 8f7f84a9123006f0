"""The Anthropic SDK: context editing and compaction."""

import anthropic
import shared

COMMON = {
    "model": shared.MODEL,
    "max_tokens": shared.MAX_TOKENS,
    "messages": [{"role": "user", "content": shared.QUESTION}],
    "extra_body": {**shared.BODY, "seed": 3},
}
TRIES = 40
"""The summary of a random model may not end, which is an error."""
ABOVE = 1_000
"""The tokens above which a conversation is compacted."""
client = anthropic.Anthropic(base_url=shared.ORIGIN, api_key=shared.KEY, max_retries=0)


def check_context_edits():
    turns = [*COMMON["messages"]]
    for number in range(2):
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": "set_tags"}
        result = {"type": "tool_result", "tool_use_id": use["id"], "content": "done " * 50}
        turns.append({"role": "assistant", "content": [{**use, "input": {"tags": ["a", "b"]}}]})
        turns.append({"role": "user", "content": [result]})
    kept = {"type": "tool_uses", "value": 1}
    edit = {"type": "clear_tool_uses_20250919", "trigger": kept, "keep": kept}
    asked = {
        **COMMON,
        "messages": turns,
        "tools": shared.message_tools(),
        "tool_choice": {"type": "none"},
        "betas": ["context-management-2025-06-27"],
    }
    whole = client.beta.messages.create(**asked)
    asked["context_management"] = {"edits": [edit]}
    edited = client.beta.messages.create(**asked)
    with client.beta.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    for message in (edited, streamed):
        assert message.context_management
        [applied] = message.context_management.applied_edits
        assert applied.type == edit["type"]
        assert applied.cleared_tool_uses == 1
        assert _input(whole) - _input(message) == applied.cleared_input_tokens > 0
    shared.done("results of tools are cleared")


def check_compaction():
    trigger = {"type": "input_tokens", "value": ABOVE}
    asked = {
        **COMMON,
        "messages": [
            *COMMON["messages"],
            {"role": "assistant", "content": "It is sunny. " * 400},
            {"role": "user", "content": "And now?"},
        ],
        "context_management": {"edits": [{"type": "compact_20260112", "trigger": trigger}]},
        "betas": ["compact-2026-01-12"],
    }

    def compacted(**more):
        for seed in range(TRIES):
            body = {**asked, **more, "extra_body": {**shared.BODY, "seed": seed}}
            try:
                with client.beta.messages.stream(**body) as stream:
                    return stream.get_final_message()
            except anthropic.APIStatusError as error:
                if "summary" not in str(error):
                    raise
        raise AssertionError("no summary")

    message = compacted()
    summary, *_ = message.content
    assert summary.type == "compaction"
    assert summary.content
    assert [each.type for each in message.usage.iterations] == ["compaction", "message"]
    before, after = message.usage.iterations
    assert _input(after) < ABOVE < _input(before)
    paused = compacted(
        context_management={
            "edits": [{**asked["context_management"]["edits"][0], "pause_after_compaction": True}]
        }
    )
    assert paused.stop_reason == "compaction"
    assert [block.type for block in paused.content] == ["compaction"]
    turns = [{"role": "assistant", "content": message.content}, *asked["messages"][-1:]]
    again = {**COMMON, "messages": [*asked["messages"], *turns], "betas": asked["betas"]}
    assert _input(client.beta.messages.create(**again)) < _input(before)
    shared.done("a conversation is compacted and goes on")


def _input(message):
    """The tokens of a prompt."""
    usage = getattr(message, "usage", message)
    return int(usage.input_tokens + (usage.cache_read_input_tokens or 0))


check_context_edits()
check_compaction()
