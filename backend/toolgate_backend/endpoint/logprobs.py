"""vLLM's logprobs → the wire's, each token with its text and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolgate_core.wire import PromptLogprob, TokenLogprob, TopLogprob

from ..vocabulary import Vocabulary

PromptLogprobs = tuple[dict[int, PromptLogprob] | None, ...]


@dataclass(frozen=True)
class Spelling:
    """How a request wants its tokens reported."""

    vocabulary: Vocabulary
    top: int
    """Alternatives, the likeliest."""
    chosen: tuple[int, ...] | None = None
    """Alternatives in their place."""
    as_ids: bool = False
    """Tokens as `token_id:<id>`, vLLM's `return_tokens_as_token_ids`."""

    def of(self, ids: Sequence[int], logprobs: Any) -> tuple[TokenLogprob, ...] | None:
        """Of these tokens, from vLLM's list of dicts by token id."""
        if logprobs is None:
            return None
        return tuple(self._token(token, at) for token, at in zip(ids, logprobs, strict=False))

    def _token(self, token: int, at: Mapping[int, Any]) -> TokenLogprob:
        """vLLM gives the sampled token and the alternatives, in no promised order."""
        if self.chosen is not None:
            shown = [each for each in dict.fromkeys(self.chosen) if each in at]
        else:
            shown = sorted(at, key=lambda each: -at[each].logprob)[: self.top]
        alternatives = tuple(
            TopLogprob(**self._spelled(each), logprob=_finite(at[each].logprob)) for each in shown
        )
        return TokenLogprob(
            **self._spelled(token), logprob=_finite(at[token].logprob), top=alternatives
        )

    def _spelled(self, token: int) -> dict[str, Any]:
        text = self.vocabulary.token_bytes[token]
        shown = f"token_id:{token}" if self.as_ids else text.decode(errors="replace")
        return {"token": shown, "bytes": tuple(text)}


def prompt_logprobs(
    logprobs: Sequence[Mapping[int, Any] | None], vocabulary: Vocabulary
) -> PromptLogprobs:
    """The first token of a prompt has none."""
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
    return max(logprob, -9999.0)  # JSON has no −inf; vLLM's own servers answer the same figure
