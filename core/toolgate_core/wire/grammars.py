"""Grammars: those that a request needs, and their loading in advance."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field

from ..errors import SchemaTooComplex
from .message import Count, Many, Message, Request

Milliseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ResidualKeyword(Message):
    """A keyword that masks can't enforce. The gateway validates it on the completed call."""

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
    """With `ready`: the keywords that masks can't enforce."""
    rewritten: str | None = None
    """With `ready`: the rewritten schema that was compiled, as JSON, if it differs from the schema.
    Rewriting can be slow, so the next load of this grammar sends it back."""
    least_tokens: Count | None = None
    """The least number of tokens of a call, between its marker tokens; None if it is not known."""
    extra_tokens: int | None = None
    """By how many tokens a usual call is longer than the shortest one."""

    @classmethod
    def too_complex(cls, key: str, reason: str, pointer: str = "") -> Self:
        """The refusal of a schema that costs too much."""
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


MAX_INSTANCES = 64
"""Maximum number of instances of one request."""
MAX_INSTANCE_LENGTH = 100_000
"""Maximum length of an instance as JSON, in characters."""


class WalkInstances(Request):
    grammar: GrammarSource
    instances: tuple[Any, ...]
    """JSON values, with their members in the order in which the model would write them."""


class InstanceWalk(Message):
    accepted: bool
    """Whether masks let the model write the instance."""
    pointer: str | None = None
    """JSON Pointer in the instance: where the first token is forbidden."""
    rule: str | None = None
    """With `pointer`: `member_order`, `number_form`, `closed_object`, or a keyword of the schema.
    It is the reason if the instance is valid."""


class InstanceWalks(Message):
    verdict: GrammarVerdict
    walks: Many[InstanceWalk] = ()
    """One for each instance; none if the schema is refused."""
