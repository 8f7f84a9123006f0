"""A request to generate, with its enforcement: `POST /v1/toolgate/generate`. Its grammars, and
their loading in advance."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr

from ..errors import SchemaTooComplex
from .message import Count, Flag, Many, Message, Request

Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ResidualKeyword(Message):
    """A keyword that masks cannot enforce. The gateway validates it on the completed call."""

    pointer: str
    """JSON Pointer (RFC 6901) of the keyword inside the tool's `parameters`."""
    keyword: str


class GrammarVerdict(Message):
    key: str
    status: Literal["ready", "refused"]
    engine: str | None = None
    reason: str | None = None
    """Reason for the choice of the engine, or for the refusal."""
    pointer: str | None = None
    """JSON Pointer of the refused keyword inside `parameters`."""
    compile_ms: Milliseconds | None = None
    load_ms: Milliseconds | None = None
    """Time for loading the blob, if it was measured."""
    blob: str | None = None
    """The compiled grammar as text, if loading it is faster than compiling it: zlib, base64."""
    code: str | None = None
    """The error code of a refusal: schema_not_enforceable or schema_too_complex."""
    residual: Many[ResidualKeyword] = ()
    """With `ready`: the keywords that masks cannot enforce."""
    rewritten: str | None = None
    """With `ready`: the rewritten schema that was compiled, as JSON, if it differs from the schema.
    Rewriting can be slow, so the next load of this grammar sends it back."""
    least_tokens: Count | None = None
    """The least number of tokens of a call, between its marker tokens; None if it is not known."""
    extra_tokens: int | None = None
    """By how many tokens a usual call is longer than the shortest one."""

    @classmethod
    def too_complex(cls, key: str, reason: str, pointer: str = "") -> Self:
        """Return the refusal of a schema that costs too much."""
        code = SchemaTooComplex.code
        return cls(key=key, status="refused", reason=reason, pointer=pointer, code=code)


MEASUREMENTS = ("least_tokens", "extra_tokens")
"""The fields of a verdict that the quarantine measures. The engine does not compute them again."""


class GrammarSource(Message):
    """A request to load one tool's grammar. `parameters` is canonical (see `grammar_key`)."""

    key: str
    name: str
    parameters: dict[str, Any]
    owner: str = ""
    """An opaque name for whoever sent the tool. Owners take turns in the quarantine."""
    examined: GrammarVerdict | None = None
    """The verdict of a backend that compiled it within the limits. It is then compiled outside the
    quarantine, which repeats nothing of what the verdict has."""

    def after(self, verdict: GrammarVerdict) -> GrammarSource:
        """Return the source with the verdict of a backend that compiled it."""
        return self.model_copy(update={"examined": verdict})


class NeededGrammar(Message):
    """A grammar that a request needs. A backend that does not have it loads it, from `source` or
    from the definition of the tool in the prompt."""

    key: str
    tool: int | None = Field(default=None, ge=0)
    """Place of the tool in the prompt's tools, if its canonical schema follows from its definition.
    """
    source: GrammarSource | None = None
    """With a tool that has no place."""
    owner: str = ""
    examined: GrammarVerdict | None = None
    """As in GrammarSource."""
    report: bool = False
    """Whether the start event has the verdict."""


class LoadGrammars(Request):
    """Grammars to load before a request needs them: `POST /v1/toolgate/grammars`."""

    grammars: tuple[GrammarSource, ...]


class GrammarVerdicts(Message):
    grammars: Many[GrammarVerdict]


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
    _tools_json: bytes | None = PrivateAttr(None)
    """The tools as JSON, if it is known."""


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
    repetition_guard: bool = Field(default=True, exclude_if=bool)
    """False lets calls and content of a format repeat themselves. True is left out."""
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
    excluded: tuple[int, ...] = ()
    """Token ids that must not follow `accepted`, unless masks allow no other token there."""
    enforcement: Enforcement | None = None
    """None disables all masks. The stream then has all tokens, including marker tokens."""
    grammars: tuple[NeededGrammar, ...] = ()
    """Those that `enforcement` names."""
    open_objects: Flag = False
    """Whether objects that declare properties may have further ones, in the schemas of the prompt's
    tools."""
    stream: bool = True
    batched: Flag = False
    """Whether the events of a stream have the tokens of some time each, for a reader that needs to
    know how many tokens there are, but none of them before the end."""
    fit_max_tokens: Flag = False
    """Whether `max_tokens` is lowered to the rest of the context, if that is a sixteenth of it or
    more."""
    return_prompt_ids: bool = False
    return_prompt_text: bool = False
    tokens_as_ids: bool = False
    """Whether logprobs show tokens as `token_id:<id>`."""
    priority: int = 0
    cache_salt: str | None = None
    trace: Flag = False
    """Whether there are TraceEvents. It needs `enforcement`."""
    kv_transfer_params: dict[str, Any] | None = None
    """For vLLM's KV connector, from a router between prefill and decode engines. Gateways leave the
    field out."""
    prefill_only: Flag = False
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
