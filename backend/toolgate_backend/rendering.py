"""Messages → prompt token ids by vLLM's own renderer, and what the prompt says of the reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jinja2
from vllm.exceptions import VLLMClientError
from vllm.renderers.params import ChatParams

from toolgate_core.errors import ContextLengthExceeded, InvalidRequest, TemplateRefused
from toolgate_core.wire import ChatPrompt, MarkIds, Prompt, ReasoningMode, TokensPrompt

from .enforcement.spec import ReasoningStart


class Renderer:
    def __init__(self, engine_client: Any, vocabulary_size: int) -> None:
        self._renderer = engine_client.renderer
        self._vocabulary_size = vocabulary_size

    async def render(self, prompt: Prompt) -> Any:
        """vLLM's engine input. Raises TemplateRefused with the template's own message,
        ContextLengthExceeded and InvalidRequest."""
        if not isinstance(prompt, ChatPrompt):
            return self._tokens(prompt)
        template_kwargs: dict[str, Any] = {"add_generation_prompt": True, **prompt.template_kwargs}
        if prompt.tools:
            template_kwargs["tools"] = list(prompt.tools)
        params = ChatParams(chat_template_kwargs=template_kwargs)
        try:
            _, (rendered,) = await self._renderer.render_chat_async(
                [[dict(message) for message in prompt.messages]], params
            )
        except jinja2.TemplateError as error:
            raise TemplateRefused(
                f"The model's chat template refused these messages: {error}", param="messages"
            ) from error
        except (VLLMClientError, ValueError, TypeError) as error:
            raise _rendering_error(error) from error
        return rendered

    def _tokens(self, prompt: TokensPrompt) -> dict[str, Any]:
        ids = list(prompt.token_ids)
        if not ids or not all(0 <= token < self._vocabulary_size for token in ids):
            raise InvalidRequest(
                f"token_ids must hold at least one id, each below {self._vocabulary_size}.",
                param="prompt.token_ids",
            )
        return {"type": "token", "prompt_token_ids": ids}


def reasoning_start(
    prompt_ids: Sequence[int], marks: MarkIds, mode: ReasoningMode
) -> ReasoningStart:
    """Where the answer begins, from the marks that the rendered prompt ends with."""
    if marks.reasoning_begin is None or marks.reasoning_end is None:
        return "closed"
    last = _last_mark(prompt_ids, marks)
    if last == marks.reasoning_begin:
        return "open"
    if mode == "on":
        return "must"
    return "closed" if mode == "off" or last == marks.reasoning_end else "may"


def _last_mark(prompt_ids: Sequence[int], marks: MarkIds) -> int | None:
    """The reasoning mark in the assistant's turn that the prompt leaves open, if there is one."""
    for token in reversed(prompt_ids):
        if token in marks.end_of_turn:
            return None
        if token in (marks.reasoning_begin, marks.reasoning_end):
            return token
    return None


def _rendering_error(error: Exception) -> InvalidRequest:
    text = str(error)
    if "context length" in text or "max_model_len" in text or "maximum" in text:
        return ContextLengthExceeded(f"{text}", param="messages")
    return TemplateRefused(
        f"The model's chat template refused these messages: {text}", param="messages"
    )
