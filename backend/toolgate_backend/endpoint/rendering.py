"""Render messages to prompt token ids with vLLM's renderer, read the turn in which a prompt ends,
and name the image that an error of the renderer is about."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from typing import Any

import jinja2
from PIL import Image
from vllm import envs
from vllm.exceptions import VLLMClientError
from vllm.renderers.params import ChatParams

from toolgate_core import wire
from toolgate_core.errors import (
    ContextLengthExceeded,
    InvalidRequest,
    TemplateRefused,
    UnsupportedParameter,
)
from toolgate_core.host_probe import optional
from toolgate_core.text_size import check_text

from ..enforcement.spec import ReasoningStart
from ..tokens.units import mark_unit, units
from ..tokens.vocabulary import Vocabulary
from .histories import AddedTools, Change, TemplateForm, Tools, learnt

LENGTH_ERROR = re.compile(
    r"This model's maximum context length is |\w+=\d+ cannot be greater than |"
    r"The (?:decoder|encoder) prompt \(length "
)
"""Beginnings of vLLM's errors about lengths. Other errors can contain the text of messages."""
LENGTHS = re.compile(
    r"This model's maximum context length is (?P<context>\d+) tokens\. However, your prompt "
    r"contains (?:(?P<prompt>\d+) input tokens)?"
)
"""One of them. vLLM stops to count above the context length (`at least`)."""
CONTINUED = "continue_final_message"
"""The parameter with which the response continues the last message."""


