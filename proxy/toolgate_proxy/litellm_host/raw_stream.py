"""Streams that LiteLLM passes on without a look at them: ours may be bytes there (frames.py).

What this leans on in LiteLLM 1.106.2, below its package; tests/proxy/test_frames.py fails when it
moves.

- litellm/proxy/proxy_server.py:10250 `async_data_generator` writes bytes that begin with `data:` to
  the client as they are.
- litellm/proxy/utils.py:3113 `ProxyLogging.callback_capabilities` tells whether a callback would
  see the chunks; of LiteLLM's own, `ResponsesIDSecurity` does, and passes on what is no answer of
  /responses (litellm/proxy/hooks/responses_id_security.py:331).
- litellm/proxy/common_request_processing.py:565 asks for usage in the client's stead and has it
  hidden; :458 bills from a stream's `chunks` when its client goes
  before the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from litellm.constants import RETURN_RAW_MODEL_NAME_METADATA_KEY
from litellm.proxy.hooks.responses_id_security import ResponsesIDSecurity
from litellm.proxy.utils import ProxyLogging
from litellm.types.utils import Delta, ModelResponseStream, StreamingChoices

from ..frames import Frame


@dataclass(frozen=True)
class Unread:
    """What LiteLLM would do to the chunks of such a stream, which is then ours to do."""

    model: str
    """Named in each: as the client named it."""
    hides_usage: bool
    """It asked for the usage itself: the client did not, and gets none."""


def unread(litellm_params: Mapping[str, Any]) -> Unread | None:
    """For a request whose stream goes unread to the client. None for all but /chat/completions of
    the proxy, where LiteLLM names another model in the chunks than was asked for, and where a
    callback sees them.
    """
    sent = litellm_params.get("proxy_server_request") or {}
    body, about = sent.get("body") or {}, litellm_params.get("metadata") or {}
    model = body.get("model")
    passed_on = (
        sent.get("method") == "POST"
        and str(sent.get("url")).partition("?")[0].endswith("/chat/completions")
        and isinstance(model, str)
        and about.get("model_group") == about.get("original_model_group") == model
        and not about.get("attempted_fallbacks")
        and RETURN_RAW_MODEL_NAME_METADATA_KEY not in about
        and body.get("_litellm_client_requested_model", model) == model
    )
    if not passed_on or not _nobody_reads_chunks():
        return None
    return Unread(str(model), hides_usage=bool(body.get("_litellm_strip_stream_usage")))


def note_for_billing(
    chunks: list[ModelResponseStream], chunk: ModelResponseStream | Frame, model: str
) -> None:
    """Keeps what was said. Of frames, which are no chunks, one chunk holds the text of them all."""
    if isinstance(chunk, ModelResponseStream):
        chunks.append(chunk)
        return
    if not chunks:
        choice = StreamingChoices(index=0, delta=Delta(content=""))
        chunks.append(ModelResponseStream(choices=[choice], model=model))
    # LiteLLM keeps a delta's fields among pydantic's extra ones; by attribute it takes 30 µs.
    chunks[0].choices[0].delta.model_extra["content"] += chunk.text


def _nobody_reads_chunks() -> bool:
    seen_by = ProxyLogging.callback_capabilities()
    return (
        all(type(reader) is ResponsesIDSecurity for reader, _ in seen_by.iterator_overrides)
        and not seen_by.has_streaming_chunk_override
        and not seen_by.has_guardrail
    )
