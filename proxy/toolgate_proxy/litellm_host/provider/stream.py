"""A stream of our provider in the form that LiteLLM's router and proxy expect."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import AsyncGenerator
from typing import Any

from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.types.utils import ModelResponse, ModelResponseStream

from ...background import in_background
from ..names import either

_WHOLE = "toolgate_response"
"""Attribute of a logging object: the response that was streamed, for LiteLLM's log events."""


def note_whole(logging: Any, whole: ModelResponse) -> None:
    """Leaves the response that was streamed where `PassThroughStream` finds it."""
    setattr(logging, _WHOLE, whole)


class PassThroughStream(CustomStreamWrapper):  # type: ignore[misc]  # LiteLLM's types are not read
    """The provider's chunks as they are, with LiteLLM's log event at the end.

    `first` has been taken from `chunks` already. The stock class counts as a stream to the router
    and the proxy by its type, and closes `completion_stream` when the client goes.
    """

    def __init__(
        self,
        first: ModelResponseStream,
        chunks: AsyncGenerator[ModelResponseStream, None],
        **stock: Any,
    ) -> None:
        super().__init__(completion_stream=chunks, **stock)
        self._first: ModelResponseStream | None = first
        self.sent_first_chunk = True
        either(self.logging_obj, "update_completion_start_time")(
            completion_start_time=datetime.datetime.now()
        )

    async def __anext__(self) -> ModelResponseStream:
        first, self._first = self._first, None
        try:
            chunk = await anext(self.completion_stream) if first is None else first
        except StopAsyncIteration:
            self._log_success()
            self._restore_consumer_correlation_context()
            raise
        except Exception as error:
            in_background(
                self.logging_obj.dispatch_failure_handlers(
                    error, traceback.format_exc(), prefer_async_handlers=True
                )
            )
            self._restore_consumer_correlation_context()
            raise
        self.chunks.append(chunk)  # of which LiteLLM bills a stream that its client leaves
        # By these LiteLLM knows the deployment; without them it would look it up for each chunk.
        chunk._hidden_params = self._hidden_params
        return chunk

    def _log_success(self) -> None:
        whole = getattr(self.logging_obj, _WHOLE, None)
        if getattr(self.logging_obj, "_on_deferred_stream_complete", None) is not None:
            self.logging_obj._deferred_stream_complete_args = (whole, False)
            return
        in_background(
            self.logging_obj.dispatch_success_handlers(
                whole, cache_hit=False, start_time=None, end_time=None, prefer_async_handlers=True
            )
        )
