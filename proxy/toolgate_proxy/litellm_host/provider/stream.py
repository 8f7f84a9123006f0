"""Our provider's stream as a subclass of LiteLLM's stream wrapper."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import AsyncGenerator
from typing import Any

from litellm.litellm_core_utils.streaming_handler import CustomStreamWrapper
from litellm.types.utils import ModelResponse, ModelResponseStream

from ...background import in_background
from ..private_names import either

_WHOLE = "toolgate_response"
"""Attribute of a logging object that holds the streamed response, for LiteLLM's log events."""


def note_whole(logging: Any, whole: ModelResponse) -> None:
    """Store the streamed response for `PassThroughStream`."""
    setattr(logging, _WHOLE, whole)


class PassThroughStream(CustomStreamWrapper):  # type: ignore[misc]  # LiteLLM's types are not read
    """Passes chunks on unchanged, and sends LiteLLM's log event at the end.

    `first` was already taken from `chunks`. LiteLLM's router and proxy recognise streams by the
    base class, which closes `completion_stream` when the client disconnects.
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
        self.chunks.append(chunk)  # LiteLLM bills an aborted stream by its chunks
        # They identify the deployment; without them LiteLLM looks it up for each chunk.
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
