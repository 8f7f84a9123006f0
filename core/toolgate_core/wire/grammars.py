"""Tools' schemas on their way to their grammars: `PUT /v1/toolgate/grammars`."""

from __future__ import annotations

from typing import Any, Literal

from .message import Message


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
