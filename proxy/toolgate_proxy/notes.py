"""What response headers, the access log and metrics say about how a request was served."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from toolgate_core.chat_request import HistoryChange
from toolgate_core.schema.corrections import Correction
from toolgate_core.tools import Tool
from toolgate_core.wire import ResidualKeyword


@dataclass(slots=True)
class Notes:
    host_headers: Mapping[str, str] = field(default_factory=dict)
    """Response headers in which LiteLLM describes the response."""
    headers: dict[str, str] = field(default_factory=dict)
    """Further response headers: rate limits, and those of hooks."""
    enforced: Literal["full", "residual", "none"] | None = None
    is_fallback: bool = False
    """Another provider's model answers for a Toolgate model."""
    cache_key: str | None = None
    """The name of the kept answer that is the response."""
    residual: Collection[Sequence[ResidualKeyword]] = ()
    """The keywords that masks do not enforce, by tool."""
    omitted_tools: Sequence[str] = ()
    """Types of the hosted tools that the model is not offered."""
    history_changes: tuple[HistoryChange, ...] = ()
    invalid_tools: dict[str, str] = field(default_factory=dict)
    """The tools that the model is not offered because they are invalid: their names, or places in
    the request, and the JSON Pointer of the problem in the schema."""
    corrected: Collection[Sequence[Correction]] = ()
    """The slips that are read as they were meant, by tool."""
    ignored_parameters: Sequence[str] = ()
    """Names of the parameters that no row defines and that were dropped."""
    dropped_messages: int = 0
    """Number of the oldest messages that were dropped so that the prompt fits the context."""
    cleared_tokens: int | None = None
    """Number of tokens that context edits removed from the prompt. None without such edits."""
    resamples: int = 0
    grammars: int = 0
    """Number of the grammars that the response needs."""
    has_new_grammars: bool = False
    """Whether the verdict on one of them was not known."""

    def show(self, other: Notes) -> None:
        """Take over what the headers of a response say about another request."""
        self.headers = other.headers
        self.omitted_tools, self.history_changes = other.omitted_tools, other.history_changes
        self.invalid_tools, self.ignored_parameters = other.invalid_tools, other.ignored_parameters
        self.corrected = other.corrected

    def note_changes(self, changes: Iterable[HistoryChange]) -> None:
        """Note changes of a later step. A step that is repeated at another backend notes the
        same."""
        self.history_changes = tuple(dict.fromkeys((*self.history_changes, *changes)))

    def note_enforcement(
        self,
        constrained: object,
        residual: Mapping[str, Sequence[ResidualKeyword]],
        tools: Iterable[Tool] = (),
    ) -> None:
        """Note how much of the request is enforced, and the slips that were corrected.
        `constrained`: truthy if the request has tools or a content format. `residual`: keywords
        that masks do not enforce, by tool hash. `tools`: those that have grammars."""
        self.is_fallback = False
        self.enforced = "residual" if residual else "full" if constrained else "none"
        self.residual = [*residual.values()]
        self.corrected = [tool.corrections for tool in tools if tool.corrections]

    def note_grammars(self, number: int, *, new: bool) -> None:
        """Note the grammars that the request needs. One that is sent again had new ones before."""
        self.grammars, self.has_new_grammars = number, self.has_new_grammars or new

    @property
    def grammars_note(self) -> str | None:
        """Value of `x-toolgate-grammar`. None without grammars."""
        if not self.grammars:
            return None
        return f"{'new' if self.has_new_grammars else 'known'}; n={self.grammars}"

    def note_fallback(self) -> None:
        """Note that another provider's model responds, so that nothing is enforced, whatever an
        earlier attempt at a backend noted."""
        self.is_fallback, self.enforced, self.residual = True, "none", ()
        self.grammars, self.has_new_grammars, self.resamples = 0, False, 0
