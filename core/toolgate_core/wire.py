"""Every message that crosses between proxy and backend, and nothing else.

`GET  /v1/toolgate/info`      → `Info`
`GET  /v1/toolgate/status`    → `Status`
`PUT  /v1/toolgate/grammars`  `LoadGrammars` → `GrammarVerdicts`
`POST /v1/toolgate/generate`  `GenerateRequest` → an SSE stream of `StreamEvent`s, one JSON object a
`data:` line; lines that begin with a colon are keep-alives. With `stream=false` the same events
come as one JSON array. Errors before the first event are HTTP errors with an OpenAI error body.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

FORMAT = 2
"""Version of this contract. Both sides refuse a peer of another version."""


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


# --- info -----------------------------------------------------------------------------------------


class MarkIds(Message):
    """Token ids of the dialect's marks, of the ends of a turn, and of what means failure."""

    call_begin: int | None = None
    call_end: int | None = None
    reasoning_begin: int | None = None
    reasoning_end: int | None = None
    end_of_turn: tuple[int, ...] = ()
    failure: int | None = None
    """Masked in every phase; forced when a request's enforcement breaks, so that its stream ends
    with this stop reason and its neighbours go on."""
    closed: int | None = None
    """Masked in every phase; forced after a call whose end was forced (`on_budget: close`)."""


class Limits(Message):
    max_model_len: int
    max_logprobs: int
    max_grammars: int


class Info(Message):
    format: int = FORMAT
    model: str
    models: tuple[str, ...]
    """Every name the backend answers to: the served names and the LoRA adapters."""
    vllm_version: str
    adapter: str
    dialect: str
    marks: MarkIds
    tokenizer: str
    """Fingerprint of the vocabulary: grammars compiled for one tokenizer fit no other."""
    grammar_format: str
    """Version of the engines and of the envelope; part of every grammar key."""
    limits: Limits


class Status(Message):
    """What the backend holds now; for tests and status pages."""

    loaded_grammars: int
    pinned_grammars: int
    """Grammars that a request in flight uses."""
    sequences: int
    """Automata in the engine's batch, as of its last step."""
    running: int
    """Requests whose answer is being generated."""


# --- grammars -------------------------------------------------------------------------------------


class ResidualKeyword(Message):
    """One keyword that no mask holds: whoever shapes the answer checks it on the finished call."""

    pointer: str
    """JSON Pointer (RFC 6901) into the tool's `parameters`, to the keyword itself."""
    keyword: str


class GrammarSource(Message):
    """One tool's grammar, to be loaded. `parameters` is canonical (see `keys`)."""

    key: str
    name: str
    parameters: dict[str, Any]
    examined: bool = False
    """The fleet has seen a backend compile it within its limits: it needs no quarantine."""
    blob: str | None = None
    """The compiled grammar as a backend of the same key gave it out: zlib, base64."""
    rewritten: str | None = None
    """With `examined`: the schema as that backend gave it to its engine, as JSON."""
    residual: tuple[ResidualKeyword, ...] = ()
    """What `rewritten` leaves open."""
    least_tokens: int | None = None
    growth: int | None = None
    """With `examined`: what that backend measured."""

    def after(self, verdict: GrammarVerdict) -> GrammarSource:
        """The source with all that `verdict` spares whoever loads it next."""
        found = ("blob", "rewritten", "residual", "least_tokens", "growth")
        return self.model_copy(
            update={"examined": True} | {name: getattr(verdict, name) for name in found}
        )


class LoadGrammars(Message):
    grammars: tuple[GrammarSource, ...]
    want_blobs: bool = False
    """Give out the compiled grammar with the verdict, where loading it beat compiling it."""


class GrammarVerdict(Message):
    key: str
    status: Literal["ready", "refused"]
    engine: str | None = None
    reason: str | None = None
    """Why this engine, or why none."""
    pointer: str | None = None
    """JSON Pointer of the keyword that was refused, inside `parameters`."""
    compile_ms: float | None = None
    load_ms: float | None = None
    """What loading the blob cost where it was measured; a blob is only given out where it pays."""
    blob: str | None = None
    code: str | None = None
    """The error code of a refusal: schema_not_enforceable or schema_too_complex."""
    residual: tuple[ResidualKeyword, ...] = ()
    """Of a `ready` verdict: what the masks leave open. Empty: they hold the whole schema."""
    rewritten: str | None = None
    """Of a `ready` verdict: what the engine was given, as JSON, where that is not the schema
    itself. Rewriting can take long; whoever loads the grammar again gives it back and spares it."""
    least_tokens: int | None = None
    """Tokens that the shortest call found takes, between its marks; None where none was found."""
    growth: int | None = None
    """By how many tokens one token can lengthen the way to a call's end; an estimate from above."""


