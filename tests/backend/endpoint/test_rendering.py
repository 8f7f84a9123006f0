from __future__ import annotations

from typing import Any

import pytest
from vllm.exceptions import VLLMValidationError

from toolgate_backend.endpoint.rendering import for_vllm, refuse_media_urls, rendering_error
from toolgate_core.errors import ContextLengthExceeded, TemplateRefused, UnsupportedParameter
from toolgate_core.wire import ChatPrompt


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "image_url", "image_url": "http://10.0.0.1/"},
        {"type": "image_url", "uuid": "seen-before"},
        {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"image_url": "http://10.0.0.1/"},
    ],
    ids=str,
)
def test_media_urls_are_rejected(part: dict[str, Any]) -> None:
    """Some content part formats are specific to vLLM, which also accepts parts without a type."""
    text = {"type": "text", "text": "see"}
    messages = ({"role": "user", "content": "hi"}, {"role": "user", "content": [text, part]})
    with pytest.raises(UnsupportedParameter) as refused:
        refuse_media_urls(ChatPrompt(messages=messages))
    assert refused.value.param == "messages[1].content[1]"


def test_data_urls_are_accepted() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    refuse_media_urls(ChatPrompt(messages=({"role": "user", "content": [image, "hm"]},)))


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 4096 tokens. However, your prompt contains at "
        "least 4097 input tokens, which exceeds this limit even without any output tokens.",
        "truncate_prompt_tokens=5000 cannot be greater than max_model_len = 4096.",
    ],
)
def test_errors_about_lengths_are_recognized(text: str) -> None:
    error = rendering_error(VLLMValidationError(text, parameter="input_tokens", value=4097))
    assert isinstance(error, ContextLengthExceeded)


def test_messages_with_the_words_of_those_errors_are_not() -> None:
    text = "continue_final_message is set but … Rendered chat: the maximum context length is"
    assert isinstance(rendering_error(ValueError(text)), TemplateRefused)


def test_reasoning_is_in_the_field_that_vllm_reads() -> None:
    turn = {"role": "assistant", "content": "Hi"}
    assert for_vllm({**turn, "reasoning_content": "Hm"})["reasoning"] == "Hm"
    assert for_vllm({**turn, "reasoning_content": "Hm", "reasoning": "Oh"})["reasoning"] == "Oh"
    assert for_vllm(turn) == turn
