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

AUTO_LISTED_TOOLS = 30
"""Models choose less well among more tools, and each takes 100 to 200 tokens of the prompt."""


class Section(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class ServerSettings(Section):
    """Server"""

    master_key: SecretStr | None = None
    """Master key, to which `litellm_config.yaml` refers."""
    route: Literal["auto", "litellm"] = "auto"
    """Route of Toolgate models. `auto`: [Toolgate's own](gateway.md#own-route-and-litellms-route)
    unless the model's configuration needs LiteLLM's. `litellm`: LiteLLM's."""
    open_routes: Annotated[tuple[str, ...], NoDecode] = ()
    """Routes that need no API key, separated by commas, with all below them; `*`: all that LiteLLM
    serves without a key (UI, API documentation, single sign-on). With LiteLLM's database, LiteLLM
    decides."""
    unknown_parameters: Literal["refuse", "ignore"] = "refuse"
    """Parameters that the API does not have. `refuse`: a 400. `ignore`: they are dropped, and the
    header `x-toolgate-ignored-parameters` lists them; not members of objects, and not on LiteLLM's
    route."""
    hosted_tools: Literal["omit", "refuse"] = "omit"
    """[Hosted tools](responses.md#tools). `omit`: the model is not offered them. `refuse`: a
    400."""
    metrics_token: Annotated[SecretStr, Field(min_length=16)] | None = None
    """Token for `GET /metrics` and `GET /toolgate/metrics`, as `Authorization: Bearer …`. It opens
    nothing else."""
    log_format: Literal["text", "json"] = "text"
    """Format of the log: `name=value` pairs, or `json`, also for what LiteLLM prints."""
    keepalive_seconds: float = Field(default=15.0, ge=0)
    """Interval of keep-alives in a silent stream, in seconds. 0: none."""


class ResponsesSettings(Section):
    """Responses API"""

    responses_ttl: float = Field(default=30 * 86_400, ge=1)
    """Time for which a response is stored, in seconds."""
    responses_quota: int = Field(default=10_000, ge=0)
    """Maximum number of stored responses of one key or team, beyond which the least recently used
    are dropped. 0: none is stored."""
    responses_quota_bytes: int = Field(default=256_000_000, ge=1)
    """The same for their compressed size, in bytes."""
    responses_redis_url: SecretStr | None = None
    """URL of another Redis for stored responses."""


class ToolSettings(Section):
    """Tools"""

    invalid_tools: Literal["omit", "refuse"] = "refuse"
    """Tools with an invalid name or schema, a schema that cannot be enforced, or the name of
    another one. `refuse`: a 400. `omit`: the model is not offered them, and the header
    `x-toolgate-invalid-tools` lists them. A `tool_choice` that requires one is a 400."""
    web_fetch: Annotated[tuple[str, ...], NoDecode] = ()
    """Domains whose pages [`web_fetch`](gateway.md#web-search) may get, and those below them,
    separated by commas; `*`: all public ones. Without it, `web_fetch` is a hosted tool."""
    tool_search: Literal["off", "auto"] | Annotated[int, Field(ge=1, le=1_000)] = "off"
    """Number of tools of a chat completion that its prompt lists: the first ones. The model can
    [search for the others](chat.md#deferred-tools). `auto`: 30. `off`: all."""

    @property
    def listed_tools(self) -> int | None:
        """The number of tools that the prompt lists; None: all."""
        if isinstance(self.tool_search, int):
            return self.tool_search
        return AUTO_LISTED_TOOLS if self.tool_search == "auto" else None


class BodyLimitSettings(Section):
    """Limits on requests"""

    max_body_bytes: int = Field(default=32_000_000, ge=1)
    """Maximum size of a request's body, in bytes. Larger bodies get a 413. It also bounds all
    bodies of a virtual key's active requests at one gateway process; further ones wait, and get a
    429 after `TOOLGATE_BODY_TIMEOUT`. A request takes up to three times as much memory as its
    body."""
    body_timeout: float = Field(default=120.0, gt=0)
    """Time limit for receiving the body of a request, in seconds. After it the request gets a
    408."""


class BackendSettings(Section):
    """Connections to backends"""

    backend_url: str = Field(default="http://127.0.0.1:8000", pattern=r"^(dns\+)?https?://")
    """URL of the backend for deployments without `api_base`; `dns+http` stands for [all addresses
    of a name](gateway.md#replicas)."""
    backend_key: SecretStr | None = None
    """API key of the backend (its `--api-key`) for deployments without `api_key`."""
    first_token_timeout: float = Field(default=300.0, gt=0)
    """Time limit for the start of a backend's response, with queueing and prefill, in seconds."""
    request_timeout: float = Field(default=3600.0, gt=0)
    """Time limit for a complete response, in seconds."""


class ReasoningSettings(Section):
    """Reasoning"""

    keep_reasoning: Annotated[tuple[str, ...], NoDecode] = ()
    """Models whose reasoning the gateway keeps ([why](chat.md#reasoning-of-earlier-turns)), by
    their names for clients, separated by commas; `*`: all."""


class RoutingSettings(Section):
    """Routing"""

    prefix_cache: Literal["owner", "shared"] = "owner"
    """Who may use a prompt that a backend has cached. `owner`: the team, or the key without a team,
    that sent it. `shared`: everyone ([what that shows](security.md#prefix-cache))."""


class RedisSettings(Section):
    """Redis"""

    redis_url: SecretStr | None = None
    """URL of the Redis that all gateways share for grammars, keys, limits and stored responses.
    Without it, each process has its own."""
    redis_timeout: float = Field(default=0.05, gt=0)
    """Time limit of a Redis command during a request, in seconds. The request then continues
    without Redis."""
    fleet_secret: SecretStr | None = None
    """Secret that encrypts grammar records and stored responses in Redis; by default derived from
    `TOOLGATE_BACKEND_KEY`."""


class KeySettings(Section):
    """Virtual keys"""

    key_secret: SecretStr | None = None
    """Secret for the hashes of virtual keys. Without it, only the master key is valid."""
    keys_file: Path | None = None
    """YAML file of virtual keys, besides those in Redis or instead of them. It is read again when
    it changes."""
    wrong_keys_per_minute: int = Field(default=20, ge=1)
    """Maximum number of invalid keys in any minute from one IP address, counted by each gateway
    process. Further ones get a 429."""
    limits_without_redis: Literal["closed", "open"] = "closed"
    """Keys with limits while Redis is down. `closed`: a 503. `open`: each process applies the
    limits by itself."""

    @field_validator("keys_file")
    @classmethod
    def _has_secret(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if path is not None and info.data.get("key_secret") is None:
            raise ValueError(
                "the keys of the file need TOOLGATE_KEY_SECRET, which is not set. Set it to the "
                "value with which they were created."
            )
        return path


class SchemaSettings(Section):
    """Enforcement of schemas"""

    open_objects: bool = False
    """Whether objects that declare properties may have others without `additionalProperties`, as in
    JSON Schema. `false`: as in OpenAI's strict mode."""
    resamples: int = Field(default=6, ge=0)
    """Maximum number of times that a choice is sampled again after an [invalid
    call](enforcement.md#validation)."""


class ImageSettings(Section):
    """Images"""

    image_urls: bool = True
    """Whether images are fetched from URLs. `false` allows data URIs only."""


class Settings(
    ServerSettings,
    ResponsesSettings,
    ToolSettings,
    BodyLimitSettings,
    BackendSettings,
    ReasoningSettings,
    RoutingSettings,
    RedisSettings,
    KeySettings,
    SchemaSettings,
    ImageSettings,
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

    @field_validator("open_routes")
    @classmethod
    def _are_routes(cls, routes: tuple[str, ...]) -> tuple[str, ...]:
        wrong = next((each for each in routes if each != "*" and not each.startswith("/")), None)
        if wrong is not None:
            raise ValueError(f"TOOLGATE_OPEN_ROUTES has {wrong!r}. Routes begin with `/`.")
        return routes

    @field_validator("open_routes", "keep_reasoning", "web_fetch", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(each.strip() for each in value.split(",") if each.strip())

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


@lru_cache(maxsize=1)
def settings() -> Settings:
    return Settings()
