"""All settings of the gateway. Only this module reads the environment.

Each class is one section of docs/reference/settings.md, which is generated (`make docs`): the first
line of its docstring is the heading, the docstrings of the fields are the descriptions.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict
from redis.asyncio.connection import parse_url

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.schema.limits import SchemaLimitSettings
from toolgate_core.wire import GrammarVerdict

from .receipts.keys import Ed25519Key, InvalidReceiptKey, read_key


class Section(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class ServerSettings(Section):
    """Server"""

    master_key: SecretStr | None = None
    """Master key of the gateway. `litellm_config.yaml` refers to it."""
    route: Literal["auto", "litellm"] = "auto"
    """Route of chat completions for Toolgate models. `auto`: Toolgate's own route where it supports
    everything that is configured for the model, otherwise LiteLLM's route. `litellm`: always
    LiteLLM's route."""
    open_routes: Annotated[tuple[str, ...], NoDecode] = ()
    """Routes that need no API key, separated by commas, with all routes below them; `*` opens all
    that LiteLLM serves without a key: its UI, API documentation, single sign-on. The health probes
    `/health/liveliness`, `/health/readiness` and `/toolgate/ready` are always open. With LiteLLM's
    database, LiteLLM decides, and this setting has no effect."""
    page: bool = True
    """Whether the gateway serves [its page](start.md#the-page) at `/` and the reference of its API
    at `/docs`. Both need no key and have no data. LiteLLM's API documentation is then at
    `/litellm/docs`, and otherwise at `/`."""
    token_traces: bool = False
    """Whether all keys may ask for a [trace of the tokens](chat.md#token-trace). By default only
    the master key may. The backend computes each mask of such a response twice."""
    unknown_parameters: Literal["refuse", "ignore"] = "refuse"
    """Handling of parameters that the API does not have. `refuse`: the request gets a 400.
    `ignore`: they are dropped, and the header `x-toolgate-ignored-parameters` lists them. Members
    of objects are always checked. It has no effect on requests that take LiteLLM's route."""
    hosted_tools: Literal["omit", "refuse"] = "omit"
    """Handling of hosted tools (web_search, code_interpreter, mcp …), which clients such as Codex
    and Claude Code send. `omit`: the model is not offered them, and the header
    `x-toolgate-omitted-tools` and a warning in the log list them. `refuse`: the request gets a
    400."""
    metrics_token: Annotated[SecretStr, Field(min_length=16)] | None = None
    """Token with which a scraper reads `GET /metrics` and `GET /toolgate/metrics`, as
    `Authorization: Bearer …`, so that it does not need the master key. It opens nothing else."""
    traces: Literal["off", "otlp", "console"] = "off"
    """Spans of OpenTelemetry, which need the extra `traces`. `otlp` exports them by OTLP over HTTP,
    `console` writes one JSON line for each to the standard output. `OTEL_…` variables configure
    the rest: exporter, service name, sampler ([traces](traces.md))."""
    log_format: Literal["text", "json"] = "text"
    """Format of the lines in the log: `name=value` pairs, or JSON, also for what LiteLLM prints."""
    keepalive_seconds: float = Field(default=15.0, ge=0)
    """Interval of keep-alive comments in a silent stream to the client, in seconds. 0 disables
    them."""


class ResponsesSettings(Section):
    """Responses API"""

    responses_ttl: float = Field(default=30 * 86_400, ge=1)
    """Time for which a response is stored, in seconds."""
    responses_quota: int = Field(default=10_000, ge=0)
    """Maximum number of stored responses of one key or team. At the maximum, those that were used
    least recently are dropped. 0: no response is stored."""
    responses_quota_bytes: int = Field(default=256_000_000, ge=1)
    """Maximum size of the stored responses of one key or team, in bytes. Responses are compressed.
    At the maximum, those that were used least recently are dropped."""
    response_max_bytes: int = Field(default=8_000_000, ge=1)
    """Maximum size of one stored response with its input and events, in bytes. Larger ones are not
    stored, and say so."""
    responses_memory: int = Field(default=64_000_000, ge=1)
    """Maximum size of the responses that a process without Redis stores, in bytes."""
    responses_redis_url: SecretStr | None = None
    """URL of another Redis for stored responses, so that they do not take memory from keys and
    limits. Without it, `TOOLGATE_REDIS_URL` is used."""
    responses_redis_timeout: float = Field(default=2.0, gt=0)
    """Time limit of a Redis command for stored responses, in seconds."""