class Renderer:
    def __init__(self, engine_client: Any, vocabulary: Vocabulary) -> None:
        self._renderer = engine_client.renderer
        self._vocabulary_size = vocabulary.size
        self._context: int = engine_client.model_config.max_model_len
        self.max_token_bytes = max_token_bytes(vocabulary)
        self._tokenizer = vocabulary.tokenizer
        added = vocabulary.tokenizer.added_tokens_decoder.values()
        special = [token.content for token in added if token.special]
        self._added_tools = AddedTools(self._text, special)
        self._form = TemplateForm()

    async def learn_form(self) -> None:
        self._form = await learnt(self._text)

    async def render(
        self, prompt: wire.Prompt, max_tokens: int = 0
    ) -> tuple[dict[str, Any], tuple[Change, ...]]:
        """Return vLLM's engine input, and the messages that have another form in it. If the prompt
        is truncated to fit, `max_tokens` of the context are reserved for the response. Raise
        TemplateRefused with the template's own message, ContextLengthExceeded and InvalidRequest.
        """
        if not isinstance(prompt, wire.ChatPrompt):
            return self._tokens(prompt), ()
        refuse_media_urls(prompt)
        check_text(
            prompt.messages,
            prompt.tools,
            prompt.template_kwargs,
            context=self._context,
            max_token_bytes=self.max_token_bytes,
        )
        template_kwargs: dict[str, Any] = {"add_generation_prompt": True, **prompt.template_kwargs}
        if (tools := self._form.tools(prompt.tools)) is not None:
            template_kwargs["tools"] = list(tools)
        params = ChatParams(chat_template_kwargs=template_kwargs)
        tokenizing = self._tokenizing(prompt.tokenizing, max_tokens)
        try:
            messages, adapted = self._form.messages(await self._added_tools.shown(prompt))
            _, (rendered,) = await self._renderer.render_chat_async(
                [[for_vllm(message) for message in messages]],
                params,
                tokenizing,
            )
        except jinja2.TemplateError as error:
            raise TemplateRefused(
                f"The model's chat template rejected these messages: {error}", param="messages"
            ) from error
        except TimeoutError as error:
            raise TemplateRefused(
                "Rendering these messages with the model's chat template exceeded the time limit "
                "VLLM_CHAT_TEMPLATE_RENDER_TIMEOUT of the backend. Shorten the messages.",
                param="messages",
            ) from error
        except Exception as error:
            if LENGTH_ERROR.match(str(error)):
                raise rendering_error(error) from error
            truncated = prompt.tokenizing.truncate_prompt_tokens is not None
            invalid = await image_error(prompt.messages, error, truncated=truncated)
            if invalid is not None:
                raise invalid from error
            if isinstance(error, VLLMClientError | ValueError | TypeError):
                raise rendering_error(error) from error
            raise
        return rendered, adapted

    async def render_request(
        self, request: wire.GenerateRequest
    ) -> tuple[dict[str, Any], Sequence[int], tuple[Change, ...]]:
        """Return vLLM's engine input, which ends with the accepted tokens, the tokens before these,
        and the messages that have another form in it. Raise what `render` raises."""
        # A request that continues from earlier tokens gets the same prompt as the first request.
        response_tokens = len(request.accepted) + (request.sampling.max_tokens or 0)
        engine_input, adapted = await self.render(request.prompt, response_tokens)
        if request.cache_salt is not None:
            engine_input["cache_salt"] = request.cache_salt
        known = all(0 <= token < self._vocabulary_size for token in request.accepted)
        if not known or (request.accepted and request.sampling.n > 1):
            raise InvalidRequest(
                "'accepted' must contain token ids of the vocabulary, and requires n = 1.",
                param="accepted",
            )
        ids: list[int] = engine_input["prompt_token_ids"]
        engine_input["prompt_token_ids"] = [*ids, *request.accepted]
        return engine_input, ids, adapted

    async def _text(self, messages: Sequence[Any], tools: Tools | None) -> str:
        """Return the text of a prompt. Raise any error of vLLM's renderer."""
        listed = {} if tools is None else {"tools": list(tools)}
        params = ChatParams(chat_template_kwargs={"add_generation_prompt": True, **listed})
        _, prompt = await self._renderer.render_messages_async(list(messages), params)
        if (text := prompt.get("prompt")) is not None:
            return str(text)
        return str(self._tokenizer.decode(prompt["prompt_token_ids"]))

    def _tokenizing(self, wanted: wire.Tokenizing, max_tokens: int) -> Any:
        """Return vLLM's tokenization parameters; None, its default, if the request sets none."""
        if wanted == wire.Tokenizing():
            return None
        default = self._renderer.default_chat_tok_params
        fields = wanted.model_dump()
        if wanted.truncate_prompt_tokens == -1:
            fields["truncate_prompt_tokens"] = _max_prompt_tokens(
                default.max_total_tokens, max_tokens
            )
        return replace(default, **fields)

    def _tokens(self, prompt: wire.TokensPrompt) -> dict[str, Any]:
        ids = prompt.token_ids
        if len(ids) > self._context:
            raise ContextLengthExceeded.of_tokens(self._context, len(ids), param="prompt.token_ids")
        if not ids or not all(0 <= token < self._vocabulary_size for token in ids):
            raise InvalidRequest(
                f"token_ids must contain at least one id, and each id must be below "
                f"{self._vocabulary_size}, the size of the vocabulary.",
                param="prompt.token_ids",
            )
        return {"type": "token", "prompt_token_ids": list(ids)}


