"""Messages → prompt token ids by vLLM's own renderer, and what the prompt says of the reasoning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jinja2
from vllm.exceptions import VLLMClientError
from vllm.renderers.params import ChatParams

from toolgate_core.errors import (
    ContextLengthExceeded,
    InvalidRequest,
    TemplateRefused,
    UnsupportedParameter,
)
from toolgate_core.wire import (
    ChatPrompt,
    MarkIds,
    Prompt,
    ReasoningMode,
    Tokenizing,
    TokensPrompt,
)

from ..enforcement.spec import ReasoningStart


class Renderer:
    def __init__(self, engine_client: Any, vocabulary_size: int) -> None:
        self._renderer = engine_client.renderer
        self._vocabulary_size = vocabulary_size

    async def render(self, prompt: Prompt, max_tokens: int = 0) -> Any:
        """vLLM's engine input; `max_tokens` of the context are kept free for the answer where the
        prompt is cut to what fits. Raises TemplateRefused with the template's own message,
        ContextLengthExceeded and InvalidRequest."""
        if not isinstance(prompt, ChatPrompt):
            return self._tokens(prompt)
        refuse_addresses(prompt)
        template_kwargs: dict[str, Any] = {"add_generation_prompt": True, **prompt.template_kwargs}
        if prompt.tools:
            template_kwargs["tools"] = list(prompt.tools)
        params = ChatParams(chat_template_kwargs=template_kwargs)
        try:
            _, (rendered,) = await self._renderer.render_chat_async(
                [[dict(message) for message in prompt.messages]],
                params,
                self._tokenizing(prompt.tokenizing, max_tokens),
            )
        except jinja2.TemplateError as error:
            raise TemplateRefused(
                f"The model's chat template refused these messages: {error}", param="messages"
            ) from error
        except (VLLMClientError, ValueError, TypeError) as error:
            raise _rendering_error(error) from error
        return rendered

    def _tokenizing(self, wanted: Tokenizing, max_tokens: int) -> Any:
        """vLLM's parameters; None, its own default, where nothing is asked for."""
        if wanted == Tokenizing():
            return None
        default = self._renderer.default_chat_tok_params
        asked = wanted.model_dump()
        if wanted.truncate_prompt_tokens == -1:
            asked["truncate_prompt_tokens"] = _room(default.max_total_tokens, max_tokens)
        return replace(default, **asked)

    def _tokens(self, prompt: TokensPrompt) -> dict[str, Any]:
        ids = list(prompt.token_ids)
        if not ids or not all(0 <= token < self._vocabulary_size for token in ids):
            raise InvalidRequest(
                f"token_ids must hold at least one id, each below {self._vocabulary_size}.",
                param="prompt.token_ids",
            )
        return {"type": "token", "prompt_token_ids": ids}


def _room(context: int, max_tokens: int) -> int:
    """Tokens of the context that the prompt may take. vLLM's own reading of -1 differs between
    versions: it keeps `max_tokens` free in 0.31 and one token in 0.32."""
    room = context - max(max_tokens, 1)
    if room < 1:
        raise ContextLengthExceeded(
            f"max_tokens asks for {max_tokens} tokens of this model's context of {context}, which "
            "leaves no room for the prompt. Lower max_tokens.",
            param="max_tokens",
        )
    return room


def refuse_addresses(prompt: ChatPrompt) -> None:
    """Raises UnsupportedParameter for media that vLLM would fetch, from the network or from disk:
    the gateway sends images as data."""
    for at, message in enumerate(prompt.messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(part, dict) or part.get("type") == "text":
                continue
            image = part.get("image_url") if part.get("type") == "image_url" else None
            if not isinstance(image, dict) or not str(image.get("url")).startswith("data:"):
                raise UnsupportedParameter(
                    "Only text, and images as data URIs, are taken.",
                    param=f"messages[{at}].content[{place}]",
                )


def continues_message(prompt: Prompt) -> bool:
    """The prompt ends inside the last message, with which the answer goes on."""
    return isinstance(prompt, ChatPrompt) and bool(
        prompt.template_kwargs.get("continue_final_message")
    )


def refuse_open_call(prompt_ids: Sequence[int], marks: MarkIds) -> None:
    """Raises UnsupportedParameter where the prompt ends inside a call: what stands of it already
    was not held to its schema."""
    if _last_of(prompt_ids, {marks.call_begin, marks.call_end}, marks) == marks.call_begin:
        raise UnsupportedParameter(
            "A message can't be continued inside a tool call.", param="continue_final_message"
        )


def reasoning_start(
    prompt_ids: Sequence[int], marks: MarkIds, mode: ReasoningMode, *, continues: bool = False
) -> ReasoningStart:
    """Where the answer begins, from the marks that the rendered prompt ends with."""
    if marks.reasoning_begin is None or marks.reasoning_end is None:
        return "closed"
    last = _last_of(prompt_ids, {marks.reasoning_begin, marks.reasoning_end}, marks)
    if last == marks.reasoning_begin:
        return "open"
    if continues:
        return "closed"  # the message has begun with something else
    if mode == "on":
        return "must"
    return "closed" if mode == "off" or last == marks.reasoning_end else "may"


def _last_of(prompt_ids: Sequence[int], wanted: set[int | None], marks: MarkIds) -> int | None:
    """The last of these marks in the assistant's turn that the prompt leaves open, if any."""
    for token in reversed(prompt_ids):
        if token in marks.end_of_turn:
            return None
        if token in wanted:
            return token
    return None


def _rendering_error(error: Exception) -> InvalidRequest:
    text = str(error)
    if "context length" in text or "max_model_len" in text or "maximum" in text:
        return ContextLengthExceeded(f"{text}", param="messages")
    return TemplateRefused(
        f"The model's chat template refused these messages: {text}", param="messages"
    )
