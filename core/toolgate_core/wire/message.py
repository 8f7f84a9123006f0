"""Base class of all messages, the version of the protocol, and the description and state of a
backend: `GET /v1/toolgate/info` and `/v1/toolgate/status`."""

from __future__ import annotations

import hashlib
import json
from operator import not_
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 9
"""Version of the protocol. Gateway and backend refuse a peer of another version."""

MAX_COUNT = 2**31 - 1

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
"""A number of tokens, a position, or the id of a token. A peer may be broken: a number beyond these
bounds is an invalid message, before anything is counted or computed with it."""

Name = Annotated[str, Field(max_length=64)]
"""An opaque name."""

Flag = Annotated[bool, Field(exclude_if=not_)]
"""Left out of a message if it is false."""

T = TypeVar("T")
Many = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A sequence of any length. Validation ends at the first invalid entry, because the errors of a
million entries would take much more memory than the message."""


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Request(Message):
    """A message that a gateway bases on the description of a backend."""

    fingerprint: Name = ""
    """That of the description. A replica with another one refuses the message. Empty disables the
    check."""
    rewritten: Flag = False
    """Whether a router has parsed the body and written it anew. Gateways leave the field out."""


class MarkIds(Message):
    """Token ids of the dialect's marks, the ends of a turn, and the tokens that Toolgate forces."""

    tokens: dict[str, Count] = Field(default_factory=dict)
    """By text: the special tokens that occur in the texts of the dialect. All other text of the
    dialect is written in ordinary tokens."""
    end_of_turn: Many[Count] = ()
    failure: Count | None = None
    """Token that is always masked. It is forced if the enforcement of a sequence fails. Only that
    sequence then ends, with this token as its stop reason."""
    cut: Count | None = None
    """Token that is always masked. It is forced where a call, or content of a format, is cut
    because it repeats itself."""


class Limits(Message):
    max_model_len: Annotated[int, Field(ge=1, le=MAX_COUNT)]
    max_logprobs: Annotated[int, Field(ge=-1, le=MAX_COUNT)]
    """-1: the whole vocabulary."""
    max_grammars: Count
    vocabulary: Count | None = None
    """Number of tokens in the vocabulary. None if the backend does not report it."""
    max_token_bytes: Count | None = None
    """Largest number of bytes of a token's text. None if the backend does not report it."""


class Info(Message):
    """Fields that a gateway does not know are ignored, so that it can read the version of a newer
    backend, and work with one that reports more."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    format: int = FORMAT
    model: str
    models: Many[str]
    """All names of models: the served names and the LoRA adapters."""
    vllm_version: str
    adapter: str
    dialect: str
    marks: MarkIds
    tokenizer: str
    """Fingerprint of the vocabulary. A compiled grammar is valid for one tokenizer only."""
    grammar_format: str
    """Versions of the engines and of the envelope. Part of every grammar key."""
    limits: Limits
    images: bool = False
    """Whether messages may have images, as data URIs."""
    call_ids: Literal["random", "kimi_k2"] = "random"
    """Form of call ids. Kimi's template needs ids of the form `functions.<name>:<number>`."""
    in_flight: Count | None = None
    """Requests of all gateways that the backend is working on. None if it does not report them."""
    fingerprint: Name = ""
    """See `fingerprint_of`."""
    replica: Name = ""
    """An opaque name of the engine: replicas behind one address have different ones."""


COMMON = (
    *("format", "model", "dialect", "marks", "tokenizer", "grammar_format"),
    *("limits", "images", "call_ids"),
)
"""What a gateway relies on when it writes a message or reads a response. Releases with the same
format work together. LoRA adapters may be loaded at one replica after another: a request that names
one is refused where it is missing."""


def fingerprint_of(info: Info) -> str:
    """Return a short hash of what must be the same at all replicas behind one address."""
    common = info.model_dump(mode="json", include={*COMMON})
    # The order of the marks differs between processes.
    content = json.dumps(common, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=8).hexdigest()


class Status(Message):
    """Current state of the backend, for tests and status pages."""

    loaded_grammars: int
    pinned_grammars: int
    """Grammars of active requests."""
    sequences: int
    """Automata in the engine's batch at its last step."""
    running: int
    """Requests whose response is being generated."""
