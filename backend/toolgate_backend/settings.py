"""All settings of the backend. Only this module reads Toolgate's environment variables; launch.py
writes vLLM's variables. vLLM's own options are not repeated here.

Each class is one section of docs/reference/settings.md, which is generated (`make docs`): the first
line of its docstring is the heading, the docstrings of the fields are the descriptions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Section(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class EngineSettings(Section):
    """Requests and masks"""

    adapter: Literal["auto", "logits_processor", "structured_output"] = "auto"
    """[How masks are applied](enforcement.md#engine-modes) in vLLM. `auto`: as a logits processor
    on the V1 model runner without speculative decoding, otherwise as vLLM's structured outputs."""
    forced_drafts: int = Field(default=0, ge=0, le=32)
    """Maximum number of [draft tokens](enforcement.md#drafts-of-forced-text), of forced text and of
    text that repeats, that a step of an enforced sequence verifies under async scheduling."""
    dialect: str = "auto"
    """The form in which the model writes calls. `auto`: by the chat template and the tokenizer;
    `toolgate dialects` lists the names."""
    max_requests: int = Field(default=2048, gt=0)
    """Maximum number of active requests, including queued ones. Further ones get a 503 with
    Retry-After."""


class MetricsSettings(Section):
    """Metrics"""

    metrics_token: Annotated[SecretStr, Field(min_length=16)] | None = None
    """Token for `/metrics`, besides the backend's key."""


class GrammarSettings(Section):
    """Loaded grammars"""

    max_grammars: int = Field(default=2048, gt=0)
    """Maximum number of grammars kept loaded, besides those of active requests."""
    member_order: Literal["any", "schema"] = "any"
    """Order of the members of objects in JSON arguments. `schema`: that of `properties`, as JSON
    formats always have it; drafts then save more steps."""
    cache_mb: int = Field(default=704, ge=11)
    """Maximum size of the backend's caches, in megabytes: 8 parts of 11 for the rules that grammars
    share, as xgrammar counts them (the process takes up to four times as much, with a small
    vocabulary fourteen times; [measured](results.md#memory)), 2 for the [token
    graph](token-graph.md), 1 for compiled grammars."""


class QuarantineSettings(Section):
    """Quarantine: the process that compiles new schemas"""

    quarantine_memory_mb: int = Field(default=1024, gt=0)
    """Maximum memory for compiling one new schema, in megabytes, beyond what the idle process
    uses."""


class Settings(
    EngineSettings,
    MetricsSettings,
    GrammarSettings,
    QuarantineSettings,
    BaseSettings,
):
    """Read from variables named TOOLGATE_<FIELD>. An empty variable counts as unset."""

    model_config = SettingsConfigDict(
        env_prefix="TOOLGATE_",
        env_ignore_empty=True,
        frozen=True,
        use_attribute_docstrings=True,
    )

    @property
    def rules_bytes(self) -> int:
        return self.cache_mb * 2**20 * 8 // 11

    @property
    def graph_bytes(self) -> int:
        return self.cache_mb * 2**20 * 2 // 11

    @property
    def blob_bytes(self) -> int:
        return self.cache_mb * 2**20 // 11


@lru_cache(maxsize=1)
def settings() -> Settings:
    return Settings()
