"""Every setting of the gateway, and the only place that reads the environment."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict
from redis.asyncio.connection import parse_url

from toolgate_core.errors import SchemaTooComplex
from toolgate_core.schema.limits import SchemaLimitSettings
from toolgate_core.wire import GrammarVerdict


class Settings(SchemaLimitSettings, BaseSettings):
    """Read from variables named TOOLGATE_<FIELD>; an empty variable counts as unset."""

    model_config = SettingsConfigDict(
        env_prefix="TOOLGATE_",
        env_ignore_empty=True,
        frozen=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,  # keys and passwords are among them
    )

    backend_url: str = "http://127.0.0.1:8000"
    """Where requests go whose deployment names no `api_base`."""
    backend_key: SecretStr | None = None
    """The backend's `--api-key`, for deployments that name no `api_key`."""
    master_key: SecretStr | None = None
    """The gateway's own key, which `litellm_config.yaml` refers to."""
    redis_url: SecretStr | None = None
    """Shared state of a fleet of gateways; without it each process keeps its own."""
    fleet_secret: SecretStr | None = None
    """Signs what the fleet keeps in Redis; without it, a secret derived from `backend_key` does."""
    redis_timeout: float = Field(default=0.05, gt=0)
    """Seconds that Redis may take to answer before a request goes on without it."""

    route: Literal["auto", "litellm"] = "auto"
    """Which way chat completions for our models go: by the gateway's own route where it carries all
    that is configured for the model, or all of them by LiteLLM's handler."""
    log_format: Literal["text", "json"] = "text"
    """Of the line that each request leaves in the log."""

    key_secret: SecretStr | None = None
    """Under which virtual keys are hashed; without it only the master key is known."""
    keys_file: Path | None = None
    """A YAML file of virtual keys, read again when it changes; beside Redis, or instead of it."""
    key_poll: float = Field(default=0.25, gt=0)
    """Seconds after which a gateway asks whether keys have changed."""
    key_grace: float = Field(default=300, ge=0)
    """Seconds for which keys are believed that can't be asked after any more."""
    wrong_keys_per_minute: int = Field(default=20, ge=1)
    """Wrong keys from one address that are told to be wrong; those after them are not looked at."""
    limits_without_redis: Literal["closed", "open"] = "closed"
    """Keys with limits while Redis does not answer: refused, or limited by each process alone."""
    limit_timeout: float = Field(default=0.3, gt=0, le=0.3)
    """Seconds that counting a request in Redis may take before that is what happens."""
    limit_lease: float = Field(default=6.0, ge=1)
    """Seconds after which the requests of a gateway that died no longer count as in flight."""
    limit_output_estimate: int = Field(default=1024, ge=1)
    """Tokens set aside for the answer to a request that names no `max_tokens`."""

    grammar_ttl: float = Field(default=7 * 86_400, ge=1)
    """Seconds after its last use for which the fleet remembers a grammar."""
    grammar_refusal_ttl: float = Field(default=600, ge=1)
    """Seconds for which a refused schema is refused without asking a backend again."""
    grammar_limit_ttl: float = Field(default=60, ge=1)
    """The same for one whose compile took too much time or memory: when the machine is less busy it
    may fit."""
    grammar_blob_limit: int = Field(default=1_000_000, ge=0)
    """Bytes that a compiled grammar may take in Redis; a larger one is compiled by each backend."""
    grammar_lock_ttl: float = Field(default=3.0, ge=0.1)
    """Seconds after which a gateway that died while it had a grammar compiled is replaced."""
    prewarm_limit: int = Field(default=256, ge=0)
    """Grammars of the last day that a starting gateway loads into its backends; 0 for none."""

    image_urls: bool = True
    """Images that stand at an address are fetched; false: only those in data URIs are taken."""
    image_limit: int = Field(default=16, ge=0)
    """Images in one request."""
    image_bytes: int = Field(default=10_000_000, ge=1)
    """Of one image."""
    image_timeout: float = Field(default=10.0, gt=0)
    """Seconds in which an image must have been fetched."""

    open_objects: bool = False
    """Objects that name their properties may have others, unless their schema says otherwise: as in
    JSON Schema. Without it they are held to those they name, as in OpenAI's strict mode."""

    resamples: int = Field(default=2, ge=0)
    """Times that a choice is sampled again, whose call broke what no mask holds."""
    validators: int = Field(default=4096, ge=1)
    """Tools' schemas kept compiled for the check of finished calls."""
    validation_workers: int = Field(default=2, ge=1)
    """Processes, at most, for checks that might be dear."""
    validation_cpu_seconds: float = Field(default=1.0, gt=0)
    """Processor time that one of those checks may take."""
    validation_wall_seconds: float = Field(default=10.0, gt=0)
    """Time that it may take on a machine that is busy."""

    connect_timeout: float = Field(default=5.0, gt=0)
    """Seconds to open a connection to a backend."""
    first_token_timeout: float = Field(default=300.0, gt=0)
    """Seconds until a backend begins its answer: queueing and prefill included."""
    keepalive_seconds: float = Field(default=15.0, ge=0)
    """Silence of a stream after which its client gets a comment; 0 for none."""
    idle_timeout: float = Field(default=120.0, gt=0)
    """Seconds without a byte, keep-alives included, after which a stream counts as dead."""
    request_timeout: float = Field(default=3600.0, gt=0)
    """Seconds that one answer may take as a whole."""
    grammar_timeout: float = Field(default=60.0, gt=0)
    """Seconds in which a backend must answer about grammars and about itself."""
    info_ttl: float = Field(default=15.0, ge=0)
    """Seconds for which what a backend said of itself is believed."""
    health_interval: float = Field(default=1.0, gt=0)
    """Seconds between two looks at whether a backend answers."""
    health_timeout: float = Field(default=2.0, gt=0)
    """Seconds in which it must."""
    prefix_affinity: bool = True
    """Whether prompts that begin alike go to the same one of a model's deployments, where their
    beginning is cached, while that has room."""
    max_connections: int = Field(default=1024, gt=0)
    """Open connections to one backend, one for each request in flight."""

    @field_validator("redis_url")
    @classmethod
    def _is_url(cls, url: SecretStr | None) -> SecretStr | None:
        try:
            parse_url(url.get_secret_value() if url else "redis://")
        except ValueError:
            # Not that error's own words, which quote the password.
            raise ValueError(
                "TOOLGATE_REDIS_URL is no redis://, rediss:// or unix:// URL; in its password, "
                "write / ? # @ : and % in percent-encoding (%2F for /)."
            ) from None
        return url

    def verdict_ttl(self, verdict: GrammarVerdict) -> float:
        """Seconds for which a backend's verdict on a grammar is believed."""
        if verdict.status == "ready":
            return self.grammar_ttl
        limits = verdict.code == SchemaTooComplex.code
        return self.grammar_limit_ttl if limits else self.grammar_refusal_ttl


@lru_cache(maxsize=1)
def settings() -> Settings:
    return Settings()