class GrammarVerdicts(Message):
    grammars: tuple[GrammarVerdict, ...]


# --- generate -------------------------------------------------------------------------------------


class ChatPrompt(Message):
    kind: Literal["chat"] = "chat"
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] | None = None
    template_kwargs: dict[str, Any] = {}


class TokensPrompt(Message):
    kind: Literal["tokens"] = "tokens"
    token_ids: tuple[int, ...]


Prompt = Annotated[ChatPrompt | TokensPrompt, Field(discriminator="kind")]


class Sampling(Message):
    """Sampling parameters, in vLLM's names and ranges (vllm/sampling_params.py)."""

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
    """In an enforced request they end the content, as stop strings do, and nothing else."""
    ignore_eos: bool = False
    bad_words: tuple[str, ...] = ()
    """Not in the reasoning or the content. A call's arguments are the schema's business."""
    logit_bias: dict[int, float] | None = None
    logprobs: int | None = Field(default=None, ge=0)
    """How many alternatives to report for each token; None reports no logprobs at all."""


class Candidate(Message):
    """A tool that may be called, and the key of its grammar."""

    name: str
    key: str


ReasoningMode = Literal["default", "on", "off"]
"""`on` opens the reasoning, `off` never enters it, `default` leaves it to template and model."""

OnBudget = Literal["cut", "close"]
"""What becomes of a call that `max_tokens` would cut: it is cut, or closed as its schema allows."""


class Enforcement(Message):
    """What the masks hold the answer to. Without candidates no call can be produced."""

    choice: Literal["none", "auto", "required"] = "none"
    candidates: tuple[Candidate, ...] = ()
    max_calls: int | None = Field(default=None, ge=1)
    reasoning: ReasoningMode = "default"
    reasoning_budget: int | None = Field(default=None, ge=0)
    """Tokens after which the reasoning is closed."""
    on_budget: OnBudget = "cut"
    content: str | None = None
    """Key of the grammar that the content is held to."""


class GenerateRequest(Message):
    format: int = FORMAT
    request_id: str
    model: str
    prompt: Prompt
    sampling: Sampling = Sampling()
    accepted: tuple[int, ...] = ()
    """Token ids of an earlier answer to this prompt that this one goes on from. They are no part of
    its events, nor of `max_tokens`; masks and text continue as if they had just been sampled. Only
    with n = 1."""
    enforcement: Enforcement | None = None
    """None streams the model's tokens as they come: nothing masked, marks included."""
    stream: bool = True
    return_prompt_ids: bool = False
    priority: int = 0
    cache_salt: str | None = None


class TopLogprob(Message):
    token: str
    bytes: tuple[int, ...]
    logprob: float


class TokenLogprob(TopLogprob):
    top: tuple[TopLogprob, ...] = ()


class StartEvent(Message):
    event: Literal["start"] = "start"
    prompt_tokens: int
    reasoning_open: bool
    """The rendered prompt ends inside the reasoning: the first token continues it."""
    max_tokens: int | None = None
    """Tokens that each choice may take: the request's, or what the model's context has room for."""
    prompt_token_ids: tuple[int, ...] | None = None


class TokensEvent(Message):
    """New tokens of one choice. `texts[i]` is the text that `ids[i]` completed: empty while a
    character's bytes are not all there, so that the texts of a choice join to its whole text."""

    event: Literal["tokens"] = "tokens"
    choice: int
    ids: tuple[int, ...]
    texts: tuple[str, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    cached_tokens: int | None = None
    """Of the prompt; with the first tokens of an answer, when the engine has begun on it."""


class EndEvent(Message):
    """One choice has ended. `stop_reason` is the token id that ended it, when one did."""

    event: Literal["end"] = "end"
    choice: int
    finish_reason: Literal["stop", "length", "abort", "error"]
    stop_reason: int | str | None = None
    text: str = ""
    """What was left of an unfinished character, as U+FFFD."""


class UsageEvent(Message):
    event: Literal["usage"] = "usage"
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


class ErrorEvent(Message):
    """The stream ends here, in the middle of the answer. `status` is what it would have been."""

    event: Literal["error"] = "error"
    status: int
    error: dict[str, Any]


StreamEvent = Annotated[
    StartEvent | TokensEvent | EndEvent | UsageEvent | ErrorEvent, Field(discriminator="event")
]

stream_event: TypeAdapter[StreamEvent] = TypeAdapter(StreamEvent)
stream_events: TypeAdapter[list[StreamEvent]] = TypeAdapter(list[StreamEvent])
