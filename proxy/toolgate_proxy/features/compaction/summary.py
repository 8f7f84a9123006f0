"""The request for a summary, and the summary as the response to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from toolgate_core.chat_request import ChatRequest, Extras, Shortening
from toolgate_core.context_edits import ClearToolUses, Compaction
from toolgate_core.deltas import ContentDelta, Finish
from toolgate_core.errors import CompactionFailed

from ...chat.response import ResponseEvent
from ...chat.shortening import HEAD
from .compacted import Message, text_after

ASKED = """\
The conversation so far takes too much room. A summary will replace it, which you write now. You \
will continue the work with nothing but this summary and the latest messages.

Write down, as briefly as possible:
- what the user wants, in the user's own words where they matter, and every rule that still holds;
- what was done and found: decisions, facts, results of tools, and names, paths, numbers and \
identifiers exactly as they are;
- what failed, what is unfinished, and the next step.

Include the content of an earlier summary. Write at most {words} words. Your whole response is the \
summary: do not answer the user, do not call tools, do not comment on the summary.\
"""
ALSO = "\n\nFor this summary the following applies as well:\n{}"
WORDS_PER_TOKEN = 0.5
"""Fewer than a text has, so that the model is finished before its budget of tokens is."""
MAX_TOKENS = 4096
"""Most tokens of a summary."""
PART = 8
"""A summary has at most this part of the context."""
PART_OF_LIMIT = 4
"""Of the tokens above which a prompt is compacted, the summary has at most this part, and so do the
recent messages that stay."""
OWN_ARGUMENTS = (
    "add_generation_prompt",
    "continue_final_message",
    "enable_thinking",
    "reasoning_effort",
)
"""Arguments of the template that the request for a summary has in its own way."""
ROOM = ClearToolUses("", trigger=2**62, keep=0)
"""Without the results of calls, a conversation that exceeds the context may have room for its
summary."""


def asked(tokens: int, instructions: str) -> str:
    """Return the request for a summary of at most `tokens` tokens."""
    text = ASKED.format(words=max(1, int(tokens * WORDS_PER_TOKEN)))
    return text + ALSO.format(instructions) if instructions.strip() else text


def limit_of(rule: Compaction, request: ChatRequest, context: int) -> int | None:
    """Return the tokens above which a prompt is compacted: the trigger, or fewer if the response
    needs room. None: each prompt is. `context`: the model's, in tokens."""
    if rule.trigger is None:
        return None
    return min(rule.trigger, context - (request.sampling.max_tokens or 1))


def summary_tokens(request: ChatRequest, limit: int | None, context: int) -> int:
    """Return the budget of a summary. `limit`: as `limit_of` returned it."""
    most = min(MAX_TOKENS, context // PART)
    wanted = request.sampling.max_tokens or most if limit is None else limit // PART_OF_LIMIT
    return max(1, min(most, wanted))


def summary_request(request: ChatRequest, rule: Compaction, end: int, tokens: int) -> ChatRequest:
    """Return the request for a summary of the messages before the place `end`. Its prompt begins
    like that of the conversation, tools included, so that the prefix cache is used. It is
    deterministic if the conversation's request is."""
    messages = _asking(list(request.messages[:end]), asked(tokens, rule.instructions))
    paths = request.message_paths
    given = request.template_kwargs or {}
    kwargs = {name: value for name, value in given.items() if name not in OWN_ARGUMENTS}
    free = {
        "n": 1,
        "max_tokens": tokens,
        "min_tokens": 0,
        "stop_token_ids": (),
        "ignore_eos": False,
        "bad_words": (),
        "logit_bias": None,
        "logprobs": None,
        "logprob_token_ids": None,
        "prompt_logprobs": None,
        "allowed_token_ids": None,
    }
    return replace(
        request,
        messages=tuple(messages),
        message_paths=(*paths[:end], *paths[end - 1 : end])[: len(messages)],
        shortening=Shortening(drop_oldest=True, edits=(ROOM,)),
        responds=None,
        gateway_tools={},
        tool_choice="none",
        reasoning="off",
        reasoning_budget=None,
        template_kwargs={**kwargs, "enable_thinking": False},
        sampling=request.sampling.model_copy(update=free),
        tokenizing=request.tokenizing.model_copy(update={"truncate_prompt_tokens": None}),
        content_format=None,
        stop=(),
        extras=Extras(tokens_as_ids=request.extras.tokens_as_ids),
        echo="",
    )


def _asking(messages: list[Message], text: str) -> list[Message]:
    if messages[-1]["role"] == "user":
        return [*messages[:-1], text_after(text, messages[-1])]
    return [*messages, {"role": "user", "content": text}]


def check_coverage(asked: ChatRequest, sent: ChatRequest) -> None:
    """Raise CompactionFailed if the whole conversation had to be dropped from the request for its
    summary."""
    dropped = len(sent.messages) < len(asked.messages)
    if dropped and all(message["role"] in HEAD for message in sent.messages[:-1]):
        raise CompactionFailed(
            "The conversation can't be compacted: its turns are longer than the context. Shorten "
            "them in the client."
        )


def summary_of(events: Iterable[ResponseEvent], tokens: int) -> str:
    """Return the text of a complete response. `tokens`: its budget. Raise CompactionFailed."""
    texts: list[str] = []
    finish: Finish | None = None
    for each in events:
        match each.event:
            case ContentDelta(text):
                texts.append(text)
            case Finish() as finish:
                pass
    text = "".join(texts).strip()
    if finish is None or finish.reason == "length":
        raise _failed(f"it did not end within its budget of {tokens} tokens")
    if not text:
        raise _failed("it is empty")
    return text


def _failed(reason: str) -> CompactionFailed:
    return CompactionFailed(
        f"The conversation can't be compacted: the model wrote a summary, but {reason}. Send the "
        "request again, or shorten the conversation in the client."
    )
