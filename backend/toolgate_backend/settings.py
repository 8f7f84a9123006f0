"""Every setting of the backend, and its only place that reads the environment (launch.py writes
vLLM's variables). vLLM's own options stay vLLM's."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from toolgate_core.schema.limits import SchemaLimitSettings


class Settings(SchemaLimitSettings, BaseSettings):
    """Read from variables named TOOLGATE_<FIELD>; an empty variable counts as unset."""

    model_config = SettingsConfigDict(
        env_prefix="TOOLGATE_",
        env_ignore_empty=True,
        frozen=True,
        use_attribute_docstrings=True,
    )

    adapter: Literal["auto", "logits_processor", "structured_output"] = "auto"
    """How the masks reach vLLM. `auto`: the logits processor where the V1 model runner runs without
    drafts, vLLM's structured outputs elsewhere."""

    max_requests: int = Field(default=2048, gt=0)
    """Requests in hand, those that queue among them; more are answered 503 with Retry-After."""
    mask_budget_ms: float = Field(default=20.0, gt=0)
    """Processor time that one sequence's mask may take of a step, in which all the others wait. The
    slowest of 3,257 masks of real calls took 1.3 ms."""
    mask_patience: int = Field(default=8, gt=0)
    """Masks over that budget, one after another, after which the sequence ends with an error; one
    more before them, slow by the wall's clock, has it looked at."""

    max_grammars: int = Field(default=2048, gt=0)
    """Grammars that are kept loaded, beyond those that requests in flight use."""
    blob_cache_mb: int = Field(default=64, ge=0)
    """Compiled grammars kept to be given out again, to a fleet whose store was emptied."""

    quarantine_cpu_seconds: float = Field(default=5.0, gt=0)
    """What compiling one schema that was never seen may take. The slowest of
    3,107 real ones took 27 ms."""
    quarantine_wall_seconds: float = Field(default=45.0, gt=0)
    """The same on the clock: looser, so that a busy machine does not condemn a good schema;
    within the 60 s that a gateway waits for grammars."""
    quarantine_memory_mb: int = Field(default=1024, gt=0)
    """Beyond what the quarantine process takes with nothing to do."""
    quarantine_workers: int = Field(default=2, gt=0)
    """Schemas compiled in quarantine at a time: one that is slow must not hold up the next."""


@lru_cache(maxsize=1)
def settings() -> Settings:
    return Settings()
