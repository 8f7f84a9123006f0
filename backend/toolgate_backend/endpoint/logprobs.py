"""Conversion of vLLM's logprobs to those of the wire format, with each token's text and bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.wire import PromptLogprob, TokenLogprob, TopLogprob

from ..vocabulary import Vocabulary

PromptLogprobs = tuple[dict[int, PromptLogprob] | None, ...]


@dataclass(frozen=True)
class LogprobFormat:
    """Format in which a request wants its tokens and logprobs."""

    vocabulary: Vocabulary
    top: int
    """Number of most likely alternatives."""
    chosen: tuple[int, ...] | None = None
    """Token ids to report as alternatives, instead of the most likely ones."""
    as_ids: bool = False
    """Write tokens as `token_id:<id>` (vLLM's `return_tokens_as_token_ids`)."""

    def token_logprobs(self, ids: Sequence[int], logprobs: Any) -> tuple[TokenLogprob, ...] | None:
        """The logprobs of the tokens `ids`, from vLLM's list of dicts by token id."""
        if logprobs is None:
            return None
        return tuple(self._token(token, at) for token, at in zip(ids, logprobs, strict=False))

    def _token(self, token: int, at: Mapping[int, Any]) -> TokenLogprob:
        """vLLM reports the sampled token and the alternatives in no particular order."""
        if self.chosen is not None:
            shown = [each for each in dict.fromkeys(self.chosen) if each in at]
        else:
            shown = sorted(at, key=lambda each: -at[each].logprob)[: self.top]
        alternatives = tuple(
            TopLogprob(**self._token_fields(each), logprob=_finite(at[each].logprob))
            for each in shown
        )
        return TokenLogprob(
            **self._token_fields(token), logprob=_finite(at[token].logprob), top=alternatives
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
            for token, entry in at.items()
        }
        if at
        else None
        for at in logprobs
    )


def _finite(logprob: float) -> float:
    return max(logprob, -9999.0)  # JSON has no −inf; vLLM's own servers use the same number
