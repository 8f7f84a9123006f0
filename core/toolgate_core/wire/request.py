"""A request to generate, with its enforcement: `POST /v1/toolgate/generate`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .grammars import NeededGrammar
from .message import Count, Message, Request


class Tokenizing(Message):
    """Parameters for the tokenization of the rendered prompt, with vLLM's names."""

    add_special_tokens: bool = False
    truncate_prompt_tokens: int | None = Field(default=None, ge=-1)
    """Number of tokens to keep. -1 keeps as many as fit in the context."""
    truncation_side: Literal["left", "right"] | None = None


TOOL_DEFINITIONS = "tool_definitions"
"""Type of a content part with tools that are added at its place: `{"type": …, "tools": […]}`. The
prompt shows them there in the form in which the model's template lists tools."""


class ChatPrompt(Message):
    kind: Literal["chat"] = "chat"
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] | None = None
    template_kwargs: dict[str, Any] = Field(default_factory=dict)
    tokenizing: Tokenizing = Tokenizing()


class TokensPrompt(Message):
    kind: Literal["tokens"] = "tokens"
    token_ids: tuple[int, ...]


Prompt = Annotated[ChatPrompt | TokensPrompt, Field(discriminator="kind")]


class RepetitionDetection(Message):
    """Ends a choice in which a pattern of tokens occurs `min_count` times in a row, as in vLLM."""

    max_pattern_size: int = Field(ge=1)
    min_pattern_size: int = Field(default=1, ge=1)
    min_count: int = Field(default=2, ge=2)


class Sampling(Message):
    """Sampling parameters under the names of vLLM's `SamplingParams`, to which the backend passes
    them by name. None leaves the value to the model's generation_config.

    A new field defaults to None. The message then leaves it out unless a request sets it, so that
    `FORMAT` stays the same."""

    n: int = Field(default=1, ge=1, le=128)
    max_tokens: int | None = Field(default=None, ge=1)
    min_tokens: int = Field(default=0, ge=0)
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    """In an enforced request they end the content only, as stop strings do."""
    ignore_eos: bool = False
    bad_words: tuple[str, ...] = ()
    """Banned from the reasoning and the content. The arguments of a call may contain them."""
    logit_bias: dict[int, float] | None = None
    logprobs: int | None = Field(default=None, ge=0)
    """Number of alternatives per token. None reports no logprobs."""
    logprob_token_ids: tuple[int, ...] | None = None
    """Tokens whose logprobs are reported instead of those of the most likely alternatives."""
    prompt_logprobs: int | None = Field(default=None, ge=0)
    allowed_token_ids: tuple[int, ...] | None = None
    """Only without enforcement: together with a mask they could exclude every token."""
    repetition_detection: RepetitionDetection | None = None


class Candidate(Message):
    """A tool that may be called, with the key of its grammar."""

    name: str
    key: str


ReasoningMode = Literal["default", "on", "off"]
"""`on` starts with reasoning, `off` excludes it, `default` lets template and model decide."""


class Enforcement(Message):
    """The constraints that masks enforce. Without candidates no call can occur."""

    choice: Literal["none", "auto", "required"] = "none"
    candidates: tuple[Candidate, ...] = ()
    max_calls: int | None = Field(default=None, ge=1)
    reasoning: ReasoningMode = "default"
    reasoning_budget: int | None = Field(default=None, ge=0)
    """Number of tokens after which the reasoning is ended."""
    call_tokens: int | None = Field(default=None, ge=0)
    """Tokens of `max_tokens` that the reasoning leaves for a required call, at most half of them.
    None leaves as many as such a call usually needs."""
    repetition_guard: Literal[False] | None = None
    """False lets calls and content of a format repeat themselves. None leaves the field out, so
    that earlier backends understand the message."""
    content: str | None = None
    """Key of the grammar that constrains the content."""
    earlier_calls: int = Field(default=0, ge=0)
    """Number of calls in the messages, for dialects whose ids count the calls of a conversation."""
    id_seed: str = ""
    """Determines the ids of calls, for dialects that write random ids."""
    first_choice: int = Field(default=0, ge=0)
    """Number of the first choice of the response. Choices have different ids of calls."""


class GenerateRequest(Request):
    request_id: str
    model: str
    prompt: Prompt
    sampling: Sampling = Sampling()
    accepted: tuple[int, ...] = ()
    """Token ids of an earlier response to this prompt that this one continues. They are not part of
    the events or of `max_tokens`. Masks and text continue as if they had just been sampled. Only
    with n = 1."""
    excluded: tuple[int, ...] | None = None
    """Token ids that must not follow `accepted`, unless masks allow no other token there. None
    leaves the field out, so that earlier backends understand the message."""
    enforcement: Enforcement | None = None
    """None disables all masks. The stream then has all tokens, including marker tokens."""
    grammars: tuple[NeededGrammar, ...] = ()
    """Those that `enforcement` names."""
    open_objects: Literal[True] | None = None
    """Whether objects that declare properties may have further ones, in the schemas of the prompt's
    tools. None leaves the field out."""
    stream: bool = True
    batched: Literal[True] | None = None
    """Whether the events of a stream have the tokens of some time each, for a reader that needs to
    know how many tokens there are, but none of them before the end. None leaves the field out, so
    that earlier backends understand the message."""
    fit_max_tokens: Literal[True] | None = None
    """Whether `max_tokens` is lowered to the rest of the context, if that is a sixteenth of it or
    more. None leaves the field out, so that earlier backends understand the message."""
    return_prompt_ids: bool = False
    return_prompt_text: bool = False
    tokens_as_ids: bool = False
    """Whether logprobs show tokens as `token_id:<id>`."""
    priority: int = 0
    cache_salt: str | None = None
    trace: Literal[True] | None = None
    """Whether there are TraceEvents. It needs `enforcement`. None leaves the field out."""
    kv_transfer_params: dict[str, Any] | None = None
    """For vLLM's KV connector, from a router between prefill and decode engines. Gateways leave the
    field out."""
    prefill_only: Literal[True] | None = None
    """Whether a router needs only the KV cache of the prompt. The response then has no tokens.
    Gateways leave the field out."""


class CountTokens(Request):
    """The tokens of a prompt: `POST /v1/toolgate/count`."""

    model: str
    prompt: Prompt
    max_tokens: int = Field(default=0, ge=0)
    """Tokens that are reserved for a response if the prompt is truncated to fit the context."""


class TokenCount(Message):
    tokens: Count