class TurnStart:
    """The assistant turn that a prompt leaves open, in which the response goes on."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._unit_bytes = vocabulary.unit_bytes
        marks = vocabulary.marks
        self._ends = frozenset(marks.end_of_turn)
        self._headers = vocabulary.special - {*marks.tokens.values()}
        self._marks = frozenset(map(mark_unit, marks.tokens.values()))
        encode = vocabulary.form.marks.encode
        reasoning, calls = vocabulary.dialect.reasoning, vocabulary.dialect.calls

        def text(literal: str) -> bytes:
            return units(encode(literal), vocabulary.form.marks)

        content = vocabulary.dialect.content
        self._content = (text(content.begin), text(content.end))
        self._turn = text(content.turn)
        self._reasoning = (text(reasoning.begin), text(reasoning.end)) if reasoning else None
        last = calls.call[-1] if calls else ""
        closing = calls.end or (last if isinstance(last, str) else "") if calls else ""
        # With typed messages, other messages can begin with the first mark of a call.
        form = vocabulary.form
        opening = form.first_opening if content.begin else form.trigger
        self._call = (units(opening, form.marks), text(closing))

    def of_response(
        self, request: wire.GenerateRequest, prompt_ids: Sequence[int]
    ) -> ReasoningStart:
        """Return the state of the reasoning where the response begins. Raise UnsupportedParameter
        as `refuse_open_call` does."""
        self.refuse_open_call(prompt_ids)
        prompt, enforcement = request.prompt, request.enforcement
        if enforcement is None:
            return "closed"
        continues = isinstance(prompt, wire.ChatPrompt) and prompt.template_kwargs.get(CONTINUED)
        return self.reasoning(prompt_ids, enforcement.reasoning, continues=bool(continues))

    def refuse_open_call(self, prompt_ids: Sequence[int]) -> None:
        """Raise UnsupportedParameter if the prompt ends inside a tool call. The beginning of that
        call was not constrained by its schema."""
        begin, end = self._call
        if begin and self._last_of(prompt_ids, begin, end) == begin:
            raise UnsupportedParameter(
                "A message that ends inside a tool call cannot be continued. Remove "
                "continue_final_message, or end the message before the call.",
                param=CONTINUED,
            )

    def reasoning(
        self, prompt_ids: Sequence[int], mode: wire.ReasoningMode, *, continues: bool = False
    ) -> ReasoningStart:
        """Return the state of the reasoning after the last text that begins or ends it."""
        begin, end = self._content
        if begin and self._last_of(prompt_ids, begin, end) == begin:
            return "content"
        if self._reasoning is None:
            return "closed"
        begin, end = self._reasoning
        last = self._last_of(prompt_ids, begin, end)
        if last == begin:
            return "open"
        if continues:
            return "closed"  # the message began without reasoning
        if mode == "on":
            return "must"
        return "closed" if mode == "off" or last == end else "may"

    def _last_of(self, prompt_ids: Sequence[int], begin: bytes, end: bytes) -> bytes | None:
        """Return the last of two texts in the open turn; None if there is none."""
        if {begin, end} <= self._marks:
            turn = (self._unit_bytes[token] for token in self._reversed(prompt_ids, self._ends))
            return next((unit for unit in turn if unit in (begin, end)), None)
        # A user's text cannot contain marks, but it can contain the other texts of the dialect.
        tokens = [*self._reversed(prompt_ids, self._ends | self._headers)]
        written = b"".join(self._unit_bytes[token] for token in reversed(tokens))
        written = written.rpartition(self._turn)[2] if self._turn else written
        at_begin = written.rfind(begin)
        at_end = written.find(end, at_begin + len(begin)) if end and at_begin >= 0 else -1
        at_end = written.rfind(end) if end and at_begin < 0 else at_end
        if max(at_begin, at_end) < 0:
            return None
        return begin if at_begin > at_end else end

    def _reversed(self, prompt_ids: Sequence[int], borders: frozenset[int]) -> Iterator[int]:
        """Yield the tokens after the last of `borders`, from the last to the first."""
        for token in reversed(prompt_ids):
            if token in borders:
                return
            yield token


def _max_prompt_tokens(context: int, max_tokens: int) -> int:
    """Return the maximum number of prompt tokens. vLLM interprets -1 differently in its versions:
    0.31 reserves `max_tokens` for the response, 0.32 reserves one token."""
    remaining = context - max(max_tokens, 1)
    if remaining < 1:
        raise ContextLengthExceeded(
            f"This model's maximum context length is {context} tokens. However, max_tokens is "
            f"{max_tokens}, which leaves no room for the prompt. Please lower max_tokens.",
            context=context,
            output=max_tokens,
            param="max_tokens",
        )
    return remaining


def max_token_bytes(vocabulary: Vocabulary) -> int:
    """Return the largest number of bytes of text that one token stands for."""
    added = (len(text.encode()) for text in vocabulary.tokenizer.get_added_vocab())
    return max(max(map(len, vocabulary.token_bytes)), *added, 1)


def for_vllm(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message with the reasoning of an earlier turn in the field that vLLM reads. vLLM
    passes it on to the template in both, and drops `reasoning_content` alone."""
    reasoning = message.get("reasoning_content")
    if reasoning is None or message.get("reasoning") is not None:
        return dict(message)
    return {**message, "reasoning": reasoning}