class ToolSettings(Section):
    """Tools"""

    invalid_tools: Literal["omit", "refuse"] = "refuse"
    """Handling of tools that can't be offered: a name or schema that is invalid, a schema that
    can't be enforced, or a second tool of the same name. `refuse`: the request gets a 400. `omit`:
    the model is not offered them, and the header `x-toolgate-invalid-tools` lists them. A request
    whose `tool_choice` requires one of them gets a 400."""


class BodyLimitSettings(Section):
    """Limits on requests"""

    max_body_bytes: int = Field(default=32_000_000, ge=1)
    """Maximum size of a request's body, in bytes, with its images. It applies to all routes. Larger
    bodies get a 413 while they are read."""
    header_timeout: float = Field(default=20.0, gt=0)
    """Time limit for receiving the headers of a request, in seconds. The connection is closed
    after it. `litellm --config` does not apply it."""
    body_timeout: float = Field(default=120.0, gt=0)
    """Time limit for receiving the body of a request, or a WebSocket message, in seconds. After it
    the request gets a 408, and its connection is closed."""
    write_timeout: float = Field(default=120.0, gt=0)
    """Time limit for a client to read what was sent to it, in seconds. The connection of a client
    that does not read is closed after it. `litellm --config` does not apply it."""
    key_body_bytes: int = Field(default=32_000_000, ge=1)
    """Maximum size of the bodies that one virtual key sends at the same time to a process, in
    bytes, from their first byte until the limits of the key admit them. All requests without a
    valid key count as one. Bodies with a `content-length` wait for each other, for
    `TOOLGATE_BODY_TIMEOUT`; others get a 429. The largest body always fits."""
    key_sockets: int = Field(default=100, ge=1)
    """Maximum number of open WebSocket connections of one virtual key at a process. A lower
    `max_parallel_requests` of the key holds for its connections as well."""


class BackendSettings(Section):
    """Connections to backends"""

    backend_url: str = Field(default="http://127.0.0.1:8000", pattern=r"^https?://")
    """URL of the backend for deployments without `api_base`."""
    backend_key: SecretStr | None = None
    """API key of the backend (its `--api-key`) for deployments without `api_key`."""
    max_connections: int = Field(default=1024, gt=0)
    """Maximum number of open connections to one backend. Each active request uses one."""
    connect_timeout: float = Field(default=5.0, gt=0)
    """Time limit for opening a connection to a backend, in seconds."""
    first_token_timeout: float = Field(default=300.0, gt=0)
    """Time limit for the start of a backend's response, in seconds. It includes queueing and
    prefill."""
    idle_timeout: float = Field(default=120.0, gt=0)
    """Time limit without any data from a backend during a response, in seconds. The backend's
    keep-alives count as data."""
    request_timeout: float = Field(default=3600.0, gt=0)
    """Time limit for a complete response, in seconds."""
    grammar_timeout: float = Field(default=60.0, gt=0)
    """Time limit for a backend's response about grammars or about itself, in seconds."""
    info_ttl: float = Field(default=15.0, ge=0)
    """Time for which a backend's description of itself is cached, in seconds."""


class ReasoningSettings(Section):
    """Reasoning"""

    keep_reasoning: Annotated[tuple[str, ...], NoDecode] = ()
    """Models whose reasoning the gateway keeps, separated by commas (names for clients; `*`: all).
    A turn with calls that a client sends back without its reasoning gets it back, as the chat
    templates of some families need it. Reasoning is encrypted for the team of the API key, or for
    the key."""
    keep_reasoning_ttl: float = Field(default=86_400, ge=1)
    """Time for which reasoning is kept, in seconds."""


class RoutingSettings(Section):
    """Routing"""

    health_interval: float = Field(default=1.0, gt=0)
    """Interval of the health probes of a backend, in seconds."""
    health_timeout: float = Field(default=2.0, gt=0)
    """Time limit of a health probe, in seconds."""
    prefix_cache: Literal["owner", "shared"] = "owner"
    """Who may use a prompt that a backend has cached. `owner`: the team that sent it, or the key if
    it has no team. `shared`: everyone, so that common prompts are computed once, but response times
    and `cached_tokens` show whether [anyone else has sent a prompt](security.md#prefix-cache)."""
    prefix_affinity: bool = True
    """Whether prompts with the same prefix or `prompt_cache_key` are sent to the same deployment of
    a model, which has the prefix cached, while that deployment has capacity."""


