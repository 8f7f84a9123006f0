"""Conversion of vLLM's logprobs to those of the wire format, with each token's text and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.wire import PromptLogprob, TokenLogprob, TopLogprob

from ..tokens.vocabulary import Vocabulary

PromptLogprobs = tuple[dict[int, PromptLogprob] | None, ...]


@dataclass(frozen=True)
class LogprobFormat:
    """Format in which a request wants its tokens and logprobs."""

    vocabulary: Vocabulary
    top: int
    """Number of most likely alternatives."""
    selected_ids: tuple[int, ...] | None = None
    """Token ids to report as alternatives, instead of the most likely ones."""
    as_ids: bool = False
    """Write tokens as `token_id:<id>` (vLLM's `return_tokens_as_token_ids`)."""

    def token_logprobs(self, ids: Sequence[int], logprobs: Any) -> tuple[TokenLogprob, ...] | None:
        """The logprobs of the tokens `ids`, from vLLM's list of dicts by token id."""
        if logprobs is None:
            return None
        return tuple(
            self._token(token, entries) for token, entries in zip(ids, logprobs, strict=False)
        )

    def _token(self, token: int, entries: Mapping[int, Any]) -> TokenLogprob:
        """vLLM reports the sampled token and the alternatives in no particular order."""
        if self.selected_ids is not None:
            shown = [each for each in dict.fromkeys(self.selected_ids) if each in entries]
        else:
            shown = sorted(entries, key=lambda each: -entries[each].logprob)[: self.top]
        alternatives = tuple(
            TopLogprob(**self._token_fields(each), logprob=_finite(entries[each].logprob))
            for each in shown
        )
        return TokenLogprob(
            **self._token_fields(token), logprob=_finite(entries[token].logprob), top=alternatives
        )

    def _token_fields(self, token: int) -> dict[str, Any]:
        text = self.vocabulary.token_bytes[token]
        shown = f"token_id:{token}" if self.as_ids else text.decode(errors="replace")
        return {"token": shown, "bytes": tuple(text)}


def prompt_logprobs(
    logprobs: Sequence[Mapping[int, Any] | None], vocabulary: Vocabulary
) -> PromptLogprobs:
    """The first token of a prompt has no logprob."""
    return tuple(
        {
            token: PromptLogprob(
                logprob=_finite(entry.logprob),
                rank=entry.rank,
                decoded_token=vocabulary.token_bytes[token].decode(errors="replace"),
            )
            for token, entry in entries.items()
        }
        if entries
        else None
        for entries in logprobs
    )


def _finite(logprob: float) -> float:
    return max(logprob, -9999.0)  # JSON has no −inf; vLLM's own servers use the same number