def refuse_media_urls(prompt: wire.ChatPrompt) -> None:
    """Raise UnsupportedParameter for media that vLLM would fetch from the network or from disk.
    The gateway sends images as data URIs."""
    for at, message in enumerate(prompt.messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if not isinstance(part, dict) or part.get("type") in ("text", wire.TOOL_DEFINITIONS):
                continue
            image = part.get("image_url") if part.get("type") == "image_url" else None
            if not isinstance(image, dict) or not str(image.get("url")).startswith("data:"):
                raise UnsupportedParameter(
                    "This content part is not supported. Send text, or an image as a data URI "
                    "(data:…).",
                    param=f"messages[{at}].content[{place}]",
                )


def rendering_error(error: Exception) -> InvalidRequest:
    """Return the error for one of vLLM's renderer."""
    text = str(error)
    if lengths := LENGTHS.match(text):
        prompt = int(lengths["prompt"]) if lengths["prompt"] else None
        return ContextLengthExceeded.of_tokens(int(lengths["context"]), prompt)
    if LENGTH_ERROR.match(text):
        return ContextLengthExceeded(text, param="messages")
    return TemplateRefused(
        f"The model's chat template rejected these messages: {text}", param="messages"
    )


TOO_MANY = re.compile(r"At most (\d+) image\(s\) may be provided in one prompt")
NOT_IN_PROMPT = re.compile(r"Failed to apply prompt replacement for mm_items")
TRUNCATED = re.compile(r"truncate_prompt_tokens=\d+ would split or drop ")
TRUNCATION = "truncate_prompt_tokens"
Messages = Sequence[dict[str, Any]]


def images(messages: Messages) -> Iterator[tuple[str, str]]:
    """Yield the path and data URI of each image."""
    for at, message in enumerate(messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") == "image_url":
                yield f"messages[{at}].content[{place}].image_url", part["image_url"]["url"]


async def image_error(
    messages: Messages, error: Exception, *, truncated: bool
) -> InvalidRequest | None:
    """Return the error for one of vLLM's renderer, if an image caused it. `truncated`: whether the
    request sets `truncate_prompt_tokens`.

    vLLM loads the images of a prompt at once, and its errors do not name one. Only after an error,
    the images are decoded here one after the other, in a thread."""
    sent_images = [*images(messages)]
    if not sent_images:
        return None
    if (limit := TOO_MANY.search(str(error))) is not None:
        most = int(limit[1])
        path = sent_images[min(most, len(sent_images) - 1)][0]
        return InvalidRequest(
            f"The request has {len(sent_images)} images, but this model's backend accepts at most "
            f"{most}. Send fewer images.",
            param=path,
        )
    if TRUNCATED.match(str(error)) or (truncated and NOT_IN_PROMPT.match(str(error))):
        return InvalidRequest(
            f"{TRUNCATION!r} would remove an image, or a part of it, from the prompt. Raise it, or "
            "send fewer images.",
            param=TRUNCATION,
        )
    for path, uri in sent_images:
        if (problem := await asyncio.to_thread(_problem, uri)) is not None:
            return InvalidRequest(f"The image at {path!r} {problem}", param=path)
    if NOT_IN_PROMPT.match(str(error)):
        return TemplateRefused(
            "The model's chat template leaves out an image of these messages, for example because "
            "it accepts images in user messages only. Move the images to a user message.",
            param="messages",
        )
    return None


def _problem(uri: str) -> str | None:
    """Return what is wrong with an image. Decoders raise many types of errors for invalid data."""
    most: int = optional(envs, "VLLM_MAX_IMAGE_PIXELS", 0)  # not in vLLM 0.31
    try:
        with Image.open(BytesIO(base64.b64decode(uri.partition(",")[2]))) as image:
            width, height = image.size
            if 0 < most < width * height:
                return _too_large(most)
            image.load()
    except binascii.Error:
        return "is not valid base64. Send the whole file."
    except Image.DecompressionBombError:
        return _too_large(2 * (Image.MAX_IMAGE_PIXELS or 0))
    except Exception:  # noqa: BLE001 - see above
        return "cannot be decoded. Send a complete PNG, JPEG, GIF or WebP file."
    return None


def _too_large(most: int) -> str:
    return f"has too many pixels: the backend accepts at most {most:,}. Send a smaller image."