class RedisSettings(Section):
    """Redis"""

    redis_url: SecretStr | None = None
    """URL of the Redis that all gateways share for grammars, keys, limits and stored responses.
    Without it each process has its own grammars, limits and responses, and there are no keys in
    Redis."""
    redis_timeout: float = Field(default=0.05, gt=0)
    """Time limit of a Redis command during a request, in seconds. After it the request continues
    without Redis."""
    fleet_secret: SecretStr | None = None
    """Secret that signs the grammar records in Redis and encrypts stored responses. Without it, the
    secret is derived from `TOOLGATE_BACKEND_KEY`."""


class ReceiptSettings(Section):
    """Receipts"""

    receipt_key: SecretStr | None = None
    """Key that signs [receipts](receipts.md): `hmac:…` or `ed25519:…`, as `toolgate audit
    --new-key` generates it. Without it, requests for a receipt are refused."""

    @field_validator("receipt_key")
    @classmethod
    def _is_receipt_key(cls, value: SecretStr | None) -> SecretStr | None:
        try:
            key = read_key(value.get_secret_value()) if value else None
        except InvalidReceiptKey as error:
            raise ValueError(f"TOOLGATE_RECEIPT_KEY: {error}") from None
        if isinstance(key, Ed25519Key) and key.private is None:
            raise ValueError("TOOLGATE_RECEIPT_KEY is a public key, which can't sign.")
        return value


class KeySettings(Section):
    """Virtual keys"""

    key_secret: SecretStr | None = None
    """Secret for the hashes of virtual keys. Without it, only the master key is valid, and
    `TOOLGATE_KEYS_FILE` is an error."""
    keys_file: Path | None = None
    """YAML file of virtual keys, used in addition to those in Redis, or instead of them. The file
    is read again when it changes."""
    key_poll: float = Field(default=0.25, gt=0)
    """Interval at which a gateway checks for changed keys, in seconds."""
    key_grace: float = Field(default=300, ge=0)
    """Time for which cached keys stay valid while Redis is down, in seconds."""
    wrong_keys_per_minute: int = Field(default=20, ge=1)
    """Maximum number of invalid keys in any minute from one IP address, counted by each gateway
    process. Further invalid keys get a 429."""

    @field_validator("keys_file")
    @classmethod
    def _has_secret(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None and info.data.get("key_secret") is None:
            raise ValueError(
                "the keys of the file need TOOLGATE_KEY_SECRET, which is not set. Set it to the "
                "value with which they were created."
            )
        return path


class LimitSettings(Section):
    """Limits of keys"""

    limits_without_redis: Literal["closed", "open"] = "closed"
    """Handling of keys with limits while Redis is down. `closed`: their requests get a 503. `open`:
    each process applies the limits by itself."""
    limit_timeout: float = Field(default=0.3, gt=0, le=0.3)
    """Time limit of a Redis command for keys or limits, in seconds. After it, Redis counts as
    down."""
    limit_lease: float = Field(default=6.0, ge=1)
    """Time after which the active requests of a crashed gateway no longer count towards
    `max_parallel_requests`, in seconds."""
    limit_output_estimate: int = Field(default=1024, ge=1)
    """Tokens reserved for the response to a request without `max_tokens`."""


class GrammarSettings(Section):
    """Grammars"""

    grammar_ttl: float = Field(default=7 * 86_400, ge=1)
    """Time for which a grammar is cached after its last use, in seconds."""
    grammar_refusal_ttl: float = Field(default=600, ge=1)
    """Time for which the refusal of a schema is cached, in seconds."""
    grammar_limit_ttl: float = Field(default=60, ge=1)
    """The same time for a schema that exceeded the limits on compile time or memory, in seconds. It
    is shorter, because the schema may compile on a less busy machine."""
    grammar_blob_limit: int = Field(default=1_000_000, ge=0)
    """Maximum size of a compiled grammar in Redis, in bytes. Each backend compiles larger ones by
    itself."""
    grammar_lock_ttl: float = Field(default=3.0, ge=0.1)
    """Time after which another gateway takes over a compile from a crashed gateway, in seconds."""
    prewarm_limit: int = Field(default=256, ge=0)
    """Maximum number of grammars that a starting gateway loads into its backends: those used most
    in the last day. 0 disables this."""
    open_objects: bool = False
    """Whether objects that declare properties may have further ones where the schema does not set
    `additionalProperties`. `true` follows JSON Schema. `false` follows OpenAI's strict mode."""


class BudgetSettings(Section):
    """Token budgets"""

    required_call_tokens: Literal["learnt", "schema"] | Annotated[int, Field(ge=0)] = "learnt"
    """Tokens of `max_tokens` that reasoning leaves for a required call, at most half of them.
    `schema`: as many as the tool's schema suggests. `learnt`: also as many as 95 % of the earlier
    calls of the tool needed. A number: that many. The parameter `toolgate.call_tokens` overrides
    it."""


class ValidationSettings(Section):
    """Validation of calls"""

    resamples: int = Field(default=6, ge=0)
    """Maximum number of times that a choice is sampled again because a call violates a keyword that
    masks can't enforce. Two of three attempts continue inside the call, at the invalid value. The
    last of several attempts uses a grammar of fewer arguments, which masks enforce."""
    validators: int = Field(default=4096, ge=1)
    """Maximum number of tool schemas that are kept compiled for validation."""
    validation_workers: int = Field(default=2, ge=1)
    """Maximum number of processes for expensive validations. One key uses all but one of them at
    most, or the only one."""
    validation_cpu_seconds: float = Field(default=1.0, gt=0)
    """Limit on the processor time of an expensive validation, in seconds."""
    validation_wall_seconds: float = Field(default=10.0, gt=0)
    """Limit on the wall-clock time of an expensive validation, in seconds."""


class ImageSettings(Section):
    """Images"""

    image_urls: bool = True
    """Whether images given by URL are fetched. `false` allows data URIs only."""
    image_limit: int = Field(default=16, ge=0)
    """Maximum number of images in one request."""
    image_bytes: int = Field(default=10_000_000, ge=1)
    """Maximum size of one image, in bytes."""
    image_timeout: float = Field(default=10.0, gt=0)
    """Time limit for fetching one image, in seconds."""


class Settings(
    ServerSettings,
    ResponsesSettings,
    ToolSettings,
    BodyLimitSettings,
    BackendSettings,
    ReasoningSettings,
    RoutingSettings,
    RedisSettings,
    ReceiptSettings,
    KeySettings,
    LimitSettings,
    GrammarSettings,
    BudgetSettings,
    ValidationSettings,
    ImageSettings,
    SchemaLimitSettings,
    BaseSettings,
):
    """Read from variables named TOOLGATE_<FIELD>. An empty variable counts as unset."""

    model_config = SettingsConfigDict(
        env_prefix="TOOLGATE_",
        env_ignore_empty=True,
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,  # some values are secrets
    )

    @field_validator("open_routes", mode="before")
    @classmethod
    def _listed(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        routes = tuple(each.strip() for each in given.split(",") if each.strip())
        wrong = next((each for each in routes if each != "*" and not each.startswith("/")), None)
        if wrong is not None:
            raise ValueError(f"TOOLGATE_OPEN_ROUTES has {wrong!r}. Routes begin with `/`.")
        return routes

    @field_validator("keep_reasoning", mode="before")
    @classmethod
    def _names(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        return tuple(each.strip() for each in given.split(",") if each.strip())

    @field_validator("redis_url", "responses_redis_url")
    @classmethod
    def _is_url(cls, url: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        try:
            parse_url(url.get_secret_value() if url else "redis://")
        except ValueError:
            # The message of that error is left out, because it contains the password.
            raise ValueError(
                f"TOOLGATE_{str(info.field_name).upper()} is not a valid redis://, rediss:// or "
                "unix:// URL. "
                "In its password, use percent-encoding for / ? # @ : and % (%2F for /)."
            ) from None
        return url

    def verdict_ttl(self, verdict: GrammarVerdict) -> float:
        """Seconds for which a backend's verdict on a grammar is cached."""
        if verdict.status == "ready":
            return self.grammar_ttl
        limits = verdict.code == SchemaTooComplex.code
        return self.grammar_limit_ttl if limits else self.grammar_refusal_ttl


@lru_cache(maxsize=1)
def settings() -> Settings:
    return Settings()
